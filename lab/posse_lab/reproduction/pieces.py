"""Figures and tables that several experiments need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posse.plotting.intervals import Interval, plot_intervals
from posse.types import Array
from posse_lab.plotting import BoxGroup, Panel, Series, plot_boxes, plot_panels
from posse_lab.reproduction.experiment import Figure, Table
from posse_lab.reproduction.lineup import DEFAULT_RIVALS, EBM, MATCHED_RIVALS, TUNED_RIVALS
from posse_lab.reproduction.reading import Reading

CURVES = (*EBM, *DEFAULT_RIVALS, "LinTS tuned", "LinUCB tuned", "HierTS", "evidence TS", "evidence UCB")
"""The lines of a figure of curves."""

BOXES = (*EBM, "evidence UCB", "HierTS", "LinUCB tuned", "LinUCB", "LinTS", "OLSBandit", "RMBandit")
"""The boxes of a figure of boxes; fewer, since each is drawn for every value of a grid."""

ROWS = (
    *EBM, "evidence UCB", "evidence TS", "HierTS", *TUNED_RIVALS, *DEFAULT_RIVALS, *MATCHED_RIVALS, "pooled LinUCB",
)  # fmt: skip
"""The rows of a table of regret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What a panel of regret curves shows.

    Parameters
    ----------
    reading : Reading
    title : str
    column : str
        Column of the result that holds the curves.
    y_label : str
    until : int, optional
        The last step shown; rivals are tuned there.
    """

    reading: Reading
    title: str
    column: str = "curve"
    y_label: str = "cumulative regret"
    until: int | None = None

    @property
    def panel(self) -> Panel:
        """Mean curves with bands of two standard errors."""
        steps = self.reading.result.steps
        kept = steps <= (self.until or steps[-1])
        series = []
        for role in CURVES:
            curves = self.reading.curves(role, self.column, self.until)[:, kept]
            from_zero = np.column_stack([np.zeros(len(curves)), curves])
            series.append(banded(role, np.concatenate([[0.0], steps[kept]]), from_zero))
        return Panel(title=self.title, series=series, x_label="step", y_label=self.y_label)

    @property
    def tuning(self) -> str:
        """What tuning found for this very panel."""
        place = (self.until, self.column)
        found = [
            self.reading.words(role, *place) + (", the end of its grid" if self.reading.at_edge(role, *place) else "")
            for role in ("LinTS tuned", "LinUCB tuned")
        ]
        return f"{self.title}: {', '.join(found)}"


def banded(name: str, x: Array, values: Array) -> Series:
    """Return the mean of rows, one per seed, with a band of two standard errors."""
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros_like(mean)
    return Series(name=name, x=x, y=mean, low=mean - 2 * error, high=mean + 2 * error)


def panel_figure(name: str, panels: Sequence[Panel], caption: str, *sources: str) -> Figure:
    """Return panels with one legend for all."""
    return Figure(name=name, draw=lambda paths: plot_panels(panels, paths), caption=caption, sources=sources)


def curve_figure(name: str, shown: Sequence[Curves], about: str) -> Figure:
    """Return a figure of regret curves."""
    seeds = min(each.reading.n_seeds for each in shown)
    return Figure(
        name=name,
        draw=lambda paths: plot_panels([each.panel for each in shown], paths),
        caption=f"{about} Mean over {seeds} seeds with bands of two standard errors. Tuned rivals are the best of "
        f"their grid on these very seeds ({'; '.join(each.tuning for each in shown)}).",
        sources=tuple(dict.fromkeys(each.reading.source for each in shown)),
    )


def box_figure(name: str, readings: Sequence[Reading], *, x_label: str, about: str) -> Figure:
    """Return box plots of regret at the horizon over a grid of worlds."""
    groups = [
        BoxGroup(label=reading.label, values={role: reading.regret(role) for role in BOXES}) for reading in readings
    ]
    return Figure(
        name=name,
        draw=lambda paths: plot_boxes(groups, paths, x_label=x_label, y_label="cumulative regret", log_y=True),
        caption=f"{about} Boxes are quartiles over {readings[0].n_seeds} seeds with the median, whiskers reach 1.5 "
        "times their height, dots are values beyond; the axis is logarithmic. LinUCB tuned is the best of its grid in "
        "each world.",
        sources=tuple(reading.source for reading in readings),
    )


def advantage_figure(
    name: str, pairs: Sequence[tuple[Reading, str, str, str, str]], about: str, x_label: str = "ratio of mean regret"
) -> Figure:
    """Return ratios of regret with their intervals, one line each: of a reading, two roles, a label and a group."""
    rows = []
    for reading, first, second, label, group in pairs:
        pair = reading.compare(first, second)
        low, high = pair.ratio_interval
        rows.append(Interval(label=label, value=pair.ratio, low=low, high=high, group=group))
    return Figure(
        name=name,
        draw=lambda paths: plot_intervals(rows, paths, x_label=x_label, log_x=True),
        caption=f"{about} Points with 95 % bootstrap intervals over seeds; the axis is logarithmic.",
        sources=tuple(dict.fromkeys(reading.source for reading, *_ in pairs)),
    )


def regret_table(reading: Reading, title: str, steps: Sequence[int | None] = (None,)) -> Table:
    """Return mean and standard error at some steps, best first, and the quartiles at the last of them."""
    last = steps[-1]
    rows = []
    for role in ROWS:
        # One policy per row: the one that plays the role at the last of the steps.
        name = reading.name(role, last)
        cells: list[object] = [reading.words(role, last)]
        for step in steps:
            values = reading.regret(name, step)
            error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else float("nan")
            cells += [float(values.mean()), float(error)]
        values = reading.regret(name, last)
        cells += [float(np.quantile(values, quantile)) for quantile in (0.25, 0.5, 0.75)]
        rows.append(tuple(cells))
    at = [reading.horizon if step is None else step for step in steps]
    heads = [head for step in at for head in (f"regret at {step:,}", "s.e.")]
    return Table(
        title=title,
        columns=("method", *heads, "25 %", "median", "75 %"),
        rows=tuple(sorted(rows, key=lambda row: row[-2])),
        sources=(reading.source,),
    )


def grid_table(readings: Sequence[Reading], title: str, head: str) -> Table:
    """Return mean regret of every method in every world of a grid."""
    rows = tuple((role, *(float(reading.regret(role).mean()) for reading in readings)) for role in ROWS)
    return Table(
        title=title,
        columns=(f"method, by {head}", *(reading.label for reading in readings)),
        rows=rows,
        sources=tuple(reading.source for reading in readings),
    )


def percent(ratio: float) -> str:
    """Return how far a ratio lies from 1, in words.

    Examples
    --------
    >>> percent(0.853), percent(1.2)
    ('14.7 % lower', '20.0 % higher')
    """
    return share(abs(ratio - 1)) + (" lower" if ratio < 1 else " higher")


def share(value: float) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> share(0.934)
    '93.4 %'
    """
    return f"{100 * value:.1f} %"
