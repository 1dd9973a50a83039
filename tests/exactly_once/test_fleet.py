"""A fleet learns what its log says and nothing else, also when estimates of its population fail."""

import numpy as np
import polars as pl
import pytest

from posse import Posse
from posse.core.estimate import Climb
from posse.fleet.ledger import REWARDED

ARMS = ("red", "green", "blue")
LATE = {"absent_reward": 0.25}  # a decision counts as that until its reward comes
KINDS = {
    "ebm-ts": {"policy": "ebm-ts"},
    "ebm-ts, paper": {"policy": "ebm-ts", "prior": "paper"},
    "lin-ucb": {"policy": "lin-ucb"},
    "clicks": {"rewards": "binary"},
    "counting": LATE,
    "counting, paper": LATE | {"prior": "paper"},
    "counting, background": LATE | {"background": True},
    "clicks, counting": {"rewards": "binary", "absent_reward": 0.0},
    "revenue, counting": {"rewards": "revenue", "absent_reward": 0.0},
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
            ledger.id_at(at): int(ledger.status[at])
            for ledger in fleet.ledgers
            for at in range(ledger.head, ledger.head + ledger.size)
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
        assert fleet.n_rewards == fleet.core.experience == total
        assert fleet.n_decisions == len(self.decided)
        assert set(fleet.tasks) == {task for task, _ in self.tables} | {one["task"] for one in self.decided.values()}
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
    if fleet.rewards == "number":
        stats = fleet.statistics
        gram = stats.gram.reshape(*stats.count.shape, -1)
        return {
            (task, arm): [stats.count[k, j], stats.sum_of_squares[k, j], *stats.moment[k, j], *gram[k, j]]
            for j, task in enumerate(fleet.tasks)
            for k, arm in enumerate(fleet.arms)
            if stats.count[k, j]
        }
    label, sums = fleet.names.tasks.label, fleet.core.plain_sums()
    pairs = [(label(task), fleet.arms[arm]) for task, arm in zip(sums.tasks.tolist(), sums.arms.tolist(), strict=True)]
    rows = zip(sums.counts, sums.total, sums.contexts, sums.squares, strict=True)
    return {pair: [count, total, *x, *squares] for pair, (count, total, x, squares) in zip(pairs, rows, strict=True)}


# An estimate of the population that fails.


def break_estimates(patch, error):
    def fail(*_, **__):
        raise error

    patch.setattr(Climb, "run", fail)
    patch.setattr("posse.core.estimate._otherwise", fail)


@pytest.mark.parametrize("kind", ["counting", "counting, paper", "counting, background", "clicks, counting"])
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


@pytest.mark.parametrize("kind", ["ebm-ts", "ebm-ts, paper", "clicks"])
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
