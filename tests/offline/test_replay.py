import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue, UnknownPolicy
from posse.offline import LoggedBandit, Replay
from posse.offline.replay import smallest_propensity


class Recording:
    """Takes one arm, always, and remembers what it was told."""

    label = "recording"

    def __init__(self, *, n_tasks, n_arms, n_features, arm=0):
        self.arm, self.steps, self.learned = arm, [], []
        Recording.last = self

    def choose(self, task, context, step, rng):
        self.steps.append(step)
        return self.arm

    def update(self, task, arm, context, reward):
        self.learned.append((task, arm, float(context[1]), reward))


def tilted(n=20_000, seed=0):
    """Arm 0 pays what the context says, and is logged more often where that is much."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    chance = 0.2 + 0.6 / (1 + np.exp(-2 * x))
    arms = (rng.random(n) >= chance).astype(np.int64)
    logged = np.column_stack([chance, 1 - chance])
    return LoggedBandit(
        tasks=rng.integers(0, 5, n),
        arms=arms,
        contexts=np.column_stack([np.ones(n), x]),
        rewards=np.where(arms == 0, x, 9.0),
        propensities=logged[np.arange(n), arms],
        probabilities=logged,
    )


def test_kept_rows_are_a_fair_sample_of_all_rows():
    data = tilted()
    played = Replay(Recording).run(data)

    # Every choice is kept with the smallest probability, whatever the context: 4 standard errors.
    expected = smallest_propensity(data)
    assert played.steps / data.n_rows == pytest.approx(expected, abs=4 * np.sqrt(expected / data.n_rows))
    assert played.contributions.value == pytest.approx(data.contexts[:, 1].mean(), abs=4 / np.sqrt(played.steps))
    # Rows that agree, all of them, would not be: contexts with much reward are logged more often.
    assert data.rewards[data.arms == 0].mean() > 4 / np.sqrt(played.steps)


def test_a_policy_learns_what_was_kept_and_nothing_else():
    data = tilted(n=300)
    played = Replay(Recording, arm=1).run(data)
    policy = Recording.last
    kept = np.flatnonzero(played.accepted)

    assert (data.arms[kept] == 1).all()
    assert policy.learned == [(data.tasks[row], 1, data.contexts[row, 1], 9.0) for row in kept]
    # Steps count from 1, and go on by one where a row was kept.
    assert policy.steps == (1 + np.concatenate([[0], np.cumsum(played.accepted)[:-1]])).tolist()


def test_uniform_logs_keep_every_row_that_agrees():
    rng = np.random.default_rng(1)
    arms = rng.integers(0, 4, 100)
    data = LoggedBandit(
        tasks=np.zeros(100, int), arms=arms, contexts=np.ones((100, 2)), rewards=arms, propensities=np.full(100, 0.25)
    )

    assert_array_equal(Replay(Recording, arm=2).run(data).accepted, arms == 2)


def test_a_learning_policy_earns_more_than_chance_and_a_seed_is_a_run(make):
    made = make(n_tasks=6, rows=500, floor=1.0)
    data = made.data
    played = Replay("ebm-ucb", prior="evidence").run(data, seed=3)
    chance = Replay("random").run(data, seed=3)

    # About a third of 3000 rows each; noise 1 and contexts give a standard error of 0.06.
    assert played.steps == pytest.approx(1000, abs=4 * np.sqrt(1000 * 2 / 3))
    assert played.contributions.value > chance.contributions.value + 0.3
    assert_array_equal(Replay("ebm-ucb", prior="evidence").run(data, seed=3).accepted, played.accepted)
    assert (Replay("ebm-ts").run(data, seed=3).accepted != Replay("ebm-ts").run(data, seed=4).accepted).any()


def test_names_say_what_is_replayed():
    assert Replay("ebm-ucb", exploration=0.3).name == "replay of ebm-ucb (exploration=0.3)"
    assert Replay(Recording).name == "replay of recording"
    assert Replay("random", label="chance").name == "chance"
    with pytest.raises(UnknownPolicy, match="did you mean 'ebm-ucb'"):
        Replay("ebm-ucp")


def test_arms_that_are_not_always_eligible_are_refused():
    eligible = np.array([[True, True], [True, False]])
    data = LoggedBandit(
        tasks=[0, 0], arms=[0, 0], contexts=[[1.0], [1.0]], rewards=[1, 1], propensities=[0.5, 1.0], eligible=eligible
    )

    with pytest.raises(InvalidValue, match="every arm is always eligible"):
        Replay("random").run(data)
