"""A fleet learns what its log says and nothing else, whichever exception comes from wherever in an operation."""

import numpy as np
import polars as pl
import pytest

import posse.engine.store
from posse import Posse
from posse.fleet.ledger import REWARDED

from .injecting import QUIET, places

ARMS = ("red", "green", "blue")
LATE = {"absent_reward": 0.25}  # a decision counts as that until its reward comes
KINDS = {
    "ebm-ts": {},
    "ebm-ts, robust": {"robust": True},
    "ebm-ts, paper": {"prior": "paper"},
    "ebm-ucb": {"policy": "ebm-ucb", "floor": 0.05},
    "ebm-rand-ucb": {"policy": "ebm-rand-ucb", "evaluation_budget": 0.01},
    "ebm-ucb, moments": {"policy": "ebm-ucb", "prior": "moments"},
    "ebm-ts, background": {"background": True},
    "lin-ucb": {"policy": "lin-ucb"},
    "random": {"policy": "random"},
    "counting": LATE,
    "counting, paper": LATE | {"prior": "paper"},
    "counting, lin-ucb": LATE | {"policy": "lin-ucb"},
    "counting, background": LATE | {"background": True},
    "held": LATE | {"count_pending": False},
    "held, background": LATE | {"count_pending": False, "background": True},
    "clicks": {"rewards": "binary"},
    "counts": {"rewards": "count"},
    "clicks, background": {"rewards": "binary", "background": True},
    "clicks, counting": {"rewards": "binary", "absent_reward": 0.0},
    "clicks, counting, background": {"rewards": "binary", "absent_reward": 0.0, "background": True},
    "clicks, held": {"rewards": "binary", "absent_reward": 0.0, "count_pending": False},
    "clicks, drift": {"rewards": "binary", "drift": 1e9},
    "clicks, drift, learned": {"rewards": "binary", "drift": "learn"},
    "drift": {"drift": 1e9},  # what fades cannot be told from rounding
    "drift, learned": {"drift": "learn"},
    "drift, held": LATE | {"count_pending": False, "drift": 1e9},
    "known": {"task_features": ["size"], "arm_features": ["price"]},
    "clicks, known": {"rewards": "binary", "task_features": ["size"], "arm_features": ["price"]},
    "clicks, known, counting": {"rewards": "binary", "absent_reward": 0.0, "task_features": ["size"]},
}
EXACT = {"rtol": 1e-9, "atol": 1e-9}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class World:
    """A fleet, its log, and what the log says that the fleet has learned."""

    def __init__(self, folder, growth=0.0, **settings):
        self.log, self.clock, self.folder = [], Clock(), folder
        self.absent, self.counts = settings.get("absent_reward"), settings.get("count_pending", True)
        self.fleet = Posse(
            arms=ARMS, features=["a"], seed=3, clock=self.clock, time_to_live=100.0, refresh_growth=growth,
            log=self.log.extend, **settings,
        )  # fmt: skip
        self.rng = np.random.default_rng(5)
        self.decided, self.rewarded, self.read = {}, {}, 0
        self.tables = {}
        self.rewards = settings.get("rewards", "number")

    def value(self):
        if self.rewards == "number":
            return float(self.rng.normal())
        return float(self.rng.integers(2 if self.rewards == "binary" else 5))

    def add(self, sums, task, arm, a, reward):
        add(sums, task, arm, a, reward, plain=self.rewards != "number")

    def sums_of_the_log(self, fleet):
        """Return what a fleet should have learned, and check that its decisions and those of the log are the same."""
        for record in self.log[self.read :]:
            decision_id = record["decision_id"]
            if "reward" in record:
                assert decision_id not in self.rewarded, "its reward is in the log twice"
                self.rewarded[decision_id] = record["reward"]
            else:
                self.decided[decision_id] = record
        self.read = len(self.log)
        waiting = {
            f"{ledger.prefix}-{ledger.first + row}": status
            for ledger in fleet._ledgers()
            for row, status in enumerate(ledger.status.tolist())
        }
        assert waiting.keys() <= self.decided.keys()
        expected = dict(self.tables)
        for decision_id, decision in self.decided.items():
            value, status = self.rewarded.get(decision_id), waiting.get(decision_id)
            if status is not None:
                assert (status == REWARDED) == (value is not None), decision_id
            elif self.absent is not None:
                assert value is not None, "it is gone, and the log does not say what it counts as"
            if self.absent is not None and self.counts and value is None:
                value = self.absent
            if value is not None and (self.counts or status is None):
                self.add(expected, decision["task"], decision["arm"], decision["context"]["a"], value)
        return expected

    def learned_table(self, table):
        for row in table.iter_rows(named=True):
            self.add(self.tables, row["task"], row["arm"], row["a"], row["reward"])

    def check(self, fleet=None, restart=False):
        """Check that sums and counts are those of the log, in memory and, after a restart, from the file."""
        fleet = self.fleet if fleet is None else fleet
        expected = self.sums_of_the_log(fleet)
        found = sums_of(fleet)
        assert found.keys() == expected.keys()
        for pair, sums in expected.items():
            np.testing.assert_allclose(found[pair], sums, **EXACT, err_msg=str(pair))
        total = sum(sums[0] for sums in expected.values())
        assert fleet.n_rewards == fleet._engine.store._total == fleet._engine.store.experience == total
        assert fleet.n_decisions == len(self.decided)
        assert set(fleet.tasks) == {task for task, _ in self.tables} | {one["task"] for one in self.decided.values()}
        assert fleet._rng.bit_generator.state == fleet._stream(fleet._decided).bit_generator.state
        if restart:
            path = self.folder / "fleet.posse"
            fleet.save(path)
            self.check(Posse.load(path, clock=self.clock))

    def decide(self, task=None):
        task = f"t{self.rng.integers(9)}" if task is None else task
        return lambda: self.fleet.decide(task, [0.5])

    def table(self, n):
        return pl.DataFrame(
            {
                "task": [f"t{task}" for task in self.rng.integers(9, size=n)],
                "arm": [ARMS[arm] for arm in self.rng.integers(3, size=n)],
                "a": self.rng.normal(size=n),
                "reward": [self.value() for _ in range(n)],
            }
        )


