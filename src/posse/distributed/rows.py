"""Which shard has which tasks, by a hash of their names; and many rows, each of which goes to the shard of its task.

Answers come back in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.errors import InvalidValue, UnknownDecision
from posse.fleet.decision import Decision, Decisions
from posse.fleet.names import N_BUCKETS, Label
from posse.fleet.tables import encoded_rows
from posse.tables import as_frame

if TYPE_CHECKING:
    from posse.distributed.running import RunningShards
    from posse.types import Array, IntArray


def spread_buckets(count: int) -> list[list[int]]:
    """Return the buckets of so many shards, evenly spread."""
    if count > N_BUCKETS:
        raise InvalidValue(f"expected at most {N_BUCKETS} shards, got {count}")
    return [list(range(number, N_BUCKETS, count)) for number in range(count)]


def homes_of(buckets: list[list[int]]) -> IntArray:
    """Return the shard of every bucket."""
    home = np.empty(N_BUCKETS, dtype=np.int64)
    for number, some in enumerate(buckets):
        home[some] = number
    return home


def split_rows(homes: IntArray) -> list[tuple[int, IntArray]]:
    """Return the rows of every shard that has any, in their order, given the shard of each."""
    order = np.argsort(homes, kind="stable")
    found, first = np.unique(homes[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, first[1:]), strict=True)) if len(homes) else []


def place_of(decision_id: Any, home: IntArray) -> tuple[int, str]:
    """Return the shard of a decision, and its id there."""
    bucket, _, inner = decision_id.partition(".") if isinstance(decision_id, str) else ("", "", "")
    if not (bucket.isascii() and bucket.isdigit() and int(bucket) < N_BUCKETS) or not inner:
        raise UnknownDecision(f"no decision {decision_id!r} was made by this fleet; pass the id of a Decision")
    return int(home[int(bucket)]), inner


def outer_id(bucket: Any, inner: str) -> str:
    """Return the id by which a fleet knows a decision of a shard; one that was not recorded has none."""
    return f"{bucket}.{inner}" if inner else ""


@dataclass(frozen=True, slots=True, eq=False)
class GatheredDecisions(Decisions):
    """Decisions of several shards, whose ids do not follow on each other."""

    gathered: tuple[str, ...] = ()

    @property
    def ids(self) -> list[str]:
        """What rewards name the decisions by."""
        return list(self.gathered)

    def __getitem__(self, row: int) -> Decision:
        one = Decisions.__getitem__(self, row)
        return one._replace(id=self.gathered[row])


class Part(NamedTuple):
    """The rows of one shard: which they are, their tasks, their contexts and the arms that each may have."""

    shard: int
    rows: IntArray
    tasks: list[Label]
    contexts: Any
    eligible: list[Any] | None

    @property
    def asked(self) -> tuple[list[Label], Any, list[Any] | None]:
        """The arguments of a question about these rows."""
        return self.tasks, self.contexts, self.eligible


def parts_of(
    fleet: RunningShards, tasks: Any, contexts: Any, eligible: Iterable[Iterable[Label] | None] | None
) -> tuple[list[Label], IntArray, list[Part]]:
    """Return distinct tasks, every row's place among them, and the rows of every shard; whatever is wrong raises."""
    template = fleet.template
    labels, codes, _ = encoded_rows(template, tasks, contexts)
    eligible = None if eligible is None else list(eligible)
    template.names.arms.mask(eligible, len(codes))
    frame = as_frame(contexts) if not isinstance(contexts, np.ndarray) else None
    return labels, codes, [
        Part(
            shard,
            rows,
            [labels[code] for code in codes[rows].tolist()],
            contexts[rows] if frame is None else frame[rows],
            None if eligible is None else [eligible[row] for row in rows.tolist()],
        )
        for shard, rows in fleet.by_shard(labels, codes)
    ]  # fmt: skip


def spread_by(
    parts: list[Part], answers: list[dict[str, Any]], known: tuple[Label, ...], n_rows: int
) -> tuple[tuple[Label, ...], Callable[[str, float], Array]]:
    """Return all arms that shards answer with, and a function that spreads a column of answers over rows and arms.

    While an arm is added or retired, some have it and others do not: there, it is as one that is not eligible.
    """
    arms = max((answer["arms"] for answer in answers), key=len, default=known)

    def spread(name: str, absent: float) -> Array:
        found = np.full((n_rows, len(arms)), absent)
        for part, answer in zip(parts, answers, strict=True):
            at = np.array([arms.index(arm) for arm in answer["arms"]], dtype=np.int64)
            found[np.ix_(part.rows, at)] = answer[name]
        return found

    return arms, spread
