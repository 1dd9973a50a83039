"""Any order of decisions, delays, duplicates, retirements, merges and forgets, against a list of rows.

The machine keeps every row that was learned and not forgotten; a decision that counts while it waits is such a row.
After each step the fleet's sums must be those of a plain pass over that list, its predictions those of the model given
these sums, and its pending decisions the machine's.
"""

import math
import operator
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.testing import assert_allclose

from posse import FeatureSpec, Posse
from posse.core.state import N_SLOTS
from posse.core.store import COUNT, totals_at
from posse.errors import (
    ExpiredDecision,
    InvalidValue,
    NotFinite,
    RewardConflict,
    UnknownArm,
    UnknownDecision,
    UnknownTask,
)
from posse.fleet.file import state_of
from posse.fleet.ledger import COLUMNS
from posse.model import Prior, posterior

D = 3
TIME_TO_LIVE = 100.0
NAMES = [f"arm-{i}" for i in range(8)]
TASKS = [f"task-{i}" for i in range(5)]
VALUES = [-2.0, -0.7, 0.0, 0.3, 1.1, 2.6]
PROBES = np.random.default_rng(3).normal(size=(2, D - 1))

tasks = st.sampled_from(TASKS)
numbers = st.sampled_from(VALUES)
contexts = st.tuples(numbers, numbers)
places = st.integers(0, 10**6)
waits = st.sampled_from([0.0, 0.0, 0.0, 1.0, 40.0, TIME_TO_LIVE, TIME_TO_LIVE + 1])
rows = st.lists(st.tuples(tasks, places, contexts, numbers), min_size=1, max_size=6)

KNOWN = Prior(
    covariance=[[[1.0, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.3]]] * 3,
    noise_variance=[0.5, 1.0, 2.0],
    shared_precision=[[0.1, 0.2, 0.3]] * 3,
)
SETTINGS = {
    "evidence": {"policy": "ebm-ts"},
    "alone": {"policy": "lin-ucb"},
    "known": {"policy": "ebm-ucb", "prior": KNOWN, "floor": 0.05},
    "moments": {"policy": "ebm-ts", "prior": "moments"},
    "robust": {"policy": "ebm-ucb", "robust": True},
}


@dataclass
class Made:
    """A decision as the machine knows it."""

    id: str
    task: str
    arm: int
    x: np.ndarray
    time: float
    reward: float | None = None
    state: str = "pending"
    row: list | None = None  # what it counts as while it waits


def noise(count):
    """Numbers that no coefficients fit: without any noise, predictions have no digits left to compare."""
    return 0.4 * np.sin(7.0 * np.arange(count))


def full(context):
    return np.array([1.0, *context])