def add(sums, task, arm, a, reward, plain=False):
    """Add one row to count, sum of squares, moment and Gram matrix of its pair.

    ``plain`` is for clicks and counts, of which these depend on what was believed: count, and sums of rewards, of
    contexts and of their squares.
    """
    x = np.array([1.0, a])
    entry = [1.0, reward, *x, *x**2] if plain else [1.0, reward**2, *(reward * x), *np.outer(x, x).ravel()]
    entry = np.array(entry)
    sums[task, arm] = sums.get((task, arm), 0.0) + entry


def sums_of(fleet):
    """Return what :func:`add` adds up, of every pair with rewards."""
    if fleet.rewards != "number":
        return plain_sums_of(fleet)
    stats, found = fleet.statistics, {}
    arms = [*fleet._arms]
    for place, task in enumerate(fleet.tasks):
        for number, arm in enumerate(arms):
            if stats.count[number, place]:
                found[task, arm] = [
                    stats.count[number, place],
                    stats.sum_of_squares[number, place],
                    *stats.moment[number, place],
                    *stats.gram[number, place].ravel(),
                ]
    return found


def plain_sums_of(fleet):
    store, found = fleet._engine.store, {}
    sums = store.plain_sums()
    for task in fleet.tasks:
        for arm in fleet._arms:
            slot = store.slot_of(fleet._tasks.number(task), fleet._arms.number(arm))
            if slot >= 0 and sums.counts[slot]:
                found[task, arm] = [
                    sums.counts[slot], sums.sum_of_squares[slot], *sums.moment[slot], *sums.gram[slot]
                ]  # fmt: skip
    return found


def reward(world, injection):
    """A reward that raised is retried, and is new then if and only if the log did not have it."""
    decision, value = world.decide()(), world.value()
    first = injection.run(lambda: world.fleet.reward(decision.id, value))
    world.check()
    logged = any((one["decision_id"], one.get("reward")) == (decision.id, value) for one in world.log[-1:])
    assert first is not True or logged
    assert world.fleet.reward(decision.id, value) is not logged


