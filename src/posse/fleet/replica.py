"""A fleet whose decisions are kept elsewhere: in the database of a service, which several processes may share."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.commit import commit
from posse.engine.decide import choose
from posse.engine.fading import Event
from posse.engine.learn import prepare_rows
from posse.engine.site_store import SiteStore
from posse.errors import InvalidValue
from posse.fleet.arms import adding_arm
from posse.fleet.checking import no_belief, require_truth_value
from posse.fleet.decision import Decision, decision_among
from posse.fleet.fleet import Fleet
from posse.fleet.labels import Label
from posse.fleet.population import adopt_population, dump_population, estimated_at, is_shared
from posse.fleet.snapshot import freeze_fleet
from posse.fleet.views import arm_overviews
from posse.kernels.evidence import SETTLED, STEPS
from posse.kernels.packing import whole_matrices
from posse.kernels.sums import Sums

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.features import FeatureSpec
    from posse.fleet.overview import ArmOverview
    from posse.types import BoolArray, IntArray

NEVER = 1e300  # times as many rewards


class Replica(Fleet):
    """A fleet that decides and learns, and remembers no decision.

    Whoever asks keeps what was decided, and tells :meth:`learn` all of it with the reward. All replicas that have
    learned the same rewards believe the same, up to when the population was estimated last; one of them estimates
    (``leading``), the others :meth:`adopt` what it found. Of clicks and counts every replica estimates, at places that
    the order of the rewards determines, so it must learn them in the order of the others.

    Parameters are those of :class:`posse.Posse`.
    """

    def _begin(self) -> None:
        if self._engine.fading is not None:
            self._engine.fading.deferred = True
        self._leads = True
        self._engine.learns_first = True  # others wait for whoever learns
        self.applied = 0
        """The number of the last change of a log that was learned; it changes together with what is learned."""
        self.settled = 0
        """The change as of which rewards were learned, if that is later than the one that was applied."""
        self.unlearned = 0
        """Rewards of the log that were left out, since they cannot be learned."""

    @property
    def leading(self) -> bool:
        """Whether this replica estimates the population when rewards have grown."""
        return self._leads

    @leading.setter
    def leading(self, value: bool) -> None:
        with self._lock:
            self._leads = bool(value)
            # Before the first estimate even a follower makes its own: 0 rewards times anything is 0.
            growth = self._behaviour.refresh_growth
            self._engine.growth = growth if self._leads or not self.shares_population else NEVER
            if self._engine.fading is not None:
                self._engine.fading.watching = self._leads

    @property
    def shares_population(self) -> bool:
        """Whether one replica estimates the population for all; else each estimates its own."""
        return is_shared(self)

    @property
    def learns_in_order(self) -> bool:
        """Whether what a reward says depends on those before it, as it does of clicks and counts."""
        return self.rewards != "number"

    @property
    def logged_features(self) -> FeatureSpec:
        """What the context of a decision in the log is made of."""
        return self._features

    def look(self) -> None:
        """Estimate the population now if that is due before anything can be believed, after catching up, say."""
        with self._lock:
            self._engine.ensure_fresh()

    def knows(self, task: Label) -> bool:
        """Whether a task has rewards."""
        with self._lock:
            return task in self._tasks

    @contextmanager
    def reserved(self, patience: float = 0.0) -> Iterator[bool]:
        """Have this fleet for oneself; False if somebody else has it for more seconds than ``patience``.

        A negative patience waits for ever.
        """
        got = self._lock.acquire(timeout=patience)
        try:
            yield got
        finally:
            if got:
                self._lock.release()

    def populations(self) -> dict[Label, ArmOverview]:
        """Return every arm's population."""
        with self._lock:
            self._engine.ensure_fresh()
            return {arm.arm: arm for arm in arm_overviews(self)}

    def start_apart(self, decided: int) -> None:
        """Draw from a stream of its own from here on, and go on counting from so many decisions."""
        with self._lock:
            self._seed = secrets.randbits(63)
            self._decided = decided
            self._seek()

    def propose(
        self, task: Label, context: Any, eligible: Iterable[Label] | None = None, explore: bool = True
    ) -> Decision:
        """Choose an arm as :meth:`posse.Posse.decide` does, and keep nothing; the id is new in all the world."""
        x = self._features.encode(context)
        require_truth_value(explore)
        with self._lock:
            arms, names = self._arms.active, self._arms.active_names
            if eligible is not None:
                arms, names = self._arms.eligible(eligible)
            number = self._tasks.get(task)
            label = task if number is not None and type(task) is str else self._tasks.checked(task)
            if self._engine.store.stale:
                self._engine.ensure_fresh()
            out = np.empty((3, len(names)))
            position = choose(
                self._engine, -1 if number is None else number, x, arms, max(self._steps()), explore,
                self._rng.random(), out,
            )  # fmt: skip
            if position < 0:
                raise no_belief(label)
            self._decided += 1
            number = self._decided
        return decision_among(f"{self._prefix}-{number}", label, names, position, out.tolist())

    def learn(
        self,
        tasks: Sequence[Label],
        arms: Sequence[Label],
        contexts: Any,
        rewards: Sequence[float],
        *,
        replaces: Sequence[float | None] | None = None,
        provisional: bool = False,
        applied: int | None = None,
        catching_up: bool = False,
        times: Sequence[float] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Learn rewards, those of retired arms too.

        Parameters
        ----------
        tasks, arms, contexts, rewards
            One row each. What is wrong with a row is an error, and nothing is learned.
        replaces : sequence, optional
            What each row was learned with before, None for those that are new. A row may be new and replaced in one
            call. Default: all are new.
        provisional : bool
            Whether all of them are decisions that wait for their reward.
        applied : int, optional
            The number of the last of these in a log: what :attr:`applied` is from then on. Whatever is raised, it is
            so if and only if the rewards are learned.
        catching_up : bool
            Only add them up, which is fast; the next decision estimates the population unless :meth:`adopt` or
            :meth:`refresh` came before it.
        times : sequence of float, optional
            When each reward came, for a fleet with drift, whose sums depend on nothing else. Default: now.
        numbers : sequence of int, optional
            The number of each of them in a log. Fleets that learn row by row (with drift, and catalogues) have
            learned those up to :attr:`applied` if one raises; others have learned none.
        """
        if not rewards:
            if applied is not None:
                self.applied = applied
            return
        X = self._features.encode_many(contexts)
        y = np.array(rewards, dtype=np.float64)
        if self.rewards != "number":
            y = self._behaviour.family.check_many(y)
        old = None
        if replaces is not None and replaces.count(None) < len(replaces):
            old = np.array([np.nan if value is None else value for value in replaces], dtype=np.float64)
        with self._lock:
            labels = self._tasks.checked_all(dict.fromkeys(tasks))
            known, new = self._tasks.numbered(self._engine.store, labels, self._tasks.known(labels))
            task_numbers = _looked_up(dict(zip(labels, known.tolist(), strict=True)), tasks)
            arm_numbers = _looked_up({arm: self._arms.number(arm) for arm in dict.fromkeys(arms)}, arms)
            if old is not None:
                self._require_learned(task_numbers, arm_numbers, np.isnan(old))
            if self._engine.fading is not None:
                if numbers is None and applied is not None:
                    numbers = [*[self.applied] * (y.size - 1), applied]
                came = np.full(y.size, self._clock()) if times is None else np.array(times, dtype=np.float64)
                commit(self._tasks.taking(self._engine.store, new))
                self._engine.fading.learn_rows(
                    task_numbers, arm_numbers, X, y, came, estimate=not catching_up,
                    moving=None if numbers is None else partial(self._moving, numbers),
                )  # fmt: skip
                if applied is not None:
                    self.applied = applied
                return
            update = prepare_rows(
                self._engine, task_numbers, arm_numbers, X, y, old=old, refresh=not catching_up,
                provisional=provisional, waiting=self._counts_pending,
            )  # fmt: skip
            steps = [*self._tasks.taking(self._engine.store, new), *update.steps]
            if applied is not None:
                steps.append(partial(self.__dict__.update, applied=applied))
            commit(steps)
            self._engine.estimate_after(update)

    def know_tasks(self, tasks: Mapping[Label, Mapping[str, Any]], *, applied: int) -> None:
        """Know something about tasks, which is the change of this number in a log; see :meth:`set_task_features`.

        Of clicks and counts, which learn in order, one task at a time: an estimate may be due after each.
        """
        from posse.fleet.knowing import set_task_features

        done: Steps = [partial(self.__dict__.update, applied=applied)]
        if self.learns_in_order:
            # As after a reward: one that was interrupted is made up for, in the same way, before the next reward.
            set_task_features(self, tasks, done, steps=STEPS, settled=SETTLED)
        else:
            set_task_features(self, tasks, done)

    def _moving(self, numbers: Sequence[int], row: int) -> Steps:
        return [partial(self.__dict__.update, applied=numbers[row])]

    def try_arms(
        self, arms: Iterable[Label], retired: Iterable[Label], features: Mapping[Any, Any] | None = None
    ) -> None:
        """Raise what would be wrong with having these arms, of which some are retired; nothing changes.

        Parameters
        ----------
        arms : iterable
            All of them; those that this fleet has, and at most one that it does not.
        retired : iterable
            Those of them that may not be chosen.
        features : mapping, optional
            What is known about arms.

        Raises
        ------
        InvalidValue
            If an arm cannot be added to this fleet, or none would be left to choose.
        """
        with self._lock:
            active = set(arms) - set(retired)
            if not active:
                raise InvalidValue("all arms would be retired; keep at least one that can be chosen")
            for arm in active.difference(self._arms.active_names):
                adding_arm(self, arm, (features or {}).get(arm) if arm not in self._arms else None)

    def leave_out(self, applied: int, *, counts: bool = True) -> None:
        """Go on without a row that cannot be learned, which is the change of this number.

        ``counts`` is False for one that was to replace another: then there is not one reward less.
        """
        with self._lock:
            self.__dict__.update(unlearned=self.unlearned + counts, applied=applied)

    def _require_learned(self, tasks: IntArray, arms: IntArray, new: BoolArray) -> None:
        """Raise if a row is to be replaced whose pair has learned nothing and is not among the new ones."""
        there = set(zip(tasks[new].tolist(), arms[new].tolist(), strict=True))
        for task, arm in zip(tasks[~new].tolist(), arms[~new].tolist(), strict=True):
            slot = self._engine.store.slot_of(task, arm)
            if (slot < 0 or not self._engine.store.belief.sums.counts[slot] > 0) and (task, arm) not in there:
                raise InvalidValue("a reward replaces one that was never learned; learn its decision first")

    def learned(self, tasks: Sequence[Label]) -> tuple[int, dict[tuple[Label, Label], Sums]]:
        """Return :attr:`applied`, and count, sum of squares, moment and Gram matrix of every pair with rewards.

        Gram matrices are upper triangles (see :mod:`posse.kernels.packing`). Tasks without rewards are left out. Of
        clicks and counts these are sums over sites, and what is returned are count, sum of rewards, sums of contexts
        and sums of their squares.
        """
        with self._lock:
            numbers = {task: number for task in tasks if (number := self._tasks.get(task)) is not None}
            belief = self._engine.store.belief
            slots = belief.slot[list(numbers.values())]
            rows, arms = np.nonzero(slots >= 0)
            taken = slots[rows, arms]
            self._engine.store.fade_overdue(taken)
            of_sites = isinstance(self._engine.store, SiteStore)
            kept = self._engine.store.plain_sums() if isinstance(self._engine.store, SiteStore) else belief.sums
            sums = Sums(*(array[taken] for array in kept))
            known = self._engine.known
            if known is not None and not of_sites:
                whole = sums._replace(gram=whole_matrices(sums.gram))
                raw = known.raw_sums(belief.task_of[taken], arms, whole)
                sums = sums._replace(moment=raw.moment, sum_of_squares=raw.sum_of_squares)
            applied = self.applied
        labels = list(numbers)
        return applied, {
            (labels[rows[i]], self._arms.label(int(arms[i]))): Sums(*(array[i] for array in sums))
            for i in np.flatnonzero(sums.counts != 0)
        }

    def freeze(self) -> Callable[[str | os.PathLike[str]], None]:
        """Return what writes the state of now to a file, whatever is learned until then."""
        return freeze_fleet(self)

    def dump_population(self) -> bytes | None:
        """Return the population in force, or None if it is not one that replicas share or none was estimated."""
        return dump_population(self) if self.shares_population and estimated_at(self) > 0 else None

    @property
    def estimated_at(self) -> float:
        """How many rewards the population in force was estimated from."""
        return estimated_at(self)

    @property
    def estimate(self) -> int:
        """A number that is another whenever another population is in force."""
        return int(self._engine.store._capacity.generation[0])

    def noticed(self) -> list[dict[str, Any]]:
        """Return what was noticed about changes since the last time, as plain values for :meth:`notice`.

        Nothing of it counts before all replicas are told, this one too; so it counts at one place of the log.
        """
        with self._lock:
            if self._engine.fading is None:
                return []
            events, self._engine.fading.events = self._engine.fading.events, []
            return [
                {"time": event.time, "half_life": None if event.half_life == math.inf else event.half_life}
                if event.half_life is not None
                else {"time": event.time, "everywhere": event.everywhere, "task": self._label_of(event.task)}
                for event in events
            ]

    def _label_of(self, task: int) -> Label | None:
        return self._tasks.label(task) if self._tasks.has(task) else None

    def notice(self, event: dict[str, Any], matches: Callable[[Label], bool]) -> None:
        """Let what some replica noticed be so; ``matches`` tells the task that it is of."""
        with self._lock:
            if self._engine.fading is None:
                return
            if "half_life" in event:
                half_life = math.inf if event["half_life"] is None else float(event["half_life"])
                self._engine.fading.apply(Event(event["time"], half_life, False, -1))
                return
            task = -1
            if not event["everywhere"]:
                task = next((number for label, number in self._tasks.numbers.items() if matches(label)), -1)
            self._engine.fading.apply(Event(event["time"], None, event["everywhere"], task))

    def adopt(self, population: bytes) -> bool:
        """Believe in the population that another replica estimated; False if it is of other arms."""
        return self.shares_population and adopt_population(self, population)

    def discard(self, matches: Callable[[Label], bool]) -> int:
        """Forget all tasks whose names match; return how many."""
        found = [task for task in self.tasks if matches(task)]
        self.forget(*found)
        return len(found)


def _looked_up(numbers: dict[Label, int], labels: Sequence[Label]) -> IntArray:
    return np.fromiter(map(numbers.__getitem__, labels), np.int64, len(labels))
