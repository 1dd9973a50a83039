"""Panels of lines side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import whole_number
from posse.errors import InvalidValue, ShapeError
from posse.plotting.style import GREY_INK, TEXT_SIZE, check_figure_paths, report_look, save_figure, styles_of
from posse.types import Array, IntArray
from posse_lab.plotting.labels import EndLabel, draw_end_labels, height_for, room_for
from posse_lab.plotting.scales import drawable, limits_of, set_scale
from posse_lab.plotting.sheet import BAND_ALPHA, Footer, arrange
from posse_lab.plotting.words import short_number, tick_number, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 225.0, 170.0  # of the axes, in points
FEW = 16  # points of a line that are marked one by one
MOST_VERTICES = 3000  # of all lines of a figure together
DOTTED: dict[str, Any] = {"color": GREY_INK, "linestyle": (0, (1, 2))}


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

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise InvalidValue(f"the band of {self.name!r} has only one edge; pass both low and high, or neither")
        shape = np.shape(self.x)
        for what, values in (("x", self.x), ("y", self.y), ("low", self.low), ("high", self.high)):
            if values is not None and (np.ndim(values) != 1 or np.shape(values) != shape):
                raise ShapeError(
                    f"expected {what} of {self.name!r} to have shape (n,) like its x, got {np.shape(values)}; "
                    f"x has {shape}"
                )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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
    end_labels : bool, default True
        Name each line at its right end with its last value; else in a legend below the figure.
    """

    title: str
    series: Sequence[Series]
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    reference: Mapping[str, float] = field(default_factory=dict)
    diagonal: bool = False
    end_labels: bool = True


def plot_panels(
    panels: Sequence[Panel],
    paths: Sequence[str | Path],
    *,
    columns: int = 2,
    note: str | None = None,
    legend: bool = False,
) -> None:
    """Draw panels in a grid, row by row.

    Parameters
    ----------
    panels : sequence of Panel
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    columns : int, default 2
    note : str, optional
        Small print below the figure.
    legend : bool, default False
        One legend for all panels below the figure, with the names in order of first appearance, in place of labels at
        the ends of lines.
    """
    check_figure_paths(paths)
    if not panels:
        raise InvalidValue("there is nothing to draw: pass at least one panel")
    columns = min(whole_number(columns, "columns", at_least=1), len(panels))
    styles = styles_of(series.name for panel in panels for series in panel.series)
    in_legend = dict.fromkeys(
        series.name for panel in panels if legend or not panel.end_labels for series in panel.series
    )
    footer = Footer(styles={name: styles[name] for name in in_legend}, kind="line", note=note)
    labels = [_labels_of(panel, styles, ends=panel.end_labels and not legend) for panel in panels]
    right = [max(room_for(labels[i]) for i in range(column, len(panels), columns)) for column in range(columns)]
    vertices = MOST_VERTICES // max(1, sum(len(panel.series) for panel in panels))
    with report_look() as plt:
        figure = plt.figure()
        cells = [figure.add_axes((0, 0, 1, 1), label=str(position)) for position in range(len(panels))]
        for axes, panel, room in zip(cells, panels, (right[i % columns] for i in range(len(panels))), strict=True):
            _draw_panel(axes, panel, styles, room, vertices=min(max(vertices, 24), 100))
        arrange(
            figure,
            [cells[start : start + columns] for start in range(0, len(cells), columns)],
            width=WIDTH,
            height=max(HEIGHT, *(height_for(len(some)) for some in labels)),
            right=right,
            footer=footer,
        )
        for axes, some in zip(cells, labels, strict=True):
            draw_end_labels(axes, some)
        save_figure(figure, paths)
        plt.close(figure)


def thinned(x: Array, most: int, *, log: bool) -> IntArray:
    """Return the positions of at most ``most`` points, spread evenly over the axis, the first and the last among them.

    Examples
    --------
    >>> thinned(np.arange(1.0, 1001.0), 4, log=True)
    array([  0,   9,  99, 999])
    """
    if x.size <= most:
        return np.arange(x.size)
    place = np.log10(x) if log else x
    if np.isnan(place).any() or not (np.diff(place) > 0).all():
        return np.unique(np.linspace(0, x.size - 1, most).round().astype(np.int64))
    wanted = np.linspace(place[0], place[-1], most)
    after = np.clip(np.searchsorted(place, wanted), 1, x.size - 1)
    nearest = np.where(wanted - place[after - 1] <= place[after] - wanted, after - 1, after)
    return np.unique(nearest)


def _limits_of(panel: Panel) -> tuple[tuple[float, float], tuple[float, float]]:
    x = np.concatenate([[], *(np.asarray(series.x, dtype=np.float64) for series in panel.series)])
    y = np.concatenate(
        [list(panel.reference.values()), *(_heights_of(series, log=panel.log_y) for series in panel.series)]
    )
    # A curve runs from edge to edge; a few marked points keep away from the edges.
    few = all(np.size(series.x) <= FEW for series in panel.series)
    x_limits = limits_of(x, log=panel.log_x, margin=0.04 if few else 0.0, zero_within=0.0 if few else 0.02)
    y_limits = limits_of(y, log=panel.log_y, margin=0.05, zero_within=0.0 if panel.diagonal else 0.4)
    if panel.diagonal and panel.log_x == panel.log_y:
        x_limits = y_limits = min(x_limits[0], y_limits[0]), max(x_limits[1], y_limits[1])
    return x_limits, y_limits


