"""Checks of decision ids: one decision must be one row."""

from __future__ import annotations

from collections.abc import Iterator

from posse.logs.checks.view import View
from posse.logs.findings import Finding


def check_ids(view: View) -> Iterator[Finding]:
    """Find decisions that occur twice, and rows without an id."""
    import polars as pl

    ids = view.frame["decision_id"]
    missing = ids.is_null()
    if missing.any():
        yield view.finding(
            "decision-id-missing",
            "note",
            "rows without a decision_id: decisions that occur twice cannot be found",
            missing,
            "record an id with every decision",
        )
    repeated = ids.is_duplicated() & ids.is_not_null()
    if not repeated.any():
        return
    rewards = (
        view.frame.select("decision_id", "reward")
        .filter(repeated)
        .group_by("decision_id")
        .agg(different=pl.col("reward").drop_nulls().n_unique() > 1)
    )
    conflicting = ids.is_in(rewards.filter("different")["decision_id"].implode()) & repeated
    if conflicting.any():
        yield view.finding(
            "conflicting-rewards",
            "error",
            "rows of the same decision_id with different rewards",
            conflicting,
            "find out which reward is right and keep one row per decision",
        )
    plain = repeated & ~conflicting
    if plain.any():
        yield view.finding(
            "duplicate-decision-id",
            "error",
            "rows with the same decision_id, whose rewards count several times",
            plain,
            "keep one row per decision",
        )
