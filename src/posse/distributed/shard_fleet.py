"""A fleet that has some of the tasks: the ordinary engine, with a population that is estimated elsewhere.

Deciding and learning never leave the shard. Of the other shards it knows the population that was published last, and
what their tasks said about the shared means then; what its own tasks say is always up to date. It never subtracts its
own from what all said: it may have learned, died or been restored since it was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.distributed.asking import OtherArms
from posse.engine.commit import Step, Steps, commit
from posse.engine.learn import prepare_rows
from posse.engine.loading import require_loaded
from posse.engine.store import Store
from posse.errors import InvalidValue
from posse.fleet.behaviour import LEARNING
from posse.fleet.decision import Decision, Decisions
from posse.fleet.labels import Label
from posse.fleet.ledger import Ledger
from posse.fleet.merge import prepare
from posse.fleet.posse import Posse
from posse.interrupts import defer_interrupts
from posse.kernels import estimators
from posse.kernels import refresh as loops
from posse.model.refresh import POPULATION, LiveReader, Refresh, chosen_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.kernels.estimators import Memory
    from posse.types import Array, IntArray

    Arrays = dict[str, npt.NDArray[Any]]

OF_ARMS = tuple(name for name in POPULATION if name != "rewards")
COLUMNS = ("chosen", "propensity", "probabilities", "mean", "sd")  # of decisions
ROOTS = ("root", "shared_root", "start")  # of a loop: what sums are taken with


class ShardStore(Store):
    """The arrays of a shard. It never estimates a population; it is given one."""

    elsewhere: Array  # (K, d, d + 1) what tasks of other shards say about the shared means

    def __init__(self, **settings: Any) -> None:
        self.elsewhere = np.zeros((0, 0, 0))
        super().__init__(**settings)
        self.elsewhere = self._nothing(self.n_arms)

    def _nothing(self, n_arms: int) -> Array:
        return np.zeros((n_arms, self.n_features, self.n_features + 1))

    def _add_elsewhere(self, arm: int, information: Array) -> None:
        if arm < len(self.elsewhere):
            information += self.elsewhere[arm]

    def refresh_due(self, growth: float, new_rewards: float = 0.0, *, provisional: bool = False) -> bool:  # noqa: ARG002
        """Return False: whoever has the sums of all shards estimates."""
        return False

    def new_refresh(self, slots: IntArray | None = None, arms: IntArray | None = None) -> Refresh | None:  # noqa: ARG002
        """Return None: nothing is estimated here."""
        return None

    def refresh(self, refresh: Refresh | None = None, **settings: Any) -> None:  # noqa: ARG002
        """Compute what follows from all sums under the population in force."""
        self.rebuild()

    def adding_arm(self) -> Steps:
        """Add an arm, of which nobody knows anything yet."""
        grown = np.concatenate([self.elsewhere, self._nothing(1)])
        return [*super().adding_arm(), partial(self.__dict__.update, elsewhere=grown)]

    def _resetting(self, fresh: Memory) -> Steps:
        return [*super()._resetting(fresh), partial(self.__dict__.update, elsewhere=self._nothing(self.n_arms))]


class ShardFleet(Posse):
    """Some of the tasks of a fleet. Parameters are those of :class:`posse.Posse`."""

    def _begin(self) -> None:
        super()._begin()
        behaviour = self._behaviour
        self._shard = ShardStore(
            start=behaviour.start,
            method=behaviour.method,
            robust=behaviour.robust,
            extendable=behaviour.policy not in LEARNING,
            rule=behaviour.rule,
        )
        self._shard.task_keys = self._tasks.keys
        self._engine.store = self._shard
        self._others = (0, 0)  # decisions and rewards of other shards, as published last
        self.publication = 0  # the number of the one that is in force, or that what was published ended with
        self._journal: Callable[[str, dict[str, Any], Arrays], None] | None = None
        self._expiring = False

    def _steps(self) -> tuple[int, int]:
        by_decisions, by_rewards = super()._steps()
        return by_decisions + self._others[0], by_rewards + self._others[1]

    def _expire(self, now: float) -> None:
        self._expiring = True
        try:
            super()._expire(now)
        finally:
            self._expiring = False

    def log_to(self, log: Any) -> None:
        """Refuse a log: a shard has a journal."""
        if log is not None:
            raise InvalidValue("expected no log for a sharded fleet, got one; pass folder=..., which keeps a journal")
        self._log = None

    def write_to(self, journal: Callable[[str, dict[str, Any], Arrays], None]) -> None:
        """Write changes here before they are made; what it raises, the change raises."""
        self._journal = journal
        self._log = lambda _records: None  # a fleet with a log tells of changes first, and they are noted below

    def _note(self, decisions: list[Decision], contexts: list[Any], now: float, *, ranking: bool = False) -> None:
        if self._journal is not None:
            facts = {
                "now": now,
                "first": decisions[0].id if decisions else "",
                "decided": self._decided + len(decisions),
                "tasks": [one.task for one in decisions],
                "arms": [one.arm for one in decisions],
                "contexts": [self._features.raw(context) for context in contexts],
                "beliefs": [[list(part.items()) for part in one[4:]] for one in decisions],
                "propensity": [one.propensity for one in decisions],
                "ranking": ranking,
            }
            self._journal("decide", facts, {})

    def _noting(self, decisions: Decisions, contexts: Any, X: Array, now: float) -> Step | None:  # noqa: ARG002
        if self._journal is None or not len(decisions):
            return None
        facts = {
            "now": now,
            "first": decisions.ids[0],
            "decided": self._decided + len(decisions),
            "tasks": decisions.tasks,
            "arms": list(decisions.arms),
        }
        # As columns: a record per row would take longer than to decide.
        arrays = {name: getattr(decisions, name) for name in COLUMNS}
        return partial(self._journal, "decide_many", facts, {"contexts": X, **arrays})

    def _note_rewards(self, ids: list[str], values: list[float], now: float) -> None:
        # Those that expire do so again when the next change is made again at its time.
        if self._journal is not None and not self._expiring:
            self._journal("reward", {"now": now, "ids": ids, "values": values}, {})

    # What the coordinator asks.

    @property
    def estimates(self) -> bool:
        """Whether there is a population to estimate."""
        return self._behaviour.method == estimators.EVIDENCE

    def counts(self, n_arms: int) -> tuple[IntArray, Array]:
        """Return pairs with rewards, and rewards, of every arm; there must be so many arms."""
        with self._lock:
            self._require_arms(n_arms)
            belief = self._engine.store.belief
            return belief.n_seen.copy(), belief.rewards.copy()

    def take_sums(self, n_arms: int, wanted: int, every: list[int] | None, given: Arrays) -> Arrays:
        """Return a sum over the pairs of this shard, see :mod:`posse.kernels.refresh`.

        Parameters
        ----------
        n_arms : int
            How many arms there must be.
        wanted : int
            Which sum; DONE counts.
        every : list of int, optional
            Only one in so many tasks, by arm. Default: all.
        given : dict of arrays
            What the sum is taken with.
        """
        with self._lock:
            self._require_arms(n_arms)
            store = self._shard
            refresh = Refresh(store.belief, store.memory.evidence)
            loop = refresh._loop
            rows = refresh.rows
            if every is not None:
                rows = chosen_rows(rows, every, store.belief.task_of, self._tasks.keys())
            source = LiveReader(store.belief)
            if wanted == loops.DONE:
                refresh._count_rewards(source, rows)
                sizes = np.array([part.size for part in rows], dtype=np.int64)
                return {"pairs": sizes, "rewards": refresh.population.rewards}
            for name in ROOTS:
                if name in given:
                    getattr(loop, name)[...] = given[name]
            for name in ("noise_variance", "shared_mean"):
                if name in given:
                    getattr(refresh.population, name)[...] = given[name]
            loop.now[loops.WANTED] = wanted
            refresh._sum(source, rows)
            if wanted == loops.MEASURES:
                return {"measures": refresh.evidence.arm_measures}
            if wanted == loops.INFORMATION:
                return {"information": refresh.information}
            return {"moments": loop.moments, "counts": loop.counts, "n_pairs": loop.n_pairs}

    def is_news(self, population: Arrays) -> bool:
        """Return whether a population is not older than what is in force; raise if it is of other arms."""
        self._require_arms(len(population["noise_variance"]))
        return _number_of(population) >= self.publication

    def adopt(self, population: Arrays) -> None:
        """Believe in a population that was estimated from all shards, unless a later one is in force.

        What its own tasks say is taken from their sums as they are now.

        Parameters
        ----------
        population : dict of arrays
            As :func:`posse.distributed.population.published` gives it, for all shards and for this one together:
            ``elsewhere`` is what tasks of other shards say, ``totals`` their decisions and rewards, and ``number`` that
            of the publication.
        """
        with self._lock:
            if not self.is_news(population):
                return
            store = self._shard
            refresh = Refresh(store.belief, store.memory.evidence)
            for name in OF_ARMS:
                getattr(refresh.population, name)[...] = population[name]
            for name in evidence_names(refresh):
                getattr(refresh.evidence, name)[...] = population[f"evidence_{name}"]
            refresh.root[...] = population["root"]
            refresh.sum_information(LiveReader(store.belief), refresh.rows, refresh.information)
            refresh.information += population["elsewhere"]
            refresh.finish()
            totals = population["totals"]
            with defer_interrupts():
                if refresh.is_sound():
                    store.elsewhere = population["elsewhere"].copy()
                store.install(refresh)
                self._others = (int(totals[0]), int(totals[1]))
                self.publication = _number_of(population)

    def end_publication(self, number: int) -> None:
        """Go back to before the first estimate; what was published before this number is in force no more."""
        with self._lock:
            self._engine.store.reset_prior()
            self.publication = max(number, self.publication)

    def population(self) -> Arrays | None:
        """Return the population in force as :meth:`adopt` takes it, None before the first."""
        with self._lock:
            store = self._shard
            if not (self.estimates and store.memory.evidence.refreshed_at[0] > 0):
                return None
            refresh = Refresh(store.belief, store.memory.evidence)
            arrays: Arrays = {name: getattr(refresh.population, name).copy() for name in OF_ARMS}
            arrays |= {f"evidence_{name}": getattr(refresh.evidence, name).copy() for name in evidence_names(refresh)}
            arrays |= {"root": store._capacity.root[: store.n_arms].copy(), "elsewhere": store.elsewhere.copy()}
            return arrays | {
                "totals": np.array(self._others, dtype=np.float64),
                "number": np.array([self.publication], dtype=np.int64),
            }

    def _require_arms(self, n_arms: int) -> None:
        if n_arms != self._shard.n_arms:
            raise OtherArms(f"expected {self._shard.n_arms} arms, as this shard has, got {n_arms}; ask for its arms")

    # What is done again from a journal.

    def decide_again(
        self, prefix: str, first: int, labels: list[Label], codes: IntArray, arms: IntArray, X: Array, decided: int
    ) -> None:
        """Take notice of decisions that were made before this process began; ``decided`` is how many there are then."""
        with self._lock:
            now = self._clock()
            self._expire(now)
            numbers, new = self._tasks.numbered(self._engine.store, labels, self._tasks.known(labels))
            ledger = self._ledger if prefix == self._prefix else self._adopted.get(prefix)
            if ledger is None:
                ledger = self._adopted[prefix] = Ledger(prefix, self._features.n_features, first)
                self._origins.add(prefix)
            rows = numbers[codes]
            ledger.reserve(len(rows))
            ledger.write_many(rows, arms, now, X)
            learning: Steps = []
            if self._counts_pending and len(rows):
                absent = np.full(len(rows), self._late.absent_reward)
                learning = prepare_rows(self._engine, rows, arms, X, absent, provisional=True).steps
            # After what may have made the arrays larger.
            steps = [
                *self._tasks.taking(self._engine.store, new),
                partial(ledger.__dict__.update, size=ledger.size + len(rows)),
                *learning,
            ]
            self._decided = decided
            self._seek()
            commit(steps)

    def learn_rows(self, labels: list[Label], codes: IntArray, arms: IntArray, X: Array, y: Array) -> int:
        """Learn rows that were checked and encoded elsewhere; only their sums are taken."""
        with self._lock:
            self._require_whole()
            numbers, new = self._tasks.numbered(self._engine.store, labels, self._tasks.known(labels))
            update = prepare_rows(self._engine, numbers[codes], arms, X, y, refresh=False)
            note = None
            if self._journal is not None:
                facts = {"now": self._clock(), "tasks": labels}
                note = partial(
                    self._journal, "learn", facts, {"codes": codes, "arms": arms, "contexts": X, "rewards": y}
                )
            commit([*self._tasks.taking(self._engine.store, new), *update.steps], note)
            return len(y)

    def take_over(self, other: Posse, wanted: list[Label], *, decided: int) -> None:
        """Add some tasks of another fleet, with their decisions that may still get a reward."""
        with self._lock:
            require_loaded()
            steps, _ = prepare(self, other, list(other._arms), wanted, decided)
            commit(steps)


def _number_of(population: Arrays) -> int:
    # Before publications had numbers there was one, or none.
    return int(population["number"][0]) if "number" in population else 1


def evidence_names(refresh: Refresh) -> list[str]:
    """Return the names of what an evidence prior remembers, as far as it is arrays that all shards share."""
    evidence = refresh.evidence
    return [
        name
        for name, array in zip(evidence._fields, evidence, strict=True)
        if isinstance(array, np.ndarray) and name != "distance"
    ]
