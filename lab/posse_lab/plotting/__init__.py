"""Figures of the reproduction: panels of lines, and boxes side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.plotting.style import (
    GREY_INK,
    INK,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    check_figure_paths,
    report_look,
    save_figure,
    styles_of,
)
from posse.types import Array, ArrayLike

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 285.0, 225.0  # of a panel and what stands around it, in points
SLOT = 10.5  # from one box to the next
NARROWEST, WIDEST = 360.0, 760.0
BETWEEN_GROUPS = 1.6  # slots
FEW, MOST = 16, 100  # points of a line that are marked one by one; points that are drawn
DOTTED: dict[str, Any] = {"color": GREY_INK, "linestyle": (0, (1, 2)), "linewidth": 1.0, "zorder": 2}
BAND_ALPHA, FILL_ALPHA = 0.14, 0.55


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Series:
    """A line, perhaps with a band around it.

    Parameters
    ----------
    name : str
        Method or other name; decides colour and dashes.
    x, y : array of shape (n,)
        Where a value is NaN, infinite or has no place on a log axis, the line has a gap.
    low, high : array of shape (n,), optional
        The band, both or neither.
    """

    name: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One pair of axes.

    Parameters
    ----------
    title : str
    series : sequence of Series
        The first is drawn on top.
    x_label, y_label : str
    log_x, log_y : bool, default False
    reference : mapping of str to float
        Horizontal dotted lines by their names.
    diagonal : bool, default False
        Draw y = x as a dotted line; both axes then have the same limits.
    """

    title: str
    series: Sequence[Series]
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    reference: Mapping[str, float] = field(default_factory=dict)
    diagonal: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BoxGroup:
    """Boxes that stand together.

    Parameters
    ----------
    label : str
    values : mapping of str to array
        Values over seeds, by method. NaN, infinity and what has no place on a log axis are left out, and counted below
        the figure.
    """

    label: str
    values: Mapping[str, Array]


def plot_panels(panels: Sequence[Panel], paths: Sequence[str | Path], *, columns: int = 2) -> None:
    """Draw panels in a grid, row by row, with one legend in which names stand in order of first appearance.

    Parameters
    ----------
    panels : sequence of Panel
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    columns : int, default 2
    """
    if not panels:
        raise InvalidValue("there is nothing to draw: pass at least one panel")
    styles = styles_of(series.name for panel in panels for series in panel.series)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with _figure(paths, WIDTH * columns, HEIGHT * rows) as figure:
        cells = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(cells, panels, strict=False):
            _draw_panel(axes, panel, styles)
        for axes in cells[len(panels) :]:
            axes.remove()
        drawn = [axes.get_legend_handles_labels() for axes in figure.axes]
        entries = {label: handle for one in drawn for handle, label in zip(*one, strict=True)}
        _legend(figure, entries, WIDTH * columns)


def plot_boxes(
    groups: Sequence[BoxGroup], paths: Sequence[str | Path], *, x_label: str, y_label: str, log_y: bool = False
) -> None:
    """Draw one box per method in each group; a method has the same place in every group.

    Whiskers reach the furthest values within 1.5 times the distance of the quartiles; dots are the values beyond.

    Parameters
    ----------
    groups : sequence of BoxGroup
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    x_label, y_label : str
    log_y : bool, default False
    """
    from matplotlib.patches import Patch

    styles = styles_of(name for group in groups for name in group.values)
    if not styles:
        raise InvalidValue("there is nothing to draw: pass at least one group with one method")
    step = len(styles) + BETWEEN_GROUPS
    width = min(max(len(groups) * step * SLOT, NARROWEST), WIDEST)
    values = [{name: drawable(np.ravel(one), log=log_y) for name, one in group.values.items()} for group in groups]
    every = np.concatenate([one for group in values for one in group.values()])
    if missing := int(np.isnan(every).sum()):
        x_label += f"\nNot shown: {missing} values that are not finite{' and positive' if log_y else ''}"
    with _figure(paths, width, HEIGHT * 1.3) as figure:
        axes = figure.subplots()
        _set_scale(axes, log_y=log_y)
        for position, (name, style) in enumerate(styles.items()):
            found = [group.get(name, np.empty(0)) for group in values]
            line = {"color": style["color"], "linewidth": 0.9}
            axes.boxplot(
                [one[~np.isnan(one)] for one in found],
                positions=[index * step + position for index in range(len(groups))],
                widths=0.72, patch_artist=True, manage_ticks=False, showcaps=False, whiskerprops=line,
                boxprops=_box_fill(style), medianprops={"color": INK, "linewidth": 1.6},
                flierprops={"marker": "o", "markerfacecolor": style["color"], "markeredgewidth": 0, "markersize": 2.4},
            )  # fmt: skip
        centres = [index * step + (len(styles) - 1) / 2 for index in range(len(groups))]
        axes.set_xlim(centres[0] - step / 2, centres[-1] + step / 2)
        axes.set_xticks(centres, [group.label for group in groups])
        axes.grid(False, axis="x")
        axes.set(xlabel=x_label, ylabel=y_label)
        _legend(figure, {name: Patch(**_box_fill(style)) for name, style in styles.items()}, width)


