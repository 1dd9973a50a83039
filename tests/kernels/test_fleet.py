import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from posse.kernels.fleet import (
    Rule,
    add_to_slots,
    claim_rows,
    count_rows,
    decide,
    decide_rows,
    favour,
    list_first,
    new_scratch,
    observe_rows,
    pick,
    weigh,
)
from posse.kernels.posterior import new_buffers, observe, predict_arm
from posse.kernels.propensity import win_probabilities
from posse.kernels.select import Exploration
from posse.kernels.sums import Sums
from posse.model import Prior, Statistics
from posse.model.belief import new_belief

NO_FLOOR = Rule(Exploration(0.7, True, True), 0.0)
PAIRS = [(0, 1), (1, 1), (2, 0), (0, 0), (0, 1)]


def weighed(mean, sd, *, step=5, scale=0.7, growing=True, sampling=True, floor=0.0, explore=True):
    mean, sd = np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    out = np.full(mean.size, np.nan)
    rule = Rule(Exploration(scale, growing, sampling), floor)
    weigh(mean, sd, step, rule, explore, new_scratch(mean.size, 2), out)
    return out


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


# favour


def test_equal_scores_share_or_the_first_takes_all():
    scores, out = np.array([1.0, 3.0, 3.0, 2.0, 3.0]), np.full(5, np.nan)

    favour(scores, True, out)
    assert out.tolist() == [0.0, 1 / 3, 1 / 3, 0.0, 1 / 3]

    favour(scores, False, out)
    assert out.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_single_best_score_takes_all_either_way():
    scores, out = np.array([-5.0, -1.0, -2.0]), np.full(3, np.nan)
    for share in (True, False):
        favour(scores, share, out)
        assert out.tolist() == [0.0, 1.0, 0.0]


# weigh


@pytest.mark.parametrize(("step", "growing"), [(1, True), (2, True), (40, True), (40, False)])
def test_sampling_weighs_by_the_chance_to_win(step, growing):
    mean, sd = np.array([0.2, 0.5, -0.1]), np.array([0.5, 0.1, 0.8])
    scale = 0.7 * (math.sqrt(math.log(max(step, 2))) if growing else 1.0)
    expected = np.empty(3)
    win_probabilities(mean, scale * sd, np.empty(3), expected)

    assert_allclose(weighed(mean, sd, step=step, growing=growing), expected, rtol=1e-12)


def test_optimism_takes_the_highest_bound():
    mean, sd = [0.2, 0.5, -0.1], [0.5, 0.1, 0.8]
    scale = 0.7 * math.sqrt(math.log(9))
    best = int(np.argmax(np.array(mean) + scale * np.array(sd)))

    out = weighed(mean, sd, step=9, sampling=False)

    assert best == 2
    assert out.tolist() == [0.0, 0.0, 1.0]
    assert weighed([0.1, 0.1], [0.3, 0.3], sampling=False).tolist() == [0.5, 0.5]


def test_a_floor_lifts_every_arm_and_keeps_the_sum():
    out = weighed([0.0, 5.0, 0.0, 0.0], [0.1] * 4, sampling=False, floor=0.05)

    assert_allclose(out, [0.05, 0.85, 0.05, 0.05], rtol=1e-15)


@pytest.mark.parametrize("sampling", [True, False])
def test_a_floor_that_fewer_arms_cannot_have_is_an_even_chance(sampling):
    assert_allclose(weighed([0.0, 5.0], [0.1, 0.1], sampling=sampling, floor=0.6), [0.5, 0.5], rtol=1e-15)
    assert_allclose(weighed([3.0], [0.1], sampling=sampling, floor=0.6), [1.0], rtol=1e-15)


def test_without_exploring_the_best_mean_is_certain_whatever_the_floor():
    out = weighed([0.5, 0.7, 0.7], [9.0, 0.1, 0.2], floor=0.2, explore=False)

    assert out.tolist() == [0.0, 1.0, 0.0]


# decide, decide_rows


def test_deciding_predicts_weighs_and_picks():
    belief, x, arms = small_belief(), np.array([0.4, -1.2]), np.array([1, 0])
    out, scratch = np.full((3, 2), np.nan), new_scratch(2, 2)

    position = decide(belief, 1, x, arms, 7, NO_FLOOR, True, 0.3, scratch, out)

    predicted = [predict_arm(belief, 1, arm, x, np.empty((4, 2))) for arm in arms]
    assert out[1:].T.tolist() == [list(pair) for pair in predicted]
    assert_allclose(out[0], weighed(out[1], out[2], step=7), rtol=1e-15)
    assert position == pick(out[0], 0.3)


@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize(("advance", "least"), [(True, 1), (True, 25), (False, 1), (False, 25)])
def test_many_rows_are_one_after_another(advance, least, explore):
    belief, rng = small_belief(), np.random.default_rng(1)
    n = 30
    tasks, contexts, uniforms = rng.integers(-1, 3, size=n), rng.normal(size=(n, 2)), rng.random(n)
    mask = rng.random((n, 2)) < 0.6
    mask[~mask.any(axis=1), 1] = True
    chosen, scratch = np.full(n, -1), new_scratch(2, 2)
    probabilities, means, sds = (np.full((n, 2), 9.0) for _ in range(3))

    # In two stretches, and in any order: rows of other stretches are left alone.
    order = rng.permutation(n)
    for first, last in ((5, 30), (0, 5)):
        decide_rows(
            belief, order, tasks, contexts, mask, 11, least, advance, NO_FLOOR, explore, uniforms, first, last, scratch,
            chosen, probabilities, means, sds,
        )  # fmt: skip
        if first:
            assert (chosen[order[:5]] == -1).all()
            assert (probabilities[order[:5]] == 9.0).all()

    for row in range(n):
        arms = np.flatnonzero(mask[row])
        out = np.empty((3, arms.size))
        step = max(11 + (row if advance else 0), least)
        position = decide(belief, tasks[row], contexts[row], arms, step, NO_FLOOR, explore, uniforms[row], scratch, out)
        assert chosen[row] == arms[position]
        assert probabilities[row, arms].tolist() == out[0].tolist()
        assert (means[row, arms].tolist(), sds[row, arms].tolist()) == (out[1].tolist(), out[2].tolist())
        others = np.flatnonzero(~mask[row])
        assert (probabilities[row, others] == 0).all()
        assert np.isnan(means[row, others]).all()
        assert np.isnan(sds[row, others]).all()


