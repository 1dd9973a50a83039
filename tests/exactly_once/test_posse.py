"""A change of a fleet is made as a whole or not at all, and its log agrees, whatever fails on the way.

What fails is what can: the log, the clock, memory where arrays are made, and Ctrl-C at any line. Only what users see is
looked at, so this holds for any engine.
"""

import functools
import itertools
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import posse
from posse import FeatureSpec, Posse
from posse.features import one_hot

from .injecting import Injection, let_go

ROOT = str(Path(posse.__file__).parent)
ARMS = ("red", "green", "blue")
TASKS = [f"t{number}" for number in range(6)]
NEVER = 1e9  # times as many rewards, until the population is estimated again
FEATURES = {"task_features": FeatureSpec([one_hot("region", ["cold", "warm"])])}
KINDS = {
    "numbers": {},
    "numbers, estimated after every reward": {"refresh_growth": 0.0},
    "numbers, absent reward": {"absent_reward": 0.25},
    "numbers, absent reward at the end": {"absent_reward": 0.25, "count_pending": False},
    "numbers, half-life": {"drift": 2.0},
    "numbers, learned drift, features": {"drift": "learn", **FEATURES},
    "numbers, robust": {"robust": True},
    "numbers, paper": {"prior": "paper", "policy": "ebm-ts"},
    "numbers, background": {"background": True, "refresh_growth": 0.0},
    "lin-ucb": {"policy": "lin-ucb"},
    "clicks": {"rewards": "binary"},
    "clicks, absent reward, features": {"rewards": "binary", "absent_reward": 0.0, **FEATURES},
    "clicks, learned drift": {"rewards": "binary", "drift": "learn"},
    "counts, absent reward": {"rewards": "count", "absent_reward": 0.0},
    "counts, estimated after every reward": {"rewards": "count", "refresh_growth": 0.0},
    "revenue": {"rewards": "revenue"},
    "revenue, absent reward, features": {"rewards": "revenue", "absent_reward": 0.0, **FEATURES},
    "revenue, learned drift": {"rewards": "revenue", "drift": "learn"},
}
ERRORS = (OSError, MemoryError, KeyboardInterrupt)


class Clock:
    """The time, which can fail."""

    def __init__(self, now=1000.0):
        self.now, self.error, self.fails_at, self.seen = now, None, 0, 0

    def __call__(self):
        self.seen += 1
        if self.error is not None and self.seen == self.fails_at:
            raise self.error("put into the clock")
        return self.now


class Log:
    """A log in memory, which can fail before it has written anything."""

    def __init__(self):
        self.records, self.error, self.fails_at, self.seen = [], None, 0, 0

    def __call__(self, records):
        self.seen += 1
        if self.error is not None and self.seen == self.fails_at:
            raise self.error("put into the log")
        self.records.extend(records)


# Ways to fail: the n-th place of one. They say whether anything was raised.


class Failing:
    """The n-th call of a log or a clock raises."""

    def __init__(self, which, place, error):
        self.which, self.place, self.error = which, place, error
        self.fired = False

    def run(self, operation, **parts):
        part = parts[self.which]
        part.error, part.fails_at, part.seen = self.error, self.place, 0
        try:
            return operation()
        except self.error as error:
            self.fired = "put into" in str(error)
            if not self.fired:
                raise
            let_go(error)
        finally:
            self.fired, part.error = part.seen >= self.place, None
        return None


class OutOfMemory:
    """The n-th array that a function of posse asks NumPy for is not there."""

    MAKERS = (
        "empty", "zeros", "ones", "full", "array", "asarray", "ascontiguousarray", "empty_like", "zeros_like", "arange",
        "concatenate", "stack", "column_stack", "vstack", "append", "insert", "copy", "repeat", "fromiter", "unique",
        "where", "flatnonzero", "nonzero", "argsort", "einsum", "searchsorted", "bincount", "eye", "triu_indices",
    )  # fmt: skip

    def __init__(self, place):
        self.place, self.seen, self.fired = place, 0, False

    def run(self, operation, **_):
        with pytest.MonkeyPatch.context() as patch:
            for name in self.MAKERS:
                patch.setattr(np, name, self.counted(getattr(np, name)))
            try:
                return operation()
            except MemoryError as error:
                if not self.fired:
                    raise
                let_go(error)
                return None

    def counted(self, make):
        @functools.wraps(make)
        def made(*arguments, **named):
            if sys._getframe(1).f_code.co_filename.startswith(ROOT):
                self.seen += 1
                if self.seen == self.place:
                    self.fired = True
                    raise MemoryError("put into numpy")
            return make(*arguments, **named)

        return made


class Interrupted(Injection):
    """Ctrl-C at the n-th line of posse."""

    def __init__(self, place):
        super().__init__(place, None)

    def run(self, operation, **_):
        return super().run(operation)


