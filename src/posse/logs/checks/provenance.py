"""Checks of where the rows come from: tasks, policies, versions, columns."""

from __future__ import annotations

from collections.abc import Iterator

from posse.logs.checks.view import View
from posse.logs.findings import Finding

FEW_TASKS = 10


def check_tasks(view: View) -> Iterator[Finding]:
    """Find tasks that say little, and logs with few tasks."""
    import polars as pl

    counts = view.frame.group_by("task").agg(n=pl.len())
    alone = counts.filter(pl.col("n") == 1)["task"]
    if not alone.is_empty():
        yield view.finding(
            "tasks-single-row",
            "note",
            f"tasks with one row: {alone.len()} of {counts.height}",
            view.frame["task"].is_in(alone.implode()),
            "nothing; numbers per task will say nothing about these",
        )
    if counts.height < FEW_TASKS:
        yield view.finding(
            "few-tasks",
            "note",
            f"there {'is one task' if counts.height == 1 else f'are {counts.height} tasks'}; "
            "intervals over so few tasks are rough",
            pl.repeat(True, view.frame.height, eager=True),
            "read intervals with care",
        )


def check_sources(view: View) -> Iterator[Finding]:
    """Find logs that were written by several policies or versions."""
    for column, plural in (("policy", "policies"), ("version", "versions")):
        values = view.frame[column]
        kinds = values.unique().sort(nulls_last=True).to_list()
        if len(kinds) < 2:
            continue
        names = ", ".join("unknown" if kind is None else repr(kind) for kind in kinds[:5])
        first = values[0]
        yield view.finding(
            f"several-{plural}",
            "note",
            f"{len(kinds)} {plural} wrote this log: {names}{', ...' if len(kinds) > 5 else ''}",
            ~values.eq_missing(first),
            "what the log earned is a mixture of theirs; split it to compare one of them",
        )


def check_columns(view: View) -> Iterator[Finding]:
    """Report columns and keys that no log has, and what an import left out."""
    import polars as pl

    if view.log.unknown:
        yield view.finding(
            "unknown-columns",
            "note",
            f"not read, since no log has them: {', '.join(map(repr, view.log.unknown))}",
            pl.repeat(True, view.frame.height, eager=True),
            "correct the name if one is misspelt; read_table makes features of the columns of a table",
        )
    yield from view.log.notes
