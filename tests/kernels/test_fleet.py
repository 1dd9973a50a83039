import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from posse.kernels.fleet import (
    decide,
    decide_rows,
    observe_one,
    observe_rows,
)
from posse.kernels.lanes import new_lanes
from posse.kernels.packing import whole_matrices
from posse.kernels.posterior import new_buffers, observe, predict_arm, rebuild
from posse.kernels.propensity import score_room
from posse.kernels.rule import Rule, action_probabilities, pick
from posse.kernels.select import RANDOMISED, SAMPLING
from posse.model import Prior, Statistics
from posse.model.belief import new_belief

NO_FLOOR = Rule(SAMPLING.scaled(0.7), 0.0, 0.0)


def small_belief(seed=0, n_tasks=3, n_arms=2, d=2, n_rows=12):
    """A belief whose sums come from a few rows; the last task has none."""
    rng = np.random.default_rng(seed)
    stats = Statistics.from_data(
        task=rng.integers(n_tasks - 1, size=n_rows),
        arm=rng.integers(n_arms, size=n_rows),
        context=rng.normal(size=(n_rows, d)),
        reward=rng.normal(size=n_rows),
        n_tasks=n_tasks,
        n_arms=n_arms,
    )
    root = rng.normal(size=(n_arms, d, d))
    prior = Prior(covariance=root @ root.transpose(0, 2, 1), noise_variance=[0.3, 0.6], shared_precision=0.2)
    return new_belief(stats, prior)


# pick


@pytest.mark.parametrize(
    ("uniform", "arm"), [(0.0, 1), (0.2, 1), (np.nextafter(0.25, 0), 1), (0.25, 2), (0.49, 2), (0.5, 4), (0.999, 4)]
)
def test_a_uniform_number_falls_on_one_arm(uniform, arm):
    assert pick(np.array([0.0, 0.25, 0.25, 0.0, 0.5]), uniform) == arm


def test_an_arm_without_probability_is_never_picked():
    # Probabilities that add up to a little less than 1 leave the last arm with any to take the rest.
    assert pick(np.array([0.0, 0.5, 0.4999999, 0.0]), np.nextafter(1.0, 0.0)) == 2
    assert pick(np.array([0.0, 0.0, 1.0]), 0.0) == 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1, exclude_max=True))
def test_the_picked_arm_has_a_positive_probability(weights, uniform):
    probabilities = np.array(weights) / max(sum(weights), 1e-300)

    arm = pick(probabilities, uniform)

    if probabilities.any():
        assert probabilities[arm] > 0
        before = math.fsum(probabilities[:arm])
        assert before <= uniform + 1e-12


# decide, decide_rows


def test_deciding_predicts_weighs_and_picks(ground_of):
    belief, x, arms = small_belief(), np.array([0.4, -1.2]), np.array([1, 0])
    ground, out = ground_of(belief, NO_FLOOR), np.full((3, 2), np.nan)

    position = decide(ground.address, 1, x, arms, 7, True, 0.3, out)

    predicted = [predict_arm(belief, 1, arm, x, np.empty((4, 2))) for arm in arms]
    assert_allclose(out[1:].T, predicted, rtol=1e-12)
    expected = np.empty(2)
    action_probabilities(out[1], out[2], np.zeros(0), 7, NO_FLOOR, True, np.empty((5, score_room(2))), expected)
    assert_allclose(out[0], expected, rtol=1e-15)
    assert position == pick(out[0], 0.3)


def test_a_decision_knows_which_of_its_arms_are_silent(ground_of):
    belief, x, rule = small_belief(), np.array([0.4, -1.2]), Rule(RANDOMISED.scaled(0.4), 0.0, 0.0)
    ground, both = ground_of(belief, rule), np.full((3, 2), np.nan)
    decide(ground.address, 1, x, np.array([0, 1]), 7, True, 0.3, both)
    loser = int(both[0].argmin())
    assert both[0, loser] < 1e-3

    ground.parts.silent[loser] = 0.015
    for arms in ([0, 1], [1, 0]):
        out, expected = np.full((3, 2), np.nan), np.empty(2)
        decide(ground.address, 1, x, np.array(arms), 7, True, 0.3, out)
        silent = np.array(arms) == loser
        action_probabilities(out[1], out[2], silent * 0.015, 7, rule, True, np.empty((5, score_room(2))), expected)
        assert out[0].tolist() == expected.tolist()
        assert out[0, silent] == 0.015


