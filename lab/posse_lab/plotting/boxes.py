"""Boxes side by side: how values spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.plotting.style import INK, SMALL_TEXT_SIZE, check_figure_paths, report_look, save_figure, styles_of
from posse.types import Array
from posse_lab.plotting.scales import drawable, limits_of, set_scale
from posse_lab.plotting.sheet import Footer, arrange, box_fill
from posse_lab.plotting.words import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 215.0  # of the axes, in points
SLOT = 10.5  # from one box to the next
NARROWEST, WIDEST = 300.0, 700.0
BOX = 0.72  # of a slot
BETWEEN_GROUPS = 1.6  # slots
READING = (
    "Boxes: quartiles, with the median; whiskers: the furthest values within 1.5 IQR of the box; dots: values beyond."
)


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


@dataclass(frozen=True, slots=True)
class Box:
    """The five numbers of a box, and what lies beyond its whiskers."""

    lower: float
    first: float
    median: float
    third: float
    upper: float
    beyond: Array


def plot_boxes(
    groups: Sequence[BoxGroup],
    paths: Sequence[str | Path],
    *,
    x_label: str,
    y_label: str,
    log_y: bool = False,
    note: str | None = None,
) -> None:
    """Draw one box per method in each group; a method has the same place in every group.

    Parameters
    ----------
    groups : sequence of BoxGroup
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    x_label, y_label : str
    log_y : bool, default False
    note : str, optional
        Small print below the figure; how to read a box is added to it.
    """
    check_figure_paths(paths)
    styles = styles_of(name for group in groups for name in group.values)
    if not styles:
        raise InvalidValue("there is nothing to draw: pass at least one group with one method")
    slots = len(groups) * (len(styles) + BETWEEN_GROUPS)
    width = min(max(slots * SLOT, NARROWEST), WIDEST)
    kept = [{name: drawable(np.ravel(values), log=log_y) for name, values in group.values.items()} for group in groups]
    missing = sum(int(np.isnan(values).sum()) for group in kept for values in group.values())
    kept = [{name: values[~np.isnan(values)] for name, values in group.items()} for group in kept]
    footer = Footer(styles=styles, kind="box", note=" ".join(filter(None, [note, READING, _left_out(missing, log_y)])))
    with report_look() as plt:
        figure = plt.figure()
        axes = figure.add_axes((0, 0, 1, 1))
        every = np.concatenate([[], *(values for group in kept for values in group.values())])
        set_scale(axes, "y", limits_of(every, log=log_y, margin=0.05, zero_within=0.4), log=log_y, n_ticks=7)
        for position, (name, style) in enumerate(styles.items()):
            places = [index * (len(styles) + BETWEEN_GROUPS) + position for index in range(len(groups))]
            boxes = [box_of(group.get(name, np.empty(0))) for group in kept]
            _draw_boxes(axes, places, boxes, style)
        _mark_groups(axes, [group.label for group in groups], len(styles), width / slots)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        arrange(figure, [[axes]], width=width, height=HEIGHT, right=[0.0], footer=footer)
        save_figure(figure, paths)
        plt.close(figure)


def box_of(values: Array) -> Box | None:
    """Return the box of finite values, or None if there are none.

    Examples
    --------
    >>> box_of(np.array([1.0, 2.0, 3.0, 4.0, 20.0]))
    Box(lower=1.0, first=2.0, median=3.0, third=4.0, upper=4.0, beyond=array([20.]))
    """
    if not values.size:
        return None
    first, median, third = (float(part) for part in np.quantile(values, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    inside = (values >= first - reach) & (values <= third + reach)
    # Quartiles lie between values, so the furthest value within reach may lie inside the box.
    lower, upper = min(float(values[inside].min()), first), max(float(values[inside].max()), third)
    return Box(lower, first, median, third, upper, np.sort(values[~inside]))


def _left_out(missing: int, log: bool) -> str | None:
    if not missing:
        return None
    why = "not finite, or not positive as a log axis needs," if log else "not finite"
    return f"Not shown: {missing} value{'s' if missing != 1 else ''} {why.rstrip(',')}."


def _draw_boxes(axes: Axes, places: Sequence[float], boxes: Sequence[Box | None], style: Mapping[str, Any]) -> None:
    gap = np.nan
    whisker_x: list[float] = []
    whisker_y: list[float] = []
    median_x: list[float] = []
    median_y: list[float] = []
    for place, box in zip(places, boxes, strict=True):
        if box is None:
            continue
        fill = {**box_fill(style), "linewidth": 0.9, "zorder": 3}
        axes.bar(place, box.third - box.first, bottom=box.first, width=BOX, **fill)
        # One path for all whiskers and one for all medians keep the file small.
        whisker_x += [place, place, gap, place, place, gap]
        whisker_y += [box.lower, box.first, gap, box.third, box.upper, gap]
        median_x += [place - BOX / 2, place + BOX / 2, gap]
        median_y += [box.median, box.median, gap]
        dots = {"color": style["color"], "markersize": 2.4, "markeredgewidth": 0}
        axes.plot(np.full(box.beyond.size, place), box.beyond, "o", zorder=3, **dots)
        if box.first == box.third:  # one seed: the median hides the box, and with it the colour
            axes.plot([place], [box.median], "o", zorder=5, **{**dots, "markersize": 5})
    axes.plot(whisker_x, whisker_y, color=style["color"], linewidth=0.9, zorder=3)
    axes.plot(median_x, median_y, color=INK, linewidth=1.6, solid_capstyle="butt", zorder=4)


def _mark_groups(axes: Axes, labels: Sequence[str], n_methods: int, slot: float) -> None:
    step = n_methods + BETWEEN_GROUPS
    centres = [index * step + (n_methods - 1) / 2 for index in range(len(labels))]
    axes.set_xlim(centres[0] - step / 2, centres[-1] + step / 2)
    lines = ["\n".join(wrapped(label, step * slot - 6, SMALL_TEXT_SIZE)) for label in labels]
    axes.set_xticks(centres, lines)
    axes.tick_params(axis="x", length=0)
    axes.grid(False, axis="x")
    for centre in centres[1:]:
        axes.axvline(centre - step / 2, color="#E5E5E5", linewidth=0.8, zorder=1)