def reward_many(world, injection):
    decisions = [world.decide()() for _ in range(4)]
    ids, values = [decision.id for decision in decisions], [world.value() for _ in range(4)]
    injection.run(lambda: world.fleet.reward_many(ids, values))
    world.check()
    logged = sum("reward" in record for record in world.log[-4:])
    assert logged in (0, 4) or world.fleet.fades, "only where they fade they are learned one by one"
    assert world.fleet.reward_many(ids, values) == 4 - logged


def decide(world, injection):
    known = len(world.log)
    # Every third task is new.
    task = f"n{injection.place}" if injection.place % 3 == 0 else None
    found = injection.run(world.decide(task))
    world.check()
    assert (found is not None) <= (len(world.log) == known + 1)


def decide_many(world, injection):
    tasks = ["t1", f"n{injection.place}", f"m{injection.place}"]
    injection.run(lambda: world.fleet.decide_many(tasks, [[0.1], [0.2], [0.3]]))


def learn_many(world, injection, **settings):
    """There is no log of tables: all of it is learned, or nothing."""
    table, before = world.table(6), world.fleet.n_rewards
    injection.run(lambda: world.fleet.learn_many(table, **settings))
    if world.fleet.n_rewards == before:
        world.check()
        world.fleet.learn_many(table, **settings)
    world.learned_table(table)


def learn_sums(world, injection):
    learn_many(world, injection, refresh=False)


def expire(world, injection):
    """Decisions that nobody rewarded get the absent reward, once, if there is one; held rewards are learned."""
    made = [world.decide()() for _ in range(3)]
    world.fleet.reward(made[1].id, 0.5 if world.rewards == "number" else 1.0)
    world.clock.now += 200.0
    injection.run(world.fleet.pending)
    world.check()
    assert world.fleet.pending() == []


OPERATIONS = {
    operation.__name__: operation
    for operation in (reward, reward_many, decide, decide_many, learn_many, learn_sums, expire)
}


def inject(tmp_path, kind, what, monkeypatch, **where):
    """Put an exception into one call after another until none is left; return how many were put in."""
    # Batches of a few rows are spread over threads.
    monkeypatch.setattr(posse.engine.store, "MANY_ROWS", 5)
    world, count, quiet = World(tmp_path, **KINDS[kind]), 0, 0
    world.fleet.learn_many(first := world.table(30))
    world.learned_table(first)
    for injection in places(**where):
        # Another try at every refresh, which would otherwise wait for more rewards after one that failed.
        world.fleet._engine.store.__dict__.update(_retry_at=0.0, _failures=0)
        OPERATIONS[what](world, injection)
        count += injection.fired
        world.check(restart=injection.place % 5 == 0)
        quiet = 0 if injection.fired else quiet + 1
        if quiet == QUIET:
            break
    while world.fleet.refreshing:
        pass
    world.check(restart=True)
    world.fleet._engine.ensure_fresh()
    before = world.fleet._engine.store.belief.shared_mean.copy()
    world.fleet._engine.store.rebuild()
    np.testing.assert_allclose(before, world.fleet._engine.store.belief.shared_mean, rtol=1e-6, atol=1e-9)
    return count


QUICK = [
    *(("ebm-ts", what) for what in OPERATIONS),
    *(("counting", what) for what in ("decide", "decide_many", "reward", "reward_many", "expire")),
    *(("held", what) for what in ("decide", "decide_many", "reward", "reward_many", "expire")),
    ("ebm-ts, paper", "reward"),
    ("lin-ucb", "reward_many"),
    ("counting, paper", "decide"),
    ("counting, background", "reward_many"),
    *(("clicks", what) for what in ("reward", "reward_many", "learn_many")),
    *(("clicks, counting", what) for what in ("decide", "decide_many", "reward", "reward_many", "expire")),
    *(("drift, learned", what) for what in ("reward", "reward_many")),
    ("drift, held", "expire"),
    ("clicks, drift", "reward_many"),
    ("clicks, drift, learned", "reward"),
    ("known", "reward_many"),
    ("clicks, known", "reward_many"),
    ("clicks, known, counting", "decide_many"),
]


