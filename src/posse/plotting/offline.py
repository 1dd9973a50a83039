"""Draw an evaluation from a log: values with their intervals, beside how few rows carry them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue
from posse.offline.diagnostics import CURVE
from posse.offline.estimators import LABELS
from posse.offline.report import Evaluation, TargetReport
from posse.plotting.intervals import MARGIN, ROW, Interval, draw_intervals, lines_of, write_note
from posse.plotting.style import GREY_INK, SMALL_TEXT_SIZE, check_figure_paths, report_look, save_figure, styles_of
from posse.showing import cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, LEAST, LINE = 9.0, 2.0, 0.16  # inches: width, least height of the axes, height of a line of small print


def plot_evaluation(evaluation: Evaluation, paths: Sequence[str | Path], *, note: str | None = None) -> None:
    """Draw every target's estimates with their intervals, and how concentrated its weights are.

    On the left, a line stands where the log itself is, in a band as wide as its own interval. On the right, what share
    of all weight the heaviest rows have: the further up, the fewer rows a target's value rests on. Targets that were
    refused are named in the small print.

    Parameters
    ----------
    evaluation : Evaluation
    paths : sequence of paths
        Where to write; ``.png``, ``.svg`` or ``.pdf``.
    note : str, optional
        More small print.
    """
    check_figure_paths(paths)
    rows = _intervals(evaluation)
    if not rows:
        raise InvalidValue("there is nothing to draw: every target was refused; print the evaluation to see why")
    lines = lines_of(rows)
    weighed = [one for one in evaluation.targets if one.diagnostics is not None and not one.refusals]
    styles = styles_of(one.name for one in evaluation.targets if not one.refusals)
    small_print = "\n".join(filter(None, [*_small_print(evaluation), note]))
    height = max(ROW * len(lines), LEAST) + LINE * (small_print.count("\n") + len(weighed)) + MARGIN
    with report_look() as plt:
        grid = {"layout": "constrained", "squeeze": False, "width_ratios": [1.4, 1][: 1 + bool(weighed)]}
        figure, axes = plt.subplots(1, 1 + bool(weighed), figsize=(WIDTH, height), **grid)
        values = axes[0, 0]
        own = evaluation.on_policy
        if math.isfinite(own.low) and math.isfinite(own.high):
            values.axvspan(own.low, own.high, color=GREY_INK, alpha=0.14, linewidth=0, zorder=1)
        values.axvline(own.value, color=GREY_INK, linewidth=1.0, zorder=2)
        draw_intervals(values, lines, lambda row: styles[row.group]["color"])
        values.set_xlabel("reward per decision")
        if weighed:
            _draw_weights(axes[0, 1], weighed, styles)
            figure.legend(loc="outside upper right", frameon=False, fontsize=SMALL_TEXT_SIZE, reverse=True)
        write_note(figure, small_print, WIDTH)
        save_figure(figure, paths)
        plt.close(figure)


def _intervals(evaluation: Evaluation) -> list[Interval]:
    nan = float("nan")
    itself = {one.name for one in evaluation.targets if one.diagnostics is not None and one.diagnostics.is_log_itself}
    if set(evaluation.table["target"]) == itself:
        itself = set()  # nothing else to draw
    return [
        Interval(
            label=LABELS[row["estimator"]],
            value=nan if row["value"] is None else row["value"],
            low=nan if row["low"] is None else row["low"],
            high=nan if row["high"] is None else row["high"],
            group=row["target"],
        )
        for row in evaluation.table.iter_rows(named=True)
        if row["target"] not in itself  # it is the vertical line
    ]


def _draw_weights(axes: Axes, weighed: Sequence[TargetReport], styles: Mapping[str, dict[str, Any]]) -> None:
    axes.set_xscale("log")
    axes.set(xlim=(CURVE[0], 1.0), ylim=(0.0, 1.02))
    axes.xaxis.set_major_formatter("{x:g}")
    for one in reversed(weighed):
        assert one.diagnostics is not None
        style = styles[one.name]
        axes.plot(
            CURVE,
            one.diagnostics.concentration,
            color=style["color"],
            linestyle=style["linestyle"],
            linewidth=1.7,
            solid_capstyle="round",
            label=_with_size(one),
        )
    axes.set_xlabel("share of rows, heaviest first")
    axes.set_ylabel("share of all weight")


def _with_size(one: TargetReport) -> str:
    assert one.diagnostics is not None
    return f"{one.name}: {cell(one.diagnostics.effective_rows)} effective rows"


def _small_print(evaluation: Evaluation) -> list[str]:
    own = evaluation.on_policy
    percent = f"{100 * evaluation.settings['confidence']:g} %"
    words = f"Vertical line: what the log itself earned, {cell(own.value)}"
    if math.isfinite(own.low):
        words += f" ({cell(own.low)} to {cell(own.high)})"
    words += f". {evaluation.rows:,} rows of {evaluation.tasks:,} tasks"
    words += f"; {percent} intervals." if math.isfinite(own.low) else "; too few rewards for intervals."
    lines = [words]
    shown = "dr" if "dr" in set(evaluation.differences["estimator"]) else None
    for row in evaluation.differences.iter_rows(named=True):
        if row["estimator"] == (shown or row["estimator"]) and row["low"] is not None:
            ends = f"{cell(row['low'])} to {cell(row['high'])}"
            lines.append(
                f"{row['target']} less {row['against']}, paired, {LABELS[row['estimator']]}: "
                f"{cell(row['value'])} ({ends})."
            )
    lines += [
        f"Refused: {one.name} ({', '.join(refusal.code for refusal in one.refusals)})."
        for one in evaluation.targets
        if one.refusals
    ]
    return lines
