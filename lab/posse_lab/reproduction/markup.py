"""Markup in which every text is escaped, and numbers as the page shows them."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import NewType

Html = NewType("Html", str)
"""Markup in which all text is escaped. Text becomes it through :func:`text` only, so mypy finds what was forgotten."""

_INLINE = {"a", "code", "span", "strong"}
_VOID = {"meta", "link"}


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


def text(value: str) -> Html:
    """Return text that is shown as it is, whatever it contains."""
    return Html(html.escape(value))


def join(parts: Iterable[Html], between: str = "") -> Html:
    """Return parts one after the other."""
    return Html(between.join(parts))


def tag(name: str, /, *children: Html, **attributes: str) -> Html:
    """Return an element; ``class_`` stands for ``class`` and ``aria_label`` for ``aria-label``."""
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    given = "".join(f' {names[key]}="{html.escape(value)}"' for key, value in attributes.items())
    after = "" if name in _INLINE else "\n"
    if name in _VOID:
        return Html(f"<{name}{given}>{after}")
    return Html(f"<{name}{given}>{''.join(children)}</{name}>{after}")


def unique_ids(wanted: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Return each text as an id that stands in a link as it is, none of them twice nor one that is taken."""
    used = set(taken)
    ids = []
    for words in wanted:
        base = re.sub(r"[^A-Za-z0-9_-]+", "-", words).strip("-") or "part"
        candidate, number = base, 2
        while candidate in used:
            candidate, number = f"{base}-{number}", number + 1
        used.add(candidate)
        ids.append(candidate)
    return ids