@pytest.mark.parametrize("what", ["local mean", "shared mean", "shared covariance"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_belief_that_is_no_number_decides_nothing(ground_of, what, value):
    belief = small_belief()
    ground, out = ground_of(belief, NO_FLOOR), np.full((3, 2), np.nan)
    mine, row = ground.parts.belief, belief.slot[1, 0]
    {"local mean": mine.local_mean[row], "shared mean": mine.shared_mean[0]}.get(what, mine.shared_covariance[0])[
        ...
    ] = value

    for explore in (True, False):
        # A standard deviation of negative infinity squared is 0 after rounding up, not a number too large.
        expected = -1 if (what, value) != ("shared covariance", -math.inf) else 0
        assert min(decide(ground.address, 1, np.ones(2), np.array([0, 1]), 7, explore, 0.3, out), 0) == expected
        assert decide(ground.address, 1, np.ones(2), np.array([1]), 7, explore, 0.3, out[:, :1].copy()) == 0


@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize(("advance", "least"), [(True, 1), (True, 25), (False, 1), (False, 25)])
@pytest.mark.parametrize("settled", [True, False])
def test_many_rows_are_one_after_another(ground_of, settled, advance, least, explore):
    belief, rng = small_belief(), np.random.default_rng(1)
    ground, alone = ground_of(belief, NO_FLOOR), ground_of(belief, NO_FLOOR)
    if not settled:
        for each in (ground, alone):
            each.parts.generation[0] = 5
    n = 30
    tasks, contexts, uniforms = rng.integers(-1, 3, size=n), rng.normal(size=(n, 2)), rng.random(n)
    mask = rng.random((n, 2)) < 0.6
    mask[~mask.any(axis=1), 1] = True
    chosen, room = np.full(n, -1), new_lanes(2)
    probabilities, means, sds = (np.full((n, 2), 9.0) for _ in range(3))

    # In two stretches, and in any order: rows of other stretches are left alone.
    order = rng.permutation(n)
    for first, last in ((5, 30), (0, 5)):
        decide_rows(
            ground.address, order, tasks, contexts, mask, 11, least, advance, explore, uniforms, first, last, room,
            chosen, probabilities, means, sds,
        )  # fmt: skip
        if first:
            assert (chosen[order[:5]] == -1).all()
            assert (probabilities[order[:5]] == 9.0).all()

    for row in range(n):
        arms = np.flatnonzero(mask[row])
        out = np.empty((3, arms.size))
        step = max(11 + (row if advance else 0), least)
        position = decide(alone.address, tasks[row], contexts[row], arms, step, explore, uniforms[row], out)
        assert chosen[row] == arms[position]
        assert probabilities[row, arms].tolist() == out[0].tolist()
        assert (means[row, arms].tolist(), sds[row, arms].tolist()) == (out[1].tolist(), out[2].tolist())
        others = np.flatnonzero(~mask[row])
        assert (probabilities[row, others] == 0).all()
        assert np.isnan(means[row, others]).all()
        assert np.isnan(sds[row, others]).all()


def test_a_row_without_beliefs_gets_no_arm_and_the_others_theirs(ground_of):
    ground = ground_of(small_belief(), NO_FLOOR)
    ground.parts.belief.local_mean[ground.parts.belief.slot[1, 1]] = math.nan
    chosen = np.full(3, 7)
    probabilities, means, sds = (np.empty((3, 2)) for _ in range(3))

    decide_rows(
        ground.address, np.arange(3), np.array([0, 1, -1]), np.ones((3, 2)), np.array([[True, True]]), 1, 1, True, True,
        np.array([0.0, 0.5, 0.99]), 0, 3, new_lanes(2), chosen, probabilities, means, sds,
    )  # fmt: skip

    assert chosen[1] == -1
    assert set(chosen[[0, 2]].tolist()) <= {0, 1}


def test_one_mask_serves_all_rows(ground_of):
    ground = ground_of(small_belief(), NO_FLOOR)
    chosen = np.full(3, -1)
    probabilities, means, sds = (np.empty((3, 2)) for _ in range(3))

    decide_rows(
        ground.address, np.arange(3), np.zeros(3, dtype=np.int64), np.ones((3, 2)), np.array([[False, True]]), 1, 1,
        True, True, np.array([0.0, 0.5, 0.99]), 0, 3, new_lanes(2), chosen, probabilities, means, sds,
    )  # fmt: skip

    assert chosen.tolist() == [1, 1, 1]
    assert probabilities.tolist() == [[0.0, 1.0]] * 3


# observe_one, observe_rows, sort_by_slots, add_to_slots, claim_rows


def some_rewards(seed=3):
    rng = np.random.default_rng(seed)
    tasks, arms = np.array([0, 2, 1, 0, 2]), np.array([1, 0, 0, 1, 0])
    return tasks, arms, rng.normal(size=(5, 2)), rng.normal(size=5)


def as_whole(belief):
    """The same with whole matrices."""
    return belief._replace(
        sums=belief.sums._replace(gram=whole_matrices(belief.sums.gram)),
        local_covariance=whole_matrices(belief.local_covariance),
    )


def require_same_beliefs(one, other, tolerance):
    """Two beliefs agree in all that means something."""
    seen = np.concatenate([one.seen[arm, : one.n_seen[arm]] for arm in range(one.n_seen.size)])
    for name in one._fields:
        pair = [getattr(belief, name) for belief in (one, other)]
        for mine, theirs in zip(*pair, strict=True) if name == "sums" else [pair]:
            rows = seen if name.startswith("local_") else slice(None)
            assert_allclose(mine[rows], theirs[rows], rtol=tolerance, atol=tolerance, err_msg=name)


def test_rows_are_observed_in_order(ground_of):
    tasks, arms, contexts, rewards = some_rewards()
    one, many, buffers = ground_of(small_belief()), ground_of(small_belief()), new_buffers(2)
    plain = small_belief()

    for row in range(5):
        observe_one(one.address, arms[row], tasks[row], contexts[row], rewards[row])
        observe(plain, arms[row], tasks[row], contexts[row], rewards[row], buffers)
    observe_rows(many.address, tasks, arms, contexts, rewards)

    require_same_beliefs(one.parts.belief, many.parts.belief, 0.0)
    require_same_beliefs(as_whole(one.parts.belief), plain, 1e-12)


def test_a_reward_finds_the_population_in_force(ground_of):
    # Local parts are of an older population: they are settled before they learn, and so are those that have none.
    tasks, arms, contexts, rewards = some_rewards()
    ground, plain = ground_of(small_belief()), small_belief()
    mine = ground.parts.belief
    for belief in (mine, plain):
        belief.task_weight[:] = [0.5, 2.0, 1.5]
    for arm in range(2):
        rebuild(plain, arm, new_buffers(2))
    for name in ("shared_covariance", "shared_moment", "shared_mean"):
        getattr(mine, name)[:] = getattr(plain, name)
    ground.parts.generation[0] = 3

    observe_rows(ground.address, tasks, arms, contexts, rewards)
    for row in range(5):
        observe(plain, arms[row], tasks[row], contexts[row], rewards[row], new_buffers(2))

    touched = mine.slot[tasks, arms]
    assert set(np.flatnonzero(ground.parts.settled == 3)) == set(touched.tolist())
    assert_allclose(whole_matrices(mine.local_covariance)[touched], plain.local_covariance[touched], rtol=1e-10)
    assert_allclose(mine.local_mean[touched], plain.local_mean[touched], rtol=1e-10)
    assert_allclose(mine.shared_mean, plain.shared_mean, rtol=1e-10)
