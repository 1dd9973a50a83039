"""A fleet in a world that changes: old rewards fade on the clock, and changes are noticed."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from posse.checks import number
from posse.engine import drift as engine
from posse.errors import InvalidValue
from posse.fleet.commit import commit
from posse.kernels.evidence import SETTLED, STEPS
from posse.kernels.fleet import decide, observe_one
from posse.policies.fading import population_of

if TYPE_CHECKING:
    from posse.fleet.core import Core
    from posse.fleet.labels import Label, Labels
    from posse.kernels.sums import Sums
    from posse.types import Array, IntArray

HOUR, DAY = 3600.0, 86400.0
CANDIDATES = tuple(HOUR * 4.0**power for power in range(8))
"""Half-lives that are compared, in seconds: from an hour to nearly two years."""

HalfLife: TypeAlias = float | timedelta

logger = logging.getLogger("posse")


@dataclass(frozen=True, slots=True)
class NoticedChange:
    """A sudden change.

    Parameters
    ----------
    time : datetime
        When it was noticed, some rewards after it happened.
    task : str, int or None
        Of which task, or None if all of them changed.
    """

    time: datetime
    task: Label | None


class Event(NamedTuple):
    """What was noticed: another half-life, or a change of all tasks or of one."""

    time: float
    half_life: float | None
    everywhere: bool
    task: int


class FleetFading:
    """What a fleet with drift does beside learning. All methods expect that the fleet's lock is held.

    Parameters
    ----------
    fleet : Core
        Whose sums fade.
    half_life : float or None
        In seconds; None learns it, and looks for changes.
    """

    def __init__(self, fleet: Core, half_life: float | None) -> None:
        self._fleet = fleet
        self.given = half_life
        self.drift = engine.Drift(half_life, CANDIDATES, len(fleet._arms), fleet._features.n_features)
        self._arm, self._out = np.zeros(1, dtype=np.int64), np.empty((3, 1))
        self.deferred = False
        """Whether what is noticed waits in :attr:`events` until somebody says :meth:`apply`."""
        self.watching = True
        """Whether changes are looked for."""
        self.events: list[Event] = []

    @property
    def half_life(self) -> timedelta | None:
        """The one in force."""
        seconds = self.drift.half_life
        return None if math.isinf(seconds) else timedelta(seconds=seconds)

    def changes(self, tasks: Labels) -> list[NoticedChange]:
        """Return the changes that were noticed."""
        return [
            NoticedChange(
                datetime.fromtimestamp(change.time, UTC),
                None if change.task == engine.EVERYWHERE else tasks.label(change.task),
            )
            for change in self.drift.changes
        ]

    def findings(self, tasks: Labels) -> list[str]:
        """Return in plain sentences what was found about changes."""
        found, noticed = [], self.changes(tasks)
        half_life = self.half_life
        if self.drift.learned and half_life is not None:
            found.append(
                f"coefficients change with time: a half-life of {in_words(half_life)} was learned, and older rewards "
                "count less"
            )
        everywhere = [change for change in noticed if change.task is None]
        if everywhere:
            found.append(
                f"all tasks changed at once, {len(everywhere)} times so far, noticed last on "
                f"{everywhere[-1].time:%Y-%m-%d at %H:%M} UTC: they started anew then"
            )
        alone = [change for change in noticed if change.task is not None]
        if alone:
            found.append(
                f"{len({change.task for change in alone})} tasks changed suddenly and started anew, the last of them "
                f"{alone[-1].task!r}, noticed on {alone[-1].time:%Y-%m-%d at %H:%M} UTC"
            )
        return found

    def to_json(self, tasks: Labels) -> dict[str, Any]:
        """Return what was found as plain values."""
        half_life = self.half_life
        return {
            "learned": self.drift.learned,
            "half_life_days": None if half_life is None else half_life / timedelta(days=1),
            "changes": [{"time": change.time.isoformat(), "task": change.task} for change in self.changes(tasks)],
        }

    def advance(self, now: float, contexts: Array | None = None) -> None:
        """Let the clock go on: what is old fades. ``contexts`` are those of rewards that are about to be learned."""
        store, passed = self._fleet._store, 0.0 if self._fleet._partial else self.drift.elapsed(now)
        if passed > 0.0 and store.n_slots:
            factor = engine.aged(store.belief.sums.counts[: store.n_slots], passed, self.drift.half_life)
            # Decisions need not wait until all pairs have said what they still say about the shared means.
            self._fade(factor, later=self._fleet._later())
        if store.shared_behind and not self._fleet._is_refreshing():
            self._fleet._refresh_later(look=True)
        if contexts is not None:
            self.drift.meet(contexts)

    def _fade(self, factor: Array, slots: IntArray | None = None, *, later: bool = False) -> None:
        """Let sums count less, those of some slots or of the first so many."""
        store, known = self._fleet._store, self._fleet._known
        raise_rows = None if known is None else partial(known.raise_rows, store)
        store.fade(factor, self.drift.squares, slots, raise_rows, later)

    def before(self, now: float, task: int, arm: int, x: Array, reward: float) -> None:
        """Take notice of a reward that is about to be learned; its pair has a slot."""
        try:
            self.advance(now, x)
            if self.drift.learned and self.watching:
                self._look_for_change(now, task, arm, x, reward)
        except Exception:
            # The reward counts in any case: it may be in a log already.
            logger.exception("a reward could not be compared with what was expected; it is learned all the same")
        store = self._fleet._store
        if store.is_read:  # by somebody who may have begun just now
            store.keep(np.array([store.slot_of(task, arm)]), np.array([arm]))

    def _look_for_change(self, now: float, task: int, arm: int, x: Array, reward: float) -> None:
        fleet, out = self._fleet, self._out
        fleet._look()
        store = fleet._store
        self._arm[0] = arm
        if fleet._choose(task, x, self._arm, 1, False, 0.0, out) < 0:
            return
        mean, sd = float(out[1, 0]), float(out[2, 0])
        decide(store.address, -1, x, self._arm, 1, False, 0.0, out)
        drift, population = self.drift, population_of(store.belief, arm)
        if fleet._known is not None:
            # A new task of this kind: what is known about it did not change.
            fleet._known.add(store, task, x, self._arm, out[1], out[2], as_new=True)
            offset = fleet._known.offsets(np.array([task]), self._arm)[0]
            population = population._replace(mean=population.mean + offset)
        belief = engine.Belief(mean, sd, float(out[1, 0]), float(out[2, 0]))
        found = drift.note(now, task, arm, x, reward, belief, population, defer=self.deferred)
        if not self.deferred:
            if found:
                self._start_anew(engine.EVERYWHERE if found == engine.WORLD else task)
            return
        if found:
            self.events.append(Event(now, None, found == engine.WORLD, task))
        best = drift.best_half_life()
        if best != drift.half_life and not any(event.half_life is not None for event in self.events):
            self.events.append(Event(now, best, False, -1))

    def forget(self, task: int) -> None:
        """Forget all about a task."""
        self.drift.forget(task)
        self.events = [event for event in self.events if event.task != task]

    def apply(self, event: Event) -> None:
        """Let a change that was noticed, here or elsewhere, be one; a task of -1 is none that is known."""
        self.advance(event.time)
        if event.half_life is not None:
            self.drift.use(event.half_life, event.time)
        elif event.everywhere or event.task >= 0:
            task = engine.EVERYWHERE if event.everywhere else event.task
            self.drift.restart(event.time, task)
            self._start_anew(task)

    def _start_anew(self, task: int) -> None:
        store = self._fleet._store
        counts = store.belief.sums.counts
        if task == engine.EVERYWHERE:
            logger.warning("a change of all tasks was noticed; they start anew")
            self._fade(engine.restarted(counts[: store.n_slots]))
            return
        slots = store.belief.slot[task, : store.n_arms]
        slots = slots[slots >= 0]
        self._fade(engine.restarted(counts[slots]), slots)

    def learn_rows(
        self, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array, times: Array, *, estimate: bool = True
    ) -> None:
        """Learn rows of pairs that have slots, rewards as they came, in turn, each as of its time.

        Without ``estimate`` only sums are taken, which is fast, and beliefs follow when they are next asked for.
        """
        fleet = self._fleet
        if estimate or (self.drift.learned and not self.deferred):
            for row in range(rewards.size):
                task, arm, x, reward = int(tasks[row]), int(arms[row]), contexts[row], float(rewards[row])
                self.before(float(times[row]), task, arm, x, reward)
                store = fleet._store
                # Effects of features may be others than for the row before.
                observe_one(store.address, arm, task, x, reward - fleet._shift_of(task, arm, x))
                store._total += 1.0
                store.experience = int(store._total)
                if not fleet._later() and self.estimate_due():
                    fleet._renew(None, steps=STEPS, settled=SETTLED)
            return
        for rows in same_ticks(times, self.drift.half_life / engine.TICKS):
            store = fleet._store
            store.stale = True
            self.advance(float(times[rows].max()), contexts[rows])
            slots, known = store.claim(tasks[rows], arms[rows]), fleet._known
            shift = 0.0 if known is None else known.shift(tasks[rows], arms[rows], contexts[rows])
            commit(store.adding_rows(slots, arms[rows], contexts[rows], rewards[rows] - shift, store.parts_of(slots)))

    def estimate_due(self) -> bool:
        """Whether the population is to be estimated after a reward."""
        store = self._fleet._store
        return not store.stale and store.refresh_due(self._fleet._growth())

    def meet_other(self, other: FleetFading, sums: Sums) -> None:
        """Let copied sums of another fleet fade until the time up to which those of this one have."""
        mine, theirs = self.drift, other.drift
        mine.meet(np.sqrt(theirs.squares))
        if mine.aged_at is not None and theirs.aged_at is not None and mine.aged_at > theirs.aged_at:
            factor = engine.aged(sums.counts, mine.aged_at - theirs.aged_at, mine.half_life)
            engine.scale_sums(sums, factor, mine.squares)


def in_words(half_life: timedelta) -> str:
    """Return a half-life as people say it."""
    days = half_life / timedelta(days=1)
    if days >= 2:
        return f"{days:.3g} days"
    return f"{24 * days:.3g} hours" if days >= 1 / 24 else f"{86400 * days:.3g} seconds"


def same_ticks(times: Array, tick: float) -> list[slice]:
    """Return rows in parts that come within one tick of the clock; time never goes back."""
    ticks = np.maximum.accumulate(np.floor(times / tick))
    cuts = [0, *(np.flatnonzero(np.diff(ticks)) + 1).tolist(), times.size]
    return [slice(first, last) for first, last in pairwise(cuts)]


def new_fading(drift: Any, fleet: Core) -> FleetFading | None:
    """Return what a fleet with this drift needs, or None if it has none; or raise if it cannot have it."""
    if drift is None:
        return None
    half_life = half_life_of(drift)
    family = fleet._behaviour.family.name
    if family != "number":
        raise InvalidValue(
            f"expected drift=None for rewards={family!r}, got {drift!r}: what old clicks and counts say does not fade "
            "yet; leave it out"
        )
    if fleet._absent_reward is not None and fleet._count_pending:
        raise InvalidValue(
            "expected count_pending=False with absent_reward and drift, got True: what a decision counted as may have "
            "faded when its reward takes its place; pass count_pending=False"
        )
    return FleetFading(fleet, half_life)


def half_life_of(drift: Any) -> float | None:
    """Return the half-life that was asked for, in seconds, or None if it is to be learned."""
    if isinstance(drift, str):
        if drift != "learn":
            raise InvalidValue(
                f"expected drift to be None, 'learn', or a half-life in days or as a timedelta, got {drift!r}; pass "
                "one of these"
            )
        return None
    if isinstance(drift, timedelta):
        drift = drift / timedelta(days=1)
    return DAY * number(drift, "drift", above=0)


def times_of(column: Any) -> Array:
    """Return a column of times, dates or seconds since the epoch, as seconds since the epoch."""
    import polars as pl

    if column.dtype in (pl.Date, pl.Datetime):
        moments = column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column.dt.cast_time_unit("us")
        column = moments.dt.epoch("us") / 1e6
    if not column.dtype.is_numeric():
        raise InvalidValue(
            f"expected times as dates or in seconds since the epoch, got a column of {column.dtype}; parse it first"
        )
    times = column.cast(pl.Float64).to_numpy()
    if not np.isfinite(times).all():
        raise InvalidValue("expected a time in every row, got one that is missing or not finite; leave out such rows")
    return np.array(times, dtype=np.float64)
