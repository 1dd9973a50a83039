"""Intervals, one below the other: a forest plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from posse.checks import number
from posse.errors import InvalidValue
from posse.plotting.style import GREY_INK, INK, METHODS, SMALL_TEXT_SIZE, check_figure_paths, report_look, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, WIDTH, MARGIN = 0.22, 6.0, 1.0  # inches
NOTE = 16  # characters of a note per inch


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
    with report_look() as plt:
        figure, axes = plt.subplots(figsize=(WIDTH, ROW * len(lines) + MARGIN), layout="constrained")
        axes.set_xscale("log" if log_x else "linear")
        axes.axvline(reference, color=GREY_INK, linewidth=1.0, zorder=2)
        draw_intervals(axes, lines, lambda row: METHODS[row.label][0] if row.label in METHODS else INK)
        axes.set_xlabel(x_label)
        write_note(figure, note, WIDTH)
        save_figure(figure, paths)
        plt.close(figure)


def numbers_of(rows: Sequence[Interval]) -> list[str]:
    """Return the numbers beside each row, all with the digits that a usual interval needs.

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
        plain = value == 0 or 0.5 * 10.0**-decimals <= abs(value) < 1e5
        text = f"{value:.{decimals}f}" if plain else f"{value:.3g}".replace("inf", "∞")
        return text.replace("-", "−")

    return [
        "no value" if math.isnan(row.value) else f"{shown(row.value)} [{shown(row.low)}, {shown(row.high)}]"
        for row in rows
    ]


def lines_of(rows: Sequence[Interval]) -> list[Interval | str]:
    """Return rows with the headings of their groups, each with an empty line before it."""
    lines: list[Interval | str] = []
    for group in dict.fromkeys(row.group for row in rows):
        if group:
            lines += ["", group] if lines else [group]
        lines += [row for row in rows if row.group == group]
    return lines


def draw_intervals(axes: Axes, lines: Sequence[Interval | str], colour_of: Callable[[Interval], str]) -> None:
    """Draw a point and a whisker per row, names at the left and numbers at the right."""
    rows = [(place, line) for place, line in enumerate(lines) if isinstance(line, Interval)]
    log = axes.get_xscale() == "log"
    ends = np.array([[row.value, row.low, row.high] for _, row in rows], dtype=np.float64)
    ends[~np.isfinite(ends) | (log & (ends <= 0))] = np.nan
    places = [place for place, _ in rows]
    for column in ends.T:  # invisible: they say how far the axis must reach
        axes.plot(column, places, linestyle="none")
    left, right = axes.get_xlim()
    for (place, row), (value, low, high) in zip(rows, ends, strict=True):
        colour = colour_of(row)
        if not (math.isnan(row.low) or math.isnan(row.high)):
            whisker = [left if math.isnan(low) else low, right if math.isnan(high) else high]
            axes.plot(whisker, [place] * 2, color=colour, linewidth=1.5, solid_capstyle="butt", zorder=3)
            for end, at, arrow in ((low, left, "<"), (high, right, ">")):
                if math.isnan(end):
                    axes.plot([at], [place], arrow, color=colour, markersize=5, clip_on=False, zorder=3)
        axes.plot([value], [place], "o", color=colour, markersize=5, markeredgewidth=0, zorder=4)
    for (place, _), text in zip(rows, numbers_of([row for _, row in rows]), strict=True):
        axes.text(1.03, place, text, transform=axes.get_yaxis_transform(), va="center_baseline")
    axes.set_xlim(left, right)
    if log:
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:g}" if right < 10 * left else "")
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_yticks(range(len(lines)), [line.label if isinstance(line, Interval) else line for line in lines])
    for label, line in zip(axes.get_yticklabels(), lines, strict=True):
        label.set_fontweight("normal" if isinstance(line, Interval) else "bold")


def write_note(figure: Figure, note: str | None, width: float) -> None:
    """Write small print below a figure of some inches; its own line breaks stay."""
    if note:
        text = "\n".join(fill(line, round(NOTE * width)) for line in note.splitlines())
        figure.supxlabel(text, x=0.01, ha="left", fontsize=SMALL_TEXT_SIZE, color=GREY_INK)
