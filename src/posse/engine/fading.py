"""A world that changes: old rewards fade on the clock, and changes are noticed."""

from __future__ import annotations

import logging
import math
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.engine import drift
from posse.engine.commit import commit
from posse.engine.decide import believe
from posse.engine.learn import shift_of
from posse.engine.loading import require_loaded
from posse.engine.noticing import WORLD, Belief
from posse.engine.site_store import SiteStore
from posse.kernels.fleet import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posse.engine.commit import Step, Steps
    from posse.engine.engine import Engine
    from posse.kernels.sums import Sums
    from posse.types import Array, IntArray

HOUR, DAY = 3600.0, 86400.0
CANDIDATES = tuple(HOUR * 4.0**power for power in range(8))
"""Half-lives that are compared, in seconds: from an hour to nearly two years."""

logger = logging.getLogger("posse")


class Event(NamedTuple):
    """What was noticed: another half-life, or a change of all tasks or of one."""

    time: float
    half_life: float | None
    everywhere: bool
    task: int


class Fading:
    """What an engine does beside learning where the world changes. All methods expect that its lock is held.

    Parameters
    ----------
    engine : Engine
        Whose sums fade.
    half_life : float or None
        In seconds; None learns it, and looks for changes.
    """

    def __init__(self, engine: Engine, half_life: float | None) -> None:
        self._engine = engine
        engine.store.fades = True
        self.given = half_life
        self.drift = drift.Drift(half_life, CANDIDATES, engine.store.n_arms, engine.store.n_features, engine.family)
        self._arm, self._out = np.zeros(1, dtype=np.int64), np.empty((3, 1))
        self.deferred = False
        """Whether what is noticed waits in :attr:`events` until somebody says :meth:`apply`."""
        self.watching = True
        """Whether changes are looked for."""
        self.stopped = False
        """Whether time stands still: for one who has only some of the tasks, and does not learn."""
        self.events: list[Event] = []

    @property
    def n_arms(self) -> int:
        """Arms that there are."""
        return self._engine.store.n_arms

    @property
    def half_life(self) -> timedelta | None:
        """The one in force."""
        seconds = self.drift.half_life
        return None if math.isinf(seconds) else timedelta(seconds=seconds)

    def advance(self, now: float, contexts: Array | None = None) -> None:
        """Let the clock go on: what is old fades. ``contexts`` are those of rewards that are about to be learned."""
        store = self._engine.store
        passed, aged_at = (0.0, self.drift.aged_at) if self.stopped else self.drift.passed(now)
        if passed > 0.0 and store.n_slots:
            aging: Steps = [partial(self.drift.__dict__.update, aged_at=aged_at)]
            later = self._engine.estimates_later and not isinstance(store, SiteStore)
            if later and store.has_many_pairs and not store.stale:
                # Nobody waits until all sums have faded and have said what they still say about the shared means.
                store.fade_later(passed, self.drift.half_life, self.drift.squares, aging)
            else:
                self._fade(drift.Fade(self.drift.squares.copy(), passed, self.drift.half_life), aging)
        else:
            self.drift.aged_at = aged_at
        if store.shared_behind and not self._engine.is_refreshing:
            self._engine.refresh_later(look=True)
        if contexts is not None:
            self.drift.meet(contexts)

    def _fade(self, fade: drift.Fade, more: Steps | None = None) -> None:
        """Let sums count less; ``more`` goes with it."""
        store, known = self._engine.store, self._engine.known
        raised = None if known is None else partial(known.raised, store)
        factor, slots = fade.of(store)
        if isinstance(store, SiteStore):
            more = [*store.noting_fade(fade), *(more or ())]
        store.fade(factor, fade.squares, slots, raised, more)

    def learn_one(
        self, now: float, task: int, arm: int, x: Array, reward: float, more: Steps, note: Step | None = None
    ) -> None:
        """Learn a reward as it came, as of its time; ``more`` goes with it, and ``note`` before it.

        Sums fade first, which is right whether or not the reward is learned then: it depends on the clock alone.
        """
        engine = self._engine
        self.advance(now)
        watches = self.drift.learned and self.watching
        if watches:
            engine.ensure_fresh()
        store, arms = engine.store, np.array([arm])
        store.keep(store.claim(np.array([task]), arms), arms)
        # Less what features say, by the effects that are in force by now.
        learning, _, *noting = store.learning_one(task, arm, x, reward - shift_of(engine, task, arm, x))
        counted = {"_total": store._total + 1.0, "experience": int(store._total + 1.0)}
        if watches:
            note = partial(self._note_and_watch, note, counted, now, task, arm, x, reward)
        squares = self.drift.squares
        meeting = partial(squares.__setitem__, ..., np.maximum(squares, x * x))
        commit([meeting, learning, partial(store.__dict__.update, counted), *noting, *more], note)
        if self.estimate_due():
            engine.estimate_after_one(None)

    def _note_and_watch(
        self, note: Step | None, counted: dict[str, float], now: float, task: int, arm: int, x: Array, reward: float
    ) -> None:
        """Compare a reward with what was expected when it is in the log, and before it is learned.

        A reward that the log refuses was never seen. One that it took is learned, so nothing is raised after that; what
        the reward makes of the number of rewards is written to ``counted``.
        """
        if note is not None:
            note()
        store = self._engine.store
        try:
            self._look_for_change(now, task, arm, x, reward)
        except BaseException:
            logger.exception("a reward could not be compared with what was expected; it is learned all the same")
        counted["_total"] = store._total + 1.0  # all tasks may have started anew
        counted["experience"] = int(counted["_total"])

    def _look_for_change(self, now: float, task: int, arm: int, x: Array, reward: float) -> None:
        engine, out = self._engine, self._out
        store = engine.store
        self._arm[0] = arm
        if believe(engine, task, x, self._arm, out) < 0:
            return
        mean, sd = float(out[1, 0]), float(out[2, 0])
        decide(store.address, -1, x, self._arm, 1, False, 0.0, out)
        population = drift.population_of(store.belief, arm)
        if engine.known is not None:
            # A new task of this kind: what is known about it did not change.
            engine.known.add(store, task, x, self._arm, out[1], out[2], as_new=True)
            offset = engine.known.offsets(np.array([task]), self._arm)[0]
            population = population._replace(mean=population.mean + offset)
        belief = Belief(mean, sd, float(out[1, 0]), float(out[2, 0]))
        found = self.drift.note(now, task, arm, x, reward, belief, population, defer=self.deferred)
        if not self.deferred:
            if found:
                self._start_anew(drift.EVERYWHERE if found == WORLD else task)
            return
        if found:
            self.events.append(Event(now, None, found == WORLD, task))
        best = self.drift.best_half_life()
        if best != self.drift.half_life and not any(event.half_life is not None for event in self.events):
            self.events.append(Event(now, best, False, -1))

    def forgetting(self, tasks: Sequence[int]) -> Steps:
        """Forget all about some tasks."""
        events = [event for event in self.events if event.task not in set(tasks)]
        return [*self.drift.forgetting(tasks), partial(self.__dict__.update, events=events)]

    def apply(self, event: Event) -> None:
        """Let a change that was noticed, here or elsewhere, be one; a task of -1 is none that is known."""
        self.advance(event.time)
        if event.half_life is not None:
            self.drift.use(event.half_life, event.time)
        elif event.everywhere or event.task >= 0:
            task = drift.EVERYWHERE if event.everywhere else event.task
            self.drift.restart(event.time, task)
            self._start_anew(task)

    def _start_anew(self, task: int) -> None:
        if task == drift.EVERYWHERE:
            logger.warning("a change of all tasks was noticed; they start anew")
        self._fade(drift.Fade(self.drift.squares.copy(), task=task))

    def learn_rows(
        self,
        tasks: IntArray,
        arms: IntArray,
        contexts: Array,
        rewards: Array,
        times: Array,
        *,
        estimate: bool = True,
        moving: Callable[[int], Steps] | None = None,
    ) -> None:
        """Learn rows, rewards as they came, in turn, each as of its time.

        What fades between two of them cannot be taken back, so every row, or without ``estimate`` all of one tick of
        the clock, is a change of its own: if one raises, those before it are learned. Whoever must know how far that is
        says with ``moving`` what goes with the row of this number, and those before it.

        Without ``estimate`` only sums are taken of numbers, which is fast, and beliefs follow when they are next asked
        for.
        """
        require_loaded()
        contexts, rewards = (np.require(array, np.float64, ["C", "A", "W"]) for array in (contexts, rewards))
        engine = self._engine
        sites = engine.store if isinstance(engine.store, SiteStore) else None
        watches = self.drift.learned and self.watching and (estimate or not self.deferred)
        if watches or (sites is None and estimate):
            for row in range(rewards.size):
                at, task, arm, reward = float(times[row]), int(tasks[row]), int(arms[row]), float(rewards[row])
                self.learn_one(at, task, arm, contexts[row], reward, [] if moving is None else moving(row))
            return
        for rows in same_ticks(times, self.drift.half_life / drift.TICKS):
            if sites is not None:  # whose estimates have their place among the rows, whoever asks
                self.advance(float(times[rows].max()), contexts[rows])
                sites.claim(tasks[rows], arms[rows])
                later = engine.refresh_later if estimate and engine.estimates_later else None
                steps = sites.learning_in_turn(tasks[rows], arms[rows], contexts[rows], rewards[rows], later=later)
                commit([*steps, *(() if moving is None else moving(rows.stop - 1))])
                continue
            store = engine.store
            store.stale = True
            self.advance(float(times[rows].max()), contexts[rows])
            slots, known = store.claim(tasks[rows], arms[rows]), engine.known
            store.keep(slots, arms[rows])
            shift = 0.0 if known is None else known.shift(tasks[rows], arms[rows], contexts[rows])
            steps = store.adding_rows(slots, arms[rows], contexts[rows], rewards[rows] - shift, store.parts_of(slots))
            commit([*steps, *(() if moving is None else moving(rows.stop - 1))])

    def estimate_due(self) -> bool:
        """Whether the population is to be estimated after a reward."""
        store = self._engine.store
        return not store.stale and store.refresh_due(self._engine.growth)

    def meet_other(self, other: Fading, sums: Sums) -> Array:
        """Let copied sums of another engine fade until the time up to which those of this one have; return by what."""
        mine, theirs = self.drift, other.drift
        mine.meet(np.sqrt(theirs.squares))
        factor = np.ones(sums.counts.size)
        if mine.aged_at is not None and theirs.aged_at is not None and mine.aged_at > theirs.aged_at:
            factor = drift.aged(sums.counts, mine.aged_at - theirs.aged_at, mine.half_life)
            # What has faded away of clicks and counts is dropped together with their rows, at the next tick.
            dropped = np.zeros_like(mine.squares) if isinstance(self._engine.store, SiteStore) else mine.squares
            drift.scale_sums(sums, factor, dropped)
        return factor


def same_ticks(times: Array, tick: float) -> list[slice]:
    """Return rows in parts that come within one tick of the clock; time never goes back."""
    ticks = np.maximum.accumulate(drift.ticks_at(times, tick))
    cuts = [0, *(np.flatnonzero(np.diff(ticks)) + 1).tolist(), times.size]
    return [slice(first, last) for first, last in pairwise(cuts)]
