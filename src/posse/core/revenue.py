r"""Revenue: two cores over the same tasks and arms, one expectation.

*Purchases* are clicks, 1 where a reward is above 0, learned from every reward. *Amounts* are numbers, the logarithms of
the rewards above 0, learned from those alone. Each has a population, a forgetting and a schedule of its own; tasks and
arms have the same numbers in both. What both say of the expected revenue is one Gaussian law of its logarithm
(:mod:`posse.families.revenue`), and the rule decides by that.

Who buys more often may pay more, too, and amounts are seen of those who buy. So an amount has one feature more than a
purchase: what is believed of the logit, once the purchase is learned. Pairs that nobody has bought from yet are then no
longer taken for such that buyers like. The logits of kept rows are brought up to date before every estimate that is not
made in the background.

Logarithms of amounts are counted from that of the first amount, the *unit*: so nothing depends on the currency, and
early sums are as small as amounts differ.

A purchase that is kept notes its amount, the decay of the amount's pair, and its own age: so an amount can be replaced,
taken away or added later as exactly as a number can.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from posse.core.compiler import compiled
from posse.core.core import NO_WORTH, NO_WORTH_OF_ROWS, NOT_KEPT, Core
from posse.core.decide import Buffers, predict_arms, predict_slot, show_rewards
from posse.core.estimate import FIT_SETTLED, FIT_STEPS
from posse.core.forgetting import AGE, HALF_LIFE, SINCE, Event
from posse.core.pair import new_work, touch
from posse.core.propensity import score_columns
from posse.core.rehearsal import rehearse_revenue
from posse.core.rule import action_probabilities, pick, rule_of
from posse.core.state import BEHIND, CLOCK, N_SLOTS, SERIALS, TOTAL, ReadyRows, Receipt, Receipts
from posse.core.store import (
    COUNT,
    DECAY,
    FIRST,
    N_VALUES,
    NEXT,
    OPEN,
    SERIAL,
    SQUARES,
    Beliefs,
    Store,
    beliefs_of,
    n_triangle,
    totals_at,
)
from posse.families import FAMILIES
from posse.families.count import LARGEST_EXPONENT
from posse.families.revenue import log_revenue
from posse.interrupts import finish
from posse.threads import MANY_ROWS, spread_parts, workers

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from posse.core.contents import PlainSums, Sums
    from posse.core.forgetting import Forgetting
    from posse.core.noticing import Change
    from posse.core.rule import Rule
    from posse.core.sums import Keys
    from posse.families import RewardFamily
    from posse.model.prior import Prior
    from posse.types import Array, BoolArray, IntArray

# Notes of a purchase that is kept: its amount, the logarithm of that as it was learned, the decay of the amount's pair
# back then, its age, and its logit.
AMOUNT, LOGARITHM, AMOUNT_DECAY, ROW_AGE, LOGIT = range(N_VALUES, N_VALUES + 5)
N_NOTES = 5
LOG_LINK = FAMILIES["count"].code
UNKNOWN_SD = 1.0  # of the mean logarithm of amounts before the first one
MOST_SD = 1.5  # of it ever: while few have paid, their population knows less than anybody does

# The constants were chosen on seeds from 1000 on, see docs/revenue.md.


@compiled
def predict_revenue(
    beliefs: Beliefs, amounts: Beliefs, work: Buffers, work_2: Buffers, x_2: Array, same: float, task: int, x: Array,
    now: float, among: IntArray, mean: Array, sd: Array, scores: Array, widths: Array,
) -> bool:  # fmt: skip
    """Write mean and sd of the logarithm of some arms' expected revenue; return whether all are finite.

    Logarithms are counted from the unit; ``same`` is how well their mean is known while all amounts were the same so
    far, else it is NaN. ``x_2`` is a buffer. In ``scores`` and ``widths`` stand mean and sd of the law that has the
    moments of the revenue itself.
    """
    finite, d = predict_arms(beliefs, work, task, x, now, among, mean, sd), x.shape[0]
    x_2[:d] = x
    for n in range(among.shape[0]):
        arm, level, width, slope, noise = among[n], 0.0, same, 0.0, 0.0
        if math.isnan(same):
            x_2[d] = mean[n]
            level, width = predict_slot(amounts, work_2, amounts.slot[task, arm], arm, task, x_2, now)
            slope, noise = amounts.shared[arm, amounts.shared.shape[2], d], amounts.noise[arm]
        mean[n], sd[n], scores[n], widths[n] = log_revenue(mean[n], sd[n], level, min(width, MOST_SD), slope, noise)
        finite = finite and abs(mean[n]) + sd[n] < math.inf
    return finite


@compiled
def decide_arms(
    beliefs: Beliefs, amounts: Beliefs, work: Buffers, work_2: Buffers, x_2: Array, same: float, silent: Array,
    rule: Array, task: int, x: Array, now: float, among: IntArray, worth: Array, level: float, step: int, explore: bool,
    uniform: float, scratch: Array, probabilities: Array, mean: Array, sd: Array,
) -> int:  # fmt: skip
    """Write probability, and mean and sd of the logarithm, of some arms; return the position of the one that is drawn.

    It is -1 if a belief is not finite. ``worth`` has value and cost of each of these arms, which are then compared by
    money; it may be empty. ``level`` is the logarithm of the unit. While that is NaN, nothing says how large amounts
    are beside costs: these do not count yet, else an arm that costs more than 1 might never be tried.
    """
    n, is_paid = among.shape[0], not math.isnan(level)
    kept, scores, widths = scratch[5, :n], scratch[6, :n], scratch[7, :n]
    if not predict_revenue(beliefs, amounts, work, work_2, x_2, same, task, x, now, among, mean, sd, scores, widths):
        return -1
    for i in range(n):
        kept[i] = silent[among[i]]
        if worth.shape[1] > 0:
            square = widths[i] * widths[i]
            exponent = scores[i] + 0.5 * square + (level if is_paid else 0.0)
            revenue = worth[0, i] * math.exp(min(exponent, LARGEST_EXPONENT))
            widths[i] = revenue * math.sqrt(math.expm1(min(square, LARGEST_EXPONENT)))
            scores[i] = revenue - (worth[1, i] if is_paid else 0.0)
        elif not explore:
            scores[i] += 0.5 * widths[i] * widths[i]  # the mean itself
    action_probabilities(scores, widths, kept, step, rule_of(rule), explore, scratch, probabilities)
    return pick(probabilities, uniform)


@compiled
def new_rows(n_arms: int) -> Array:
    """Return buffers for deciding among this many arms."""
    return np.empty((8, score_columns(n_arms)))


@compiled
def decide_one(
    ageing: Array, slot: IntArray, pairs: Array, factors: Array, known: Array, given: BoolArray, weight: Array,
    generation: Array, noise: Array, prior: Array, shared: Array, apart: Array, ageing_2: Array, slot_2: IntArray,
    pairs_2: Array, factors_2: Array, known_2: Array, given_2: BoolArray, weight_2: Array, generation_2: Array,
    noise_2: Array, prior_2: Array, shared_2: Array, apart_2: Array, factor: Array, solved: Array, direction: Array,
    factor_2: Array, solved_2: Array, direction_2: Array, x_2: Array, same: float, silent: Array, rule: Array,
    scratch: Array, task: int, x: Array, now: float, among: IntArray, worth: Array, level: float, step: int,
    explore: bool, uniform: float, out: Array,
) -> int:  # fmt: skip
    """Decide one context as :func:`posse.core.decide.decide_one` does."""
    beliefs = Beliefs(ageing, slot, pairs, factors, known, given, weight, generation, noise, prior, shared, apart)
    amounts = Beliefs(
        ageing_2, slot_2, pairs_2, factors_2, known_2, given_2, weight_2, generation_2, noise_2, prior_2, shared_2,
        apart_2,
    )  # fmt: skip
    work, work_2 = Buffers(factor, solved, direction), Buffers(factor_2, solved_2, direction_2)
    return decide_arms(
        beliefs, amounts, work, work_2, x_2, same, silent, rule, task, x, now, among, worth, level, step, explore,
        uniform, scratch, out[0], out[1], out[2],
    )  # fmt: skip


@compiled
def decide_rows(
    beliefs: Beliefs, amounts: Beliefs, same: float, silent: Array, rule: Array, order: IntArray, tasks: IntArray,
    contexts: Array, now: float, mask: BoolArray, worth: Array, level: float, first_step: int, least_step: int,
    advance: bool, explore: bool, uniforms: Array, first: int, last: int, chosen: IntArray, probabilities: Array,
    mean: Array, sd: Array,
) -> None:  # fmt: skip
    """Decide the rows from ``first`` to ``last`` of an order, as :func:`posse.core.decide.decide_rows` does."""
    n_arms, d = mask.shape[1], contexts.shape[1]
    work = Buffers(np.empty((1, n_triangle(d))), np.empty(d), np.empty(beliefs.shared.shape[2]))
    work_2 = Buffers(np.empty((1, n_triangle(d + 1))), np.empty(d + 1), np.empty(amounts.shared.shape[2]))
    scratch, x_2 = new_rows(n_arms), np.empty(d + 1)
    among, out = np.empty(n_arms, np.int64), np.empty((3, n_arms))
    valued = worth.shape[1] > 0
    prices = np.empty((2, n_arms if valued else 0))
    for place in range(first, last):
        row, n = order[place], 0
        eligible = mask[row if mask.shape[0] > 1 else 0]
        for arm in range(n_arms):
            probabilities[row, arm], mean[row, arm], sd[row, arm] = 0.0, math.nan, math.nan
            if eligible[arm]:
                among[n] = arm
                if valued:
                    at = row if worth.shape[1] > 1 else 0
                    prices[0, n], prices[1, n] = worth[0, at, arm], worth[1, at, arm]
                n += 1
        step = max(first_step + (row if advance else 0), least_step)
        position = decide_arms(
            beliefs, amounts, work, work_2, x_2, same, silent, rule, tasks[row], contexts[row], now, among[:n],
            prices[:, : n if valued else 0], level, step, explore, uniforms[row], scratch, out[0, :n], out[1, :n],
            out[2, :n],
        )  # fmt: skip
        chosen[row] = among[position] if position >= 0 else -1
        for i in range(n if position >= 0 else 0):
            arm = among[i]
            probabilities[row, arm], mean[row, arm], sd[row, arm] = out[0, i], out[1, i], out[2, i]


@compiled
def remake_logits(store: Store, amounts: Store, work: Buffers, n_slots: int, now: float) -> None:
    """Put what is believed of logits now in the place of what was believed, in all amounts whose rows are kept."""
    d = store.prior.shape[2]
    beliefs = Beliefs(
        store.ageing, store.slot, store.pairs, store.factors, store.known, store.given, store.weight, store.generation,
        store.noise, store.prior, store.shared, store.apart,
    )  # fmt: skip
    for slot in range(n_slots):
        task, arm = store.owner[slot, 0], store.owner[slot, 1]
        row = store.row_ends[slot, FIRST] if task >= 0 else -1
        while row >= 0:
            x, notes = store.row_context[row], store.row_values[row]
            if notes[AMOUNT] > 0.0:
                place = amounts.slot[task, arm]
                pair = amounts.pairs[place]
                weight = math.exp(pair[totals_at(d + 1) + DECAY] - notes[AMOUNT_DECAY])
                logit, _ = predict_slot(beliefs, work, slot, arm, task, x, now)
                more, at = logit - notes[LOGIT], d
                for i in range(d):  # beside the last column stands every feature's sum with it
                    pair[at] += weight * more * x[i]
                    at += d - i
                pair[at] += weight * more * (logit + notes[LOGIT])
                pair[n_triangle(d + 1) + d] += weight * more * notes[LOGARITHM]
                notes[LOGIT] = logit
                touch(amounts.factors, place)
            row = store.row_links[row, NEXT]


class ReadyRevenue(NamedTuple):
    """Rows for which all is there that learning them takes, in both parts."""

    purchases: ReadyRows
    rewards: Array
    unit: float


class Revenue:
    """Purchases and amounts as one core; methods that are not described here are those of :class:`Core`.

    Parameters
    ----------
    n_arms, n_features : int
    family : RewardFamily
        Of the rewards.
    rule : Rule
    growth : float, default 0.3
    forgetting : (Forgetting, Forgetting), optional
        Of purchases and amounts. Default: nothing is forgotten.
    **known
        ``n_task_features``, ``arm_features`` and groups, as of :class:`Core`.

    Attributes
    ----------
    purchases, amounts : Core
    unit : float
        The logarithm of the first amount; NaN before it.
    """

    least_arm = 0

    def __init__(
        self,
        n_arms: int,
        n_features: int,
        *,
        family: RewardFamily,
        rule: Rule,
        growth: float = 0.3,
        forgetting: tuple[Forgetting, Forgetting] | None = None,
        **known: Any,
    ) -> None:
        rehearse_revenue(Revenue)
        self.family, self.rule = family, rule
        forgets = (None, None) if forgetting is None else forgetting
        self.purchases = Core(
            n_arms, n_features, family=FAMILIES["binary"], rule=rule, growth=growth, forgetting=forgets[0],
            n_notes=N_NOTES, **known,
        )  # fmt: skip
        self.amounts = Core(
            n_arms, n_features + 1, family=FAMILIES["number"], rule=rule, growth=growth, forgetting=forgets[1], **known
        )
        self.unit = math.nan
        self._seen: Any = None, None, True
        self._deciding: Any = ()
        self._differs = False  # whether there was an amount that is not the unit
        self.start: Prior | None = None
        self.deferred = False
        self.events: list[Event] = []
        for part in self.parts:
            part.deferred = True  # a change that one of them notices is one of both
        widths = [part.state.store.shared.shape[2] for part in self.parts]
        self._buffers: Any = (
            *new_work(n_features, widths[0])[:3], *new_work(n_features + 1, widths[1])[:3], np.empty(n_features + 1),
        )  # fmt: skip
        self._context = np.empty(n_features + 1)  # of an amount: learning it takes no memory
        self._watches = self.purchases.forgetting.watches
        self._rule, self._scratch = rule.parameters(), new_rows(n_arms)

    @property
    def parts(self) -> tuple[Core, Core]:
        """Purchases and amounts."""
        return self.purchases, self.amounts

    # Settings that both have.

    @property
    def method(self) -> str:
        """How populations are estimated."""
        return self.purchases.method

    @method.setter
    def method(self, value: str) -> None:
        for part in self.parts:
            part.method = value

    @property
    def growth(self) -> float:
        """The populations are estimated when their rewards have grown by this fraction."""
        return self.purchases.growth

    @growth.setter
    def growth(self, value: float) -> None:
        for part in self.parts:
            part.growth = value

    @property
    def watching(self) -> bool:
        """Whether rewards are compared with what was believed."""
        return self.purchases.watching

    @watching.setter
    def watching(self, value: bool) -> None:
        for part in self.parts:
            part.watching = value

    @property
    def keys(self) -> Keys | None:
        """Returns a number for every task."""
        return self.purchases.keys

    @keys.setter
    def keys(self, value: Keys | None) -> None:
        for part in self.parts:
            part.keys = value

    @property
    def elsewhere(self) -> None:
        """What tasks of other cores say: revenue has no such."""
        return None

    @elsewhere.setter
    def elsewhere(self, value: None) -> None:
        assert value is None

    # Numbers: those of purchases, which are of all rewards.

    @property
    def forgetting(self) -> Forgetting:
        """How purchases are forgotten."""
        return self.purchases.forgetting

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self.purchases.n_arms

    @property
    def n_choices(self) -> int:
        """How many arms decisions may be on."""
        return self.n_arms

    @property
    def n_features(self) -> int:
        """How many features a context has."""
        return self.purchases.n_features

    @property
    def context_width(self) -> int:
        """How many columns the context of a receipt has."""
        return self.n_features

    @property
    def n_tasks(self) -> int:
        """How many numbers of tasks were ever in use."""
        return self.purchases.n_tasks

    @property
    def n_rewards(self) -> float:
        """How many rewards were learned."""
        return self.purchases.n_rewards

    @property
    def experience(self) -> int:
        """How many rewards that is, as a whole number."""
        return self.purchases.experience

    @property
    def now(self) -> float:
        """The latest time of a reward."""
        return self.purchases.now

    @property
    def behind(self) -> bool:
        """Whether beliefs are not yet about all sums."""
        return any(part.behind for part in self.parts)

    @property
    def fades(self) -> bool:
        """Whether old rewards count for less."""
        return self.purchases.fades

    @property
    def half_life(self) -> float:
        """The half-life of purchases."""
        return self.purchases.half_life

    @property
    def changes(self) -> list[Change]:
        """Changes that were noticed."""
        return self.purchases.changes

    @property
    def problem(self) -> str | None:
        """Which error keeps a population from being estimated."""
        return self.purchases.problem or self.amounts.problem

    @property
    def version(self) -> int:
        """Counts estimates, and changes of which tasks and arms there are."""
        return self.purchases.version + self.amounts.version

    @property
    def estimated_at(self) -> float:
        """How many rewards there were at the last estimate."""
        return self.purchases.estimated_at

    @property
    def prior(self) -> Prior:
        """The population of purchases."""
        return self.purchases.prior

    def count(self, now: float) -> float:
        """Return what all rewards count for."""
        return self.purchases.count(now)

    # Deciding.

    @property
    def _is_paid(self) -> bool:
        """Whether any amount was learned."""
        return bool(self.amounts.state.numbers[TOTAL] > 0.0)

    def decide(
        self,
        task: int,
        x: Array,
        now: float,
        among: IntArray,
        step: int,
        explore: bool,
        uniform: float,
        out: Array,
        worth: Array | None = None,
    ) -> int:
        """Decide among some arms."""
        purchases, amounts = self.purchases.state, self.amounts.state
        if purchases is not self._seen[0] or amounts is not self._seen[1]:
            # What a call takes is put together once for all that it is the same for.
            self._deciding = (*purchases.store[1:13], *amounts.store[1:13], *self._buffers)
            self._seen = purchases, amounts, not amounts.population.reward_square[0] > 0.0
        same = self._same if self._seen[2] else math.nan
        position: int = decide_one(
            *self._deciding, same, purchases.silent, self._rule, self._scratch, task, x, now, among,
            NO_WORTH if worth is None else worth, self.unit, step, explore, uniform, out,
        )  # fmt: skip
        if self.unit == self.unit:  # there is one
            out[1] += self.unit
        return position

    @property
    def _same(self) -> float:
        """How well the mean logarithm of amounts is known while they were all the same, NaN if they were not."""
        amounts = self.amounts.state
        alike = not amounts.population.reward_square[0] > 0.0
        return UNKNOWN_SD / (1.0 + float(amounts.numbers[TOTAL])) if alike else math.nan

    @property
    def _level(self) -> float:
        """What is added to logarithms that are counted from the unit."""
        return 0.0 if math.isnan(self.unit) else self.unit

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
        """Decide every row by what is believed now."""
        n, n_arms = len(tasks), mask.shape[1]
        purchases, amounts = self.purchases.state, self.amounts.state
        chosen = np.empty(n, dtype=np.int64)
        probabilities, mean, sd = (np.empty((n, n_arms)) for _ in range(3))
        order = np.argsort(tasks, kind="stable")
        given = (
            beliefs_of(purchases.store), beliefs_of(amounts.store), self._same, purchases.silent, self._rule, order,
            tasks, X, now, mask, NO_WORTH_OF_ROWS if worth is None else worth, self.unit, *steps, advance, explore,
            uniforms,
        )  # fmt: skip
        cuts = [0, n]
        if n >= MANY_ROWS and workers() > 1:  # all rows of one task in one part
            in_order, even = tasks[order], np.linspace(0, n, 4 * workers() + 1).astype(np.int64)[1:-1]
            first = np.searchsorted(in_order, in_order[even])
            cuts = np.unique([0, *np.where(in_order[even] < 0, even, first), n]).tolist()
        spread_parts(
            [partial(decide_rows, *given, begin, end, chosen, probabilities, mean, sd) for begin, end in pairwise(cuts)]
        )
        return chosen, probabilities, mean + self._level, sd

    def predict(self, task: int, x: Array, now: float, among: IntArray, out: Array) -> bool:
        """Write mean and sd of the logarithm of some arms' expected revenue."""
        beliefs = beliefs_of(self.purchases.state.store), beliefs_of(self.amounts.state.store)
        works = Buffers(*self._buffers[:3]), Buffers(*self._buffers[3:6]), self._buffers[6]
        rows = self._scratch[6, : among.size], self._scratch[7, : among.size]
        found = predict_revenue(*beliefs, *works, self._same, task, x, now, among, out[0], out[1], *rows)
        out[0] += self._level
        return bool(found)

    def show(self, mean: Array, sd: Array) -> None:
        """Turn mean and sd of logarithms into those of expected revenue, in place."""
        show_rewards(LOG_LINK, mean.reshape(-1), sd.reshape(-1))

    def coefficients(self, task: int, arm: int, now: float) -> tuple[Array, Array]:
        """Return mean and covariance of the coefficients of a pair's purchases."""
        return self.purchases.coefficients(task, arm, now)

    # Tasks and arms.

    def reserve_tasks(self, count: int) -> list[int]:
        """Return numbers for new tasks."""
        numbers, others = (part.reserve_tasks(count) for part in self.parts)
        assert numbers == others
        return numbers

    def take_tasks(self, numbers: Sequence[int], known: Array | None = None) -> None:
        """Take tasks that were reserved."""
        finish([partial(part.take_tasks, numbers, known) for part in self.parts])

    def know(self, tasks: IntArray, known: Array, given: BoolArray) -> None:
        """Change what is known about tasks."""
        finish([partial(part.know, tasks, known, given) for part in self.parts])

    def forget(self, tasks: IntArray) -> None:
        """Forget tasks, and the populations that they helped to learn."""
        gone = set(tasks.tolist())
        events = [event for event in self.events if event.task not in gone]
        finish([*(partial(part.forget, tasks) for part in self.parts), self._forget_unit])
        self.events = events

    def _forget_unit(self) -> None:
        """Count amounts from the next one, if there are none left."""
        if not self._is_paid:
            self.unit, self._differs = math.nan, False

    def add_arm(self, features: Array | None = None, prior: Prior | None = None) -> int:
        """Return the number of a new arm."""
        assert prior is None
        before = self.purchases.state
        arm = self.purchases.add_arm(features)
        try:
            self.amounts.add_arm(features)
            self._scratch = new_rows(self.n_arms)
        except BaseException:
            self.purchases.state = before
            raise
        return arm

    # Learning.

    def prepare(self, tasks: IntArray, arms: IntArray, *, sums_only: bool = False) -> None:
        """Give every pair a slot in both parts: a reward of 0 may be replaced by an amount."""
        self.purchases.prepare(tasks, arms)
        self.amounts.prepare(tasks, arms, sums_only=sums_only)

    def prepare_one(self, task: int, arm: int) -> None:
        """Prepare for one reward."""
        for part in self.parts:
            part.prepare_one(task, arm)

    def _logarithm(self, amount: float) -> float:
        """Return the logarithm of an amount, counted from the unit."""
        if math.isnan(self.unit):
            self.unit = math.log(amount)
        result = math.log(amount) - self.unit
        self._differs |= result != 0.0
        return result

    def _see_whether_amounts_differ(self) -> None:
        """Note whether there is an amount that is not the unit."""
        self._differs = bool((self.amounts.sums().squares > 0.0).any())

    def _age(self, now: Any) -> Any:
        """Return the age of amounts at some time, or at several."""
        ageing = self.amounts.state.store.ageing
        passed = 0.0 * now if math.isinf(ageing[HALF_LIFE]) else (now - float(ageing[SINCE])) / float(ageing[HALF_LIFE])
        return float(ageing[AGE]) + passed

    def _with_logit(self, task: int, arm: int, x: Array, now: float) -> Array:
        """Return a context of amounts, in a buffer: that of a purchase, and what is believed of its logit."""
        store, result = self.purchases.state.store, self._context
        result[:-1] = x
        result[-1], _ = predict_slot(
            beliefs_of(store), Buffers(*self._buffers[:3]), store.slot[task, arm], arm, task, x, now
        )
        return result

    def learn(self, task: int, arm: int, x: Array, reward: float, now: float, *, is_open: bool = False) -> Receipt:
        """Learn a reward; one that is open waits for another that takes its place."""
        self.prepare_one(task, arm)
        if reward == 0.0 and not self._watches:  # as nearly always
            age = self._age(now) if self.fades else 0.0
            values = self.purchases.state.store.row_values
            receipt = self.purchases.learn(task, arm, x, 0.0, now, is_open=is_open)
            values[receipt.row, N_VALUES:] = 0.0
            values[receipt.row, ROW_AGE] = age
            return receipt
        done: list[Receipt] = []
        finish(self._learning(done, task, arm, x, reward, now, is_open))
        return done[0]

    def _learning(
        self, done: list[Receipt], task: int, arm: int, x: Array, reward: float, now: float, is_open: bool
    ) -> list[Callable[[], object]]:
        """Return the steps that learn a reward, each of which changes nothing if it raises."""
        steps: list[Callable[[], object]] = [partial(self._learn_purchase, done, task, arm, x, reward, now, is_open)]
        if reward > 0.0:
            steps.append(partial(self._learn_amount, done, reward, now))
        if self._watches:
            steps.append(self._hear)
        return steps

    def _learn_purchase(
        self, done: list[Receipt], task: int, arm: int, x: Array, reward: float, now: float, is_open: bool
    ) -> None:
        age, values, nothing = self._age(now), self.purchases.state.store.row_values, 0.0
        receipt = self.purchases.learn(task, arm, x, float(reward > 0.0), now, is_open=is_open)
        values[receipt.row, N_VALUES:], values[receipt.row, ROW_AGE] = nothing, age
        done.append(receipt._replace(reward=reward))

    def _learn_amount(self, done: list[Receipt], reward: float, now: float) -> None:
        task, arm, x, _, _, row, _ = done[0]
        context, amount = self._with_logit(task, arm, x, now), self._logarithm(reward)
        values = self.purchases.state.store.row_values
        learned = self.amounts.learn(task, arm, context, amount, now)
        values[row, AMOUNT], values[row, LOGARITHM], values[row, LOGIT] = reward, amount, context[-1]
        values[row, AMOUNT_DECAY] = learned.decay

    def _hear(self) -> None:
        """Let what a part has noticed be so for both, or wait for :meth:`apply`."""
        for part in self.parts:
            while part.events:
                event = part.events[0]._replace(of_amounts=part is self.amounts)
                if not self.deferred:
                    self.apply(event)
                elif not (event.half_life and any(other.half_life for other in self.events)):
                    self.events.append(event)
                del part.events[0]

    def apply(self, event: Event) -> None:
        """Let what was noticed count: a half-life for the part that it was noticed in, a change for both."""
        for part in self.parts:
            if event.half_life is None or (part is self.amounts) == event.of_amounts:
                part.apply(event)

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
        """Learn rows in their order."""
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
    ) -> ReadyRevenue:
        """Return rows for :meth:`learn_ready`, which cannot fail then."""
        rewards = np.asarray(rewards, dtype=np.float64)
        tasks, arms, contexts = np.asarray(tasks), np.asarray(arms), np.asarray(contexts)
        times = np.full(rewards.size, float(times)) if np.ndim(times) == 0 else np.asarray(times, dtype=np.float64)
        paid, unit = np.flatnonzero(rewards > 0.0), self.unit
        if math.isnan(unit) and paid.size:
            unit = math.log(rewards[paid[0]])
        self.amounts.prepare(tasks, arms)
        bought = (rewards > 0.0).astype(np.float64)
        purchases = self.purchases.ready_rows(tasks, arms, contexts, bought, times, is_open=is_open, estimate=estimate)
        return ReadyRevenue(purchases, rewards, unit)

    def learn_ready(self, ready: ReadyRevenue, serials: IntArray | None = None) -> Receipts:
        """Learn rows that are ready, as if each had come alone: rows without an amount together."""
        finish(self._learning_rows(ready, serials))
        return ready.purchases.receipts

    def _learning_rows(self, ready: ReadyRevenue, serials: IntArray | None) -> Iterator[Callable[[], object]]:
        """Yield the steps that learn rows, each of which changes nothing if it raises."""
        yield partial(setattr, self, "unit", ready.unit)  # cannot fail, so whatever does afterwards is done once more
        is_open, estimate = ready.purchases.is_open, ready.purchases.estimate
        n, first = ready.rewards.size, 0
        watches = self._watches and self.watching and not is_open
        for row in [*(range(n) if watches else np.flatnonzero(ready.rewards > 0.0).tolist()), n]:
            if row > first:
                some, learned = slice(first, row), list[Receipts]()
                yield partial(self._learn_slice, learned, ready, some, serials)
                yield partial(self._note_nothing, learned, ready, some)
            if row < n:
                done: list[Receipt] = []
                task, arm, x, _, time = (column[row] for column in ready.purchases.columns)
                reward, now = float(ready.rewards[row]), float(time)
                yield from self._learning(done, int(task), int(arm), x, reward, now, is_open)
                yield partial(self._put_receipt, ready.purchases.receipts, row, done, serials)
                if estimate or watches:
                    yield self.estimate_if_due
                    yield self.ensure_fresh
            first = row + 1

    def _learn_slice(self, done: list[Receipts], ready: ReadyRevenue, some: slice, serials: IntArray | None) -> None:
        """Learn rows without an amount."""
        columns, receipts, is_open, estimate = ready.purchases
        n = some.stop - some.start
        learned = Receipts(receipts.decay[some], receipts.row[some], np.arange(1, n + 1))
        part = ReadyRows(tuple(column[some] for column in columns), learned, is_open, estimate)
        done.append(self.purchases.learn_ready(part, None if serials is None else serials[some]))

    def _note_nothing(self, done: list[Receipts], ready: ReadyRevenue, some: slice) -> None:
        """Write receipts of rows without an amount, and note their age."""
        rows, ages, store = done[0].row, self._age(ready.purchases.columns[4][some]), self.purchases.state.store
        there = np.flatnonzero(rows >= 0)
        there = there[store.row_links[rows[there], SERIAL] == done[0].serial[there]]
        store.row_values[rows[there], N_VALUES:] = 0.0
        store.row_values[rows[there], ROW_AGE] = ages[there]
        ready.purchases.receipts.serial[some] = done[0].serial

    def _put_receipt(self, receipts: Receipts, row: int, done: list[Receipt], serials: IntArray | None) -> None:
        """Write the receipt of a row that was learned alone; ``serials`` say which number it has."""
        one, state = done[0], self.purchases.state
        number = one.serial if serials is None else int(serials[row])
        state.store.row_links[one.row, SERIAL] = number
        state.numbers[SERIALS] = max(state.numbers[SERIALS], number)
        receipts.decay[row], receipts.row[row], receipts.serial[row] = one.decay, one.row, number

    def replaceable(self, receipt: Receipt) -> bool:
        """Return whether the reward of a receipt can still be replaced."""
        return self.purchases.replaceable(receipt)

    def replace(self, receipt: Receipt, reward: float, now: float) -> Receipt:
        """Put another reward in the place of one that was learned, and return its receipt."""
        if not self.replaceable(receipt):
            raise LookupError(NOT_KEPT)
        done: list[Receipt] = [receipt]
        finish(
            [partial(self._replace_purchase, done, reward, now), partial(self._replace_amount, receipt, reward, now)]
        )
        return done[0]._replace(reward=reward)

    def _replace_purchase(self, done: list[Receipt], reward: float, now: float) -> None:
        receipt = done[0]
        if (receipt.reward > 0.0) != (reward > 0.0):
            bought = receipt._replace(reward=float(receipt.reward > 0.0))
            done[0] = self.purchases.replace(bought, float(reward > 0.0), now)
        else:
            self.purchases.touch(receipt.task, receipt.arm)

    def _replace_amount(self, receipt: Receipt, reward: float, now: float) -> None:
        task, arm, x, old, _, row, _ = receipt
        notes = self.purchases.state.store.row_values[row]
        logarithm = self._logarithm(reward) if reward > 0.0 else 0.0
        if old > 0.0:
            self._context[:-1], self._context[-1] = x, notes[LOGIT]
            amount = Receipt(task, arm, self._context, float(notes[LOGARITHM]), float(notes[AMOUNT_DECAY]), -1, -1)
            if reward > 0.0:
                self.amounts.replace(amount, logarithm, now)
            else:
                self.amounts.take_away(amount, now)
        elif reward > 0.0:
            context = self._with_logit(task, arm, x, now)
            notes[AMOUNT_DECAY] = self.amounts.add_late(task, arm, context, logarithm, float(notes[ROW_AGE]), now)
            notes[LOGIT] = context[-1]
        notes[LOGARITHM], notes[AMOUNT] = logarithm, reward

    def close(self, receipt: Receipt) -> None:
        """Note that no other reward will come in the place of this one."""
        self.purchases.close(receipt._replace(reward=float(receipt.reward > 0.0)))
        self._hear()

    def open_receipt(self, task: int, arm: int, x: Array, reward: float) -> Receipt | None:
        """Return the receipt of the oldest open row of a pair with this context and reward, if there is one."""
        store = self.purchases.state.store
        slot = int(store.slot[task, arm])
        row = -1 if slot < 0 else int(store.row_ends[slot, FIRST])
        while row >= 0:
            links = store.row_links[row]
            if links[OPEN] and store.row_values[row, AMOUNT] == reward and (store.row_context[row] == x).all():
                return self.receipt_of(task, arm, int(links[SERIAL]))
            row = int(links[NEXT])
        return None

    def receipt_of(self, task: int, arm: int, serial: int) -> Receipt | None:
        """Return the receipt of a reward by its serial, or None if its row is kept no more."""
        found = self.purchases.receipt_of(task, arm, serial)
        if found is None:
            return None
        return found._replace(reward=float(self.purchases.state.store.row_values[found.row, AMOUNT]))

    def is_open(self, receipt: Receipt) -> bool:
        """Return whether a reward waits for another in its place."""
        return self.purchases.is_open(receipt)

    # The populations.

    def run_in_background(self, lock: threading.RLock | None) -> None:
        """Estimate both beside the core from now on, under this lock of its owner; None ends that."""
        for part in self.parts:
            part.run_in_background(lock)

    @property
    def refreshing(self) -> bool:
        """Whether a population is being estimated in the background."""
        return any(part.refreshing for part in self.parts)

    def refresh_later(self, **how: Any) -> None:
        """Start estimates in the background."""
        for part in self.parts:
            part.refresh_later(**how)

    def finish_background(self) -> None:
        """Wait for estimates that are under way."""
        for part in self.parts:
            part.finish_background()

    def drop_background(self) -> None:
        """Have estimates that are under way come to nothing."""
        for part in self.parts:
            part.drop_background()

    def until_due(self) -> float:
        """Return after how many rewards a population is to be estimated."""
        return min(part.until_due() for part in self.parts)

    def due(self, extra: float = 0.0, provisional: bool = False) -> bool:
        """Return whether a population is to be estimated, or would be after further rewards."""
        return any(part.due(extra, provisional) for part in self.parts)

    def estimate(self, **how: Any) -> None:
        """Estimate both populations now, or raise what keeps them from that."""
        self.purchases.estimate(**how)
        self._remake_logits()
        self.amounts.estimate(**how)

    def renew(
        self,
        *,
        steps: int = FIT_STEPS,
        settled: float = FIT_SETTLED,
        sample: int | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Estimate both populations; a failure is logged."""
        self.purchases.renew(steps=steps, settled=settled, sample=sample, keys=keys)
        self._remake_logits()
        self.amounts.renew(steps=steps, settled=settled, sample=sample, keys=keys)

    def _remake_logits(self) -> None:
        """Learn amounts whose rows are kept again, given what is believed of their purchases by now.

        What they told their arms is to be summed again, as an estimate does.
        """
        if not self._is_paid or self.amounts.method != "evidence":
            return
        self.amounts.drop_background()
        purchases, amounts = self.purchases.state, self.amounts.state
        amounts.numbers[BEHIND] = 1.0
        n_slots, work = int(purchases.numbers[N_SLOTS]), Buffers(*self._buffers[:3])
        remake_logits(purchases.store, amounts.store, work, n_slots, float(purchases.numbers[CLOCK]))

    def estimate_if_due(self, *, provisional: bool = False, keys: Keys | None = None) -> None:
        """Estimate each population if that is due."""
        self.purchases.estimate_if_due(provisional=provisional, keys=keys)
        if not self._differs:
            return  # all amounts are the same: nothing to estimate, and always due
        if self.amounts.due() and not self.amounts.estimates_beside:
            self._remake_logits()
        self.amounts.estimate_if_due(provisional=provisional, keys=keys)

    def ensure_fresh(self) -> None:
        """Make sure that what is believed is about all that was learned."""
        for part in self.parts:
            part.ensure_fresh()

    # Looking, and state in and out.

    def sums(self, tasks: IntArray | None = None, now: float | None = None) -> Sums:
        """Return sums of purchases."""
        return self.purchases.sums(tasks, now)

    def plain_sums(self, tasks: IntArray | None = None) -> PlainSums:
        """Return sums of contexts and purchases as they came."""
        return self.purchases.plain_sums(tasks)

    def logarithms(self, now: float) -> tuple[Array, Array]:
        """Return mean and variance of the logarithms of all amounts of every arm; NaN where there are none, or one."""
        sums, d = self.amounts.sums(None, now), self.n_features
        with np.errstate(all="ignore"):
            column = constant_column(self.amounts)
            count, total, squares = (
                np.bincount(sums.arms, weights=part, minlength=self.n_arms)
                for part in (sums.counts, sums.moment[:, column], sums.squares)
            )
            mean = total / count if column >= 0 and d else np.where(count > 0, 0.0, math.nan)
            return mean + self._level, np.maximum(squares / count - mean * mean, 0.0)

    def merge(
        self,
        other: Revenue,
        tasks: IntArray,
        arms: IntArray,
        now: float,
        receipts: Receipts | None = None,
        of_pairs: tuple[IntArray, IntArray] | None = None,
        contexts: Array | None = None,
    ) -> Receipts | None:
        """Add sums and kept rows of another core."""
        del contexts
        theirs = other.purchases.state.store
        rows, owners = kept_rows(other.purchases)
        n, amounts, more = len(rows), other.amounts, 0.0
        if math.isnan(self.unit):
            self.unit = other.unit
        elif not math.isnan(other.unit):
            more = other.unit - self.unit
            amounts = _in_unit(amounts, more)
        given = Receipts(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)) if receipts is None else receipts
        pairs = (np.zeros(0, np.int64), np.zeros(0, np.int64)) if of_pairs is None else of_pairs
        both = Receipts(
            np.append(np.zeros(n), given.decay), np.append(rows, given.row),
            np.append(theirs.row_links[rows, SERIAL], given.serial),
        )  # fmt: skip
        owned = np.append(owners[:, 0], pairs[0]), np.append(owners[:, 1], pairs[1])
        here = self.purchases.merge(other.purchases, tasks, arms, now, both, owned)
        nowhere = np.full(n, -1)
        noted = Receipts(theirs.row_values[rows, AMOUNT_DECAY].copy(), nowhere, nowhere)
        decays = self.amounts.merge(amounts, tasks, arms, now, noted, (owners[:, 0], owners[:, 1]))
        assert here is not None
        assert decays is not None
        self._see_whether_amounts_differ()
        there = here.row[:n] >= 0
        values, mine = self.purchases.state.store.row_values, here.row[:n][there]
        values[mine, AMOUNT_DECAY] = decays.decay[there]
        values[mine, LOGARITHM] += more * (values[mine, AMOUNT] > 0.0)
        return None if receipts is None else Receipts(here.decay[n:], here.row[n:], here.serial[n:])

    def snapshot(self) -> dict[str, Any]:
        """Return all that was learned as plain arrays."""
        found: dict[str, Any] = {"unit": np.array([0.0 if math.isnan(self.unit) else self.unit])}
        found["has_unit"] = np.array([int(not math.isnan(self.unit))])
        for name, part in zip(PARTS, self.parts, strict=True):
            found |= {f"{name}.{key}": array for key, array in part.snapshot().items()}
        return found

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue where a snapshot was taken."""
        for name, part in zip(PARTS, self.parts, strict=True):
            part.restore({key[len(name) + 1 :]: saved[key] for key in saved if key.startswith(f"{name}.")})
        self.unit = float(saved["unit"][0]) if saved["has_unit"][0] else math.nan
        if self.purchases.free_tasks != self.amounts.free_tasks or self.purchases.n_tasks != self.amounts.n_tasks:
            raise ValueError("expected the same tasks of purchases and amounts in a snapshot, got others; take another")
        self._see_whether_amounts_differ()
        self._scratch = new_rows(self.n_arms)


PARTS = ("purchases", "amounts")
"""The names of both parts."""
UNIT: dict[str, Any] = {"unit": np.float64, "has_unit": np.int64}
"""Arrays of a snapshot that are of both."""

AnyCore: TypeAlias = Core | Revenue


def of_all_rewards(core: AnyCore) -> Core:
    """Return the core that has learned from every reward: of revenue it is that of purchases."""
    return core.purchases if isinstance(core, Revenue) else core


def parts_of(core: AnyCore) -> dict[str, Core]:
    """Return the cores that there are, by the prefix of their arrays in a snapshot."""
    if isinstance(core, Core):
        return {"": core}
    return {f"{name}.": part for name, part in zip(PARTS, core.parts, strict=True)}


def kept_rows(core: Core) -> tuple[IntArray, IntArray]:
    """Return the rows of clicks that are kept, and task and arm of each."""
    store = core.state.store
    rows: list[int] = []
    slots: list[int] = []
    for slot in np.flatnonzero(store.owner[: int(core.state.numbers[N_SLOTS]), 0] >= 0).tolist():
        row = int(store.row_ends[slot, FIRST])
        while row >= 0:
            rows.append(row)
            slots.append(slot)
            row = int(store.row_links[row, NEXT])
    return np.array(rows, dtype=np.int64), store.owner[np.array(slots, dtype=np.int64)]


def _in_unit(amounts: Core, more: float) -> Core:
    """Return a core whose logarithms are higher by ``more``, for what another core takes from it."""
    store, d = amounts.state.store, amounts.n_features
    at, width = totals_at(d), n_triangle(d)
    column = constant_column(amounts)
    if column < 0:
        raise ValueError("expected contexts with an intercept, to count amounts from another one, got none")
    pairs = store.pairs.copy()
    whole = np.zeros((len(pairs), d, d))
    rows, columns = np.triu_indices(d)
    whole[:, rows, columns] = whole[:, columns, rows] = pairs[:, :width]
    # Beside the intercept stand sums of contexts, and of logarithms.
    pairs[:, at + SQUARES] += more * (2.0 * pairs[:, width + column] + more * pairs[:, at + COUNT])
    pairs[:, width:at] += more * whole[:, column]
    copy = object.__new__(Core)
    copy.__dict__.update(amounts.__dict__)
    copy.state = amounts.state._replace(store=store._replace(pairs=pairs, factors=np.full_like(store.factors, -1.0)))
    return copy


def constant_column(core: Core) -> int:
    """Return the column of contexts that is always 1 in a core of numbers, or -1."""
    sums, d = core.sums(), core.n_features
    diagonal = np.cumsum([0, *range(d, 1, -1)])
    for column in range(d):
        if np.allclose(sums.gram[:, diagonal[column]], sums.counts, rtol=1e-9, atol=0.0):
            return column
    return -1
