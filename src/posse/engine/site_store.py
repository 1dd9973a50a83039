"""The arrays of a fleet whose rewards are clicks or counts: every reward is learned as its site.

A site depends on what is believed when its reward comes, so rewards are learned one after another, in their order, and
the population is estimated whenever it is due, in the midst of a batch too: the same rewards in the same order give the
same beliefs, however they are cut into batches.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.batch import Batch, one_row
from posse.engine.capacity import copied, copy_of_capacity
from posse.engine.commit import Attempt, Steps, commit
from posse.engine.drift import Fade, losing
from posse.engine.posteriors import NO_FAILURES
from posse.engine.site_offsets import lowered
from posse.engine.site_rows import (
    KEPT,
    OF_KEPT_ROWS,
    OF_PAIRS,
    OF_ROWS,
    copy_of_sites,
    giving_back,
    in_order,
    keeping_rows,
    with_more_slots,
    with_waiting,
)
from posse.engine.store import Store
from posse.engine.waiting import Waiting, WaitingPlan
from posse.errors import InvalidValue
from posse.families import LinkedFamily
from posse.interrupts import defer_interrupts
from posse.kernels import estimators
from posse.kernels.compiler import CLICKS, announcement
from posse.kernels.decision_arrays import set_kept, set_roots, set_triangles
from posse.kernels.family_evidence import SETTLED, STEPS, improve_to_rest
from posse.kernels.fleet_sites import (
    SITES,
    Sites,
    learn_one_site,
    learn_sites,
    new_sites,
)
from posse.kernels.llvm.handle import Handle
from posse.kernels.sums import Sums
from posse.kernels.waiting_sites import end_waiting, learn_waiting, make_pair_again
from posse.model.prior import Prior
from posse.model.refresh import POPULATION, Refresh

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from posse.engine.known import Known
    from posse.kernels.estimators import Memory
    from posse.kernels.rule import Rule
    from posse.types import Array, IntArray

FIRST_SLOTS = 64
AT_ONCE = 200  # rows of a pair whose sites are all made again when a reward takes the place of an absent one
FADING = ("precision", "moment", "weight")  # of a kept row, what counts for less with time
FAINT = 1e-3  # of the precision of a number that a rare click has, beside which features are seen to have faded away
TABLE_GROWTH = 0.5  # of rewards within a table, from one estimate of the population to the next
ROUNDING = 1e-9  # of what old rewards still count for, which is no whole number

logger = logging.getLogger("posse")


class SiteStore(Store):
    """What a fleet has learned from clicks or counts.

    Parameters
    ----------
    start : Prior
        What stands until rewards say otherwise, on the scale of the linear predictor.
    family : LinkedFamily
    growth : float
        The population is estimated anew when rewards have grown by this fraction.
    rule : Rule, optional
    """

    sites: Handle[Sites]
    """Kept rows and plain sums over rewards, by slot."""

    beside: deque[Batch | Fade | int] | None
    """What was learned, what faded, and how many tasks came, since a copy was made whose population is estimated."""

    known: Known | None = None
    """What is known about tasks and arms, if such features were declared."""

    twin_of: Any
    """That copy, see :mod:`posse.engine.background`."""

    def __init__(self, *, start: Prior, family: LinkedFamily, growth: float, rule: Rule | None = None) -> None:
        announcement.whole = CLICKS
        self.family = family
        self.growth = growth
        self.beside = None
        self.waiting = Waiting(start.n_features)
        self.sites = Handle(SITES, new_sites(family.code, FIRST_SLOTS, KEPT, start.n_features))
        super().__init__(start=start, method=estimators.EVIDENCE, rule=rule)

    # Learning.

    def learning_one(self, task: int, arm: int, x: Array, reward: float) -> Steps:
        """Learn one reward of a pair that has a slot."""
        self._get_ready()
        steps: Steps = [
            partial(learn_one_site, self.ground.address, self.sites.address, arm, task, x, reward),
            self._counting(self._total + 1.0),
        ]
        return [*steps, *self._noting(one_row(task, arm, x, reward))]

    def learning_rows(self, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> Steps:
        """Learn rows of pairs that have slots, one by one, under the prior in force."""
        self._get_ready()
        batch = Batch(tasks, arms, contexts, rewards)
        return [*self._noting(batch), *_Plan(self).learning(batch)]

    def learning_waiting(self, task: int, arm: int, x: Array, reward: float) -> Steps:
        """Learn what a decision counts as until its reward comes; its pair has a slot."""
        self._get_ready()
        self.waiting.reserve(1)
        batch = one_row(task, arm, x, reward, waiting=True)
        return [*self._noting(batch), *_Plan(self).learning(batch)]

    def learning_in_turn(
        self,
        tasks: IntArray,
        arms: IntArray,
        contexts: Array,
        rewards: Array,
        *,
        old: Array | None = None,
        waiting: bool = False,
        fit: bool = False,
        later: Callable[[], None] | None = None,
    ) -> Steps:
        """Learn rows one by one, with estimates of the population wherever one is due.

        ``old`` is what each row counted as while it waited, NaN for those that are new; default: all are new. New ones
        wait for their reward if ``waiting``. With ``fit``, an estimate to the end follows, so there are fewer in
        between. ``later`` begins an estimate in the background; default: it is made here.
        """
        self._get_ready()
        self.waiting.reserve(rewards.size if waiting else 0)
        growth = max(self.growth, TABLE_GROWTH) if fit else self.growth
        batch = Batch(tasks, arms, contexts, rewards, old, waiting)
        steps, plan, first = self._noting(batch), _Plan(self), 0
        for last in self._due_after(batch, growth):
            steps += plan.learning(batch.part(first, last))
            first = last
            if later is not None:
                steps.append(Attempt(partial(self._estimate_later, later, batch.part(first, batch.rewards.size))))
                break
            steps.append(Attempt(partial(self._estimate_if_due, growth)))
            plan.replaced = 0
        return [*steps, *plan.learning(batch.part(first, batch.rewards.size))]

    def _due_after(self, batch: Batch, growth: float) -> list[int]:
        """Return after which rows of a batch the population is to be estimated, if none of the estimates fails."""
        if self.beside is not None:
            return []
        new = np.ones(batch.rewards.size) if batch.old is None else np.isnan(batch.old).astype(np.float64)
        totals = self._total + np.concatenate([[0.0], np.cumsum(new)])
        at, news, retry = float(self.memory.evidence.refreshed_at[0]), self._news, self._retry_at
        found: list[int] = []
        done = 0
        while True:
            done += self._rewards_until(at, growth, retry, news)
            if done > batch.rewards.size:
                return found
            found.append(done)
            at = news = float(totals[done])
            retry = 0.0

    def _until_due(self, growth: float) -> int:
        """Return after how many rewards the population is to be estimated; any number while it is."""
        if self.beside is not None:
            return 1 << 62
        return self._rewards_until(float(self.memory.evidence.refreshed_at[0]), growth, self._retry_at, self._news)

    def _rewards_until(self, at: float, growth: float, retry: float, news: float) -> int:
        """Return after how many rewards an estimate is due, ``at`` being how many there were at the last one.

        Where old rewards count for less, one reward more or less must not hang on the rounding of what is left of them:
        all who learn the same rewards estimate at the same places, whether they learn them one by one or together.
        """
        left = max(at + max(1.0, growth * at), retry) - news
        return max(0, math.ceil(left - ROUNDING * max(at, 1.0) if self.fades else left))

    def _estimate_if_due(self, growth: float) -> None:
        if self._until_due(growth) == 0:
            self._refresh_or_postpone()

    def _estimate_later(self, later: Callable[[], None], rest: Batch) -> None:
        """Begin an estimate in the midst of a batch; the copy that it works on learns the rest as well."""
        try:
            later()
            if self.beside is not None and rest.rewards.size:
                self.beside.append(rest)
        except BaseException:
            self.beside = None  # nobody waits for a copy that would lack the rest
            raise

    def _noting(self, batch: Batch) -> Steps:
        """Have rows learned by the copy whose population is being estimated, too."""
        return [] if self.beside is None else [partial(self.beside.append, batch)]

    def noting_fade(self, fade: Fade) -> Steps:
        """Have sums fade in the copy whose population is being estimated, too."""
        return [] if self.beside is None else [partial(self.beside.append, fade)]

    def taking_tasks(self, count: int) -> Steps:
        """Take the numbers that were reserved last."""
        steps = super().taking_tasks(count)
        return steps if self.beside is None else [*steps, partial(self.beside.append, count)]

    def refresh_due(self, growth: float, new_rewards: float = 0.0, *, provisional: bool = False) -> bool:
        """Whether rewards have grown enough since the last refresh; not while one is under way."""
        if self.fades:
            return self._until_due(growth) <= new_rewards
        return self.beside is None and super().refresh_due(growth, new_rewards, provisional=provisional)

    # Decisions that count while they wait.

    def replacing_rows(self, tasks: IntArray, arms: IntArray, contexts: Array, old: Array, new: Array) -> Steps:
        """Put rewards in the place of what their decisions counted as, one by one."""
        self._get_ready()
        batch = Batch(tasks.copy(), arms.copy(), contexts.copy(), new, old, waiting=False)
        return [*self._noting(batch), *_Plan(self).learning(batch)]

    # The population.

    def new_refresh(self, slots: IntArray | None = None, arms: IntArray | None = None) -> Refresh | None:  # noqa: ARG002
        """Return None: sites are made again where they stand."""
        return None

    def refresh(
        self,
        refresh: Refresh | None = None,  # noqa: ARG002 -- of fleets of numbers
        *,
        steps: int = STEPS,
        settled: float = SETTLED,
        sample: int | None = None,
    ) -> None:
        """Make sites again and estimate the prior anew; if that fails, all is again what it was."""
        if sample is not None:
            raise InvalidValue(
                f"expected no sample for {self.family.name} rewards, whose rows are all looked at, got {sample}; "
                "leave it out"
            )
        self._get_ready()
        belief, evidence, rows = self.belief, self.memory.evidence, self.sites.parts.rows
        rows = with_waiting(rows, self.waiting, self.n_slots)
        slots, places = slice(self.n_slots), slice(self.n_slots * KEPT)
        changed: list[Any] = [getattr(belief, name) for name in POPULATION]
        changed += [array for array in evidence if isinstance(array, np.ndarray)]
        changed += [field[slots] for field in belief.sums]
        changed += [rows.precision[places], rows.moment[places], rows.passes]
        before = [array.copy() for array in changed]
        seen, sites = self._seen(), self.sites.parts
        features = np.stack([sites.contexts[seen].sum(axis=0), self.sum_of_squares()])
        self.stale = True  # until all of it is done: whoever looks computes the posterior again
        try:
            # By the interpreter: its parts are compiled for tables too, and as one kernel would be compiled twice.
            improve_to_rest.py_func(belief, evidence, rows, features, self.family.code, steps, settled, self.buffers)
            if not all(np.isfinite(getattr(belief, name)).all() for name in POPULATION):
                raise InvalidValue(
                    "contexts of too different size were learned (1e20 beside 1, say): find such rows, forget their "
                    "tasks and learn them again without"
                )
            generation = self._capacity.generation
            commit(
                [
                    *giving_back(rows, self.sites.parts.rows, self.waiting, self.n_slots),
                    partial(generation.__setitem__, 0, generation[0] + 1),
                    partial(set_roots, belief.covariance, self._capacity.root[: self.n_arms]),
                    partial(set_triangles, belief.covariance, self._capacity.triangle[: self.n_arms]),
                    partial(set_kept, evidence.summaries, self._capacity.silent[: self.n_arms]),
                    partial(self._capacity.settled.__setitem__, slots, generation[0] + 1),
                    partial(
                        self.__dict__.update, version=self.version + 1, stale=False, looked_at=self._total, replaced=0,
                        problem=None, **NO_FAILURES,
                    ),
                ]
            )  # fmt: skip
        except BaseException:
            with defer_interrupts():
                for array, old in zip(changed, before, strict=True):
                    array[...] = old
                self.version += 1
            self.rebuild()
            raise

    def _refresh_or_postpone(self) -> None:
        """Estimate the prior in the midst of a batch; a failure is noted, and what was learned counts all the same."""
        try:
            self.refresh(steps=STEPS, settled=SETTLED)
            if self.known is not None:
                self.known.learn(self, rounds=1, steps=STEPS, settled=SETTLED)
        except Exception as error:
            self.postpone(error)
            logger.exception("the population could not be estimated and stays as it is until more rewards have come")

    # What rewards say by themselves.

    def copy_of_contexts(self, sums: Sums) -> Array:  # noqa: ARG002 -- they are weighted by their sites
        """Return the sums of the contexts of every pair with rewards, in the order of their slots."""
        return self.sites.parts.contexts[np.sort(self._seen())]

    def sum_of_squares(self) -> Array:
        """Return the sums of squares of the features over all rewards."""
        squares: Array = self.sites.parts.squares[self._seen()].sum(axis=0)
        return squares

    def plain_sums(self) -> Sums:
        """Return what rewards add up to by slot, whatever was believed: squares, contexts, rewards and their number."""
        sites = self.sites.parts
        return Sums(sites.squares, sites.contexts, sites.total, self.belief.sums.counts)

    def sum_of_contexts(self) -> Array:
        """Return the sums of the contexts of all rewards."""
        total: Array = self.sites.parts.contexts[: self.n_slots].sum(axis=0)
        return total

    def some_contexts(self, most: int) -> Array:
        """Return contexts of rows that are kept, evenly chosen among them, at most so many."""
        rows, slots = self.sites.parts.rows, self._seen()
        places = (rows.first[slots, None] + np.arange(KEPT))[np.arange(KEPT) < rows.kept[slots, None]]
        chosen: Array = rows.contexts[places[:: max(1, -(-places.size // most))]]
        return chosen

    def rewards_vary(self) -> bool:
        """Whether there are two different rewards, as far as pairs and kept rows tell."""
        sites, slots = self.sites.parts, self._seen()
        rows = sites.rows
        kept = np.arange(KEPT) < rows.kept[slots, None]
        values = rows.rewards[(rows.first[slots, None] + np.arange(KEPT))[kept]]
        average = sites.total[slots] / self.belief.sums.counts[slots]
        # What has faded is rounded.
        return bool(values.size and (np.ptp(values) > 0 or not np.allclose(average, values[0], rtol=1e-9)))

    def mean_reward(self) -> float:
        """Return the average reward."""
        return float(self.sites.parts.total[self._seen()].sum()) / max(self.n_rewards, 1.0)

    def noise_variance(self, arm: int) -> float:
        """Return the variance of an arm's rewards around what is expected, at its average reward."""
        slots = self.belief.seen[arm, : self.belief.n_seen[arm]]
        # Half a reward more, so that rewards which are all 0 are not certain.
        mean = (float(self.sites.parts.total[slots].sum()) + 0.5) / (float(self.belief.rewards[arm]) + 1.0)
        return self.family.variance_of(mean)

    def _seen(self) -> IntArray:
        belief = self.belief
        return np.concatenate([belief.seen[arm, : belief.n_seen[arm]] for arm in range(self.n_arms)])

    # Tasks.

    def dropping_tasks(self, tasks: IntArray, fresh: Memory) -> Steps:
        """Forget tasks, their rows, and the prior that they helped to learn."""
        slots = self.belief.slot[tasks, : self.n_arms].ravel()
        slots = slots[slots >= 0]
        places = (slots[:, None] * KEPT + np.arange(KEPT)).ravel()
        steps = [*super().dropping_tasks(tasks, fresh), *self.waiting.dropping(slots.tolist())]
        sites = self.sites.parts
        rows = sites.rows
        steps += [partial(field.__setitem__, slots, 0) for field in (rows.kept, rows.seen)]
        steps += [partial(field.__setitem__, slots, 0.0) for field in (sites.contexts, sites.squares, sites.total)]
        for field in (rows.contexts, rows.rewards, rows.precision, rows.moment):
            steps.append(partial(field.__setitem__, places, 0.0))
        return steps

    def fade(
        self,
        factor: Array,
        squares: Array,
        slots: IntArray | None = None,
        raised: Callable[[IntArray, Sums, float], Sums] | None = None,
        more: Steps | None = None,
    ) -> None:
        """Let sums count less, and with them the rows of their pairs and what rewards add up to; see :class:`Store`.

        A row that counts for less is a likelihood of a lower power, and so is its site when it is made again. Rows of a
        pair in which a feature has faded away are kept no more, and their sites stay as they are.
        """
        self._get_ready()
        squares = FAINT * squares
        those = np.arange(factor.size) if slots is None else slots
        sites = self.sites.parts
        rows = sites.rows
        places = (those[:, None] * KEPT + np.arange(KEPT)).ravel()
        left = np.repeat(factor, KEPT)
        steps: Steps = [
            partial(field.__setitem__, those, _times(field[those], factor))
            for field in (getattr(sites, name) for name in OF_PAIRS)
        ]
        steps += [
            partial(field.__setitem__, places, field[places] * left) for field in (getattr(rows, n) for n in FADING)
        ]
        lost = those[losing(self.belief.sums, factor, squares, those)]
        steps += [partial(field.__setitem__, lost, 0) for field in (rows.kept, rows.seen)]
        super().fade(factor, squares, slots, raised, [*steps, *(more or ())])

    def adding_sites(
        self,
        slots: IntArray,
        other: SiteStore,
        factor: Array | None = None,
        moved: tuple[Array, Array] | None = None,
    ) -> Steps:
        """Add the rows of another store to these slots, which are in the order of its own; the sums were added.

        Its kept rows count as later than those here, and push them out where there is no room. They fade by ``factor``,
        one number for every slot, as the sums did. Where features say something, ``moved`` is what the moments of the
        rows here will be by then, and how much more is said of the other's pairs here than there.
        """
        self._get_ready()
        theirs, mine = other.sites.parts, self.sites.parts
        those = np.sort(other._seen())
        left = np.ones(those.size) if factor is None else factor
        steps: Steps = [
            partial(getattr(mine, name).__setitem__, slots, getattr(mine, name)[slots] + _times(added, left))
            for name in OF_PAIRS
            for added in (getattr(theirs, name)[those],)
        ]
        came = [in_order(theirs.rows, int(slot)) for slot in those]
        kept = np.array([places.size for places in came])
        there = np.concatenate([*came, []]).astype(np.int64)
        rows = {name: getattr(theirs.rows, name)[there] for name in OF_KEPT_ROWS}
        rows |= {name: rows[name] * np.repeat(left, kept) for name in FADING}
        waits, places = other.waiting.counts(other.n_slots)[those], other.waiting.places(those)
        late = {name: getattr(other.waiting, name)[places] for name in OF_ROWS}
        if moved is not None:
            for some, counts in ((rows, kept), (late, waits)):
                less = np.repeat(moved[1], counts, axis=0)
                some["moment"] = lowered(some["contexts"], some["precision"], some["moment"], less)
        here = None if moved is None else moved[0]
        steps += keeping_rows(mine.rows, slots, kept, theirs.rows.seen[those].copy(), rows, here)
        self.waiting.reserve(places.size)
        plan = WaitingPlan(self.waiting)
        taken = [
            plan.add(slot, other.waiting.contexts[place])
            for slot, place in zip(np.repeat(slots, waits).tolist(), places.tolist(), strict=True)
        ]
        for name in OF_ROWS:
            steps.append(partial(getattr(self.waiting, name).__setitem__, taken, late[name]))
        return [*steps, *plan.installing()]

    # A copy, whose population is estimated while this one goes on.

    def twin(self) -> SiteStore:
        """Return a store that has learned the same."""
        copy = SiteStore(start=self.start, family=self.family, growth=self.growth, rule=self.rule)
        plain = (
            "n_arms", "n_tasks", "n_slots", "experience", "_total", "stale", "looked_at", "replaced", "version",
            "problem", "_failures", "_retry_at", "fades",
        )  # fmt: skip
        copy.__dict__.update({name: getattr(self, name) for name in plain})
        copy.free_slots, copy.free_tasks = list(self.free_slots), list(self.free_tasks)
        copy.memory, copy.waiting = copied(self.memory), self.waiting.copy()
        copy.sites = Handle(SITES, copy_of_sites(self.sites.parts, self.n_slots))
        copy._scores = np.empty_like(self._scores)
        copy._use_arrays(copy_of_capacity(self._capacity, self.n_slots))
        return copy

    def catch_up(self, most: int, changes: deque[Batch | Fade | int]) -> None:
        """Learn what another store has learned meanwhile, until no more than so many changes are left."""
        while len(changes) > most:
            change = changes[0]
            if isinstance(change, Fade):
                factor, slots = change.of(self)
                self.fade(factor, change.squares, slots, more=[changes.popleft])
                continue
            if isinstance(change, int):
                self.reserve_tasks(change)
                steps = self.taking_tasks(change)
            else:
                self.claim(change.tasks, change.arms)
                rows = (change.tasks, change.arms, change.contexts, change.rewards)
                steps = self.learning_in_turn(*rows, old=change.old, waiting=change.waiting)
            # It leaves the list when it is learned: whoever goes on after an exception begins here.
            commit([*steps, changes.popleft])

    # Features of tasks and arms.

    def know(self, known: Known) -> None:
        """Have features of tasks and arms, before the first reward."""
        sites = self.sites.parts
        rows = sites.rows._replace(offset=np.zeros((sites.total.size, self.n_features)))
        self.known, self.sites = known, Handle(SITES, sites._replace(rows=rows))

    def claim(self, tasks: IntArray, arms: IntArray) -> IntArray:
        """Return the slot of every row; see :class:`posse.engine.arrays.Arrays`."""
        slots = super().claim(tasks, arms)
        if self.known is not None:
            self.make_room()
            new = self.belief.sums.counts[slots] == 0
            self.sites.parts.rows.offset[slots[new]] = self.known.offsets(tasks[new], arms[new])
        return slots

    # Capacity.

    def _get_ready(self) -> None:
        """Do what may fail before something is learned: load compiled code, and make room for rows of new slots."""
        load_sites()
        self.make_room()

    def make_room(self) -> None:
        """Make room for the rows of all slots that there are."""
        sites = self.sites.parts
        have = sites.total.size
        if self.n_slots <= have:
            return
        self.sites = Handle(SITES, with_more_slots(sites, max(self.n_slots, 2 * have)))