class FleetMachine(RuleBasedStateMachine):
    """A fleet and a list of rows."""

    def __init__(self):
        super().__init__()
        self.now = 1e9
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self):
        self.folder.cleanup()

    @initialize(
        kind=st.sampled_from([*SETTINGS, "evidence"]),
        silence=st.sampled_from([(None, True), (None, True), (0.75, True), (0.0, True), (0.75, False)]),
    )
    def make(self, kind, silence):
        self.learns_arms = kind != "known"
        self.absent, self.count_pending = silence
        self.arms, self.retired, self.tasks = NAMES[:3], set(), []
        self.rows, self.decisions, self.n_decisions = [], [], 0
        self.fleet = self.new_fleet(kind, 11, NAMES[:3])
        self.kind = kind

    def new_fleet(self, kind, seed, arms):
        return Posse(
            arms=arms, features=FeatureSpec(["a", "b"]), seed=seed, time_to_live=TIME_TO_LIVE,
            absent_reward=self.absent, count_pending=self.count_pending, clock=lambda: self.now, **SETTINGS[kind],
        )  # fmt: skip

    @staticmethod
    def bits(fleet):
        """Everything that a file holds; but a slot without rewards is as good as none."""
        header, arrays = state_of(fleet)
        # A loaded fleet begins a new ledger, so decisions are compared whichever they stand in.
        decisions = sorted(
            tuple(arrays[f"ledger{number}.{name}"][row].tobytes() for name in COLUMNS)
            for number, ledger in enumerate(header["ledgers"])
            for row in range(ledger["size"])
        )
        header = {name: value for name, value in header.items() if name not in ("ledgers", "origins")}
        plain = {name: array for name, array in arrays.items() if not name.startswith("ledger")}
        used = plain["core.store.sums"][:, totals_at(D) + COUNT] > 0
        for name in ("core.store.sums", "core.store.owner"):
            plain[name] = plain[name][used]
        plain["core.numbers"][N_SLOTS] = 0
        del plain["core.free_slots"]
        return header, decisions, {name: array.tobytes() for name, array in plain.items()}, fleet.stream.next()

    # What the machine knows.

    def add_task(self, task):
        if task not in self.tasks:
            self.tasks.append(task)

    def wait(self, seconds):
        self.now += seconds

    def is_late(self, decision):
        return decision.time < self.now - TIME_TO_LIVE

    def expire(self):
        for decision in self.decisions:
            if decision.state != "expired" and self.is_late(decision):
                if decision.state in ("pending", "rewarded") and not self.count_pending:
                    value = self.absent if decision.state == "pending" else decision.reward
                    self.rows.append([decision.task, decision.arm, decision.x, value])
                decision.state = "expired" if decision.state != "forgotten" else "forgotten"

    def active(self):
        return [arm for arm in range(len(self.arms)) if arm not in self.retired]

    def of_state(self, *states):
        return [decision for decision in self.decisions if decision.state in states]

    def pick(self, some, place):
        return some[place % len(some)]

    def refused(self, error, work):
        """Check that it raises and that not a bit has changed."""
        before = self.bits(self.fleet)
        with pytest.raises(error) as caught:
            work()
        assert self.bits(self.fleet) == before
        assert str(caught.value)

    # What may happen.

    @rule(
        task=tasks, context=contexts, explore=st.booleans(), some=st.none() | st.lists(places, min_size=1), wait=waits
    )
    def decide(self, task, context, explore, some, wait):
        self.wait(wait)
        self.expire()
        active = self.active()
        allowed = list(dict.fromkeys(self.pick(active, place) for place in some)) if some else active
        eligible = [self.arms[arm] for arm in allowed] if some else None
        decision = self.fleet.decide(task, dict(zip("ab", context, strict=True)), eligible, explore)
        self.note(decision, task, context, allowed, explore)

    @rule(what=st.lists(st.tuples(tasks, contexts), max_size=4), explore=st.booleans(), wait=waits)
    def decide_many(self, what, explore, wait):
        self.wait(wait)
        self.expire()
        X = np.array([context for _, context in what]).reshape(-1, 2)
        made = self.fleet.decide_many([task for task, _ in what], X, explore=explore)
        assert len(made) == len(what)
        for decision, (task, context) in zip(made, what, strict=True):
            self.note(decision, task, context, self.active(), explore)

    def note(self, decision, task, context, allowed, explore):
        assert decision.task == task
        assert set(decision.probabilities) == set(decision.mean) == {self.arms[arm] for arm in allowed}
        assert decision.arm in decision.probabilities
        assert decision.propensity == decision.probabilities[decision.arm] > 0
        assert math.fsum(decision.probabilities.values()) == pytest.approx(1, abs=1e-9)
        if not explore:
            assert decision.propensity == 1
            assert decision.mean[decision.arm] == max(decision.mean.values())
        assert decision.id not in [other.id for other in self.decisions]
        self.add_task(task)
        arm = self.arms.index(decision.arm)
        self.remember(Made(decision.id, task, arm, full(context), self.now))
        self.n_decisions += 1

    def remember(self, made):
        self.decisions.append(made)
        if self.absent is not None and self.count_pending:
            made.row = [made.task, made.arm, made.x, self.absent]
            self.rows.append(made.row)

    @precondition(lambda self: self.of_state("pending"))
    @rule(place=places, value=numbers, wait=waits)
    def reward(self, place, value, wait):
        self.wait(wait)
        decision = self.pick(self.of_state("pending"), place)
        if self.is_late(decision):
            self.refused(ExpiredDecision, lambda: self.fleet.reward(decision.id, value))
            return
        assert self.fleet.reward(decision.id, value) is True
        self.learn_reward(decision, value)
        self.expire()

    def learn_reward(self, decision, value):
        decision.state, decision.reward = "rewarded", value
        if decision.row is not None:
            decision.row[3] = value
        elif self.count_pending:
            self.rows.append([decision.task, decision.arm, decision.x, value])

    @precondition(lambda self: self.of_state("rewarded"))
    @rule(place=places, other=numbers)
    def reward_again(self, place, other):
        decision = self.pick(self.of_state("rewarded"), place)
        before = self.bits(self.fleet)
        assert self.fleet.reward(decision.id, decision.reward) is False
        assert self.fleet.reward_many([decision.id] * 2, [decision.reward] * 2) == 0
        assert self.bits(self.fleet) == before
        if other != decision.reward:
            self.refused(RewardConflict, lambda: self.fleet.reward(decision.id, other))

    @precondition(lambda self: self.of_state("expired", "forgotten"))
    @rule(place=places, value=numbers)
    def reward_too_late(self, place, value):
        decision = self.pick(self.of_state("expired", "forgotten"), place)
        self.refused(UnknownDecision, lambda: self.fleet.reward(decision.id, value))

    @rule(name=st.sampled_from(["", "nobody-1", "abc", None, 7]))
    def reward_nobody(self, name):
        self.refused(UnknownDecision, lambda: self.fleet.reward(name, 1.0))
        own = self.fleet.ledgers.own
        ahead = f"{own.prefix}-{own.next}"
        self.refused(UnknownDecision, lambda: self.fleet.reward(ahead, 1.0))

    @precondition(lambda self: self.of_state("pending", "rewarded"))
    @rule(what=st.lists(st.tuples(places, numbers), min_size=1, max_size=5), wait=waits, again=st.booleans())
    def reward_many(self, what, wait, again):
        self.wait(wait)
        known = self.of_state("pending", "rewarded")
        pairs = [(self.pick(known, place), value) for place, value in what]
        # As it will be: the reward that a decision has, or the first that is in the list.
        amounts = {}
        for decision, value in pairs:
            amounts.setdefault(decision.id, decision.reward if decision.state == "rewarded" else value)
        pairs = [(decision, amounts[decision.id]) for decision, _ in pairs]
        ids, values = [decision.id for decision, _ in pairs], [value for _, value in pairs]
        if any(self.is_late(decision) for decision, _ in pairs):
            self.refused(ExpiredDecision, lambda: self.fleet.reward_many(ids, values))
            return
        self.refused(RewardConflict, lambda: self.fleet.reward_many([*ids, ids[0]], [*values, values[0] + 1]))
        self.refused(UnknownDecision, lambda: self.fleet.reward_many([*ids, "nobody-1"], [*values, 1.0]))
        self.refused(NotFinite, lambda: self.fleet.reward_many([*ids, ids[0]], [*values, math.nan]))
        self.refused(InvalidValue, lambda: self.fleet.reward_many(ids, [*values, 1.0]))
        news = {decision.id: decision for decision, _ in pairs if decision.state == "pending"}
        assert self.fleet.reward_many(ids, values) == len(news)
        for decision in news.values():
            self.learn_reward(decision, amounts[decision.id])
        self.expire()

    @rule(rows=rows, repeat=st.sampled_from([1, 1, 30]), form=st.sampled_from(["polars", "pandas", "columns", "rows"]))
    def learn_many(self, rows, repeat, form):
        rows = [(task, place % len(self.arms), context, value) for task, place, context, value in rows] * repeat
        rows = [(*row[:3], row[3] + error) for row, error in zip(rows, noise(len(rows)).tolist(), strict=True)]
        columns = {
            "task": [task for task, _, _, _ in rows],
            "arm": [self.arms[arm] for _, arm, _, _ in rows],
            "a": [context[0] for _, _, context, _ in rows],
            "b": [context[1] for _, _, context, _ in rows],
            "reward": [value for _, _, _, value in rows],
        }
        for column, value, error in (("arm", "nobody", UnknownArm), ("reward", math.nan, NotFinite)):
            wrong = columns | {column: [*columns[column][:-1], value]}
            self.refused(error, lambda wrong=wrong: self.fleet.learn_many(pl.DataFrame(wrong)))
        match form:
            case "polars":
                table = pl.DataFrame(columns)
            case "pandas":
                table = pd.DataFrame(columns)
            case "columns":
                table = columns
            case _:
                table = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        assert self.fleet.learn_many(table) == len(rows)
        for task, arm, context, value in rows:
            self.add_task(task)
            self.rows.append((task, arm, full(context), value))

    @rule(name=st.sampled_from(NAMES))
    def add_arm(self, name):
        if name in self.arms and self.arms.index(name) not in self.retired:
            self.refused(InvalidValue, lambda: self.fleet.add_arm(name))
        elif name in self.arms:
            self.fleet.add_arm(name)
            self.retired.discard(self.arms.index(name))
        elif not self.learns_arms:
            self.refused(InvalidValue, lambda: self.fleet.add_arm(name))
        else:
            self.fleet.add_arm(name)
            self.arms = [*self.arms, name]

    @rule(place=places)
    def retire_arm(self, place):
        arm = self.pick(self.active(), place)
        if len(self.active()) == 1:
            self.refused(InvalidValue, lambda: self.fleet.retire_arm(self.arms[arm]))
            return
        self.fleet.retire_arm(self.arms[arm])
        self.retired.add(arm)
        self.refused(InvalidValue, lambda: self.fleet.retire_arm(self.arms[arm]))
        self.refused(UnknownArm, lambda: self.fleet.decide(TASKS[0], [0.0, 0.0], [self.arms[arm]]))

    @rule(place=places, to=st.sampled_from(NAMES))
    def rename(self, place, to):
        arm = place % len(self.arms)
        if to in self.arms:
            self.refused(InvalidValue, lambda: self.fleet.rename(self.arms[arm], to))
            return
        self.fleet.rename(self.arms[arm], to)
        old, self.arms = self.arms[arm], [to if name == self.arms[arm] else name for name in self.arms]
        self.refused(UnknownArm, lambda: self.fleet.rename(old, to))

    @precondition(operator.attrgetter("tasks"))
    @rule(some=st.lists(places, min_size=1, max_size=2), wait=waits)
    def forget(self, some, wait):
        self.wait(wait)
        gone = {self.pick(self.tasks, place) for place in some}
        self.refused(UnknownTask, lambda: self.fleet.forget(*gone, "never"))
        self.fleet.forget(*gone)
        self.tasks = [task for task in self.tasks if task not in gone]
        self.rows = [row for row in self.rows if row[0] not in gone]
        for decision in self.of_state("pending", "rewarded"):
            if decision.task in gone:
                decision.state = "forgotten"

    @rule(rows=rows, asked=st.lists(st.tuples(tasks, contexts), max_size=3), values=st.lists(numbers, max_size=2))
    def merge(self, rows, asked, values):
        its_arms = [NAMES[2], NAMES[0], NAMES[1]]
        other = self.new_fleet(self.kind, 12, its_arms)
        if self.learns_arms:
            other.add_arm(NAMES[7])
            its_arms = [*its_arms, NAMES[7]]
        its_rows = [(task, its_arms[place % len(its_arms)], context, value) for task, place, context, value in rows]
        made = [other.decide(task, context) for task, context in asked]
        other.learn_many(
            [{"task": t, "arm": k, "a": x[0], "b": x[1], "reward": y} for t, k, x, y in its_rows]
        )  # fmt: skip
        rewards = dict(zip([decision.id for decision in made], values, strict=False))
        other.reward_many(rewards, rewards.values())
        new_arms = [name for name in its_arms if name not in self.arms]
        if new_arms and not self.learns_arms:
            self.refused(InvalidValue, lambda: self.fleet.merge(other))
            return
        before = self.bits(other)
        self.fleet.merge(other)
        assert self.bits(other) == before
        self.arms = [*self.arms, *new_arms]
        for task in other.tasks:
            self.add_task(task)
        for task, name, context, value in its_rows:
            self.rows.append((task, self.arms.index(name), full(context), value))
        for decision, (task, context) in zip(made, asked, strict=True):
            mine = Made(decision.id, task, self.arms.index(decision.arm), full(context), self.now)
            self.remember(mine)
            if decision.id in rewards:
                self.learn_reward(mine, rewards[decision.id])
        self.n_decisions += len(made)
        self.refused(InvalidValue, lambda: self.fleet.merge(other))

    @rule(task=tasks, context=contexts)
    def save_and_load(self, task, context):
        path = Path(self.folder.name) / "fleet.posse"
        self.fleet.save(path)
        old, self.fleet = self.fleet, Posse.load(path, clock=lambda: self.now)
        assert self.bits(old) == self.bits(self.fleet)
        assert sorted(old.pending()) == sorted(self.fleet.pending())
        self.expire()
        decision = self.fleet.decide(task, context)
        assert decision[1:] == old.decide(task, context)[1:]
        assert self.fleet.expected(task, context) == old.expected(task, context)
        self.note(decision, task, context, self.active(), True)

    @rule()
    def refresh(self):
        self.fleet.refresh()

    @rule(seconds=st.sampled_from([1.0, 30.0, TIME_TO_LIVE, 2 * TIME_TO_LIVE]))
    def tick(self, seconds):
        self.wait(seconds)

    # What must hold.

    @invariant()
    def pending_is_what_waits(self):
        self.expire()
        found = [(entry.id, entry.task, entry.arm, entry.age) for entry in self.fleet.pending()]
        expected = [
            (made.id, made.task, self.arms[made.arm], self.now - made.time) for made in self.of_state("pending")
        ]
        assert sorted(found) == sorted(expected)
        ages = [entry[3] for entry in found]
        assert ages == sorted(ages, reverse=True)

    @invariant()
    def names_are_in_order(self):
        assert self.fleet.tasks == tuple(self.tasks)
        assert self.fleet.arms == tuple(self.arms[arm] for arm in self.active())
        assert self.fleet.retired_arms == tuple(self.arms[arm] for arm in sorted(self.retired))
        assert self.fleet.n_decisions == self.n_decisions
        assert self.fleet.n_rewards == len(self.rows)

    @invariant()
    def sums_are_those_of_a_plain_pass(self):
        self.expire()
        self.fleet.pending()  # lets go what is late
        n_arms, n_tasks = len(self.arms), max(len(self.tasks), 1)
        gram, moment = np.zeros((n_arms, n_tasks, D, D)), np.zeros((n_arms, n_tasks, D))
        squares, count = np.zeros((n_arms, n_tasks)), np.zeros((n_arms, n_tasks))
        for task, arm, x, y in self.rows:
            place = arm, self.tasks.index(task)
            gram[place] += np.outer(x, x)
            moment[place] += x * y
            squares[place] += y * y
            count[place] += 1
        found = self.fleet.statistics
        for mine, plain in zip(found.sums, (gram, moment, squares, count), strict=True):
            assert mine.shape == plain.shape
            assert_allclose(mine, plain, rtol=0, atol=1e-9 * max(1.0, np.abs(plain).max()))

    @invariant()
    def predictions_are_those_of_the_model(self):
        stats, prior = self.fleet.statistics, self.fleet.prior
        weights = self.fleet.core.state.store.weight[list(self.fleet.names.tasks.numbers.values())]
        post = posterior(stats, prior, weights if self.tasks else None)
        for probe in PROBES:
            x = full(probe)
            mean = post.mean @ x
            sd = np.sqrt(np.einsum("i,knij,j->kn", x, post.covariance, x))
            shared = post.shared_mean @ x
            shared_sd = np.sqrt(np.einsum("i,kij,j->k", x, post.shared_covariance + prior.covariance, x))
            columns = [(task, mean[:, place], sd[:, place]) for place, task in enumerate(self.tasks)]
            for task, its_mean, its_sd in [*columns, ("never seen", shared, shared_sd)]:
                expected = self.fleet.expected(task, probe)
                for arm in self.active():
                    name = self.arms[arm]
                    assert expected.mean[name] == pytest.approx(its_mean[arm], rel=1e-6, abs=1e-6)
                    assert expected.sd[name] == pytest.approx(its_sd[arm], rel=1e-6, abs=1e-6)


FleetMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=25)
TestFleet = FleetMachine.TestCase


class LongFleetMachine(FleetMachine):
    """The same, for longer."""


LongFleetMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=25)
TestFleetForLong = pytest.mark.slow(LongFleetMachine.TestCase)
