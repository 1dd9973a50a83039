"""Numbers and lines of text as figures show them."""

from __future__ import annotations

from functools import lru_cache


def tick_number(value: float, *, thousands: bool = True) -> str:
    """Return a number as an axis shows it: no digit more than it needs.

    Parameters
    ----------
    value : float
    thousands : bool, default True
        Write thousands as digits; else as k, as on log axes, where they crowd.

    Examples
    --------
    >>> [tick_number(value) for value in (0.0, 0.2, 5000.0, 20_000.0, 2_500_000.0, -0.5, 1e-7)]
    ['0', '0.2', '5000', '20,000', '2.5M', '−0.5', '1e−07']
    >>> tick_number(20_000.0, thousands=False)
    '20k'
    """
    if 1e6 <= abs(value) < 1e12:
        text = f"{value / 1e6:.6g}M"
    elif 1e4 <= abs(value) < 1e6:
        text = f"{value:,.0f}" if thousands else f"{value / 1e3:.6g}k"
    else:
        text = f"{value:.6g}"
    return text.replace("-", "−")


@lru_cache(maxsize=4096)
def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how wide a line of text is in DejaVu Sans, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)
