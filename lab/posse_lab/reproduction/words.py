"""Numbers as the page and the tables of claims show them."""

from __future__ import annotations

import math


def number_words(value: float) -> str:
    """Return a number as the page shows it: whole numbers in full, others with three digits that count.

    Examples
    --------
    >>> [number_words(value) for value in (1706.8, 0.8527, 12.38, 210_000.5, 0.00012, 7)]
    ['1,707', '0.853', '12.4', '2.1e5', '1.2e-4', '7']
    """
    if math.isnan(value):
        return "–"
    sign = "−" if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return f"{sign}∞"
    if hasattr(value, "__index__") or (size == round(size) and size < 1e5):
        return f"{sign}{round(size):,}"
    # Rounded before it is measured, so that 99.96 is "100" and not "100.0".
    rounded = float(f"{size:.2e}")
    if rounded >= 1e5 or rounded < 1e-3:
        digits, exponent = f"{size:.2e}".split("e")
        return f"{sign}{digits.rstrip('0').rstrip('.')}e{int(exponent)}"
    if rounded >= 100:
        return f"{sign}{size:,.0f}"
    return f"{sign}{size:.{2 - math.floor(math.log10(rounded))}f}"
