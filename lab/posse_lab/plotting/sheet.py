"""The sheet a figure is drawn on: axes of a fixed size, and below them a legend and a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from posse.plotting.style import GREY_INK, SMALL_TEXT_SIZE
from posse_lab.plotting.words import text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGE = 8.0  # around everything, in points as all lengths here
BETWEEN = 16.0  # from one panel to the next
SAMPLE = 24.0
ENTRY_GAP = 18.0
LINE = 1.45 * SMALL_TEXT_SIZE
BAND_ALPHA = 0.14
FILL_ALPHA = 0.55


@dataclass(frozen=True, slots=True)
class Footer:
    """What stands below the axes.

    Parameters
    ----------
    styles : mapping
        Style by name, one legend entry each; empty for no legend.
    kind : {"line", "box"}
        What the entries are samples of.
    note : str, optional
    """

    styles: Mapping[str, dict[str, Any]]
    kind: Literal["line", "box"]
    note: str | None

    def columns(self, width: float) -> int:
        """How many entries stand side by side."""
        widest = max(SAMPLE + 5 + text_width(name, SMALL_TEXT_SIZE) for name in self.styles)
        fit = max(1, int((width + ENTRY_GAP) // (widest + ENTRY_GAP)))
        rows = -(-len(self.styles) // fit)
        return -(-len(self.styles) // rows)  # as even as the rows can be

    def lines(self, width: float) -> list[str]:
        """Lines of the note."""
        return wrapped(self.note, width, SMALL_TEXT_SIZE) if self.note else []

    def height(self, width: float) -> float:
        """Height of legend and note at this width, with the space above them."""
        rows = -(-len(self.styles) // self.columns(width)) if self.styles else 0
        return sum(8 + LINE * count for count in (rows, len(self.lines(width))) if count)

    def draw(self, figure: Figure, width: float) -> None:
        """Draw at the foot of the figure, into ``width`` points."""
        from matplotlib.transforms import Affine2D

        points = Affine2D().scale(1 / 72) + figure.dpi_scale_trans
        text: dict[str, Any] = {"transform": points, "fontsize": SMALL_TEXT_SIZE, "va": "baseline"}
        height = EDGE + self.height(width)
        if self.styles:
            height -= 8
            columns = self.columns(width)
            step = max(SAMPLE + 5 + text_width(name, SMALL_TEXT_SIZE) for name in self.styles) + ENTRY_GAP
            start = EDGE + max(0.0, (width - columns * step + ENTRY_GAP) / 2)
            for position, (name, style) in enumerate(self.styles.items()):
                x = start + step * (position % columns)
                y = height - LINE * (position // columns) - 0.75 * LINE
                _draw_sample(figure, self.kind, style, x, y + 0.33 * SMALL_TEXT_SIZE, points)
                figure.text(x + SAMPLE + 5, y, name, **text)
            height -= LINE * -(-len(self.styles) // columns)
        for position, line in enumerate(self.lines(width)):
            figure.text(EDGE, height - 8 - LINE * (position + 0.75), line, color=GREY_INK, **text)


def box_fill(style: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a box of this style is filled."""
    from matplotlib.colors import to_rgba

    return {
        "facecolor": to_rgba(style["color"], FILL_ALPHA) if style["fill"] else "none",
        "edgecolor": style["color"],
        "hatch": style["hatch"],
    }


def _draw_sample(
    figure: Figure, kind: Literal["line", "box"], style: Mapping[str, Any], x: float, y: float, points: Any
) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    if kind == "line":
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.8}
        figure.add_artist(Line2D([x, x + SAMPLE], [y, y], transform=points, **line))
    else:
        figure.add_artist(Rectangle((x + 4, y - 4), SAMPLE - 4, 8, transform=points, linewidth=1, **box_fill(style)))


def arrange(
    figure: Figure,
    grid: Sequence[Sequence[Axes]],
    *,
    width: float,
    height: float,
    right: Sequence[float],
    footer: Footer,
) -> None:
    """Give every axes the same size, leave room for what stands around them, and fit the figure to all of it.

    Parameters
    ----------
    figure : Figure
    grid : sequence of rows of axes
        Complete but for what stands to their right.
    width, height : float
        Of each axes, in points.
    right : sequence of float
        Room for what will stand to the right of each column, in points.
    footer : Footer
    """
    # Ticks depend on the size of the axes, so that is set before the words around them are measured.
    figure.set_size_inches(3 * width / 72, 3 * height / 72)
    for row in grid:
        for axes in row:
            axes.set_position((1 / 3, 1 / 3, 1 / 3, 1 / 3))
    figure.draw_without_rendering()
    scale = 72 / figure.dpi
    n_columns = max(len(row) for row in grid)
    left, beside = [0.0] * n_columns, list(right)
    above, below = [0.0] * len(grid), [0.0] * len(grid)
    for i, row in enumerate(grid):
        for j, axes in enumerate(row):
            inner, outer = axes.get_window_extent(), axes.get_tightbbox()
            assert outer is not None
            left[j] = max(left[j], (inner.x0 - outer.x0) * scale)
            beside[j] = max(beside[j], (outer.x1 - inner.x1) * scale)
            above[i] = max(above[i], (outer.y1 - inner.y1) * scale)
            below[i] = max(below[i], (inner.y0 - outer.y0) * scale)
    inside = sum(left) + n_columns * width + sum(beside) + BETWEEN * (n_columns - 1)
    foot = footer.height(inside)
    total_width = inside + 2 * EDGE
    total_height = sum(above) + sum(below) + height * len(grid) + BETWEEN * (len(grid) - 1) + foot + 2 * EDGE
    figure.set_size_inches(total_width / 72, total_height / 72)
    top = total_height - EDGE
    for i, row in enumerate(grid):
        x = EDGE
        bottom = top - above[i] - height
        for j, axes in enumerate(row):
            axes.set_position(
                ((x + left[j]) / total_width, bottom / total_height, width / total_width, height / total_height)
            )
            x += left[j] + width + beside[j] + BETWEEN
        top = bottom - below[i] - BETWEEN
    footer.draw(figure, inside)
