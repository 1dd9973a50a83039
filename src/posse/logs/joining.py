"""Rewards that stand in lines of their own, as they came, put to their decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posse.logs.findings import BadRow, Finding, Severity, first_row
from posse.logs.schema import ARM_FEATURES, COLUMNS

if TYPE_CHECKING:
    import polars as pl

REWARD = ("decision_id", "reward", "reward_time")
EXPECTED = (
    "a line without task and arm is the reward of an earlier decision; it has decision_id and reward, may have "
    "reward_time, and nothing else"
)


def join_rewards(frame: pl.DataFrame, lines: pl.Series) -> tuple[pl.DataFrame, pl.Series, tuple[Finding, ...]]:
    """Return the decisions with their rewards, the line of each, and what was odd.

    Parameters
    ----------
    frame : polars.DataFrame
        Decisions, and rewards without task and arm, in any order. A reward that comes twice counts once; where two
        differ, the first counts.
    lines : polars.Series
        The line that each row stands in.

    Raises
    ------
    BadRow
        If a row is neither a decision nor a reward.
    """
    import polars as pl

    alone = frame["task"].is_null() & frame["arm"].is_null()
    if not alone.any():
        return frame, lines, ()
    table = frame.with_columns(lines.alias("line"))
    _require_rewards(frame, alone)
    separate = table.filter(alone).select(*REWARD, "line")
    first = separate.unique("decision_id", keep="first", maintain_order=True)
    decisions = table.filter(~alone).join(first, on="decision_id", how="left", suffix="_late", maintain_order="left")
    taken = pl.col("reward").is_null()
    joined = decisions.with_columns(
        reward=pl.coalesce("reward", "reward_late"),
        reward_time=pl.when(taken).then(pl.coalesce("reward_time_late", "reward_time")).otherwise("reward_time"),
    )
    known = decisions.select("decision_id", "line").unique("decision_id", keep="first", maintain_order=True)
    lost = separate.join(known, on="decision_id", how="anti", maintain_order="left")
    values = joined.select("decision_id", counted="reward").unique("decision_id", keep="first", maintain_order=True)
    other = separate.join(values, on="decision_id", how="inner", maintain_order="left")
    other = other.filter(pl.col("reward") != pl.col("counted"))
    notes = _note(lost, "reward-without-decision", "warning", "rewards of decisions that are not in the log",
                  "read the log together with the one that has the decisions")  # fmt: skip
    notes += _note(other, "reward-told-twice", "error", "rewards that contradict one that the decision already had",
                   "find out which reward is right; the first one was read")  # fmt: skip
    return joined.select(frame.columns), joined["line"], notes


def _require_rewards(frame: pl.DataFrame, alone: pl.Series) -> None:
    """Refuse rows without task and arm that are no rewards either."""
    right = frame["decision_id"].is_not_null() & frame["reward"].is_not_null()
    for name in COLUMNS:
        if name not in (*REWARD, "task", "arm", "context"):
            right &= frame[name].is_null()
    for column in ("context", ARM_FEATURES):
        for name in frame[column].struct.fields if column in frame.columns else ():
            right &= frame[column].struct.field(name).is_null()
    wrong = alone & ~right
    if wrong.any():
        row = first_row(wrong)
        empty = frame["decision_id"][row] is None or frame["reward"][row] is None
        raise BadRow("task is missing, but every decision has one" if empty else EXPECTED, row)


def _note(rows: pl.DataFrame, code: str, severity: Severity, message: str, what_to_do: str) -> tuple[Finding, ...]:
    if rows.is_empty():
        return ()
    example = f"line {rows['line'][0]}, decision {rows['decision_id'][0]!r}"
    return (Finding(code, severity, message, rows.height, example, what_to_do),)
