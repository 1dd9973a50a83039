"""The population of all shards, estimated from the sums that they send.

The loop is that of one machine (:mod:`posse.kernels.refresh`); only who sums is another. A sum is some d x d matrices
per arm, whatever the number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.distributed.asking import OtherArms
from posse.distributed.shard_fleet import OF_ARMS, ROOTS, evidence_names
from posse.errors import InvalidValue
from posse.fleet.posse import Posse
from posse.kernels import estimators
from posse.kernels import refresh as loops
from posse.model.refresh import LiveReader, Refresh

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.types import Array, IntArray

    Arrays = dict[str, npt.NDArray[Any]]
    Ask = Callable[..., Sequence[Any]]


class Pairs:
    """Pairs of every arm that are elsewhere: all of them, or one in so many tasks."""

    def __init__(self, sizes: IntArray, every: list[int] | None = None) -> None:
        self.sizes = sizes
        self.every = every


class RemoteRefresh(Refresh):
    """One estimation of the evidence prior of tasks that are elsewhere.

    Parameters
    ----------
    fleet : Posse
        With the arms and settings of all shards, and no tasks; it remembers the last estimate.
    ask : callable
        ``ask(method, *arguments)`` returns what that method of every :class:`ShardFleet` answers, in their order.
    """

    def __init__(self, fleet: Posse, ask: Ask) -> None:
        super().__init__(fleet._engine.store.belief, fleet._engine.store.memory.evidence, threads=1)
        self._ask = ask
        counts = ask("counts", self.n_arms)
        self.rewards_of = [float(rewards.sum()) for _, rewards in counts]
        self.said: list[Array] = []  # the information of every shard, under the population that was found
        self.population.n_seen[:] = sum(pairs for pairs, _ in counts)
        self.population.rewards[:] = sum(rewards for _, rewards in counts)
        self.rows: Any = Pairs(self.population.n_seen.copy())
        self.messages = len(counts)

    def _is_few(self, some: Any) -> bool:
        return bool((4 * some.sizes < self.rows.sizes).any())

    def _some(self, count: int) -> Any:
        every = np.maximum(1, self.rows.sizes // count).tolist()
        if max(every) == 1:
            return self.rows
        answers = self._asked(loops.DONE, every, {})
        return Pairs(np.sum([answer["pairs"] for answer in answers], axis=0), every)

    def _count_rewards(self, source: Any, rows: Any) -> None:  # noqa: ARG002
        answers = self._asked(loops.DONE, rows.every, {})
        self.population.rewards[:] = sum(answer["rewards"] for answer in answers)

    def _sum(self, source: Any, rows: Any) -> None:  # noqa: ARG002 -- those who are asked know theirs
        loop, wanted = self._loop, int(self._loop.now[loops.WANTED])
        given = {} if wanted == loops.MEASURES else {name: getattr(loop, name) for name in ROOTS}
        if given:
            given["noise_variance"] = self.population.noise_variance
            given["shared_mean"] = self.population.shared_mean
        answers = self._asked(wanted, rows.every, given)
        if wanted == loops.MEASURES:
            self.evidence.arm_measures[:] = sum(answer["measures"] for answer in answers)
        elif wanted == loops.INFORMATION:
            self.said = [answer["information"] for answer in answers]
            self.information[:] = sum(self.said)
        else:
            for name in ("moments", "counts", "n_pairs"):
                getattr(loop, name)[...] = sum(answer[name] for answer in answers)

    def _asked(self, wanted: int, every: list[int] | None, given: Arrays) -> Sequence[Arrays]:
        answers = self._ask("take_sums", self.n_arms, wanted, every, given)
        self.messages += len(answers)
        return answers


def estimate(fleet: Posse, ask: Ask, *, steps: int, settled: float, sample: int | None = None) -> RemoteRefresh:
    """Estimate the population of all shards, put it in force in ``fleet``, and return how that was found."""
    refresh = RemoteRefresh(fleet, ask)
    refresh.run(LiveReader(fleet._engine.store.belief), steps=steps, settled=settled, sample=sample)
    fleet._engine.store.install(refresh)
    return refresh


def published(refresh: RemoteRefresh, decided: Sequence[int], number: int) -> tuple[Arrays, list[Arrays]]:
    """Return a population as arrays for all shards, and more for each; :meth:`ShardFleet.adopt` takes both together.

    Parameters
    ----------
    refresh : RemoteRefresh
        What was found. Every shard is told what the others said, so it need not know what it said itself.
    decided : sequence of int
        Decisions of every shard.
    number : int
        Of this publication, larger than those of all before.
    """
    common: Arrays = {name: getattr(refresh.population, name).copy() for name in OF_ARMS}
    common |= {f"evidence_{name}": getattr(refresh.evidence, name).copy() for name in evidence_names(refresh)}
    common |= {"root": refresh.root.copy(), "number": np.array([number], dtype=np.int64)}
    totals = np.column_stack([decided, refresh.rewards_of]).astype(np.float64)
    return common, [
        {"elsewhere": elsewhere, "totals": others}
        for elsewhere, others in zip(sums_of_others(refresh.said), sums_of_others(list(totals)), strict=True)
    ]


def sums_of_others(parts: Sequence[Array]) -> list[Array]:
    """Return the sum of all other parts for each, added from both ends: nothing is subtracted, so nothing cancels."""
    before, after = [np.zeros_like(parts[0])], [np.zeros_like(parts[0])]
    for part in parts[:-1]:
        before.append(before[-1] + part)
    for part in reversed(parts[1:]):
        after.append(after[-1] + part)
    return [one + other for one, other in zip(before, reversed(after), strict=True)]


def follow(fleet: Posse, ask: Ask) -> RemoteRefresh:
    """Compute what follows from the population in force in ``fleet`` and the sums of all shards, and return it."""
    refresh = RemoteRefresh(fleet, ask)
    refresh.look_from(LiveReader(fleet._engine.store.belief))
    fleet._engine.store.install(refresh)
    return refresh


def adopt_alone(fleet: Posse, population: Arrays) -> None:
    """Put a published population in force in a coordinator's fleet, which has no tasks."""
    if len(population["noise_variance"]) != len(fleet._arms):
        raise OtherArms(f"expected a population of {len(fleet._arms)} arms, got {len(population['noise_variance'])}")
    refresh = Refresh(fleet._engine.store.belief, fleet._engine.store.memory.evidence)
    for name in OF_ARMS:
        getattr(refresh.population, name)[...] = population[name]
    for name in evidence_names(refresh):
        getattr(refresh.evidence, name)[...] = population[f"evidence_{name}"]
    refresh.root[...] = population["root"]
    fleet._engine.store.install(refresh)


def require_shardable(fleet: Posse) -> None:
    """Raise unless a fleet's population can be estimated from sums of its tasks."""
    behaviour = fleet._behaviour
    if behaviour.family.name != "number":
        raise InvalidValue(f"expected rewards='number' for a sharded fleet, got {behaviour.family.name!r}; use Posse")
    if behaviour.robust:
        raise InvalidValue("expected robust=False for a sharded fleet, got True; use Posse")
    if fleet._engine.fading is not None:
        raise InvalidValue("expected no drift for a sharded fleet, got one: shards have no common clock; use Posse")
    known = fleet._engine.known
    for name, side in () if known is None else (("task_features", known.tasks), ("arm_features", known.arms)):
        if side.spec is not None:
            raise InvalidValue(
                f"expected no {name} for a sharded fleet, got some: their effects are learned from all tasks at once; "
                "use Posse"
            )
    alone = behaviour.policy in ("lin-ucb", "random")
    if behaviour.method != estimators.EVIDENCE and not alone:
        raise InvalidValue(
            f"expected prior='evidence' for a sharded fleet, got {behaviour.prior!r}: its shared means would be those "
            "of each shard alone; use Posse, or leave the prior out"
        )
