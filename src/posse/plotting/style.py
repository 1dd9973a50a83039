"""How every figure looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from posse.errors import InvalidValue, MissingDependency

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart for colour-blind readers; yellow is left out, it vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")

INK = "#000000"
GREY_INK = "#555555"
TEXT_SIZE = 9.5
SMALL_TEXT_SIZE = 8.5


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
    comes with matplotlib and is wider than the sans-serif of any phone, so that other fonts only leave more room.
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