@contextmanager
def _figure(paths: Sequence[str | Path], width: float, height: float) -> Iterator[Figure]:
    """Yield a figure of this size in points, without its legend, that is written in the end."""
    check_figure_paths(paths)
    with report_look() as plt:
        figure = plt.figure(figsize=(width / 72, height / 72), layout="constrained")
        yield figure
        save_figure(figure, paths)
        plt.close(figure)


def _legend(figure: Figure, entries: Mapping[str, Artist], width: float) -> None:
    """Put a legend below the axes, for which the figure grows."""
    columns = max(1, int(width / (50 + 0.55 * SMALL_TEXT_SIZE * max(map(len, entries)))))
    rows = -(-len(entries) // columns)
    figure.set_figheight(figure.get_figheight() + 1.6 * SMALL_TEXT_SIZE * rows / 72)
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=-(-len(entries) // rows),
        frameon=False, fontsize=SMALL_TEXT_SIZE, handlelength=2.8,
    )  # fmt: skip


def _draw_panel(axes: Axes, panel: Panel, styles: Mapping[str, dict[str, Any]]) -> None:
    _set_scale(axes, log_x=panel.log_x, log_y=panel.log_y)
    # A curve runs from edge to edge; a few marked points keep away from the edges.
    axes.margins(x=0.04 if all(np.size(series.x) <= FEW for series in panel.series) else 0.0)
    for position, series in enumerate(panel.series):
        # Earlier lines on top, and every line above every band.
        _draw_series(axes, series, panel, styles[series.name], 4 - position / len(panel.series))
    for name, value in panel.reference.items():
        axes.axhline(value, label=name, **DOTTED)
    if panel.diagonal:
        ends = min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.set(xlim=ends, ylim=ends)
        axes.plot(ends, ends, label="y = x", **DOTTED)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set_title(panel.title, loc="left", fontsize=TEXT_SIZE + 0.5, fontweight="bold", wrap=True)


def _draw_series(axes: Axes, series: Series, panel: Panel, style: Mapping[str, Any], order: float) -> None:
    kept = np.unique(np.linspace(0, series.x.size - 1, min(series.x.size, MOST)).round().astype(np.int64))
    x, y = drawable(series.x, log=panel.log_x)[kept], drawable(series.y, log=panel.log_y)[kept]
    if series.low is not None and series.high is not None:
        low, high = (drawable(edge, log=panel.log_y)[kept] for edge in (series.low, series.high))
        axes.fill_between(x, low, high, color=style["color"], alpha=BAND_ALPHA, linewidth=0, zorder=order - 1.5)
    marks: dict[str, Any] = {"marker": "o", "markersize": 3.6, "markeredgewidth": 0} if x.size <= FEW else {}
    line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.7, "zorder": order}
    axes.plot(x, y, label=series.name, **line, **marks)


def _set_scale(axes: Axes, *, log_x: bool = False, log_y: bool = False) -> None:
    """Make axes linear or logarithmic, with plain numbers."""
    from matplotlib.ticker import LogFormatter

    axes.set(xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
    for axis, log in ((axes.xaxis, log_x), (axes.yaxis, log_y)):
        if log:
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))


def drawable(values: ArrayLike, *, log: bool) -> Array:
    """Return the values as floats, NaN where an axis has no place for them: infinity; on a log axis, zero and below."""
    numbers = np.array(values, dtype=np.float64)
    numbers[~np.isfinite(numbers) | (log & ~(numbers > 0))] = np.nan
    return numbers


def _box_fill(style: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a box of this style is filled."""
    from matplotlib.colors import to_rgba

    return {
        "facecolor": to_rgba(style["color"], FILL_ALPHA) if style["fill"] else "none",
        "edgecolor": style["color"],
        "hatch": style["hatch"],
    }
