"""Lines named at their right end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posse.plotting.style import GREY_INK, INK, SMALL_TEXT_SIZE, spread_apart
from posse_lab.plotting.words import text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 1.28 * SMALL_TEXT_SIZE  # from one label to the next, in points as all lengths here
LEADER = 16.0
SAMPLE = 19.0
BEFORE_TEXT = 4.0


@dataclass(frozen=True, slots=True)
class EndLabel:
    """A label to the right of the axes.

    Parameters
    ----------
    text : str
    end : tuple of float, optional
        Where the line ends, in data. None if nothing of it is drawn.
    style : mapping
        Colour and dashes of the line.
    quiet : bool, default False
        For a line that is no series, such as a reference.
    """

    text: str
    end: tuple[float, float] | None
    style: Mapping[str, Any]
    quiet: bool = False


def room_for(labels: Sequence[EndLabel]) -> float:
    """Return the width that the labels need, in points."""
    if not labels:
        return 0.0
    return LEADER + SAMPLE + BEFORE_TEXT + max(text_width(label.text, SMALL_TEXT_SIZE) for label in labels)


def height_for(n_labels: int) -> float:
    """Return the height of axes beside which so many labels have room, in points."""
    return GAP * (n_labels + 1)


def spread_within(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return heights that are at least ``gap`` apart and inside the limits if there is room.

    Where there is not, the lowest stays at the lower limit and the others stand above it.

    Examples
    --------
    >>> spread_within([9.8, 10.0, 2.0], gap=1.0, low=0.0, high=10.0)
    [9.0, 10.0, 2.0]
    """
    placed = spread_apart(heights, gap)
    # Ties keep the order they were given in, as they do in spread_apart.
    order = sorted(range(len(placed)), key=lambda i: placed[i])
    ceiling = high
    for index in reversed(order):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - gap
    floor = low
    for index in order:
        placed[index] = max(placed[index], floor)
        floor = placed[index] + gap
    return placed


def draw_end_labels(axes: Axes, labels: Sequence[EndLabel]) -> None:
    """Draw the labels beside axes that have their final size and limits."""
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Affine2D

    figure = axes.figure
    points = Affine2D().scale(1 / 72) + figure.dpi_scale_trans
    to_points = points.inverted()
    x0, y0 = to_points.transform(axes.transAxes.transform((0.0, 0.0)))
    x1, y1 = to_points.transform(axes.transAxes.transform((1.0, 1.0)))
    ends = [None if label.end is None else to_points.transform(axes.transData.transform(label.end)) for label in labels]
    wanted = [y0 if end is None else float(min(max(end[1], y0), y1)) for end in ends]
    inset = 0.35 * SMALL_TEXT_SIZE
    heights = spread_within(wanted, GAP, float(y0) + inset, float(y1) - inset)
    for label, end, from_height, height in zip(labels, ends, wanted, heights, strict=True):
        colour = label.style["color"]
        start = float(x1) + LEADER
        if end is not None:
            from_x = float(min(max(end[0], x0), x1))
            # Where it crosses the axes, a leader must not look like a line.
            dash: Any = (0, (1, 3)) if x1 - from_x > LEADER else "-"
            thin = {"color": colour, "linestyle": dash, "linewidth": 0.6}
            figure.add_artist(Line2D([from_x, start], [from_height, height], transform=points, **thin))
        line = {"color": colour, "linestyle": label.style["linestyle"], "linewidth": 1.0 if label.quiet else 1.8}
        figure.add_artist(Line2D([start, start + SAMPLE], [height, height], transform=points, **line))
        figure.text(
            start + SAMPLE + BEFORE_TEXT,
            height - 0.36 * SMALL_TEXT_SIZE,
            label.text,
            transform=points,
            fontsize=SMALL_TEXT_SIZE,
            va="baseline",
            # Letters in a light colour are hard to read; the sample beside them has it.
            color=GREY_INK if label.quiet else INK,
        )
