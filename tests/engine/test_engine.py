"""The engine alone: tasks and arms by number, no names, and the same answers as a fleet that has them."""

import threading

import numpy as np
import pytest

from posse import Posse
from posse.engine.commit import commit
from posse.engine.decide import choose, decide_rows
from posse.engine.engine import Engine
from posse.engine.learn import prepare_one, prepare_rows
from posse.errors import InvalidValue

ARMS = np.arange(2)


def engine_like(fleet, **settings):
    """Return a new engine with the settings of a fleet."""
    behaviour = fleet._behaviour
    return Engine(
        start=behaviour.start, method=behaviour.method, rule=behaviour.rule, family=behaviour.family,
        growth=behaviour.refresh_growth, lock=threading.RLock(), **settings,
    )  # fmt: skip


def decide(engine, task, x, step, uniform):
    engine.ensure_fresh()
    out = np.empty((3, ARMS.size))
    return choose(engine, task, x, ARMS, step, True, uniform, out), out


def learn_one(engine, task, arm, x, reward):
    due, refresh = prepare_one(engine, task, arm)
    commit(engine.store.learning_one(task, arm, x, reward))
    if due:
        engine.estimate_after_one(refresh)


@pytest.mark.parametrize("rewards", ["number", "binary"])
def test_an_engine_decides_by_number_as_a_fleet_does_by_name(rewards):
    fleet = Posse(arms=["red", "green"], features=["age"], seed=7, rewards=rewards)
    engine, uniforms = engine_like(fleet), fleet._stream(0)
    numbers, rng = {}, np.random.default_rng(1)
    for row in range(120):
        name, x, reward = f"t{rng.integers(6)}", [float(rng.normal())], float(rng.integers(2))
        decision = fleet.decide(name, x)
        fleet.reward(decision, reward)

        step = max(row, engine.store.experience) + 1
        encoded = np.array([1.0, *x])
        position, out = decide(engine, numbers.get(name, -1), encoded, step, uniforms.random())
        if name not in numbers:
            numbers[name] = engine.store.add_tasks(1)[0]
        assert fleet.arms[position] == decision.arm
        assert out.tolist() == [list(part.values()) for part in decision[4:]]
        learn_one(engine, numbers[name], position, encoded, reward)
    assert engine.store.n_rewards == fleet.n_rewards == 120


def test_rows_of_an_engine_are_prepared_first_and_learned_then():
    engine = engine_like(Posse(arms=["red", "green"], features=["age"]))
    tasks = np.array(engine.store.add_tasks(3))
    X, y = np.column_stack([np.ones(3), [0.0, 1.0, 2.0]]), np.array([1.0, 2.0, 3.0])

    update = prepare_rows(engine, tasks, np.array([0, 1, 0]), X, y)
    assert engine.store.n_rewards == 0
    commit(update.steps)
    engine.estimate_after(update)

    assert engine.store.n_rewards == 3
    assert engine.store.memory.evidence.refreshed_at[0] == 3
    mask = np.ones((1, 2), dtype=np.bool_)
    chosen, probabilities, mean, _ = decide_rows(engine, tasks, X, mask, (1, 1), False, np.zeros(3))
    assert chosen.tolist() == mean.argmax(axis=1).tolist()
    assert probabilities.sum(axis=1).tolist() == [1.0, 1.0, 1.0]


def test_an_estimate_that_fails_is_postponed_and_what_was_learned_counts(monkeypatch, caplog):
    engine = engine_like(Posse(arms=["red", "green"], features=["age"]))
    task = engine.store.add_tasks(1)[0]

    def fail(*_, **__):
        raise InvalidValue("no")

    monkeypatch.setattr(engine.store, "refresh", fail)
    learn_one(engine, task, 0, np.array([1.0, 2.0]), 3.0)

    assert engine.store.n_rewards == 1
    assert engine.store.problem == "InvalidValue: no"
    assert engine.store.postponed
    assert "could not be estimated" in caplog.text
    with pytest.raises(InvalidValue, match="no"):
        engine.refresh()


def test_an_engine_estimates_in_the_background_only_what_can_be():
    fleets = [Posse(arms=["red"], features=["age"], prior=prior) for prior in ("evidence", "paper")]
    engines = [engine_like(fleet, in_background=True) for fleet in fleets]
    assert [engine.estimates_later for engine in engines] == [True, False]
    assert not any(engine.is_refreshing for engine in engines)
