"""The colour and the dashes that a method has in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, product
from typing import Any

from posse.plotting.style import COLOURS

BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE, BLACK, GREY = COLOURS

Dash = str | tuple[float, tuple[float, ...]]

# Dashes of a line, and whether a box is filled and hatched.
Variant = tuple[Dash, bool, str | None]
PLAIN: Variant = ("-", True, None)
SECOND: Variant = ("--", False, "/////")
THIRD: Variant = (":", False, None)
FOURTH: Variant = ("-.", False, "xxxxx")

# A family has a colour; within it, dashes on a line and the fill of a box tell the variants apart.
METHODS: dict[str, tuple[str, Variant]] = {
    "posse": (BLACK, PLAIN),
    "ebmUCB": (BLUE, PLAIN),
    "ebmTS": (BLUE, SECOND),
    "evidence UCB": (SKY, PLAIN),
    "evidence TS": (SKY, SECOND),
    "RMBandit": (VERMILLION, PLAIN),
    "RMBandit tuned": (VERMILLION, THIRD),
    "OLSBandit": (ORANGE, PLAIN),
    "LinUCB": (GREEN, PLAIN),
    "LinUCB matched": (GREEN, SECOND),
    "LinUCB tuned": (GREEN, THIRD),
    "pooled LinUCB": (GREEN, FOURTH),
    "LinTS": (PURPLE, PLAIN),
    "LinTS matched": (PURPLE, SECOND),
    "LinTS tuned": (PURPLE, THIRD),
    "HierTS": (GREY, PLAIN),
    "known UCB": (BLACK, SECOND),
}

# No method above has these dashes, so a name that is not among them cannot be taken for one that is.
FURTHER: tuple[Variant, ...] = (
    ((0, (5, 1, 1, 1, 1, 1)), False, "-----"),
    ((0, (1.5, 0.8)), False, "|||||"),
    ((0, (6, 3)), False, "++++"),
    ((0, (3, 1, 1, 1)), True, "-----"),
)


def style_of(name: str) -> dict[str, Any]:
    """Return the look of a method: colour and line style of its lines, colour, fill and hatch of its boxes.

    Parameters
    ----------
    name : str
        As in a legend. A name that is not in `METHODS` has the first of the further styles; use `styles_of` where
        several such names share a figure.

    Returns
    -------
    dict
        ``color``, ``linestyle``, ``fill`` (whether a box is filled) and ``hatch``.

    Examples
    --------
    >>> style_of("LinUCB tuned")
    {'color': '#009E73', 'linestyle': ':', 'fill': False, 'hatch': None}
    """
    return _style(*METHODS[name]) if name in METHODS else next(_further_styles())


def styles_of(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return a style for each name of a figure, in order of first appearance.

    Names of `METHODS` have theirs. Others are given further styles in turn: where a figure has no known method, plain
    colours; else dashes that no known method has.

    Examples
    --------
    >>> [style["linestyle"] for style in styles_of(["mean", "median"]).values()]
    ['-', '-']
    >>> [style["linestyle"] for style in styles_of(["ebmUCB", "chance"]).values()]
    ['-', (0, (5, 1, 1, 1, 1, 1))]
    """
    order = list(dict.fromkeys(names))
    further = _further_styles() if any(name in METHODS for name in order) else _plain_styles()
    return {name: style_of(name) if name in METHODS else next(further) for name in order}


def _style(colour: str, variant: Variant) -> dict[str, Any]:
    dash, fill, hatch = variant
    return {"color": colour, "linestyle": dash, "fill": fill, "hatch": hatch}


def _further_styles() -> Iterator[dict[str, Any]]:
    # Black and grey first: they are the colours with the fewest methods.
    colours = (BLACK, GREY, VERMILLION, BLUE, ORANGE, GREEN, PURPLE, SKY)
    return cycle(_style(colour, variant) for variant, colour in product(FURTHER, colours))


def _plain_styles() -> Iterator[dict[str, Any]]:
    return cycle(_style(colour, variant) for variant, colour in product((PLAIN, SECOND, FOURTH, THIRD), COLOURS))
