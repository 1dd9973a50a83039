"""The population of all shards, estimated from the sums that they send.

The steps are those of one machine (:mod:`posse.core.estimate`); only who sums is another. A sum is some matrices per
arm, whatever the number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.sums import Moments, Pairs, TaskSums
from posse.distributed.shard_fleet import SUMMED
from posse.errors import InvalidValue

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.core.core import Core
    from posse.core.store import Store
    from posse.core.sums import Keys
    from posse.fleet.posse import Posse
    from posse.types import Array, IntArray

    Arrays = dict[str, npt.NDArray[Any]]
    Ask = Callable[..., Sequence[Any]]


class RemotePairs(Pairs):
    """Pairs of shards, over which others sum.

    Parameters
    ----------
    core : Core
        Of the coordinator: with all arms, and no tasks.
    ask : callable
        ``ask("look", method, *arguments)`` returns what that method of every :class:`ShardFleet` answers, in their
        order.
    now : float
        The time as of which rewards count.
    call : callable, optional
        ``call(shard, method, *arguments)`` returns what one of them answers; for clicks and counts.
    every : list of int, optional
        Only one in this many tasks, by arm. Default: all.
    """

    def __init__(
        self, core: Core, ask: Ask, now: float, call: Callable[..., Any] | None = None, every: list[int] | None = None
    ) -> None:
        self._core, self._ask, self.now, self._call, self._every = core, ask, now, call, every
        self.d, self.n_answers = core.n_features, 0
        self.tasks = TaskSums(np.zeros(2, dtype=np.int64), np.zeros(0), np.zeros((0, 0)))
        self._some: RemotePairs | None = None
        counts = self._asked("counts")
        self.n_pairs, self._rewards = added(counts)
        self.rewards_of = [float(rewards.sum()) for _, rewards in counts]
        self.said: list[Array] = []
        """What the tasks of every shard said last."""

    def _asked(self, what: str, **given: Any) -> Sequence[tuple[Any, ...]]:
        answers = self._ask("look", "take_sums", self._core.n_arms, what, self.now, self._every, given)
        self.n_answers += len(answers)
        return answers

    def rewards(self) -> Array:
        """Return the rewards of every arm."""
        return self._rewards

    def sample(self, every: IntArray, keys: Keys | None) -> Pairs:  # noqa: ARG002 -- those who are asked know theirs
        """Return one in this many pairs of every arm."""
        self._some = RemotePairs(self._core, self._ask, self.now, every=every.tolist())
        return self._some

    @property
    def messages_sent(self) -> int:
        """How many answers it took."""
        return self.n_answers + (0 if self._some is None else self._some.n_answers)

    def about_tasks(self) -> TaskSums:
        """Return sums over the tasks of what is known about them."""
        self.tasks = TaskSums(*added(self._asked("tasks")))
        return self.tasks

    def measures(self) -> Array:
        """Return products of all features and rewards of every arm."""
        return added(self._asked("measures"))[0]

    def plain_measures(self) -> Array:
        """Return sums of contexts and of their squares, of clicks or counts, and how many there were."""
        return self.measures()

    def believed_rows(self, store: Store, arm: int) -> Array:
        """Return the rows of an arm that shards keep."""
        given = {"noise": store.noise, "prior": store.prior, "shared": store.shared, "average": store.known[-1]}
        answers = self._asked("rows", arm=np.array([arm]), **given)
        return np.concatenate([rows for (rows,) in answers])

    def remake(self, store: Store, arm: int, passes: int, turns: int) -> Array:
        """Make sites of an arm again, one shard after another, since what a click says depends on all others."""
        assert self._call is not None
        before, place = store.told[arm].copy(), np.array([arm, passes, turns], dtype=np.int64)
        about = {"place": place, "now": np.array([self.now]), "average": store.known[-1], "noise": store.noise}
        about["dispersion"] = store.dispersion
        for shard, said in enumerate(self.said):
            rest = store.told[arm] - said[arm]
            said[arm] = self._call(shard, "remake", about | {"prior": store.prior[arm], "rest": rest})
            self.n_answers += 1
            store.told[arm] = rest + said[arm]
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(store.told[arm] - before))

    def messages(self, noise: Array, prior: Array, known: Array, weight: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """Return what pairs tell the shared coefficients of their arms; the last known features are the average."""
        answers = self._asked("messages", noise=noise, prior=prior, average=known[-1])
        self.said = [np.array(told) for (told,) in answers]
        told = np.asarray(sum(self.said))
        return told[:, :-1], told[:, -1]

    def moments(
        self, noise: Array, prior: Array, shared: Array, known: Array, weight: Array, *, distances: bool
    ) -> Moments:
        """Return what a step needs to know of the pairs."""
        del weight, distances
        answers = self._asked("moments", noise=noise, prior=prior, shared=shared, average=known[-1])
        sums, size = dict(zip(SUMMED, added(answers), strict=True)), shared.shape[2]
        return Moments(**sums, prior=prior, covariance=shared[:, :size], distance=np.zeros(0))


def published(core: Core, pairs: RemotePairs, decided: Sequence[int], number: int) -> tuple[Arrays, list[Arrays]]:
    """Return a population as arrays for all shards, and more for each; :meth:`ShardFleet.adopt` takes both together.

    Parameters
    ----------
    core : Core
        Of the coordinator.
    pairs : RemotePairs
        What was found with. Every shard is told what the others said, so it need not know what it said itself.
    decided : sequence of int
        Decisions of every shard.
    number : int
        Of this publication, larger than those of all before.
    """
    common: Arrays = core.population() | {
        "publication.number": np.array([number]),
        "publication.now": np.array([pairs.now]),
        "publication.average": pairs.tasks.average,
        "publication.scatter": pairs.tasks.scatter,
    }
    totals = list(np.column_stack([decided, pairs.rewards_of]).astype(np.int64))
    return common, [
        {"publication.told": told, "publication.others": others}
        for told, others in zip(sums_of_others(pairs.said), sums_of_others(totals), strict=True)
    ]


def added(answers: Sequence[tuple[Any, ...]]) -> list[npt.NDArray[Any]]:
    """Return the sums of what shards answered, each of one sum, in the order of the shards."""
    return [np.asarray(sum(parts)) for parts in zip(*answers, strict=True)]


def sums_of_others(parts: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Return the sum of all other parts for each, added from both ends: nothing is subtracted, so nothing cancels."""
    before, after = [np.zeros_like(parts[0])], [np.zeros_like(parts[0])]
    for part in parts[:-1]:
        before.append(before[-1] + part)
    for part in reversed(parts[1:]):
        after.append(after[-1] + part)
    return [one + other for one, other in zip(before, reversed(after), strict=True)]


def require_shardable(fleet: Posse) -> None:
    """Raise unless a fleet's population can be estimated from sums of its tasks."""
    settings = fleet.settings
    if fleet.worth is not None:
        raise InvalidValue("expected no values and costs for a sharded fleet, got some; use Posse, or leave them out")
    if settings.robust:
        raise InvalidValue(
            "expected robust=False for a sharded fleet, got True: every step changes the weight of every task, which a "
            "shard that dies meanwhile would lose; use Posse"
        )
    if settings.drift == "learn":
        raise InvalidValue(
            "expected a half-life, or no drift, for a sharded fleet, got 'learn': half-lives are compared by the "
            "rewards of all tasks in their order; give one, or use Posse"
        )
    if settings.prior != "evidence" and settings.policy not in ("lin-ucb", "random"):
        raise InvalidValue(
            f"expected prior='evidence' for a sharded fleet, got {settings.prior!r}: other estimators look at all "
            "tasks in one place; use Posse, or leave the prior out"
        )
