"""Which shard has which tasks, by a hash of their names; and many rows, each of which goes to the shard of its task.

Answers come back in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import one_of
from posse.distributed.cluster import gather
from posse.distributed.fit import distinct
from posse.errors import InvalidValue, UnknownDecision, UnknownTask
from posse.fleet.decision import Decision, Decisions
from posse.fleet.late import Rewarded, Skipped, id_of, listed_rewards
from posse.fleet.names import N_BUCKETS, Label, buckets_of
from posse.tables import as_frame, library_of

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


def parts_of(
    fleet: RunningShards, tasks: Any, contexts: Any, eligible: Iterable[Iterable[Label] | None] | None
) -> tuple[list[Label], IntArray, list[Part]]:
    """Return distinct tasks, every row's place among them, and the rows of every shard; whatever is wrong raises."""
    template = fleet.template
    labels, codes, _ = template.rows(tasks, contexts)
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
        for shard, rows in split_rows(fleet.home[buckets_of(labels)][codes])
    ]  # fmt: skip


def arms_of(answers: list[tuple[Label, ...]], known: tuple[Label, ...]) -> tuple[tuple[Label, ...], list[IntArray]]:
    """Return all arms that shards answer with, and where those of each stand among them.

    While an arm is added or retired, some have it and others do not: there, it is as one that is not eligible.
    """
    arms = max(answers, key=len, default=known)
    place = {arm: position for position, arm in enumerate(arms)}
    return arms, [np.array([place[arm] for arm in some], dtype=np.int64) for some in answers]


def decide_many(
    fleet: RunningShards,
    tasks: Any,
    contexts: Any,
    eligible: Iterable[Iterable[Label] | None] | None,
    explore: bool,
    record: bool,
) -> Decisions:
    """Choose an arm for every row; see :meth:`posse.Posse.decide_many`."""
    labels, codes, parts = parts_of(fleet, tasks, contexts, eligible)
    answers = gather(
        [
            fleet.call(part.shard, record, "decide_columns", part.tasks, part.contexts, part.eligible, explore, record)
            for part in parts
        ]
    )
    buckets = buckets_of(labels)
    n = len(codes)
    arms, places = arms_of([answer["arms"] for answer in answers], fleet.arms)
    ids = np.empty(n, dtype=object)
    chosen, propensity = np.empty(n, dtype=np.int64), np.empty(n)
    probabilities, mean, sd = np.zeros((n, len(arms))), np.full((n, len(arms)), np.nan), np.full((n, len(arms)), np.nan)
    for rows, at, answer in zip((part.rows for part in parts), places, answers, strict=True):
        ids[rows] = [outer_id(bucket, inner) for bucket, inner in zip(buckets[codes[rows]], answer["ids"], strict=True)]
        chosen[rows], propensity[rows] = at[answer["chosen"]], answer["propensity"]
        for mine, name in ((probabilities, "probabilities"), (mean, "mean"), (sd, "sd")):
            mine[np.ix_(rows, at)] = answer[name]
    if labels and record:
        fleet.template.names.tasks.kind = type(labels[0])
    return GatheredDecisions(
        prefix="sharded" if record else "",
        first=0,
        tasks=[labels[code] for code in codes.tolist()],
        arms=arms,
        chosen=chosen,
        propensity=propensity,
        probabilities=probabilities,
        mean=mean,
        sd=sd,
        library=library_of(contexts),
        gathered=tuple(ids.tolist()),
    )


def reward_many(fleet: RunningShards, decisions: Any, values: Any, errors: str) -> Rewarded:
    """Learn many rewards, and no population; see :meth:`posse.Posse.reward_many`."""
    one_of(errors, "errors", ("raise", "skip"))
    ids, amounts = listed_rewards(decisions, values)
    rows_of: dict[int, list[int]] = {}
    inner: list[Any] = []
    skipped: list[Skipped] = []
    for row, given in enumerate(ids):
        try:
            shard, name = place_of(id_of(given), fleet.home)
        except UnknownDecision as error:
            if errors == "raise":
                raise
            skipped.append(Skipped(row, given, f"UnknownDecision: {error}"))
            inner.append(None)
            continue
        inner.append(name)
        rows_of.setdefault(shard, []).append(row)
    parts = [
        (shard, rows, [inner[row] for row in rows], [amounts[row] for row in rows]) for shard, rows in rows_of.items()
    ]
    if errors == "raise":  # all or none
        gather([fleet.look(shard, "check_rewards", some, given) for shard, _, some, given in parts])
    answers = gather([fleet.do(shard, "reward_rows", some, given, errors) for shard, _, some, given in parts])
    news = 0
    for (shard, rows, _, _), (count, left_out) in zip(parts, answers, strict=True):
        news += count
        fleet.rewards_of[shard] += count
        skipped += [Skipped(rows[row], ids[rows[row]], reason) for row, _, reason in left_out]
    return Rewarded(news, sorted(skipped))


def learn_rows(
    fleet: RunningShards, labels: list[Label], codes: IntArray, arms: IntArray, X: Array, y: Array, times: Array | None
) -> int:
    """Learn rows that were checked and encoded, each on the shard of its task; return how many."""
    if not len(y):
        return 0
    calls = []
    for shard, rows in split_rows(fleet.home[buckets_of(labels)][codes]):
        names, own = distinct(labels, codes[rows])
        came = None if times is None else times[rows]
        calls.append(fleet.do(shard, "learn_table", names, own, arms[rows], X[rows], y[rows], came))
        fleet.rewards_of[shard] += rows.size
    fleet.template.names.tasks.kind = type(labels[0])
    return int(sum(gather(calls)))


def by_shard(fleet: RunningShards, labels: list[Label]) -> list[list[int]]:
    """Return the places of some tasks by shard, in the order of the shards."""
    parts = dict(split_rows(fleet.home[buckets_of(labels)]))
    return [parts[shard].tolist() if shard in parts else [] for shard in range(fleet.n_shards)]


def known_tasks(fleet: RunningShards, labels: list[Label]) -> list[list[Label]]:
    """Return which of some tasks every shard has; raise if one is nowhere."""
    parts = [[labels[row] for row in rows] for rows in by_shard(fleet, labels)]
    known = gather([shard.knows.remote(some) for shard, some in zip(fleet.shards, parts, strict=True)])
    for some, there in zip(parts, known, strict=True):
        for label, found in zip(some, there, strict=True):
            if not found:
                raise UnknownTask(f"no task {label!r} among the tasks of this fleet")
    return parts