@pytest.mark.parametrize(("kind", "what"), QUICK)
def test_what_is_learned_is_what_the_log_says(tmp_path, monkeypatch, kind, what):
    assert inject(tmp_path, kind, what, monkeypatch, most=200, stride=53, dense=4, middle=60) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", OPERATIONS)
def test_every_place_of_every_operation(tmp_path, monkeypatch, kind, what):
    assert inject(tmp_path, kind, what, monkeypatch, most=400) >= 10


# What changes names, arms and tasks: afterwards the fleet is as before, or as if nothing had been raised.


def lived(tmp_path, kind):
    world = World(tmp_path, **KINDS[kind])
    world.fleet.learn_many(world.table(30))
    for _ in range(6):
        world.decide()()
    world.fleet.retire_arm("blue")
    return world.fleet


def other_fleet(kind):
    other = Posse(arms=("red", "white"), features=["a"], seed=4, **KINDS[kind])
    second = 2.0 if other.rewards == "number" else 0.0
    other.learn_many({"task": ["t1", "x"], "arm": ["red", "white"], "a": [1.0, 2.0], "reward": [1.0, second]})
    other.decide("x", [1.0])
    return other


def state_of(fleet):
    """Return what callers see of names and counts, and whether the arrays fit them."""
    store = fleet._engine.store
    assert len(fleet._arms) == store.n_arms == len(store.belief.n_seen) == len(store.memory.threshold)
    assert len(store.belief.slot) == store.n_tasks == len(fleet._tasks) + len(store.free_tasks)
    sums = {pair: np.round(values, 9).tolist() for pair, values in sums_of(fleet).items()}
    waiting = sorted((entry.task, entry.arm) for entry in fleet.pending())
    return fleet.arms, fleet.retired_arms, fleet.tasks, fleet.n_rewards, fleet.n_decisions, waiting, str(sums)


CHANGES = {
    "forget": lambda fleet, other: fleet.forget("t1", "t2"),
    "forget all": lambda fleet, other: fleet.forget(*fleet.tasks),
    "add_arm": lambda fleet, other: fleet.add_arm("white"),
    "bring an arm back": lambda fleet, other: fleet.add_arm("blue"),
    "retire_arm": lambda fleet, other: fleet.retire_arm("green"),
    "rename": lambda fleet, other: fleet.rename("green", "lime"),
    "refresh": lambda fleet, other: fleet.refresh(),
    "merge": lambda fleet, other: fleet.merge(other),
}


def change(tmp_path, kind, what, **where):
    before, plain = lived(tmp_path, kind), lived(tmp_path, kind)
    CHANGES[what](plain, other_fleet(kind))
    allowed, count, quiet = (state_of(before), state_of(plain)), 0, 0
    priors = [fleet._engine.store.prior.covariance for fleet in (before, plain)]
    for injection in places(**where):
        fleet, other = lived(tmp_path, kind), other_fleet(kind)
        injection.run(lambda: CHANGES[what](fleet, other))  # noqa: B023
        found = state_of(fleet)
        assert found in allowed, injection.raised
        # In the background it depends on the machine which decisions a population knows of.
        if injection.raised is not None and what == "refresh" and kind != "counting, background":
            assert any(np.array_equal(fleet._engine.store.prior.covariance, one) for one in priors)
        if found == allowed[0] != allowed[1]:
            CHANGES[what](fleet, other)
        assert state_of(fleet) == allowed[1]
        fleet.reward(fleet.decide("t5", [0.3]).id, 1.0)
        fleet.save(tmp_path / "fleet.posse")
        at_once = KINDS[kind].get("count_pending", True)
        assert state_of(Posse.load(tmp_path / "fleet.posse", clock=Clock()))[3] == plain.n_rewards + at_once
        count += injection.fired
        quiet = 0 if injection.fired else quiet + 1
        if quiet == QUIET:
            break
    return count


QUICK_CHANGES = [*(("ebm-ts", what) for what in CHANGES), ("counting", "forget"), ("counting", "merge")]


@pytest.mark.parametrize(("kind", "what"), QUICK_CHANGES)
def test_a_change_is_made_or_not(tmp_path, kind, what):
    assert change(tmp_path, kind, what, most=200, stride=53, dense=4, middle=40) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHANGES)
