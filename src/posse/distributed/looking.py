"""What a sharded fleet shows of what it has learned: nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.distributed.cluster import gather
from posse.distributed.rows import arms_of, parts_of
from posse.distributed.spreading import outer_id
from posse.errors import InvalidValue
from posse.fleet.task_keys import buckets_of
from posse.tables import in_library_of

if TYPE_CHECKING:
    from posse.distributed.sharded import ShardedPosse
    from posse.fleet.labels import Label
    from posse.fleet.ledger import Pending
    from posse.types import Array


def look_at(fleet: ShardedPosse, task: Label, what: str, *arguments: Any) -> Any:
    """Return what the shard of a task answers about it."""
    label = fleet._template._tasks.checked(task)
    shard = fleet._shards[fleet._home[buckets_of([label])[0]]]
    return gather([shard.look.remote(what, label, *arguments)])[0]


def expected_many(fleet: ShardedPosse, tasks: Any, contexts: Any, confidence: float) -> Any:
    """Return what is believed about every active arm in many rows; see :meth:`posse.Posse.expected_many`."""
    import polars as pl

    if tasks is None or contexts is None:
        raise InvalidValue(
            "expected tasks and contexts for a sharded fleet, got none: no shard knows the average context of all "
            "tasks; pass both, or load the shards into one Posse"
        )
    _, _, parts = parts_of(fleet, tasks, contexts, None)
    calls = [
        fleet._shards[part.shard].look.remote("expected_many", part.tasks, part.contexts, confidence=confidence)
        for part in parts
    ]
    if not parts:
        return fleet._template.expected_many(tasks, contexts, confidence=confidence)
    tables = []
    for part, answer in zip(parts, gather(calls), strict=True):
        table = pl.DataFrame(answer)
        tables.append(table.with_columns(row=pl.Series(part.rows).gather(table["row"])))
    return in_library_of(pl.concat(tables).sort("row", maintain_order=True), contexts)


def probabilities(
    fleet: ShardedPosse, tasks: Any, contexts: Any, eligible: Iterable[Iterable[Label] | None] | None, explore: bool
) -> Array:
    """Return how likely each active arm would be in every row; see :meth:`posse.Posse.probabilities`."""
    _, codes, parts = parts_of(fleet, tasks, contexts, eligible)
    calls = [
        fleet._shards[part.shard].probabilities.remote(part.tasks, part.contexts, part.eligible, explore)
        for part in parts
    ]
    answers = gather(calls)
    arms, places = arms_of([answer["arms"] for answer in answers], fleet.arms)
    found = np.zeros((len(codes), len(arms)))
    for part, at, answer in zip(parts, places, answers, strict=True):
        found[np.ix_(part.rows, at)] = answer["probabilities"]
    return found


def pending(fleet: ShardedPosse) -> list[Pending]:
    """Return the decisions that wait for a reward, the oldest first."""
    waiting = [entry for entries in fleet._ask("look", "pending") for entry in entries]
    buckets = buckets_of([entry.task for entry in waiting]).tolist()
    named = [entry._replace(id=outer_id(at, entry.id)) for at, entry in zip(buckets, waiting, strict=True)]
    return sorted(named, key=lambda entry: -entry.age)


def export(fleet: ShardedPosse, task: Label) -> dict[str, Any]:
    """Return all that is kept about a task, as plain values."""
    found: dict[str, Any] = look_at(fleet, task, "export")
    bucket = int(buckets_of([found["task"]])[0])
    for decision in found["decisions"]:
        decision["id"] = outer_id(bucket, decision["id"])
    return found