def _heights_of(series: Series, *, log: bool) -> Array:
    y = drawable(series.y, log=log)
    if series.low is None or series.high is None:
        return y
    low, high = drawable(series.low, log=log), drawable(series.high, log=log)
    lowest, highest = (np.nanmin(y), np.nanmax(y)) if not np.isnan(y).all() else (np.nan, np.nan)
    if log:
        # The lower edge of a band that comes near zero would take most of a log axis.
        low = np.fmax(low, lowest / 2)
    elif lowest >= 0:
        # A band that dips a little below zero is no reason not to start there.
        low = np.where((low < 0) & (low > -0.05 * highest), 0.0, low)
    return np.concatenate([y, low, high])


def _labels_of(panel: Panel, styles: Mapping[str, dict[str, Any]], *, ends: bool) -> list[EndLabel]:
    right = _limits_of(panel)[0][1]
    labels = []
    for series in panel.series if ends else ():
        x, y = drawable(series.x, log=panel.log_x), drawable(series.y, log=panel.log_y)
        drawn = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))
        last = (float(x[drawn[-1]]), float(y[drawn[-1]])) if drawn.size else None
        value = short_number(last[1]) if last else "no values"
        # An en space, since browsers make one of two ordinary ones.
        labels.append(EndLabel(f"{series.name}\u2002{value}", last, styles[series.name]))
    for name, level in panel.reference.items():
        if _has_place(level, log=panel.log_y):
            labels.append(EndLabel(f"{name}\u2002{tick_number(level)}", (right, level), DOTTED, quiet=True))
    if panel.diagonal:
        labels.append(EndLabel("y = x", (right, right), DOTTED, quiet=True))
    return labels


def _has_place(value: float, *, log: bool) -> bool:
    return not np.isnan(drawable([value], log=log)[0])


def _draw_panel(axes: Axes, panel: Panel, styles: Mapping[str, dict[str, Any]], room: float, *, vertices: int) -> None:
    x_limits, y_limits = _limits_of(panel)
    set_scale(axes, "x", x_limits, log=panel.log_x, n_ticks=5)
    set_scale(axes, "y", y_limits, log=panel.log_y, n_ticks=6)
    for value in panel.reference.values():
        if _has_place(value, log=panel.log_y):
            axes.plot(x_limits, [value, value], linewidth=1.0, zorder=2, **DOTTED)
    if panel.diagonal:
        same = panel.log_x == panel.log_y
        line = np.asarray(x_limits) if same else np.linspace(*x_limits, 100)
        axes.plot(line, line, scalex=False, scaley=False, linewidth=1.0, zorder=2, **DOTTED)
    for position, series in enumerate(panel.series):
        # Earlier lines on top, and every line above every band.
        _draw_series(axes, panel, series, styles[series.name], below=position / len(panel.series), vertices=vertices)
    if all(label.end is None for label in _labels_of(panel, styles, ends=True)):
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=GREY_INK)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    title = "\n".join(wrapped(panel.title, WIDTH + room, TEXT_SIZE + 0.5, bold=True))
    axes.set_title(title, loc="left", fontsize=TEXT_SIZE + 0.5, fontweight="bold")


def _vertices_of(x: Array, y: Array, most: int, *, log: bool) -> IntArray:
    """Positions of the points to draw, with a NaN between two of them where most of what lies between is missing."""
    placed = np.flatnonzero(~np.isnan(x))
    if placed.size <= most:
        return placed
    there = placed[~np.isnan(y[placed])]
    missing = placed[np.isnan(y[placed])]
    chosen = there[thinned(x[there], most, log=log)]
    after = np.searchsorted(chosen, missing)
    slots, first, counts = np.unique(after, return_index=True, return_counts=True)
    between = np.diff(chosen, prepend=-1, append=x.size)[slots] - 1
    return np.sort(np.concatenate([chosen, missing[first[counts > between / 2]]]))


def _draw_series(
    axes: Axes, panel: Panel, series: Series, style: Mapping[str, Any], *, below: float, vertices: int
) -> None:
    x, y = drawable(series.x, log=panel.log_x), drawable(series.y, log=panel.log_y)
    kept = _vertices_of(x, y, vertices, log=panel.log_x)
    x, y = x[kept], y[kept]
    if series.low is not None and series.high is not None:
        low, high = np.asarray(series.low, dtype=np.float64)[kept], drawable(series.high, log=panel.log_y)[kept]
        if panel.log_y:  # a band that reaches zero runs out of the panel
            low = np.where(low <= 0, axes.get_ylim()[0] / 2, low)
        low = drawable(low, log=False)
        axes.fill_between(x, low, high, color=style["color"], alpha=BAND_ALPHA, linewidth=0, zorder=2.5 - below / 4)
    line = {"color": style["color"], "linestyle": style["linestyle"], "zorder": 4 - below}
    axes.plot(x, y, linewidth=1.7, solid_capstyle="round", **line)
    # Between two gaps there is no line to see.
    there = np.concatenate([[False], ~np.isnan(y), [False]])
    alone = there[1:-1] & ~there[:-2] & ~there[2:]
    marked = there[1:-1] if x.size <= FEW else alone
    axes.plot(x[marked], y[marked], "o", color=style["color"], markersize=3.6, markeredgewidth=0, zorder=4 - below)
