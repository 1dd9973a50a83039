"""Intervals, one below the other: a forest plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number
from posse.errors import InvalidValue
from posse.plotting.palette import METHODS
from posse.plotting.scales import drawable, limits_of, set_scale
from posse.plotting.sheet import Footer, arrange
from posse.plotting.style import GREY_INK, INK, TEXT_SIZE, check_figure_paths, report_look, save_figure
from posse.plotting.words import short_number, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 210.0  # of the axes, in points
ROW = 15.0
INDENT = 9.0
BASELINE = -0.36 * TEXT_SIZE  # so that capitals stand in the middle of a row


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Interval:
    """A number and how far it may be off.

    Parameters
    ----------
    label : str
        A method's name gives the row its colour.
    value, low, high : float
        An end that is infinite, or has no place on a log axis, is drawn as an arrow out of the figure.
    group : str, default ""
        Heading to stand under; rows of one group stand together.
    """

    label: str
    value: float
    low: float
    high: float
    group: str = ""


def plot_intervals(
    rows: Sequence[Interval],
    paths: Sequence[str | Path],
    *,
    x_label: str,
    reference: float = 1.0,
    log_x: bool = False,
    note: str | None = None,
) -> None:
    """Draw a point and a whisker per row, with the numbers beside them and a line where nothing differs.

    Parameters
    ----------
    rows : sequence of Interval
        From top to bottom.
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    x_label : str
    reference : float, default 1.0
        Where the vertical line stands.
    log_x : bool, default False
    note : str, optional
        Small print below the figure.
    """
    check_figure_paths(paths)
    if not rows:
        raise InvalidValue("there is nothing to draw: pass at least one interval")
    number(reference, "reference", above=0.0 if log_x else -math.inf)
    lines = lines_of(rows)
    drawn = {place: line for place, line in enumerate(lines) if isinstance(line, Interval)}
    numbers = numbers_of(list(drawn.values()))
    # A narrower font leaves a gap at the right edge, where it does no harm.
    right = 12 + max(text_width(text, TEXT_SIZE - 0.5) for text in numbers)
    with report_look() as plt:
        figure = plt.figure()
        axes = figure.add_axes((0, 0, 1, 1))
        ends = np.array([[row.value, row.low, row.high] for row in rows], dtype=np.float64)
        set_scale(axes, "x", limits_of(np.append(ends, reference), log=log_x, margin=0.05), log=log_x, n_ticks=6)
        axes.set_ylim(len(lines) - 0.4, -0.6)
        axes.grid(False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.axvline(reference, color=GREY_INK, linewidth=1.0, zorder=2)
        for (place, row), text in zip(drawn.items(), numbers, strict=True):
            _draw_interval(axes, place, row, log=log_x)
            write_beside(axes, place, text)
        name_rows(axes, lines)
        axes.set_xlabel(x_label)
        footer = Footer(styles={}, kind="line", note=note)
        arrange(figure, [[axes]], width=WIDTH, height=ROW * (len(lines) + 0.2), right=[right], footer=footer)
        save_figure(figure, paths)
        plt.close(figure)


def numbers_of(rows: Sequence[Interval]) -> list[str]:
    """Return what is printed beside each row, all with the digits that a usual interval needs.

    Examples
    --------
    >>> narrow = Interval(label="a", value=0.853, low=0.8, high=0.91)
    >>> open_ended = Interval(label="b", value=2.0, low=1.0, high=np.inf)
    >>> numbers_of([narrow, open_ended])
    ['0.85 [0.80, 0.91]', '2.00 [1.00, ∞]']
    """
    halves = np.array([(row.high - row.low) / 2 for row in rows], dtype=np.float64)
    halves = halves[np.isfinite(halves) & (halves > 0)]
    decimals = min(max(math.ceil(0.3 - math.log10(float(np.median(halves)))), 0), 5) if halves.size else 2

    def shown(value: float) -> str:
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        if not math.isfinite(value) or (value != 0 and abs(value) < 0.5 * 10.0**-decimals) or abs(value) >= 1e5:
            return short_number(value)
        return f"{value:.{decimals}f}".replace("-", "−")

    return [
        "no value" if math.isnan(row.value) else f"{shown(row.value)} [{shown(row.low)}, {shown(row.high)}]"
        for row in rows
    ]


def lines_of(rows: Sequence[Interval]) -> list[Interval | str | None]:
    """Rows with their headings; None is an empty line."""
    lines: list[Interval | str | None] = []
    for group in dict.fromkeys(row.group for row in rows):
        if group:
            lines += [None, group] if lines else [group]
        lines += [row for row in rows if row.group == group]
    return lines


def _draw_interval(axes: Axes, place: int, row: Interval, *, log: bool) -> None:
    colour = METHODS[row.label][0] if row.label in METHODS else INK
    left, right = axes.get_xlim()
    value, low, high = (float(end) for end in drawable([row.value, row.low, row.high], log=log))
    if not math.isnan(row.low) and not math.isnan(row.high):
        from_x, to_x = left if math.isnan(low) else low, right if math.isnan(high) else high
        axes.plot([from_x, to_x], [place, place], color=colour, linewidth=1.5, solid_capstyle="butt", zorder=3)
        arrow: dict[str, Any] = {"color": colour, "markersize": 5, "markeredgewidth": 0, "clip_on": False, "zorder": 3}
        if math.isnan(low):
            axes.plot([left], [place], "<", **arrow)
        if math.isnan(high):
            axes.plot([right], [place], ">", **arrow)
    if not math.isnan(value):
        axes.plot([value], [place], "o", color=colour, markersize=5, markeredgewidth=0, zorder=4)


def write_beside(axes: Axes, place: int, text: str) -> None:
    """Write to the right of a row."""
    axes.annotate(
        text,
        xy=(1, place),
        xycoords=axes.get_yaxis_transform(),
        xytext=(10, BASELINE),
        textcoords="offset points",
        va="baseline",
        fontsize=TEXT_SIZE - 0.5,
        annotation_clip=False,
    )


def name_rows(axes: Axes, lines: Sequence[Interval | str | None]) -> None:
    """Write the names of intervals and groups at the left."""
    named = [(place, line) for place, line in enumerate(lines) if line is not None]
    indent = INDENT if any(isinstance(line, str) for line in lines) else 0.0
    words = [line.label if isinstance(line, Interval) else line for _, line in named]
    bold = [not isinstance(line, Interval) for _, line in named]
    widths = [
        text_width(text, TEXT_SIZE, bold=heavy) + (0.0 if heavy else indent)
        for text, heavy in zip(words, bold, strict=True)
    ]
    # Names begin on one vertical, so a narrower font only moves their ends away from the axes.
    for (place, _), text, heavy in zip(named, words, bold, strict=True):
        axes.annotate(
            text,
            xy=(0, place),
            xycoords=axes.get_yaxis_transform(),
            xytext=(-max(widths) - 10 + (0.0 if heavy else indent), BASELINE),
            textcoords="offset points",
            va="baseline",
            fontweight="bold" if heavy else "normal",
            annotation_clip=False,
        )
    axes.set_yticks([])