def _times(values: Array, factor: Array) -> Array:
    """Return rows times one number each."""
    result: Array = values * factor.reshape(-1, *[1] * (values.ndim - 1))
    return result


class _Plan:
    """What learning rows one after another takes, worked out before anything changes: then only kernels run.

    Parameters
    ----------
    store : SiteStore
        There is room for the rows.
    """

    def __init__(self, store: SiteStore) -> None:
        self._store = store
        self._where = (store.address, store.sites.address)
        self.total, self.replaced = store._total, store.replaced
        self._waiting: WaitingPlan | None = None
        self._kept: dict[int, int] = {}  # further rows of slots

    def learning(self, batch: Batch) -> Steps:
        """Learn rows that come next, under the population in force then."""
        steps: Steps = []
        for part in batch.stretches():
            n = part.rewards.size
            if part.old is None and not part.waiting:
                steps.append(partial(learn_sites, *self._where, part.tasks, part.arms, part.contexts, part.rewards))
                self._count_kept(part, batch)
            else:
                for row in range(n):
                    steps += self._learning_row(part, row)
            if part.old is None:
                self.total += n
            else:
                self.replaced += n
        if self._waiting is not None:
            steps += self._waiting.installing()
        return [*steps, self._store._counting(self.total, replaced=self.replaced)]

    def _count_kept(self, part: Batch, batch: Batch) -> None:
        if batch.old is not None:  # else nobody asks
            for slot in self._store.belief.slot[part.tasks, part.arms].tolist():
                self._kept[slot] = self._kept.get(slot, 0) + 1

    def _learning_row(self, part: Batch, row: int) -> Steps:
        """Learn a row that waits for its reward, or the reward of one that waited."""
        store = self._store
        waiting = store.waiting
        plan = self._waiting = WaitingPlan(waiting) if self._waiting is None else self._waiting
        task, arm, x, reward = int(part.tasks[row]), int(part.arms[row]), part.contexts[row], float(part.rewards[row])
        slot = store.slot_of(task, arm)
        if part.old is None:
            place = plan.add(slot, x)
            return [
                partial(learn_waiting, *self._where, arm, task, x, reward, waiting.precision, waiting.moment, place),
                partial(waiting.contexts.__setitem__, place, x),
                partial(waiting.rewards.__setitem__, place, reward),
            ]
        before, place = float(part.old[row]), plan.find(slot, x)
        if place < 0:
            return []  # a row of a log that could not be learned
        plan.remove(slot, place)
        self._kept[slot] = self._kept.get(slot, 0) + 1
        sites = (waiting.precision, waiting.moment)
        return [
            partial(end_waiting, *self._where, arm, task, x, before, reward, *sites, place),
            *waiting.clearing([place]),
            *(self._making_again(slot, task, arm) if reward != before else ()),
        ]

    def _making_again(self, slot: int, task: int, arm: int) -> Steps:
        """Make the sites of a pair again: all of its rows, or every so often where they are many."""
        waiting, rows, more = self._store.waiting, self._store.sites.parts.rows, self._kept[slot]
        assert self._waiting is not None
        places = np.array(self._waiting.of(slot), dtype=np.int64)
        kept = np.arange(min(int(rows.kept[slot]) + more, int(rows.room[slot]))) + rows.first[slot]
        if (int(rows.seen[slot]) + more) % (1 + (places.size + kept.size) // AT_ONCE):
            return []
        return [
            partial(
                make_pair_again, *self._where, arm, task, some.contexts, some.rewards, some.precision, some.moment, at
            )
            for some, at in ((rows, kept), (waiting, places))
        ]


_loaded = False


def load_sites() -> None:
    """Load the compiled code of learning clicks and counts; costs nothing once it is there."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    try:
        from posse.families import LINKED

        start = Prior(covariance=np.ones((1, 1, 1)), noise_variance=np.ones(1), shared_precision=np.ones((1, 1)))
        store = SiteStore(start=start, family=LINKED["binary"], growth=0.1)
        tasks, arms = np.array(store.add_tasks(1)), np.zeros(1, dtype=np.int64)
        store.claim(tasks, arms)
        contexts, rewards = np.ones((1, 1)), np.ones(1)
        store.learn(0, 0, contexts[0], 1.0)
        store.learn_rows(tasks, arms, contexts, rewards)
        commit(store.learning_waiting(0, 0, contexts[0], 0.0))
        commit(store.replacing_rows(tasks, arms, contexts, np.zeros(1), rewards))
    except BaseException:
        _loaded = False
        raise
