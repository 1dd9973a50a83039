"""Forgetting: ageing by half-lives, wherever and however often pairs are looked at, and half-lives that are learned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.core.core import Core
from posse.core.forgetting import (
    ANEW,
    WATCHED,
    WORTH,
    Event,
    HalfLife,
    HalfLives,
    Learned,
    Never,
    age_at,
    moved_on,
    new_ageing,
    predict_each,
    share_left,
    shares_left,
)
from posse.core.noticing import ALL_TASKS, Believed, OfFamily, OfNumbers
from posse.core.rule import Rule
from posse.core.select import RANDOMISED
from posse.families import family_of, linked_family_of

RULE = Rule(RANDOMISED.scaled(0.4), 0.0, 0.0)
FAMILIES = ("number", "binary", "count")


def new_core(
    forgetting: Any, family: str = "number", n_arms: int = 3, d: int = 2, n_tasks: int = 4, **more: Any
) -> Core:
    core = Core(n_arms, d, family=family_of(family), rule=RULE, forgetting=forgetting, **more)
    core.take_tasks(core.reserve_tasks(n_tasks))
    return core


def learned(family: str = "number", candidates: tuple[float, ...] = (10.0, 40.0)) -> Learned:
    return Learned(candidates, 3, 2, family_of(family))


def drawn(rng: np.random.Generator, family: str, predictor: Any) -> Any:
    if family == "number":
        return predictor + rng.normal(size=np.shape(predictor))
    mean = linked_family_of(family).mean_of(predictor)
    return np.asarray(rng.random(np.shape(mean)) < mean if family == "binary" else rng.poisson(mean), dtype=float)


def teach(core: Core, rng: np.random.Generator, steps: int, first: int = 0, shift: float = 0.0) -> None:
    """Let a core decide and learn; a step takes one unit of time."""
    out, among = np.empty((3, core.n_arms)), np.arange(core.n_arms)
    for n in range(first, first + steps):
        task, x, now = n % 4, np.array([1.0, rng.normal()]), float(n)
        arm = core.decide(task, x, now, among, n + 1, True, rng.random(), out)
        predictor = 0.4 * arm - 0.6 + 0.3 * task * x[1] + shift * (arm - 1.0)
        core.learn(task, arm, x, float(drawn(rng, core.family.name, predictor)), now)
        core.estimate_if_due()


def believed(core: Core, now: float) -> np.ndarray:
    out, x = np.empty((5, 2, core.n_arms)), np.array([1.0, 0.7])
    for task in range(-1, 4):
        core.predict(task, x, now, np.arange(core.n_arms), out[task])
    return out


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=True) for name in first
    )


# The law.


@pytest.mark.parametrize("information", [0.3, 7.0, 5000.0])
def test_ageing_by_s_and_then_by_t_is_ageing_by_s_plus_t(information: float) -> None:
    first = share_left(information, 0.4)
    assert_allclose(first * share_left(first * information, 0.9), share_left(information, 1.3), rtol=1e-13)


def test_ageing_is_that_of_a_coefficient_that_returns_to_its_population() -> None:
    # One coefficient: the precision of what was learned is what is left when the belief has diffused.
    half_lives, precision = 0.375, WORTH * 9.0
    r = 2.0**-half_lives
    variance = r**2 / (1.0 + precision) + 1.0 - r**2
    assert_allclose(precision * share_left(9.0, half_lives), 1.0 / variance - 1.0)
    assert_allclose(shares_left(np.array([9.0, 9.0]), np.array([half_lives, 0.0])), [share_left(9.0, half_lives), 1.0])


def test_what_old_rewards_are_worth_is_bounded_and_never_nothing_at_all() -> None:
    assert 1e12 * share_left(1e12, 1.0 / 16.0) < 60.0
    assert 1e12 * share_left(1e12, ANEW) < 5e-3
    assert 0.0 < share_left(5.0, 1e9) < 1e-200  # so that its logarithm is a number
    assert share_left(5.0, -3.0) == 1.0


def test_another_half_life_counts_from_when_it_was_found_on() -> None:
    ageing = moved_on(new_ageing(HalfLife(10.0)), 30.0, math.inf)
    ageing = moved_on(ageing, 70.0, 5.0)
    # Three half-lives of 10, none while nothing faded, two of 5.
    assert_allclose(age_at(80.0, ageing), 5.0)
    assert age_at(50.0, new_ageing(Never())) == 0.0


# Cores.


@pytest.mark.parametrize("family", FAMILIES)
def test_it_does_not_matter_how_often_a_pair_is_looked_at(family: str) -> None:
    often, once = new_core(HalfLife(20.0), family), new_core(HalfLife(20.0), family)
    for core in (often, once):
        teach(core, np.random.default_rng(1), 60)
    for now in np.linspace(60.0, 95.0, 50):
        believed(often, now)
        often.coefficients(1, 1, now)
    assert same(often.snapshot(), once.snapshot())
    assert np.array_equal(believed(often, 100.0), believed(once, 100.0))


@pytest.mark.parametrize("family", FAMILIES)
def test_after_a_long_time_a_task_is_believed_to_be_like_one_never_seen(family: str) -> None:
    core = new_core(HalfLife(20.0), family)
    teach(core, np.random.default_rng(2), 80)
    now = believed(core, 80.0)
    assert np.abs(now[:-1] - now[-1]).max() > 0.01
    later = believed(core, 1e6)
    assert_allclose(later[:-1], np.repeat(later[-1:], 4, axis=0), rtol=1e-9)


@pytest.mark.parametrize("p", [0, 1])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_reward_that_is_replaced_late_counts_as_if_it_had_come_at_once(is_open: bool, p: int) -> None:
    late, at_once = (new_core(HalfLife(9.0), n_task_features=p, growth=1e9) for _ in range(2))
    rng = np.random.default_rng(3)
    rows = [(n % 4, n % 3, rng.normal(size=2), float(rng.normal())) for n in range(30)]
    receipts = []
    for n, (task, arm, x, reward) in enumerate(rows):
        receipts.append(late.learn(task, arm, x, -1.0, float(n), is_open=is_open))
        at_once.learn(task, arm, x, reward, float(n))
        if n >= 12:
            late.replace(receipts[n - 12], rows[n - 12][-1], float(n))
    for n in range(18, 30):
        late.replace(receipts[n], rows[n][-1], 30.0)
        at_once.replace(receipts[n]._replace(reward=rows[n][-1]), rows[n][-1], 30.0)  # touched at the same time
    assert_allclose(believed(late, 31.0), believed(at_once, 31.0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_feature_that_fades_away_leaves_nothing_that_cannot_be_factored(family: str) -> None:
    core, rng = new_core(HalfLife(2.0), family), np.random.default_rng(4)
    for n in range(400):
        x = np.array([1.0, 1e4 if n < 40 else 0.0])
        core.learn(n % 4, n % 3, x, float(drawn(rng, family, 0.2)), float(n))
        core.estimate_if_due()
    found = believed(core, 400.0)
    assert np.isfinite(found).all()
    assert (found[:, 1] > 0.0).all()
    mean, covariance = core.coefficients(0, 0, 400.0)
    assert np.isfinite(mean).all()
    assert np.linalg.eigvalsh(covariance)[0] > 0.0
    assert core.problem is None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_change_of_all_tasks_leaves_little_of_what_was_learned_and_costs_nothing_at_once(family: str) -> None:
    core = new_core(learned(family), family)
    teach(core, np.random.default_rng(5), 200)
    pairs = core.state.store.pairs.copy()
    before = core.count(200.0)
    core.apply(Event(200.0, task=ALL_TASKS))
    assert np.array_equal(core.state.store.pairs, pairs)  # no pair was touched
    assert core.count(200.0) < 1e-2 * 12
    assert before > 100.0
    assert core.due()
    assert core.changes == [(200.0, ALL_TASKS)]
    core.estimate()
    after = believed(core, 200.0)
    assert_allclose(after[:-1, 0], np.repeat(after[-1:, 0], 4, axis=0), atol=0.1)


def test_a_change_of_one_task_leaves_the_others_as_they_were() -> None:
    core = new_core(learned(), growth=1e9)
    teach(core, np.random.default_rng(6), 200)
    before = {task: core.sums(np.array([task]), 200.0) for task in range(4)}
    core.apply(Event(200.0, task=2))
    for task in range(4):
        after = core.sums(np.array([task]), 200.0)
        assert (after.counts.sum() < 0.02) == (task == 2)
        assert np.array_equal(after.gram, before[task].gram) == (task != 2)
    teach(core, np.random.default_rng(7), 40, first=201)
    told, shared = core.state.store.told.copy(), core.state.store.shared.copy()
    core.ensure_fresh()
    assert np.isfinite(told).all()
    assert np.isfinite(shared).all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("absent", [False, True])
def test_a_restored_core_goes_on_to_the_bit(family: str, absent: bool) -> None:
    def go_on(core: Core, rng: np.random.Generator, first: int) -> None:
        for n in range(first, first + 150):
            task, arm, x = n % 4, int(rng.integers(3)), np.array([1.0, rng.normal()])
            reward = float(drawn(rng, family, 1.5 * (arm - 1) if n % 8 else 3.0))
            if absent:
                receipt = core.learn(task, arm, x, 0.0, float(n), is_open=True)
                core.close(core.replace(receipt, reward, n + 0.5))
            else:
                core.learn(task, arm, x, reward, float(n))
            core.estimate_if_due()

    saved, loaded = new_core(learned(family), family), new_core(learned(family), family)
    go_on(saved, np.random.default_rng(8), 0)
    saved.apply(Event(150.0, half_life=40.0))
    saved.apply(Event(150.0, task=1))
    state = saved.snapshot()
    assert all(np.isfinite(array).all() for array in state.values())
    loaded.restore(state)
    assert loaded.half_life == 40.0
    assert same(loaded.snapshot(), state)
    for core in (saved, loaded):
        go_on(core, np.random.default_rng(9), 150)
    assert same(loaded.snapshot(), saved.snapshot())
    assert np.array_equal(believed(loaded, 300.0), believed(saved, 300.0))


def test_what_is_noticed_may_wait_and_count_elsewhere() -> None:
    # One watches and says what it noticed; another does not watch, and counts the same at the same place.
    watching, following = new_core(learned()), new_core(learned())
    watching.deferred, following.watching = True, False
    out, among = np.empty((3, 3)), np.arange(3)
    rng, events = np.random.default_rng(10), []
    for n in range(500):
        task, x = n % 4, np.array([1.0, rng.normal()])
        arm = watching.decide(task, x, float(n), among, n + 1, True, rng.random(), out)
        reward = float((3.0 if n > 250 else -3.0) * (arm - 1) + rng.normal())
        for core in (watching, following):
            core.learn(task, arm, x, reward, float(n))
            core.estimate_if_due()
        events += watching.events
        for event in watching.events:
            for core in (watching, following):
                core.apply(event)
                core.estimate_if_due()
        watching.events = []
    assert any(event.task == ALL_TASKS for event in events)
    assert following.changes == watching.changes
    assert following.half_life == watching.half_life
    assert np.array_equal(believed(watching, 500.0), believed(following, 500.0))


def test_a_swap_of_all_arms_is_noticed_and_learned_anew() -> None:
    core = new_core(learned())
    teach(core, np.random.default_rng(11), 400, shift=2.0)
    assert core.changes == []
    teach(core, np.random.default_rng(12), 400, first=400, shift=-2.0)
    assert [change.task for change in core.changes][:1] == [ALL_TASKS]
    assert 400.0 <= core.changes[0].time < 460.0
    assert (believed(core, 800.0)[:4, 0].argmax(axis=1) == 0).all()


def test_rewards_in_a_table_are_learned_as_if_they_had_come_one_by_one() -> None:
    rng = np.random.default_rng(13)
    tasks, arms, times = rng.integers(4, size=400), rng.integers(3, size=400), np.arange(400.0)
    contexts = np.column_stack([np.ones(400), rng.normal(size=400)])
    rewards = np.where(times < 300, 3.0, -3.0) * (arms - 1) + rng.normal(size=400)
    one_by_one, table = new_core(learned()), new_core(learned())
    for row in zip(tasks.tolist(), arms.tolist(), contexts, rewards.tolist(), times.tolist(), strict=True):
        one_by_one.learn(*row)
        one_by_one.estimate_if_due()
    table.learn_rows(tasks, arms, contexts, rewards, times)
    assert table.changes == one_by_one.changes != []
    assert_allclose(believed(table, 400.0), believed(one_by_one, 400.0), rtol=1e-8)


def test_a_reward_that_stands_for_an_absent_one_is_compared_when_it_is_final() -> None:
    # All clicks come late. Compared with the zeros that stand for them until then, they would be a change.
    core, rng = new_core(learned("binary"), "binary"), np.random.default_rng(14)
    receipts = []
    for n in range(900):
        x = np.array([1.0, rng.normal()])
        receipts.append(core.learn(n % 4, int(rng.integers(3)), x, 0.0, float(n), is_open=True))
        core.estimate_if_due()
        if n >= 60:
            core.close(core.replace(receipts[n - 60], float(rng.random() < 0.5), float(n)))
    assert 500 < core.forgetting.detectors.noted <= 840  # none while more than a fifth of all rewards wait
    assert core.changes == []


def test_a_task_that_is_forgotten_leaves_nothing() -> None:
    core = new_core(learned())
    teach(core, np.random.default_rng(15), 100)
    core.apply(Event(100.0, task=2))
    core.forget(np.array([2]))
    assert core.changes == []
    state = core.forgetting.state()
    assert 2 not in state["pairs"][:, 0]
    assert 2 not in [*state["task_sums_0"][:, 0], *state["world_shares_0"][:, 0]]
    core.take_tasks(core.reserve_tasks(1))
    core.learn(2, 0, np.ones(2), 1.0, 101.0)  # takes the place
    places = core.forgetting.half_lives.pairs.values()
    assert len(set(places)) == len(places)


def test_a_reward_that_cannot_be_compared_is_learned_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    core = new_core(learned())

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("no")

    core.forgetting.watch = broken
    core.learn(0, 0, np.ones(2), 1.0, 0.0)
    assert core.n_rewards == 1
    assert "could not be compared" in caplog.text


# Half-lives that are learned.


def test_predictions_are_those_of_the_posterior() -> None:
    rng = np.random.default_rng(3)
    X, y, x, before = rng.normal(size=(7, 2)), rng.normal(size=7), np.array([0.7, -1.3]), of_population()
    mean, variance = predict_each((X.T @ X)[None], (X.T @ y)[None], x, before)
    covariance = np.linalg.inv(np.linalg.inv(before.covariance) + X.T @ X / before.noise)
    expected = covariance @ (np.linalg.solve(before.covariance, before.centre) + X.T @ y / before.noise)
    assert_allclose(mean, x @ expected)
    assert_allclose(variance, x @ covariance @ x)


def of_population(mean: tuple[float, float] = (0.4, -0.2), covariance: Any = None, noise: float = 0.5) -> Believed:
    covariance = np.array([[0.8, 0.3], [0.3, 0.5]]) if covariance is None else covariance
    return Believed(0.0, 0.1, 0.0, 1.0, np.array(mean), covariance, noise)


@pytest.mark.parametrize(
    "family", ["number", pytest.param("binary", marks=pytest.mark.slow), pytest.param("count", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("half_life", "expected"), [(math.inf, {math.inf}), (50.0, {25.0, 50.0, 100.0})])
def test_the_half_life_under_which_rewards_were_drawn_is_found(
    half_life: float, expected: set[float], family: str
) -> None:
    # 10 tasks: true and other half-lives differ by dozens of nats. A number is worth here what ageing takes it to be
    # worth; clicks say little, so their tasks differ by 2 on the scale of the predictor.
    rng, steps = np.random.default_rng(5), 1000 if family == "number" else 600
    before = of_population(noise=0.65 / WORTH)
    if family == "binary":
        before = of_population((-0.5, 0.3), np.diag([4.0, 1.0]), 1.0)
    elif family == "count":
        before = of_population((0.2, 0.1), np.diag([0.5, 0.2]), 1.0)
    root, likelihoods = np.linalg.cholesky(before.covariance), OfNumbers()
    if family != "number":
        likelihoods = OfFamily(linked_family_of(family))  # type: ignore[assignment]
    found = HalfLives((math.inf, 12.5, 25.0, 50.0, 100.0, 200.0), 1, 2, likelihoods)
    deviation, present, r = rng.normal(size=(10, 2)) @ root.T, math.inf, 2.0 ** (-1.0 / half_life)
    for step in range(steps):
        deviation = r * deviation + math.sqrt(1 - r * r) * rng.normal(size=(10, 2)) @ root.T
        contexts = rng.normal(size=(10, 2)) * ([1, 1] if family == "number" else [0, 1])
        contexts += 0.0 if family == "number" else np.array([1.0, 0.0])
        predictor = (contexts * (before.centre + deviation)).sum(axis=1)
        rewards = predictor + math.sqrt(before.noise) * rng.normal(size=10)
        if family != "number":
            rewards = drawn(rng, family, predictor)
        for task in range(10):
            found.learn(float(step), task, 0, contexts[task], float(rewards[task]), before)
        present = found.best(present)
    assert present in expected


def test_sums_under_every_half_life_fit_in_bounded_memory() -> None:
    assert HalfLives([math.inf] * 9, 1000, 30, OfNumbers()).n_tasks == 1
    assert HalfLives([math.inf] * 9, 5, 10, OfNumbers()).n_tasks == WATCHED


def test_a_half_life_that_leaves_too_few_rewards_of_a_pair_is_not_chosen() -> None:
    # Rewards jump to and fro, which the shortest half-life predicts best; it leaves some two of a pair.
    before = of_population(noise=0.01)
    for candidates, expected in (((math.inf, 1.5), math.inf), ((math.inf, 12.0), 12.0)):
        found = HalfLives(candidates, 1, 2, OfNumbers())
        for step in range(300):
            for task in range(10):
                found.learn(float(step), task, 0, np.ones(2), 1.0 if step % 60 < 30 else -1.0, before)
        assert found.score[1] > found.score[0] + 100.0
        assert found.best(math.inf) == expected