def test_every_place_of_every_change(tmp_path, kind, what):
    assert change(tmp_path, kind, what, most=120, stride=3, middle=40) >= 5


# An estimate of the population that fails.


def break_estimates(patch, error):
    def fail(*_, **__):
        raise error

    patch.setattr("posse.model.refresh.Refresh.run", fail)
    patch.setattr("posse.kernels.estimators.refresh", fail)


@pytest.mark.parametrize("kind", ["counting", "counting, paper", "counting, background"])
@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), MemoryError()])
def test_a_decision_is_returned_though_the_refresh_that_it_made_due_fails(tmp_path, monkeypatch, caplog, kind, error):
    world = World(tmp_path, **KINDS[kind])
    fleet = world.fleet
    fleet.learn_many(first := world.table(30))
    world.learned_table(first)
    with monkeypatch.context() as patch:
        break_estimates(patch, error)
        made = [world.decide()() for _ in range(12)]
        made += fleet.decide_many(["t1", "new"] * 4, [[0.1], [0.2]] * 4)
        while fleet.refreshing:
            pass
        assert type(error).__name__ in fleet.refresh_problem
        assert fleet.n_rewards == 30 + 20
        # Rewards that replace what their decisions count as are no more of them, but news for the next refresh.
        tries = caplog.text.count("the population")
        assert [fleet.reward(decision.id, 1.0) for decision in made[:12]] == [True] * 12
        assert fleet.reward_many([decision.id for decision in made[12:]], [1.0] * 8) == 8
        while fleet.refreshing:
            pass
        assert caplog.text.count("the population") > tries
        assert fleet.n_rewards == 30 + 20
        world.check(restart=True)
    fleet.learn_many(table := world.table(80))
    world.learned_table(table)
    while fleet.refreshing:
        pass
    assert fleet.refresh_problem is None
    world.check(restart=True)


@pytest.mark.parametrize("kind", ["ebm-ts", "ebm-ts, paper", "lin-ucb"])
@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), MemoryError(), RuntimeError("no threads")])
def test_a_refresh_that_fails_leaves_the_reward_learned(tmp_path, monkeypatch, caplog, kind, error):
    world = World(tmp_path, **KINDS[kind])
    fleet = world.fleet
    fleet.learn_many(first := world.table(30))
    world.learned_table(first)
    made = [world.decide()() for _ in range(20)]
    prior = fleet.prior
    with monkeypatch.context() as patch:
        break_estimates(patch, error)
        with pytest.raises(type(error)):
            fleet.refresh()
        assert fleet.refresh_problem is None  # whoever asked was told
        for decision in made[:12]:
            assert fleet.reward(decision.id, 1.0) is True
            assert fleet.reward(decision.id, 1.0) is False
        assert fleet.reward_many([decision.id for decision in made[12:]], [1.0] * 8) == 8
        fleet.learn_many(table := world.table(40))
        world.learned_table(table)
        assert type(error).__name__ in fleet.refresh_problem
        assert np.array_equal(fleet.prior.covariance, prior.covariance)
        world.decide()()
        world.check(restart=True)
    # With 30 to 90 rewards, tries are 2, 4, 8 and 16 rewards apart.
    assert 2 <= caplog.text.count("could not be estimated") <= 8
    fleet.learn_many(table := world.table(80))
    world.learned_table(table)
    assert fleet.refresh_problem is None
    world.check(restart=True)


def test_a_refresh_in_the_background_that_fails_is_tried_again_later(tmp_path, monkeypatch, caplog):
    world = World(tmp_path, background=True)
    fleet = world.fleet
    fleet.learn_many(first := world.table(30))
    world.learned_table(first)

    def learn(n):
        for _ in range(n):
            fleet.reward(world.decide()().id, 1.0)
            while fleet.refreshing:
                pass

    with monkeypatch.context() as patch:
        break_estimates(patch, OSError(24, "Too many open files"))
        learn(20)
        assert "Too many open files" in fleet.refresh_problem
        assert 2 <= caplog.text.count("the population stays as it was") <= 5
        world.check(restart=True)
    learn(40)
    assert fleet.refresh_problem is None
    world.check(restart=True)
