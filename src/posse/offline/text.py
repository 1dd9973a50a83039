"""Print an evaluation in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from posse.offline.estimators import LABELS

if TYPE_CHECKING:
    from posse.offline.diagnostics import Diagnostics
    from posse.offline.report import Evaluation, TargetReport

SHOWN = 20  # groups of a column


def evaluation_text(evaluation: Evaluation) -> str:
    """Return what an evaluation says, for a terminal."""
    percent = f"{100 * evaluation.settings['confidence']:g} %"
    lines = list(_log_lines(evaluation, percent))
    for target in evaluation.targets:
        lines += ["", *_target_lines(evaluation, target, percent)]
    for pair in evaluation.differences.select("target", "against").unique(maintain_order=True).iter_rows():
        lines += ["", *_difference_lines(evaluation, pair, percent)]
    lines += _group_lines(evaluation, percent)
    return "\n".join(lines)


def _log_lines(evaluation: Evaluation, percent: str) -> Iterator[str]:
    left_out = evaluation.rows_in_log - evaluation.rows
    words = f"{evaluation.rows} rows of {evaluation.tasks} tasks and {evaluation.arms} arms"
    if left_out:
        words += (
            f"; left out: {left_out} of {evaluation.rows_in_log} rows ({evaluation.rows_without_reward} without a "
            f"reward, {evaluation.rows_without_propensity} without a propensity)"
        )
    yield words
    here = evaluation.on_policy
    if math.isfinite(here.value):
        yield f"the log itself earned {_shown(here.value)} per decision{_between(here.low, here.high, percent)}"
    yield from (f"note: {note}" for note in evaluation.notes)


def _target_lines(evaluation: Evaluation, target: TargetReport, percent: str) -> Iterator[str]:
    yield target.name
    if target.diagnostics is not None:
        yield from _diagnostic_lines(target.diagnostics)
    if target.steps is not None:
        yield f"  {target.steps} steps, of {evaluation.rows} rows offered"
    yield from (f"  REFUSED: {refusal}" for refusal in target.refusals)
    rows = [row for row in evaluation.table.iter_rows(named=True) if row["target"] == target.name]
    if rows:
        yield f"  {'estimator':<11}{'value':>11}{'s.e.':>10}   {percent} interval"
    for row in rows:
        yield (
            f"  {LABELS[row['estimator']]:<11}{_shown(row['value']):>11}{_shown(row['se']):>10}   "
            f"{_interval(row['low'], row['high'])}"
        )
    yield from (f"  note: {note}" for note in target.notes)


def _diagnostic_lines(found: Diagnostics) -> Iterator[str]:
    yield (
        f"  effective rows {found.effective_rows:.0f} of {found.rows}; largest weight {found.largest_weight:.3g}, "
        f"{100 * found.largest_share:.2g} % of all; mean weight {found.mean_weight:.3f} "
        f"(standard error {found.mean_weight_se:.2g})"
    )
    thick = ""
    if math.isfinite(found.above_floor):
        thick = f", {100 * found.above_floor:.4g} % at a logged probability of {found.floor:g} or more"
    yield f"  overlap: {100 * found.supported:.4g} % of the target's decisions could have been logged{thick}"


def _difference_lines(evaluation: Evaluation, pair: tuple[Any, ...], percent: str) -> Iterator[str]:
    yield f"{pair[0]} less {pair[1]}"
    yield f"  {'estimator':<11}{'difference':>11}{'s.e.':>10}   {percent} interval; probability above 0"
    for row in evaluation.differences.iter_rows(named=True):
        if (row["target"], row["against"]) == pair:
            above = "" if row["positive"] is None else f"; {100 * row['positive']:.1f} %"
            yield (
                f"  {LABELS[row['estimator']]:<11}{_shown(row['value']):>11}{_shown(row['se']):>10}   "
                f"{_interval(row['low'], row['high'])}{above}"
            )


def _group_lines(evaluation: Evaluation, percent: str) -> Iterator[str]:
    table = evaluation.by_group
    for target, estimator, column in table.select("target", "estimator", "column").unique(maintain_order=True).rows():
        if estimator != _best(evaluation, target):
            continue
        yield ""
        yield f"{target} by {column} ({LABELS[estimator]}; {percent} intervals)"
        rows = table.filter(target=target, estimator=estimator, column=column)
        for row in rows.head(SHOWN).iter_rows(named=True):
            found = (
                f"{_shown(row['value'])}{_between(row['low'], row['high'])}" if row["value"] is not None else "no value"
            )
            why = f"; {row['refused']}" if row["refused"] else ""
            yield f"  {row['group']}: {found}, logged {_shown(row['on_policy'])}, {row['rows']} rows{why}"
        if rows.height > SHOWN:
            yield f"  and {rows.height - SHOWN} more, in the table by_group"


def _best(evaluation: Evaluation, target: str) -> str | None:
    """Return the estimator that a target's groups are shown by."""
    there = [row["estimator"] for row in evaluation.table.iter_rows(named=True) if row["target"] == target]
    return next((name for name in ("dr", "snips", "switch-dr", "ips", "dm", "replay") if name in there), None)


def _shown(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _interval(low: float | None, high: float | None) -> str:
    return "none" if low is None or high is None else f"{_shown(low)} to {_shown(high)}"


def _between(low: float | None, high: float | None, percent: str = "") -> str:
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f" ({percent + ': ' if percent else ''}{_shown(low)} to {_shown(high)})"
