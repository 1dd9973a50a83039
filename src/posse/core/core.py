"""The core: decides, learns, forgets and has its population estimated, on integers and arrays.

It has no names, no lock, no clock, no log and no files: whoever has a core holds the lock, and says what time it is. A
change is ``prepare``, which may fail and then has changed nothing that anybody sees; then one compiled call that cannot
fail, or one assignment of ``state``.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from posse.core import changes, decide, merge
from posse.core.background import Background
from posse.core.capacity import copied, free_rows, new_store, with_more_rows, with_more_slots, with_more_tasks
from posse.core.contents import PlainSums, Sums, plain_sums_of, slots_of, sums_of
from posse.core.estimate import (
    FIT_SETTLED,
    FIT_STEPS,
    SETTLED,
    STEPS,
    checked,
    estimated,
    estimated_from,
    estimated_in_place,
    generations,
    with_arm,
    with_posterior,
)
from posse.core.forgetting import AGE, ANEW, FADES, HALF_LIFE, Event, Forgetting, Never, age_at, moved_on, new_ageing
from posse.core.noticing import ALL_TASKS, Believed, Change
from posse.core.pair import finish_arm, new_work, pair_posterior, remaining_of, tell_slots
from posse.core.population import Population, start_of, with_prior
from posse.core.rehearsal import Kind, rehearse
from posse.core.rows import ALL_KNOWN, remake_slots
from posse.core.rule import set_silent
from posse.core.snapshot import all_finite, restored, saved_state, with_others
from posse.core.soundness import require
from posse.core.state import (
    AT_LAST,
    BEHIND,
    CLOCK,
    FAILURES,
    N_NUMBERS,
    N_SLOTS,
    N_TASKS,
    NEWS,
    RETRY_AT,
    SERIALS,
    TOTAL,
    WAITING,
    Elsewhere,
    ReadyRows,
    Receipt,
    Receipts,
    State,
)
from posse.core.store import (
    DECAY,
    DECAY_AT,
    FIRST,
    MOMENT,
    NEXT,
    OFFSET,
    OPEN,
    PRECISION,
    REWARD,
    SERIAL,
    SPREAD,
    beliefs_of,
    totals_at,
)
from posse.core.sums import Pairs, age_all
from posse.families.sites import NUMBER
from posse.interrupts import defer_interrupts
from posse.model.prior import Prior
from posse.threads import MANY_ROWS, pool, spread_parts, workers

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from posse.core.rule import Rule
    from posse.core.sums import Keys
    from posse.families import RewardFamily
    from posse.types import Array, BoolArray, IntArray

logger = logging.getLogger("posse")

Rows: TypeAlias = Any
"""Tasks, arms, contexts, rewards and times."""

# Their last arguments stand in tuples, which the types of compiled functions do not know of.
decide_one: Any = decide.decide_one
learn_number: Any = changes.learn_number
learn_linked: Any = changes.learn_linked
add_rows: Any = changes.add_rows
merge_slots: Any = merge.merge_slots

NO_WORTH, NO_WORTH_OF_ROWS = np.empty((2, 0)), np.empty((2, 0, 0))
MOST_WAITING = 0.2  # of all rewards, for others in their place to be compared with what is believed
METHODS = ("evidence", "known", "paper", "moments", "reml", "elsewhere")
NOT_KEPT = (
    "expected a reward whose row is still kept, got one that is not: of clicks and counts the last 40 rewards of a "
    "task and arm can be replaced; forget the task and learn it again from the log"
)


class Core:
    """Many hierarchical posteriors over one store. Whoever calls a method holds the lock.

    Parameters
    ----------
    n_arms, n_features : int
    family : RewardFamily
        Of the rewards.
    rule : Rule
        What turns beliefs into probabilities.
    method : {"evidence", "known", "paper", "moments", "reml", "elsewhere"}
        How the population is estimated; "known" never does, and "elsewhere" waits for :meth:`adopt`.
    start : Prior, optional
        The population until rewards say otherwise, or for good if the method is "known".
    growth : float, default 0.3
        The population is estimated when rewards have grown by this fraction.
    forgetting : Forgetting, optional
        Default: nothing is forgotten.
    n_task_features : int, default 0
    arm_features : ndarray of shape (n_arms, q), optional
        A row of NaN where nothing is known about an arm.
    task_groups, arm_groups : int ndarrays of shapes (n_task_features,) and (q,), optional
        The feature that a column of tasks or arms belongs to: how large effects are is learned by feature. Default:
        every column is one.
    robust : bool, default False
        Whether tasks that are unlike the others are drawn to the population less.
    """

    least_arm = 0
    """The least number in decisions that may still get a reward."""

    def __init__(
        self,
        n_arms: int,
        n_features: int,
        *,
        family: RewardFamily,
        rule: Rule,
        method: str = "evidence",
        start: Prior | None = None,
        growth: float = 0.3,
        forgetting: Forgetting | None = None,
        n_task_features: int = 0,
        arm_features: Array | None = None,
        task_groups: IntArray | None = None,
        arm_groups: IntArray | None = None,
        robust: bool = False,
        n_notes: int = 0,
    ) -> None:
        self.family, self.rule, self.method, self.growth, self.robust = family, rule, method, growth, robust
        self.forgetting: Forgetting = Never() if forgetting is None else forgetting
        self.start, d, p = start, n_features, n_task_features
        self._kind = Kind(family.code != NUMBER, self.forgetting.fades, self.forgetting.watches)
        rehearse(Core, self._kind)
        self._lock: threading.RLock | None = None
        self._running: Background | None = None
        self.problem: str | None = None
        """Which error keeps the population from being estimated, if one does."""
        self.version = 0
        """Counts estimates, and changes of which tasks and arms there are."""
        self.watching = True
        """Whether rewards are compared with what was believed, where the forgetting asks for that."""
        self.deferred = False
        """Whether what is noticed waits in :attr:`events` until somebody calls :meth:`apply`."""
        self.events: list[Event] = []
        self.keys: Keys | None = None
        """Returns a number of 64 bits for every task, evenly spread, by which some of very many tasks are chosen."""
        self.elsewhere: Elsewhere | None = None
        """What tasks of other cores say, since the population was estimated with them."""
        self.free_tasks: list[int] = []
        self.free_slots: list[int] = []
        features = np.zeros((n_arms, 0)) if arm_features is None else np.array(arm_features, dtype=np.float64)
        self._groups = np.arange(p), np.arange(features.shape[1])
        if task_groups is not None:
            self._groups = task_groups, self._groups[1]
        if arm_groups is not None:
            self._groups = self._groups[0], arm_groups
        self._rule, self._family, self._work = rule.parameters(), family.code, new_work(d, (1 + p) * d)
        self._buffers = decide.Buffers(*self._work[:3])
        self._one = np.zeros(1, dtype=np.int64)  # the slot of a reward: learning it takes no memory
        self._scratch, self._everyone = decide.new_scratch(n_arms), np.arange(n_arms)
        state = State(
            store=new_store(family.code, new_ageing(self.forgetting), n_arms, d, p, n_notes),
            population=self._first_population(n_arms, d),
            arm_features=features,
            silent=np.zeros(n_arms),
            numbers=np.zeros(N_NUMBERS),
        )
        self.state = with_posterior(state, learned=False)[0]

    def _first_population(self, n_arms: int, d: int) -> Population:
        """Return the population before any reward."""
        population = start_of(self._family, n_arms, d, *self._groups)
        return population if self.start is None else with_prior(population, self.start)

    @property
    def state(self) -> State:
        """All that was learned."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        n_arms = state.store.noise.size
        if n_arms != len(self._everyone):
            self._scratch, self._everyone = decide.new_scratch(n_arms), np.arange(n_arms)
        # What a call takes is put together here, once: that costs as much as a belief.
        self._deciding: Any = (
            *beliefs_of(state.store), *self._buffers, state.silent, self._rule, self._family, self._scratch,
        )  # fmt: skip
        self._learning: Any = *state.store, *self._work, state.numbers
        ageing = state.store.ageing  # events from elsewhere make a core age that forgets nothing by itself
        self._ages = bool(ageing[FADES] > 0.0 or ageing[AGE] > 0.0 or ageing[HALF_LIFE] < math.inf)
        self._state = state

    # Numbers.

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return int(self.state.store.noise.size)

    @property
    def n_features(self) -> int:
        """How many features a context has."""
        return int(self.state.store.prior.shape[2])

    @property
    def n_choices(self) -> int:
        """How many arms decisions may be on."""
        return self.n_arms

    @property
    def context_width(self) -> int:
        """How many columns the context of a receipt has."""
        return self.n_features

    @property
    def n_tasks(self) -> int:
        """How many numbers of tasks were ever in use."""
        return int(self.state.numbers[N_TASKS])

    @property
    def n_rewards(self) -> float:
        """How many rewards were learned, less what was forgotten or had been aged away at the last estimate."""
        return float(self.state.numbers[TOTAL])

    @property
    def experience(self) -> int:
        """How many rewards that is, as a whole number."""
        return int(self.state.numbers[TOTAL])

    @property
    def now(self) -> float:
        """The latest time of a reward."""
        return float(self.state.numbers[CLOCK])

    @property
    def behind(self) -> bool:
        """Whether rewards were added to sums only, and beliefs are not about them yet."""
        return bool(self.state.numbers[BEHIND])

    @property
    def fades(self) -> bool:
        """Whether old rewards count for less."""
        return self.forgetting.fades

    @property
    def half_life(self) -> float:
        """The half-life in force, in units of the clock; infinite if nothing fades by itself."""
        return self.forgetting.half_life

    @property
    def changes(self) -> list[Change]:
        """Changes that were noticed: when, and of which task, or of ALL_TASKS."""
        return self.forgetting.changes

    def count(self, now: float) -> float:
        """Return what all rewards count for at some time."""
        store, n_slots = self.state.store, int(self.state.numbers[N_SLOTS])
        return float(changes.count_now(store.pairs, store.ageing, n_slots, self.n_features, now))

    @property
    def _learns_arms(self) -> bool:
        """Whether the arms' common mean is learned: not under a prior that was given."""
        return self.start is None

    # Deciding reads only.

    def decide(
        self, task: int, x: Array, now: float, among: IntArray, step: int, explore: bool, uniform: float, out: Array,
        worth: Array | None = None,
    ) -> int:  # fmt: skip
        """Decide among some arms; return the position of the chosen one, or -1 if a belief is not finite.

        Parameters
        ----------
        task : int
            -1 is one never seen.
        x : ndarray of shape (n_features,)
        now : float
        among : int ndarray of shape (n,)
            Those that may be chosen.
        step : int
            Which decision it is, from 1.
        explore : bool
        uniform : float
            What the arm is drawn with, from 0 to 1.
        out : ndarray of shape (3, n)
            Written to: probability, and mean and standard deviation of the predictor, of each of ``among``.
        worth : ndarray of shape (2, n), optional
            Value and cost of each of ``among``, which are then compared by value x expected reward - cost. Default:
            by their predictors.
        """
        worth = NO_WORTH if worth is None else worth
        position: int = decide_one(*self._deciding, task, x, now, among, worth, step, explore, uniform, out)
        return position

    def decide_rows(
        self,
        tasks: IntArray,
        X: Array,
        now: float,
        mask: BoolArray,
        steps: tuple[int, int],
        explore: bool,
        uniforms: Array,
        *,
        advance: bool = True,
        worth: Array | None = None,
    ) -> tuple[IntArray, Array, Array, Array]:
        """Decide every row by what is believed now.

        Parameters
        ----------
        tasks : ndarray of shape (n_rows,)
            -1 for tasks never seen.
        X : ndarray of shape (n_rows, n_features)
        now : float
        mask : ndarray of shape (1, n_arms) or (n_rows, n_arms)
            Which arms may be chosen.
        steps : (int, int)
            The step of the first row by decisions, and the least of any row.
        explore : bool
        uniforms : ndarray of shape (n_rows,)
        advance : bool, default True
            False if every row is the next decision.
        worth : ndarray of shape (2, 1, n_arms) or (2, n_rows, n_arms), optional
            Value and cost by arm, as in :meth:`decide`.

        Returns
        -------
        chosen : ndarray of shape (n_rows,)
            Arms; negative where a belief is not finite.
        probabilities, mean, sd : ndarray of shape (n_rows, n_arms)
            Mean and standard deviation are those of predictors.
        """
        n, n_arms, state = len(tasks), mask.shape[1], self.state
        chosen = np.empty(n, dtype=np.int64)
        probabilities, mean, sd = (np.empty((n, n_arms)) for _ in range(3))
        order = np.argsort(tasks, kind="stable")  # what belongs to a task is fetched once
        given = (
            beliefs_of(state.store), state.silent, self._rule, self._family, order, tasks, X, now, mask,
            NO_WORTH_OF_ROWS if worth is None else worth, *steps, advance, explore, uniforms,
        )  # fmt: skip
        cuts = [0, n]
        if n >= MANY_ROWS and workers() > 1:
            # All rows of one task in one part, as the first makes the factor; but those never seen have none.
            in_order, even = tasks[order], np.linspace(0, n, 4 * workers() + 1).astype(np.int64)[1:-1]
            first = np.searchsorted(in_order, in_order[even])
            cuts = np.unique([0, *np.where(in_order[even] < 0, even, first), n]).tolist()
        spread_parts(
            [
                partial(decide.decide_rows, *given, first, last, chosen, probabilities, mean, sd)
                for first, last in pairwise(cuts)
            ]
        )
        return chosen, probabilities, mean, sd

    def predict(self, task: int, x: Array, now: float, among: IntArray, out: Array) -> bool:
        """Write mean and sd of the predictor of some arms to the two rows of ``out``; return whether all are finite."""
        beliefs = beliefs_of(self.state.store)
        return bool(decide.predict_arms(beliefs, self._buffers, task, x, now, among, out[0], out[1]))

    def show(self, mean: Array, sd: Array) -> None:
        """Turn mean and standard deviation of predictors into those of expected rewards, in place."""
        if self._family != NUMBER:
            decide.show_rewards(self._family, mean.reshape(-1), sd.reshape(-1))

    def coefficients(self, task: int, arm: int, now: float) -> tuple[Array, Array]:
        """Return mean and covariance of the coefficients of a pair; task -1 is one never seen."""
        d, store = self.n_features, self.state.store
        mean, covariance, slot = np.empty(d), np.empty((d, d)), int(store.slot[task, arm])
        share = remaining_of(store.pairs, slot, d, now, store.ageing)
        pair_posterior(store, self._work, slot, task, arm, share, mean, covariance)
        return mean, covariance

    # Tasks and arms.

    def reserve_tasks(self, count: int) -> list[int]:
        """Return numbers for new tasks, for which there is capacity then; nobody sees them before they are taken."""
        first, state = int(self.state.numbers[N_TASKS]), self.state
        numbers = self.free_tasks[: -count - 1 : -1] if count else []
        numbers += range(first, first + count - len(numbers))
        last = max(numbers, default=-1) + 1
        if last >= len(state.store.weight):
            size = max(last, 2 * len(state.store.weight))
            store = state.store
            names = ("slot", "known", "given", "weight")
            more: dict[str, Any] = {name: with_more_tasks(getattr(store, name), size) for name in names}
            self.state = state._replace(store=store._replace(**more))
        return numbers

    def take_tasks(self, numbers: Sequence[int], known: Array | None = None) -> None:
        """Take tasks that were reserved, and what is known about them: features of shape (n, n_task_features)."""
        taken, there = set(numbers), self.state.numbers
        if known is not None:
            self.know(np.asarray(numbers, dtype=np.int64), known, np.ones(len(taken), dtype=np.bool_))
        self.free_tasks = [task for task in self.free_tasks if task not in taken]
        there[N_TASKS] = max(there[N_TASKS], max(numbers, default=-1) + 1)

    def know(self, tasks: IntArray, known: Array, given: BoolArray) -> None:
        """Change what is known about tasks.

        Parameters
        ----------
        tasks : int ndarray of shape (n,)
        known : ndarray of shape (n, n_task_features)
        given : bool ndarray of shape (n,)
            False where nothing is known any more: then the average of those that are known counts.
        """
        self._touch_tasks(tasks)
        store, slots, given = self.state.store, self._slots_of(tasks), np.ascontiguousarray(given)
        rows = np.require(known, np.float64, ["C", "A", "W"])
        with defer_interrupts():
            tell_slots(store, self._work, slots, -1.0)
            changes.know_tasks(store.known, store.given, tasks, rows, given)
            tell_slots(store, self._work, slots, 1.0)

    def forget(self, tasks: IntArray) -> None:
        """Forget tasks, and the population that they helped to learn; :meth:`renew` or :meth:`ensure_fresh` follows."""
        state, gone = self.state, set(tasks.tolist())
        store, numbers, starts_anew = state.store, state.numbers, self.method != "known"
        slots, events = self._slots_of(tasks), [event for event in self.events if event.task not in gone]
        free = slots.tolist()
        if self.method != "known":
            state = state._replace(population=self._first_population(self.n_arms, self.n_features))
        self.drop_background()
        self.forgetting.forget(tasks)
        # From here on nothing can fail.
        before = max(self.n_rewards, 1.0)
        self.elsewhere = None
        with defer_interrupts():
            tell_slots(state.store, self._work, slots, -1.0)
            changes.empty_slots(store.slot, store.pairs, store.factors, store.owner, numbers, slots, self.n_features)
            if store.family != NUMBER:
                changes.empty_lists(store.row_ends, store.row_links, store.free_rows, store.plain, slots)
            changes.empty_tasks(store.known, store.given, store.weight, numbers, tasks, starts_anew)
            tell_slots(state.store, self._work, slots, 1.0)
            state.numbers[WAITING] *= state.numbers[TOTAL] / before  # about as many of them
            self._state, self.events = state, events
            self.free_slots += free
            self.free_tasks += tasks.tolist()
            self.version += 1

    def add_arm(self, features: Array | None = None, prior: Prior | None = None) -> int:
        """Return the number of a new arm, which starts like one of the population of arms, or under a prior."""
        state, n_arms = self.state, self.n_arms
        row = np.full(state.arm_features.shape[1], np.nan if features is None else features)
        slot = state.store.slot
        if slot.shape[1] == n_arms:
            slot = np.full((len(slot), 2 * n_arms), -1, dtype=np.int64)
            slot[:, :n_arms] = state.store.slot
        state = state._replace(store=state.store._replace(slot=slot))
        state = with_arm(state, row, self._first_population(1, self.n_features), prior)
        elsewhere = self.elsewhere
        if elsewhere is not None:
            told = np.concatenate([elsewhere.told, np.zeros((1, *elsewhere.told.shape[1:]))])
            elsewhere = elsewhere._replace(told=told)
        self.drop_background()
        self.state, self.elsewhere = state, elsewhere
        self.version += 1
        return n_arms

    # Learning: prepare may fail, the others cannot.

    def prepare(self, tasks: IntArray, arms: IntArray, *, sums_only: bool = False) -> None:
        """Give every pair a slot, and have capacity for as many rows; a slot without rewards is as good as none.

        With ``sums_only`` numbers are to be added to sums, see :meth:`learn_rows`.
        """
        if self.behind and not (sums_only and self._family == NUMBER):
            self.ensure_fresh()
        self._claim(tasks, arms)

    def prepare_one(self, task: int, arm: int) -> None:
        """Prepare for one reward."""
        state = self._state
        store = state.store
        if store.slot[task, arm] < 0 or (self._family != NUMBER and free_rows(store) < 1) or state.numbers[BEHIND]:
            self.prepare(np.array([task]), np.array([arm]))

    def _claim(self, tasks: IntArray, arms: IntArray) -> None:
        """Give every pair a slot, and have capacity for as many rows."""
        store, numbers = self.state.store, self.state.numbers
        missing = store.slot[tasks, arms] < 0
        n_arms, first = self.n_arms, int(numbers[N_SLOTS])
        pairs, first_rows = np.unique(tasks[missing] * n_arms + arms[missing], return_index=True)
        # In the order of their first rows, so that a table in parts gives the sums of the whole table to the bit.
        pairs = pairs[np.argsort(first_rows)]
        reused = min(pairs.size, len(self.free_slots))
        last = first + pairs.size - reused
        if last > len(store.owner) or last > len(store.pairs):
            store = with_more_slots(store, last)
        if self._family != NUMBER and free_rows(store) < len(tasks):
            store = with_more_rows(store, len(tasks))
        if store is not self.state.store:
            self.state = self.state._replace(store=store)
        if not pairs.size:
            return
        slots = np.concatenate([np.array(self.free_slots[::-1][:reused], dtype=np.int64), np.arange(first, last)])
        owners = pairs // n_arms, pairs % n_arms
        with defer_interrupts():
            changes.start_slots(store, slots, *owners, float(numbers[CLOCK]))
            del self.free_slots[len(self.free_slots) - reused :]
            numbers[N_SLOTS] = last

    def learn(
        self, task: int, arm: int, x: Array, reward: float, now: float, *, is_open: bool = False, offset: float = 0.0,
        spread: float = 0.0,
    ) -> Receipt:  # fmt: skip
        """Learn a reward; one that is open waits for another that takes its place.

        Of clicks and counts, ``offset`` and ``spread`` are mean and variance of what else adds to the predictor.
        """
        self.prepare_one(task, arm)
        if self.forgetting.watches and self.watching and not is_open:
            self._watch(task, arm, x, reward, now, None, offset, spread)
        if self._running is not None:
            self._running.touch(self._state.store, self._state.store.slot[task, arm])
        slot, row = self._state.store.slot[task, arm], -1
        if self._ages:  # sums that are of now say the same, whether the reward is learned or not
            now = max(now, self.now)  # a late one counts as if it had come just now, whatever else its pair has seen
            self._one[0] = slot
            self._age(self._one, now)
        if self._family == NUMBER:
            decay, serial = learn_number(*self._learning, slot, x, reward, 0.0, 1.0, 0.0, now)
        else:
            row, decay, serial = learn_linked(*self._learning, slot, x, reward, -1, 0.0, now, is_open, offset, spread)
        if is_open:
            self._state.numbers[WAITING] += 1.0
        return Receipt(task, arm, x, reward, decay, row, serial)

    def learn_rows(
        self,
        tasks: IntArray,
        arms: IntArray,
        contexts: Array,
        rewards: Array,
        times: Array | float,
        *,
        is_open: bool = False,
        estimate: bool = True,
        serials: IntArray | None = None,
    ) -> Receipts:
        """Learn rows in their order.

        ``serials`` are their numbers, greater than those of all before; :meth:`receipt_of` finds a kept row by it.
        Default: the next ones.

        With ``estimate`` the population is estimated in between wherever that is due. Without it numbers are added to
        their sums only, which is fast, and :meth:`ensure_fresh` is to follow.
        """
        ready = self.ready_rows(tasks, arms, contexts, rewards, times, is_open=is_open, estimate=estimate)
        return self.learn_ready(ready, serials)

    def ready_rows(
        self,
        tasks: IntArray,
        arms: IntArray,
        contexts: Array,
        rewards: Array,
        times: Array | float,
        *,
        is_open: bool = False,
        estimate: bool = True,
    ) -> ReadyRows:
        """Return rows for :meth:`learn_ready`, which cannot fail then; parameters are those of :meth:`learn_rows`."""
        n = rewards.size
        tasks, arms = (np.require(numbers, np.int64, ["C", "A", "W"]) for numbers in (tasks, arms))
        contexts, rewards = (np.require(array, np.float64, ["C", "A", "W"]) for array in (contexts, rewards))
        times = np.full(n, float(times)) if np.ndim(times) == 0 else np.require(times, np.float64, ["C", "A", "W"])
        if self._family == NUMBER and not estimate and not self._watches(is_open):
            self._claim(tasks, arms)
        else:
            self.prepare(tasks, arms)
        receipts = Receipts(np.zeros(n), np.full(n, -1, dtype=np.int64), np.arange(1, n + 1))
        return ReadyRows((tasks, arms, contexts, rewards, times), receipts, is_open, estimate)

    def _watches(self, is_open: bool) -> bool:
        """Return whether rewards are to be compared with what is believed as they come."""
        return self.forgetting.watches and self.watching and not is_open

    def learn_ready(self, ready: ReadyRows, serials: IntArray | None = None) -> Receipts:
        """Learn rows that are ready, as :meth:`learn_rows` does."""
        rows, receipts, is_open, estimate = ready
        decay, kept, _ = receipts
        before = int(self.state.numbers[SERIALS])
        receipts.serial[:] += before
        try:
            self._learn_in_parts(rows, decay, kept, before, is_open, estimate, self._watches(is_open))
        except BaseException:
            done = int(self.state.numbers[SERIALS]) - before
            if done == 0:
                raise
            rest: Any = tuple(column[done:] for column in rows)
            self._learn_some(rest, is_open, decay[done:], kept[done:])
            logger.exception("an estimate in the midst of a table failed; all its rewards are learned")
        # No function of this package is entered from here on: what is learned must not be followed by an error.
        state = self._state
        if is_open:
            state.numbers[WAITING] += decay.size
        if serials is None:
            return receipts
        there = kept >= 0
        there[there] = state.store.row_links[kept[there], SERIAL] == receipts.serial[there]
        state.store.row_links[kept[there], SERIAL] = serials[there]
        if serials.size:
            state.numbers[SERIALS] = max(state.numbers[SERIALS], serials[-1])
        return receipts._replace(serial=serials)

    def _learn_in_parts(
        self, rows: Rows, decay: Array, kept: IntArray, before: int, is_open: bool, estimate: bool, is_watching: bool
    ) -> None:
        """Learn rows up to where an estimate is due, estimate, and so on; the count of rewards says how many are."""
        n = decay.size
        while (first := int(self.state.numbers[SERIALS]) - before) < n:
            left = 1.0 if is_watching else self.until_due() if estimate else math.inf
            last = min(n, first + max(1, math.ceil(left))) if left < math.inf else n
            part = slice(first, last)
            some: Any = tuple(column[part] for column in rows)
            tasks, arms, contexts, rewards, times = some
            if is_watching:
                self._watch(int(tasks[0]), int(arms[0]), contexts[0], float(rewards[0]), float(times[0]), None)
            state = self.state
            store = state.store
            if self._running is not None:
                self._running.touch_all(store, store.slot[tasks, arms])
            if self._family == NUMBER and not is_watching and (not estimate or left <= last - first):
                self._add_rows(some, decay[part])
            else:
                self._learn_some(some, is_open, decay[part], kept[part])
            if estimate or is_watching:
                self.estimate_if_due()
                self.ensure_fresh()

    def _learn_some(self, rows: Rows, is_open: bool, decay: Array, kept: IntArray) -> None:
        """Learn rows one after another."""
        tasks, arms, contexts, rewards, times = rows
        slots, learning = self._state.store.slot[tasks, arms], self._learning
        with defer_interrupts():
            for n, (x, reward, now) in enumerate(zip(contexts, rewards.tolist(), times.tolist(), strict=True)):
                if self._ages:
                    now = max(now, self.now)
                    self._age(slots[n : n + 1], now)
                if self._family == NUMBER:
                    decay[n], _ = learn_number(*learning, slots[n], x, reward, 0.0, 1.0, 0.0, now)
                else:
                    kept[n], decay[n], _ = learn_linked(*learning, slots[n], x, reward, -1, 0.0, now, is_open, 0.0, 0.0)

    def _age(self, slots: IntArray, now: float, half_lives: float = 0.0) -> None:
        """Bring what was learned of some slots to the present, and make it older by some half-lives."""
        changes.fade_slots(self._state.store, self._work, slots, now, half_lives)

    def _slots_of(self, tasks: IntArray) -> IntArray:
        """Return the slots of some tasks."""
        slots: IntArray = self.state.store.slot[tasks, : self.n_arms].ravel()
        return slots[slots >= 0]

    def _watch(
        self, task: int, arm: int, x: Array, reward: float, now: float, site: tuple[float, float] | None,
        offset: float = 0.0, spread: float = 0.0,
    ) -> None:  # fmt: skip
        """Compare a reward with what is believed; a failure is logged, and the reward is learned all the same.

        ``site`` are precision and moment of the reward if it was learned already: then with what the others say.
        """
        try:
            before = self.believed(task, arm, x, now, site, offset, spread)
            event = None if before is None else self.forgetting.watch(now, task, arm, x, reward, before)
            if event is not None and not self.deferred:
                self.apply(event)
            elif event is not None and not (event.half_life and any(other.half_life for other in self.events)):
                self.events.append(event)
        except Exception:
            logger.exception("a reward could not be compared with what was believed; it is learned all the same")

    def believed(
        self, task: int, arm: int, x: Array, now: float, site: tuple[float, float] | None, offset: float = 0.0,
        spread: float = 0.0,
    ) -> Believed | None:  # fmt: skip
        """Return what is believed about a predictor, of a pair with or without one of its sites; None: not finite."""
        store, d, out = self.state.store, x.size, np.empty(4)
        decide.compare_one(beliefs_of(store), self._buffers, task, arm, x, now, out)
        if site is not None:
            left = 1.0 - out[1] ** 2 * site[0]
            if not left > ALL_KNOWN:
                return None
            out[0], out[1] = (out[0] - out[1] ** 2 * site[1]) / left, out[1] / math.sqrt(left)
        if not np.isfinite(out).all():
            return None
        centre = store.known[task] @ store.shared[arm, -1].reshape(-1, d)
        if spread > 0.0:
            out[::2] += offset
            out[1::2] = np.sqrt(out[1::2] ** 2 + spread)
        mean, sd, of_stranger, sd_of_stranger = out.tolist()
        return Believed(
            mean, sd, of_stranger, sd_of_stranger, centre, store.prior[arm, d + 1 :], float(store.noise[arm]),
            float(store.dispersion[arm]), offset, spread,
        )  # fmt: skip

    def apply(self, event: Event) -> None:
        """Let what was noticed here or elsewhere count; without task and half-life the task is not known here."""
        task, ageing = self.forgetting.apply(event), self.state.store.ageing
        if task is not None and task != ALL_TASKS:
            self._touch_tasks(np.array([task]))
            self._age(self._slots_of(np.array([task])), event.time, ANEW)
            return
        self.drop_background()
        jump = 0.0 if task is None else ANEW
        ageing = moved_on(ageing, event.time, self.half_life, jump)
        self.state = self.state._replace(store=self.state.store._replace(ageing=ageing))
        if task is not None:
            logger.warning("a change of all tasks was noticed; they start anew")
            self.state.numbers[AT_LAST] = min(self.state.numbers[AT_LAST], 1.0)  # the next estimate is due

    def _add_rows(self, rows: Rows, decay: Array) -> None:
        """Add rows to the sums of their pairs only, every pair's rows in their order."""
        (tasks, arms, *others), store, numbers, n = rows, self.state.store, self.state.numbers, decay.size
        if self._ages:
            others[-1] = np.maximum.accumulate(np.maximum(others[-1], numbers[CLOCK]))  # as each counts by itself
        slots = store.slot[tasks, arms]
        order, cuts, submit = np.arange(n), [0, n], None
        if n >= MANY_ROWS and workers() > 1:
            order, cuts = changes.parts_of(slots, int(numbers[N_SLOTS]), 4 * workers())
            submit = pool().submit
        given = store.pairs, store.factors, store.ageing, slots, order
        parts = [partial(add_rows, *given, *ends, *others, decay) for ends in pairwise(cuts)]
        latest = float(others[-1].max())
        with defer_interrupts():
            numbers[BEHIND] = 1.0
            # From here on nothing can fail: where no thread is to be had, parts are added here.
            running = []
            try:
                running += [submit(part) for part in parts] if submit is not None else []
            except BaseException:
                logger.debug("threads take no work any more")
            for place, part in enumerate(parts):
                if place >= len(running) or running[place].exception() is not None:
                    part()
            changes.count_news(numbers, n, n, latest)

    def replaceable(self, receipt: Receipt) -> bool:
        """Return whether the reward of a receipt can still be replaced."""
        store = self.state.store
        if store.slot[receipt.task, receipt.arm] < 0:
            return False
        if self._family == NUMBER:
            return True
        row = receipt.row
        return bool(0 <= row < len(store.row_links) and store.row_links[row, SERIAL] == receipt.serial)

    def replace(self, receipt: Receipt, reward: float, now: float) -> Receipt:
        """Put another reward in the place of one that was learned, and return its receipt.

        Raises
        ------
        LookupError
            If the row of a click or count is kept no more.
        """
        if not self.replaceable(receipt):
            raise LookupError(NOT_KEPT)
        if self.behind and self._family != NUMBER:
            self.ensure_fresh()
        task, arm, x, old, decay, row, _ = receipt
        state = self.state
        slot = state.store.slot[task, arm]
        if self._running is not None:
            self._running.touch(state.store, slot)
        if self.behind:
            changes.replace_in_sums(state.store, state.numbers, slot, x, old, reward, decay, now)
            return receipt._replace(reward=reward)
        now, self._one[0] = float(now), slot
        with defer_interrupts():
            if self._ages:
                self._age(self._one, now)
            if self._family == NUMBER:
                learn_number(*self._learning, slot, x, reward, old, 0.0, decay, now)
            else:
                learn_linked(*self._learning, slot, x, reward, row, decay, now, False, 0.0, 0.0)
                remake_slots(state.store, self._work, self._one)
        return receipt._replace(reward=reward)

    def touch(self, task: int, arm: int) -> None:
        """Note that rows of a pair are about to change."""
        if self._running is not None:
            self._running.touch(self._state.store, int(self._state.store.slot[task, arm]))

    def take_away(self, receipt: Receipt, now: float) -> None:
        """Have a number not count that was learned; there must be a slot, as :meth:`prepare` makes one."""
        self._move(receipt, now, -1.0, receipt.decay)

    def add_late(self, task: int, arm: int, x: Array, reward: float, age: float, now: float) -> float:
        """Learn a number of this age, with what would be left of it, and return its decay; there must be a slot."""
        return self._move(Receipt(task, arm, x, reward, 0.0, -1, -1), now, 1.0, age)

    def _move(self, receipt: Receipt, now: float, sign: float, back_then: float) -> float:
        self.ensure_fresh()
        self.touch(receipt.task, receipt.arm)
        state = self.state
        slot = state.store.slot[receipt.task, receipt.arm]
        decay: float = changes.move_number(
            state.store, self._work, state.numbers, slot, receipt.context, receipt.reward, sign, back_then, now
        )
        return decay

    def close(self, receipt: Receipt) -> None:
        """Note that no other reward will come in the place of this one, which was open."""
        store, (task, arm, x, reward, decay, row, _) = self.state.store, receipt
        if not self.replaceable(receipt) or (self._family != NUMBER and not store.row_links[row, OPEN]):
            return
        slot, numbers = int(store.slot[task, arm]), self.state.numbers
        waiting = max(numbers[WAITING] - 1.0, 0.0)
        # Where much of what is believed is of rewards that wait, others in their place are no change of the world.
        if self.forgetting.watches and self.watching and waiting <= MOST_WAITING * numbers[TOTAL]:
            weight = math.exp(store.pairs[slot, totals_at(x.size) + DECAY] - decay)
            site, rest = (weight / store.noise[arm], weight * reward / store.noise[arm]), (0.0, 0.0)
            if self._family != NUMBER:
                values = store.row_values[row]
                site = weight * values[PRECISION], weight * values[MOMENT]
                rest = float(values[OFFSET]), float(values[SPREAD])
            self._watch(task, arm, x, reward, self.now, site, *rest)
        if self._family != NUMBER:
            store = self.state.store
            if self._running is not None:
                self._running.touch(store, slot)
            changes.close_row(store.row_ends, store.row_links, store.free_rows, slot, receipt.row)
        self._state.numbers[WAITING] = waiting

    def open_receipt(self, task: int, arm: int, x: Array, reward: float) -> Receipt | None:
        """Return the receipt of the oldest open row of a pair with this context and reward, if there is one."""
        store = self.state.store
        slot = int(store.slot[task, arm])
        if slot < 0:
            return None
        if self._family == NUMBER:
            decay = float(store.pairs[slot, totals_at(x.size) + DECAY])
            return Receipt(task, arm, x, reward, decay, -1, -1)
        row = int(store.row_ends[slot, FIRST])
        while row >= 0:
            values, links = store.row_values[row], store.row_links[row]
            if links[OPEN] and values[REWARD] == reward and (store.row_context[row] == x).all():
                return Receipt(task, arm, x, reward, float(values[DECAY_AT]), row, int(links[SERIAL]))
            row = int(links[NEXT])
        return None

    def receipt_of(self, task: int, arm: int, serial: int) -> Receipt | None:
        """Return the receipt of a click or count by its serial, or None if its row is kept no more."""
        store = self.state.store
        slot = int(store.slot[task, arm])
        row = -1 if slot < 0 else int(store.row_ends[slot, FIRST])
        while row >= 0:
            values, links = store.row_values[row], store.row_links[row]
            if links[SERIAL] == serial:
                context = store.row_context[row].copy()
                return Receipt(task, arm, context, float(values[REWARD]), float(values[DECAY_AT]), row, serial)
            row = int(links[NEXT])
        return None

    def is_open(self, receipt: Receipt) -> bool:
        """Return whether a click or count waits for another reward in its place."""
        return self.replaceable(receipt) and bool(self.state.store.row_links[receipt.row, OPEN])

    # The population.

    def run_in_background(self, lock: threading.RLock | None) -> None:
        """Estimate the population beside the core from now on, under this lock of its owner; None ends that."""
        if lock is None:
            self.finish_background()
        else:
            rehearse(Core, self._kind._replace(background=True))
        self._lock = lock

    @property
    def refreshing(self) -> bool:
        """Whether the population is being estimated in the background."""
        return self._running is not None and self._running.is_running

    def refresh_later(
        self,
        *,
        steps: int = STEPS,
        settled: float = SETTLED,
        sample: int | None = None,
        keys: Keys | None = None,
        lock: threading.RLock | None = None,
    ) -> None:
        """Start an estimate in the background unless one is under way; the lock must be held.

        ``lock`` is that of the owner. Default: the one of :meth:`run_in_background`.
        """
        if self.refreshing:
            return
        lock = self._lock if lock is None else lock
        assert lock is not None
        try:
            rehearse(Core, self._kind._replace(background=True))
            running = Background(self, lock, steps, settled, sample, self.keys if keys is None else keys)
            running.start()
            self._running = running
        except Exception as error:  # no memory, no thread
            self.postpone(error)
            logger.exception("a refresh in the background could not be started; the population stays as it is")

    def finish_background(self) -> None:
        """Wait for an estimate that is under way; the lock must be held."""
        if self._running is not None:
            self._running.wait()
            self._running = None

    def drop_background(self) -> None:
        """Have an estimate that is under way come to nothing."""
        if self._running is not None:
            self._running.dropped = True
            self._running = None

    def background_ended(self, running: Background) -> None:
        """Note that an estimate has ended; called by itself."""
        if self._running is running:
            self._running = None

    def estimated_on_copy(
        self, state: State, steps: int, settled: float, sample: int | None, keys: Keys | None
    ) -> State:
        """Return the state with its population estimated; its arrays are changed."""
        return estimated_in_place(
            state, learned=self._learns_arms, method=self.method, robust=self.robust, steps=steps, settled=settled,
            sample=sample, keys=keys,
        )  # fmt: skip

    def install(self, state: State) -> None:
        """Put an estimated state in place."""
        self.state, self.problem = state, None
        self.version += 1

    def _touch_tasks(self, tasks: IntArray) -> None:
        """Note that the pairs of some tasks are about to change."""
        if self._running is not None:
            self._running.touch_all(self.state.store, self._slots_of(tasks))

    def until_due(self) -> float:
        """Return after how many rewards the population is to be estimated."""
        numbers = self.state.numbers
        if self.method == "elsewhere" or (self.method == "known" and not self.fades):
            return math.inf
        return max(max(1.0, self.growth * float(numbers[AT_LAST])), float(numbers[RETRY_AT])) - float(numbers[NEWS])

    def due(self, extra: float = 0.0, provisional: bool = False) -> bool:
        """Return whether the population is to be estimated, or would be after ``extra`` further rewards.

        Decisions that count as absent until their reward comes (``provisional``) only bring an estimate when they are
        many beside those before.
        """
        left = self.until_due()
        del provisional
        return left <= extra

    def estimate(
        self,
        *,
        steps: int = FIT_STEPS,
        settled: float = FIT_SETTLED,
        sample: int | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Estimate the population now; raise what keeps it from that, and then all is as it was.

        Parameters
        ----------
        steps : int
            At most.
        settled : float
            The estimate ends when nothing moved by more.
        sample : int, optional
            Of about how many tasks of every arm; default: of all.
        keys : callable, optional
            Returns a number of 64 bits for every task, by which some of very many tasks are chosen.
        """
        self.drop_background()
        if self.method == "elsewhere":
            self._bring_up_to_date()
            return
        self.install(
            estimated(
                self.state, learned=self._learns_arms, method=self.method, robust=self.robust, steps=steps,
                settled=settled, sample=sample, keys=self.keys if keys is None else keys,
            )
        )  # fmt: skip

    def estimate_from(self, pairs: Pairs, *, steps: int, settled: float, sample: int | None = None) -> None:
        """Estimate the population from pairs of other cores; this one has none. Without steps it stays as it is."""
        self.install(estimated_from(self.state, pairs, steps=steps, settled=settled, sample=sample))

    def pairs(self, now: float) -> Pairs:
        """Return the pairs that have rewards, as of some time; they are to be read before anything else is learned."""
        store, used = self.state.store, int(self.state.numbers[N_SLOTS])
        if self.fades:
            pairs = copied(store.pairs, used)
            changes.age_pairs(pairs[:used], self.n_features, now, store.ageing)
            store = store._replace(pairs=pairs)
        return Pairs.of(store, used)

    def remake(
        self, place: IntArray, now: Array, average: Array, noise: Array, dispersion: Array, prior: Array, rest: Array
    ) -> Array:
        """Make sites of an arm again under the population of other cores; return what its pairs tell it now.

        Parameters
        ----------
        place : int ndarray
            The arm, and as ``Pairs.remake`` takes them ``passes`` and ``turns``.
        now : ndarray of shape (1,)
            The time as of which rewards count.
        average : ndarray of shape (1 + p,)
            Known features of tasks about which nothing is known.
        noise, dispersion, prior : ndarrays
            Of all arms, the first two; of this one.
        rest : ndarray of shape (D + 1, D)
            What the arm was told by all others, and its prior.
        """
        (arm, passes, turns), numbers = place.tolist(), self.state.numbers
        numbers[CLOCK], numbers[BEHIND] = max(numbers[CLOCK], float(now[0])), 1.0  # its own messages are no more right
        mine, age = self.state.store, age_at(float(numbers[CLOCK]), self.state.store.ageing)
        age_all(mine.pairs, mine.factors, int(numbers[N_SLOTS]), self.n_features, age)
        self.state = self.state._replace(store=mine._replace(summed_at=np.array([age])))
        self.version += 1
        store = mine._replace(
            generation=generations(noise.size), noise=noise, dispersion=dispersion, prior=mine.prior.copy(),
            told=mine.told.copy(), shared=mine.shared.copy(), known=np.where(mine.given[:, None], mine.known, average),
        )  # fmt: skip
        store.prior[arm] = prior
        pairs = Pairs.of(store, int(numbers[N_SLOTS])).only(arm)
        precision, moment = pairs.messages(noise, store.prior, store.known, store.weight)
        own = np.concatenate([precision[arm], moment[arm, None]])
        store.told[arm] = rest + own
        finish_arm(store.told, store.shared, arm, new_work(pairs.d, rest.shape[1]))
        return own + pairs.remake(store, arm, passes, turns)

    def renew(
        self,
        *,
        steps: int = FIT_STEPS,
        settled: float = FIT_SETTLED,
        sample: int | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Estimate the population as :meth:`estimate` does; a failure is logged, and the next one is due later."""
        try:
            self.estimate(steps=steps, settled=settled, sample=sample, keys=keys)
        except Exception as error:
            self.postpone(error)
            logger.exception(
                "the population could not be estimated and stays as it is until more rewards have come; all rewards so "
                "far are learned"
            )

    def estimate_if_due(self, *, provisional: bool = False, keys: Keys | None = None) -> None:
        """Estimate the population if that is due, by a few steps, or start it in the background."""
        if not self.due(provisional=provisional):
            return
        if self.estimates_beside:
            self.refresh_later(keys=keys)
        else:
            self.renew(steps=STEPS, settled=SETTLED, keys=keys)

    @property
    def estimates_beside(self) -> bool:
        """Whether the next estimate is made in the background."""
        return self._lock is not None and self.method == "evidence" and not self.behind

    def postpone(self, error: BaseException) -> None:
        """Note that an estimate failed: the next one is due after twice as many further rewards as the last time."""
        numbers = self.state.numbers
        numbers[FAILURES] += 1.0
        numbers[RETRY_AT] = numbers[NEWS] + min(2.0 ** numbers[FAILURES], max(2.0, self.n_rewards))
        self.problem = f"{type(error).__name__}: {error}"

    def ensure_fresh(self) -> None:
        """Make sure that what is believed is about all that was learned."""
        if not self.behind:
            return
        if self.due():
            self.renew()
        if self.behind:  # still: nothing was due, or the estimate failed
            self._bring_up_to_date()

    def _bring_up_to_date(self) -> None:
        """Compute what follows from all sums under the population in force."""
        state = with_posterior(self.state, learned=False, elsewhere=self.elsewhere)[0]
        numbers = state.numbers.copy()
        numbers[BEHIND] = 0.0
        self.state = state._replace(numbers=numbers)

    # The population as others see it.

    @property
    def estimated_at(self) -> float:
        """How many rewards there were at the last estimate."""
        return float(self.state.numbers[AT_LAST])

    def population(self) -> dict[str, Array]:
        """Return the population as arrays of finite numbers, for another core that has the same arms."""
        return all_finite({name: np.array(array) for name, array in self.state.population._asdict().items()})

    def adopt(self, population: Mapping[str, Any], elsewhere: Elsewhere | None = None, now: float = 0.0) -> bool:
        """Take over the population of another core; return False if it is of other arms.

        ``elsewhere`` is what tasks of others say at the time ``now``, if it was estimated with them.

        Raises
        ------
        ValueError
            If the arrays are not those of a population.
        """
        mine, theirs = self.state.population._asdict(), with_others(population)
        for name, array in mine.items():
            there = theirs.get(name)
            require(there is not None and there.dtype == array.dtype and there.ndim == array.ndim, f"an array {name}")
        if theirs["noise"].shape != mine["noise"].shape:
            return False
        for name, array in mine.items():
            require(theirs[name].shape == array.shape, f"an array {name} of shape {array.shape}")
        require((theirs["noise"] > 0).all() and np.isfinite(theirs["noise"]).all(), "positive noise variances")
        require(np.isfinite(theirs["covariance"]).all(), "finite covariances")
        adopted = Population(**{name: np.array(theirs[name]) for name in mine})
        numbers, silent = self.state.numbers.copy(), np.zeros(self.n_arms)
        numbers[CLOCK] = max(numbers[CLOCK], now)
        if self.fades:
            numbers[TOTAL] = self.count(float(numbers[CLOCK]))
        numbers[AT_LAST], numbers[BEHIND] = adopted.at_last[0], 0.0
        numbers[NEWS] = max(numbers[TOTAL] - numbers[AT_LAST], 0.0)
        set_silent(adopted.summaries, silent)
        state = self.state._replace(population=adopted, numbers=numbers, silent=silent)
        self.drop_background()
        state = checked(with_posterior(state, learned=False, elsewhere=elsewhere)[0])
        with defer_interrupts():
            self.elsewhere = elsewhere
            self.install(state)
        return True

    # Looking.

    @property
    def prior(self) -> Prior:
        """The population as a prior of every arm."""
        population = self.state.population
        return Prior(
            covariance=population.covariance,
            noise_variance=population.noise,
            shared_precision=population.prior_precision,
            shared_location=population.prior_location,
        )

    def sums(self, tasks: IntArray | None = None, now: float | None = None) -> Sums:
        """Return sums of pairs, aged to ``now`` or as of when each pair was last aged."""
        return sums_of(self.state, tasks, now)

    def plain_sums(self, tasks: IntArray | None = None) -> PlainSums:
        """Return sums of contexts and rewards of clicks or counts as they came."""
        return plain_sums_of(self.state, tasks)

    def merge(
        self,
        other: Core,
        tasks: IntArray,
        arms: IntArray,
        now: float,
        receipts: Receipts | None = None,
        of_pairs: tuple[IntArray, IntArray] | None = None,
        contexts: Array | None = None,
    ) -> Receipts | None:
        """Add sums and kept rows of another core; :meth:`ensure_fresh` is to follow.

        Parameters
        ----------
        other : Core
            Of the same family and features, and with the same forgetting.
        tasks, arms : int ndarray
            The numbers here of the other's tasks and arms; -1 for those that do not join.
        now : float
            Both are aged to this time.
        receipts : Receipts, optional
            Of the other's rewards that may still be replaced.
        of_pairs : tuple of int ndarray
            The other's tasks and arms of these receipts.
        contexts : ndarray, optional
            Of these receipts; a core whose receipts depend on itself changes them to be right here.

        Returns
        -------
        Receipts or None
            As they are here; a row of -1 is kept no more.
        """
        del contexts
        theirs = other.state
        slots = slots_of(theirs, None)
        owner = theirs.store.owner[slots]
        joins = (tasks[owner[:, 0]] >= 0) & (arms[owner[:, 1]] >= 0)
        slots, owner = slots[joins], owner[joins]
        my_tasks, my_arms = tasks[owner[:, 0]], arms[owner[:, 1]]
        self.drop_background()
        self._claim(my_tasks, my_arms)
        if self._family != NUMBER and free_rows(self.state.store) < len(theirs.store.row_links):
            self.state = self.state._replace(store=with_more_rows(self.state.store, len(theirs.store.row_links)))
        state = self.state
        there = np.zeros(0, dtype=np.int64)
        given = Receipts(np.zeros(0), there, there) if receipts is None else receipts
        if of_pairs is not None:
            is_here = (tasks[of_pairs[0]] >= 0) & (arms[of_pairs[1]] >= 0)
            there = np.where(is_here, theirs.store.slot[of_pairs], -1)
        result = Receipts(given.decay.copy(), given.row.copy(), given.serial.copy())
        mine = np.ascontiguousarray(state.store.slot[my_tasks, my_arms])
        places, decays = np.full(len(theirs.store.row_links), -1), np.zeros(len(theirs.store.owner))
        merge_slots(
            state.store,
            theirs.store,
            slots,
            mine,
            now,
            places,
            decays,
            state.numbers,
            theirs.numbers,
            there,
            result.decay,
            result.row,
            result.serial,
        )
        state.numbers[WAITING] += theirs.numbers[WAITING]
        self.version += 1
        return None if receipts is None else result

    def snapshot(self) -> dict[str, Any]:
        """Return all that was learned as plain arrays."""
        return saved_state(self.state) | {
            "free_slots": np.array(self.free_slots, dtype=np.int64),
            "free_tasks": np.array(self.free_tasks, dtype=np.int64),
            **{f"forgetting.{name}": array for name, array in self.forgetting.state().items()},
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue where a snapshot was taken; settings are those of this core."""
        state = restored(self.state, saved)
        free_slots, free_tasks = saved["free_slots"].tolist(), saved["free_tasks"].tolist()
        self.forgetting.restore({name[11:]: saved[name] for name in saved if name.startswith("forgetting.")})
        self.state, self.free_slots, self.free_tasks = state, free_slots, free_tasks
        self.version += 1


__all__ = ["METHODS", "Core", "Receipt", "Receipts", "State"]