def test_one_mask_serves_all_rows():
    belief = small_belief()
    chosen = np.full(3, -1)
    probabilities, means, sds = (np.empty((3, 2)) for _ in range(3))

    decide_rows(
        belief, np.arange(3), np.zeros(3, dtype=np.int64), np.ones((3, 2)), np.array([[False, True]]), 1, 1, True,
        NO_FLOOR, True, np.array([0.0, 0.5, 0.99]), 0, 3, new_scratch(2, 2), chosen, probabilities, means, sds,
    )  # fmt: skip

    assert chosen.tolist() == [1, 1, 1]
    assert probabilities.tolist() == [[0.0, 1.0]] * 3


# observe_rows, add_to_slots, claim_rows


def test_rows_are_observed_in_order():
    rng = np.random.default_rng(3)
    tasks, arms = np.array([0, 2, 1, 0, 2]), np.array([1, 0, 0, 1, 0])
    contexts, rewards = rng.normal(size=(5, 2)), rng.normal(size=5)
    one, many, buffers = small_belief(), small_belief(), new_buffers(2)

    for row in range(5):
        observe(one, arms[row], tasks[row], contexts[row], rewards[row], buffers)
    observe_rows(many, tasks, arms, contexts, rewards, buffers)

    for name in one._fields:
        fields = [getattr(belief, name) for belief in (one, many)]
        for mine, theirs in zip(*fields, strict=True) if name == "sums" else [fields]:
            assert np.array_equal(mine, theirs), name


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_of_the_slots_add_up_to_all_rows_bit_for_bit(parts):
    rng = np.random.default_rng(4)
    slots, contexts, rewards = rng.integers(6, size=200), rng.normal(size=(200, 3)), rng.normal(size=200)
    sums, at_once = (Sums(np.zeros((6, 3, 3)), np.zeros((6, 3)), np.zeros(6), np.zeros(6)) for _ in range(2))

    add_to_slots(at_once, slots, contexts, rewards, 0, 1)
    for part in reversed(range(parts)):
        add_to_slots(sums, slots, contexts, rewards, part, parts)

    for mine, theirs in zip(sums, at_once, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    for slot in range(6):
        X, y = contexts[slots == slot], rewards[slots == slot]
        assert_allclose(sums.gram[slot], X.T @ X, rtol=1e-12, atol=1e-12)
        assert_allclose(sums.moment[slot], X.T @ y, rtol=1e-12, atol=1e-12)
        assert_allclose([sums.sum_of_squares[slot], sums.counts[slot]], [y @ y, y.size], rtol=1e-12)


def test_slots_are_listed_at_their_first_rewards_in_the_order_of_their_rows():
    counts = np.array([3.0, 0.0, 0.0, 0.0, 1.0])
    slots, arms = np.array([3, 0, 1, 3, 2, 4, 1]), np.array([1, 1, 0, 1, 1, 0, 0])
    seen, n_seen = np.array([[4, -9, -9, -9], [0, -9, -9, -9]]), np.array([1, 1])

    list_first(counts, slots, arms, seen, n_seen)

    assert n_seen.tolist() == [2, 3]
    assert seen.tolist() == [[4, 1, -9, -9], [0, 3, 2, -9]]
    assert counts.tolist() == [3.0, 0.0, 0.0, 0.0, 1.0]


def test_rows_are_counted_by_arm():
    rewards = np.array([1.0, 0.0, 5.0])

    count_rows(np.array([2, 0, 2, 2]), rewards)

    assert rewards.tolist() == [2.0, 0.0, 8.0]


@pytest.mark.parametrize(
    ("free", "claimed"),
    [([], {(0, 1): 10, (1, 1): 11, (0, 0): 12}), ([4], {(0, 1): 4, (1, 1): 10, (0, 0): 11}),
     ([4, 2, 3, 1], {(0, 1): 4, (1, 1): 2, (0, 0): 3})],
)  # fmt: skip
def test_new_pairs_get_free_slots_first_and_then_the_next(free, claimed):
    slot = np.full((3, 2), -1)
    slot[2, 0] = 7
    slots, new = np.full(5, -9), np.full((2, 5), -9)
    tasks, arms = np.array([pair[0] for pair in PAIRS]), np.array([pair[1] for pair in PAIRS])

    count = claim_rows(slot, tasks, arms, np.array(free, dtype=np.int64), 10, slots, new)

    expected = claimed | {(2, 0): 7}
    assert count == 3
    assert slots.tolist() == [expected[pair] for pair in PAIRS]
    assert new[:, :3].T.tolist() == [[0, 1], [1, 1], [0, 0]]
    assert {(i, j): int(slot[i, j]) for i in range(3) for j in range(2) if slot[i, j] >= 0} == expected
