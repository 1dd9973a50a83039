"""The look of every figure: colours and text, and the colour and dashes that a method has in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue, MissingDependency

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart for colour-blind readers; yellow is left out, it vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")

INK = "#000000"
GREY_INK = "#555555"
TEXT_SIZE = 9.5
SMALL_TEXT_SIZE = 8.5

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


def pyplot() -> ModuleType:
    """Return matplotlib's pyplot, drawing to files only."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency("figures need matplotlib: pip install matplotlib") from None
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


@contextmanager
def look() -> Iterator[ModuleType]:
    """Yield pyplot with the project's look switched on."""
    plt = pyplot()
    settings = {
        "figure.facecolor": "white",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#E5E5E5",
        "grid.linewidth": 0.8,
        "axes.axisbelow": True,
        "font.size": 10,
        "svg.hashsalt": "posse",  # the same figure is the same file
    }
    with plt.rc_context(settings):
        yield plt


@contextmanager
def report_look() -> Iterator[ModuleType]:
    """Yield pyplot with the look of a report's figures, whose SVG keeps its words as text.

    Text is smaller than outlines, can be searched, and follows the reader's fonts. It is laid out in DejaVu Sans, which
    comes with matplotlib and is wider than the sans-serif of any phone, so that other fonts only leave more space.
    """
    settings = {
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": TEXT_SIZE,
        "axes.labelsize": TEXT_SIZE,
        "axes.linewidth": 0.8,
        "axes.edgecolor": INK,
        "xtick.labelsize": SMALL_TEXT_SIZE,
        "ytick.labelsize": SMALL_TEXT_SIZE,
        "hatch.linewidth": 0.9,
        "svg.fonttype": "none",
    }
    with look() as plt, plt.rc_context(settings):
        yield plt


def check_figure_paths(paths: Sequence[str | Path]) -> Sequence[str | Path]:
    """Return the paths if a figure can be written to each; called before a long run, not after it."""
    for path in map(Path, paths):
        if path.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InvalidValue(f"expected a figure's name to end in .png, .svg or .pdf, got {path.name!r}")
        if not path.parent.is_dir():
            raise InvalidValue(f"cannot write {path}: the folder {path.parent} does not exist; make it first")
    return paths


def save_figure(figure: Figure, paths: Sequence[str | Path]) -> None:
    """Write a figure as PNG, SVG or PDF, as the names say."""
    for path in map(Path, check_figure_paths(paths)):
        kind = path.suffix.lower()
        # No date in the file, so that drawing again changes nothing.
        metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[kind]
        figure.savefig(path, dpi=160, metadata=metadata)


def spread_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Return heights moved as little as needed so that labels at them are at least ``gap`` apart.

    Examples
    --------
    >>> spread_apart([1.0, 1.1, 5.0], gap=1.0)
    [0.55, 1.55, 5.0]
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    # Labels that touch form a run, centred on the mean of what they label; a run that grows may touch the next one.
    runs: list[tuple[float, list[int]]] = []
    for index in order:
        runs.append((heights[index], [index]))
        while len(runs) > 1:
            (low, below), (high, above) = runs[-2], runs[-1]
            if high - low >= gap * (len(below) + len(above)) / 2 - 1e-12:
                break
            members = below + above
            runs[-2:] = [(sum(heights[i] for i in members) / len(members), members)]
    placed = [0.0] * len(heights)
    for centre, members in runs:
        for position, index in enumerate(members):
            placed[index] = round(centre + gap * (position - (len(members) - 1) / 2), 12)
    return placed


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
