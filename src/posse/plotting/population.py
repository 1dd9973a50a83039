"""Draw how tasks differ: the coefficients that vary most between them, and one task beside the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.plotting.style import COLOURS, GREY_INK, SMALL_TEXT_SIZE, check_figure_paths, report_look, save_figure

if TYPE_CHECKING:
    from posse.fleet.overview import Coefficients, Overview

MOST = 20  # coefficients that are drawn
ROW, WIDTH, MARGIN = 0.27, 7.5, 1.3  # inches
LONGEST = 24  # characters of a name


class _Row(NamedTuple):
    """One coefficient of one arm: the population's, and a task's if one is drawn."""

    label: str
    mean: float
    mean_sd: float
    between: float
    own: float = np.nan
    own_sd: float = np.nan


def plot_population(overview: Overview, paths: Sequence[str | Path]) -> None:
    """Draw what differs most between tasks: coefficients of arms that are not retired, the largest difference first.

    A bar is the range of about two thirds of all tasks, the mean of the population ± the standard deviation between
    tasks; the dot is the mean, and its line 90 % of what is believed about it. At most 20 are drawn.

    Parameters
    ----------
    overview : Overview
    paths : sequence of paths
        Files that end in .png, .svg or .pdf.
    """
    rows = sorted(_rows(overview), key=lambda row: -row.between)
    _draw(rows, paths, "what differs most between tasks", "largest differences", overview.scale_words())


def plot_task(overview: Overview, coefficients: Coefficients, task: Any, paths: Sequence[str | Path]) -> None:
    """Draw one task beside the population: the coefficients in which it differs most from other tasks come first.

    Parameters
    ----------
    overview : Overview
    coefficients : Coefficients
        Of the task.
    task : str or int
        Its name.
    paths : sequence of paths
        Files that end in .png, .svg or .pdf.
    """
    rows = [row for row in _rows(overview, coefficients) if np.isfinite(row.own)]
    # In standard deviations between tasks; one that does not vary comes last.
    rows.sort(key=lambda row: -abs(row.own - row.mean) / row.between if row.between > 0 else 0.0)
    _draw(
        rows,
        paths,
        f"task {_short(str(task))} (colour) beside all tasks (grey)",
        "most unlike other tasks",
        overview.scale_words(),
    )


def _rows(overview: Overview, own: Coefficients | None = None) -> list[_Row]:
    rows = []
    for arm in overview.arms:
        if arm.retired:
            continue
        for place, column in enumerate(overview.columns):
            label = f"{_short(str(arm.arm))} · {_short(column)}"
            between = float(np.sqrt(max(arm.covariance[place, place], 0.0)))
            row = _Row(label, float(arm.mean[place]), float(arm.mean_sd[place]), between)
            if own is not None and arm.arm in own.mean:
                sd = float(np.sqrt(max(own.covariance[arm.arm][place, place], 0.0)))
                row = row._replace(own=float(own.mean[arm.arm][place]), own_sd=sd)
            rows.append(row)
    return rows


def _draw(rows: list[_Row], paths: Sequence[str | Path], title: str, which: str, of_predictor: str) -> None:
    check_figure_paths(paths)
    shown = rows[:MOST]
    with report_look() as plt:
        figure, axes = plt.subplots(figsize=(WIDTH, ROW * max(len(shown), 1) + MARGIN), layout="constrained")
        height = np.arange(len(shown))
        mean, mean_sd, between, own, own_sd = (
            np.array([getattr(row, name) for row in shown])
            for name in ("mean", "mean_sd", "between", "own", "own_sd")
        )  # fmt: skip
        with_task = bool(np.isfinite(own).any())
        colour = "#BBBBBB" if with_task else COLOURS[0]
        axes.use_sticky_edges = False  # bars keep off the axis
        axes.axvline(0, color=GREY_INK, linewidth=0.8)
        axes.barh(height, 2 * between, left=mean - between, height=0.55, color=colour, alpha=0.45)
        if with_task:
            axes.plot(mean, height, "|", color=GREY_INK, markersize=8)
            axes.errorbar(own, height, xerr=1.645 * own_sd, fmt="o", color=COLOURS[1], markersize=4, linewidth=1.3)
        else:
            axes.errorbar(mean, height, xerr=1.645 * mean_sd, fmt="o", color=colour, markersize=4, linewidth=1.3)
        axes.set_yticks(height, [row.label for row in shown], fontsize=SMALL_TEXT_SIZE)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        left_out = f", {len(shown)} of {len(rows)}: {which}" if len(rows) > len(shown) else ""
        axes.set_title(title + left_out, fontsize=SMALL_TEXT_SIZE + 1, loc="left")
        axes.set_xlabel(
            f"coefficient{of_predictor}, per unit of its feature; bars: two thirds of all tasks; lines: 90 % intervals",
            fontsize=SMALL_TEXT_SIZE,
            color=GREY_INK,
        )
        save_figure(figure, paths)
        plt.close(figure)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