WAYS = {
    "log": lambda place: Failing("log", place, ERRORS[place % 3]),
    "clock": lambda place: Failing("clock", place, ERRORS[place % 3]),
    "memory": OutOfMemory,
    "interrupt": Interrupted,
}


# A fleet that has lived, and what people do with it.


class World:
    """A fleet as it was saved, its log and clock, and the decisions that wait."""

    def __init__(self, kind, path, waiting, tables):
        self.kind, self.clock, self.log, self.waiting, self.tables = kind, Clock(), Log(), waiting, tables
        self.fleet = Posse.load(path, clock=self.clock, log=self.log, background="background" in kind)

    def value(self, place=0):
        return 0.75 + place if self.fleet.rewards == "number" else 1.0

    def settle(self):
        while self.fleet.refreshing:
            pass


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return what makes the world of a kind, the same one as often as it is asked."""
    folder, made = tmp_path_factory.mktemp("fleets"), {}

    def new(kind):
        if kind not in made:
            made[kind] = (folder / f"{len(made)}.posse", *live(kind, folder / f"{len(made)}.posse"))
        return World(kind, *made[kind])

    return new


def live(kind, path):
    """Save a fleet that has decided and learned; return decisions that wait, and a table."""
    settings = {"refresh_growth": NEVER, **KINDS[kind]}
    fleet = Posse(ARMS, ["a"], seed=3, clock=Clock(), time_to_live=100.0, **settings)
    rng = np.random.default_rng(5)
    if "task_features" in settings:
        fleet.set_task_features({task: {"region": ["cold", "warm"][place % 2]} for place, task in enumerate(TASKS[:4])})

    def table(n):
        values = rng.normal(size=n) if fleet.rewards == "number" else rng.integers(2, size=n).astype(float)
        return {
            "task": rng.choice(TASKS, size=n).tolist(), "arm": rng.choice(ARMS, size=n).tolist(),
            "a": rng.normal(size=n).tolist(), "reward": values.tolist(),
        }  # fmt: skip

    fleet.learn_many(table(40))
    made = [fleet.decide(TASKS[place % 6], [0.1 * place]) for place in range(9)]
    for decision in made[:3]:
        fleet.reward(decision.id, 1.0)
    while fleet.refreshing:
        pass
    fleet.save(path)
    return [decision.id for decision in made[3:]], table(8)


def reward(world):
    return world.fleet.reward(world.waiting[0], world.value())


def reward_many(world):
    return world.fleet.reward_many(world.waiting[:4], [world.value(0)] * 4)


def decide(world):
    return world.fleet.decide("t1", [0.5]).arm


def decide_new(world):
    return world.fleet.decide("a new one", [0.5]).arm


def rank(world):
    return world.fleet.decide("t1", [0.5], k=2).arms


def decide_many(world):
    return world.fleet.decide_many(["t1", "another", "t2"], [[0.1], [0.2], [0.3]]).arm


def learn_many(world):
    return world.fleet.learn_many(world.tables)


def expire(world):
    world.clock.now = 1200.0
    return len(world.fleet.pending())


def forget(world):
    return world.fleet.forget("t1", "t2")


def add_arm(world):
    return world.fleet.add_arm("white")


def retire_arm(world):
    return world.fleet.retire_arm("green")


def rename(world):
    return world.fleet.rename("green", "lime")


def refresh(world):
    return world.fleet.refresh()


def merge(world):
    other = Posse(("red", "white"), ["a"], seed=4, clock=Clock(), **{"refresh_growth": NEVER, **KINDS[world.kind]})
    other.learn_many({"task": ["t1", "x"], "arm": ["red", "white"], "a": [1.0, 2.0], "reward": [1.0, 0.0]})
    world.fleet.merge(other)


def set_task_features(world):
    return world.fleet.set_task_features({"t1": {"region": "cold"}, "unseen": {"region": "warm"}})


def correct(world):
    return world.fleet.correct(world.waiting[5], world.value(1))


OPERATIONS = {
    one.__name__: one
    for one in (
        reward, reward_many, decide, decide_new, rank, decide_many, learn_many, expire, forget, add_arm, retire_arm,
        rename, refresh, merge, set_task_features, *([correct] if hasattr(Posse, "correct") else []),
    )
}  # fmt: skip
ESTIMATING = {"learn_many", "forget", "refresh", "merge", "set_task_features"}
"""What ends with an estimate of the population; if that fails, it is made up for later."""


def state_of(world):
    """Return what users see of names, counts and sums, and what the log says."""
    fleet = world.fleet
    world.settle()
    # New decisions of a loaded fleet have ids of their own.
    waiting = sorted(
        (entry.task, entry.arm, entry.id if entry.id in world.waiting else "") for entry in fleet.pending()
    )
    sums = fleet.statistics
    learned = [sums.count] if fleet.rewards != "number" else [sums.count, sums.moment, sums.gram, sums.sum_of_squares]
    return {
        "arms": fleet.arms, "retired": fleet.retired_arms, "tasks": fleet.tasks, "waiting": waiting,
        "rewards": round(fleet.n_rewards, 9), "decisions": fleet.n_decisions,
        "sums": zlib.crc32(np.concatenate([np.round(part, 6).ravel() + 0.0 for part in learned]).tobytes()),
        "log": [sorted((name, str(value)) for name, value in record.items() if name in ("arm", "reward", "task"))
                for record in world.log.records],
    }  # fmt: skip


def beliefs_of(world):
    found = []
    for task in [*world.fleet.tasks, "nowhere"]:
        expected = world.fleet.expected(task, [0.4])
        found.append([[*expected.mean.values()], [*expected.sd.values()]])
    return np.array(found)


def require_beliefs(world, wanted, *, estimated):
    """An interrupted estimate is made up for, so after some more the populations are the same, nearly."""
    found = beliefs_of(world)
    assert found.shape == wanted.shape
    assert np.isfinite(found).all()
    if not estimated:
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
        return
    distance = np.abs(found[:, 0] - wanted[:, 0]) / wanted[:, 1]
    assert distance.max() < (0.05 if world.fleet.rewards == "number" else 0.3), distance.max()


def estimate(world):
    for _ in range(4):
        world.fleet.refresh()


def fail(saved, kind, what, way, *, most, stride=1, middle=0):
    """Put a failure into one place after another until none is left; return how many were put in.

    Every place up to ``middle``, then one in ``stride``.
    """
    operation = OPERATIONS[what]
    before, after = saved(kind), saved(kind)
    result = operation(after)
    allowed = [state_of(before), state_of(after)]
    changes = allowed[0] != allowed[1]
    estimated = what in ESTIMATING or KINDS[kind].get("refresh_growth") == 0.0 or "paper" in kind
    if estimated:
        estimate(before)
        estimate(after)
    wanted = [beliefs_of(before), beliefs_of(after)]
    count = 0
    for place in itertools.chain(range(1, middle), range(max(middle, 1), most, stride)):
        world, failure = saved(kind), WAYS[way](place)
        found = failure.run(lambda: operation(world), log=world.log, clock=world.clock)  # noqa: B023
        if not failure.fired:
            break
        count += 1
        if what == "expire":
            world.clock.now = 1200.0
        state = state_of(world)
        assert state in allowed, (place, differences(state, *allowed))
        made = allowed.index(state)
        if changes and not made:
            # The same again does now what it would have done, with the same draw.
            assert operation(world) == result, place
            assert state_of(world) == allowed[1], (place, differences(state_of(world), *allowed))
            made = 1
        assert found in (None, result)
        if estimated:
            estimate(world)
        require_beliefs(world, wanted[made], estimated=estimated)
    return count


def differences(state, before, after):
    """Return what is neither as before nor as after; if there is nothing, the mixture."""
    allowed = {name: (before[name], after[name]) for name in state}
    return {name: value for name, value in state.items() if value not in allowed[name]} or state


def combinations(kinds, operations, ways):
    for kind, what, way in itertools.product(kinds, operations, ways):
        if what != "set_task_features" or "task_features" in KINDS[kind]:
            yield pytest.param(kind, what, way)


@pytest.mark.parametrize(("kind", "what", "way"), [*combinations(KINDS, OPERATIONS, ("log", "clock"))])
def test_a_log_or_a_clock_that_fails_changes_nothing(saved, kind, what, way):
    fail(saved, kind, what, way, most=6)


QUICK = [
    *combinations(["numbers", "clicks, absent reward, features"], OPERATIONS, ("memory", "interrupt")),
    *combinations(
        ["numbers, absent reward", "numbers, half-life", "clicks, learned drift", "numbers, learned drift, features"],
        ["decide", "reward", "reward_many", "expire", "set_task_features"],
        ("memory", "interrupt"),
    ),
]
STRIDES = {"memory": 7, "interrupt": 101}


@pytest.mark.parametrize(("kind", "what", "way"), QUICK)
def test_a_change_is_made_or_not(saved, kind, what, way):
    # A reward may need no memory.
    assert fail(saved, kind, what, way, most=12 * STRIDES[way], stride=STRIDES[way]) >= (way == "interrupt")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "what", "way"), [*combinations(KINDS, OPERATIONS, ("memory", "interrupt"))])
def test_every_place_of_every_change(saved, kind, what, way):
    most, stride = {"memory": (150, 1), "interrupt": (2000, 17)}[way]
    assert fail(saved, kind, what, way, most=most, stride=stride) >= (way == "interrupt")
