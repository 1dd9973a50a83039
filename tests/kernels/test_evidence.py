"""Shapes, scatter and overdispersion: what the evidence prior learns before it believes in single arms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.kernels import evidence
from posse.kernels.passes import GAUSSIAN_SCATTER, SCATTER, is_silent
from posse.kernels.posterior import new_buffers
from posse.kernels.refresh import INFORMATION
from posse.model import Prior, Statistics, new_belief
from posse.model.refresh import LiveReader, Refresh

D = 3


def settle(stats, n_tasks):
    """Return belief and memory after 30 steps from the start."""
    K, d = stats.n_arms, stats.n_features
    belief = new_belief(stats, Prior.isotropic(n_arms=K, n_features=d))
    memory = evidence.new_evidence(K, n_tasks, d, 0.0)
    Refresh(belief, memory, in_place=True).run(LiveReader(belief), steps=30, settled=0.0)
    return belief, memory


def learned(shapes, n_tasks, *, rewards=40, seed=0, noise=0.5):
    """Return belief and memory after 30 steps on arms with these covariances, and the coefficients behind them."""
    rng = np.random.default_rng(seed)
    K = len(shapes)
    task, arm = (side.ravel() for side in np.meshgrid(np.arange(n_tasks), np.arange(K)))
    task, arm = np.repeat(task, rewards), np.repeat(arm, rewards)
    beta = np.stack([rng.standard_normal((n_tasks, D)) @ np.linalg.cholesky(shape).T for shape in shapes])
    context = rng.standard_normal((task.size, D))
    reward = np.einsum("na,na->n", context, beta[arm, task]) + noise * rng.standard_normal(task.size)
    stats = Statistics.from_data(task=task, arm=arm, context=context, reward=reward, n_tasks=n_tasks, n_arms=K)
    return *settle(stats, n_tasks), beta


def shape_of(covariance):
    return covariance / np.trace(covariance) * D


FLAT = np.diag([2.4, 0.5, 0.1])


def test_shapes_that_scatter_no_more_than_they_must_are_drawn_to_the_identity():
    # Rewards settle the coefficients here, so the second moments of the true ones are what data alone could say.
    common, own = [], []
    for seed in range(5):
        belief, memory, beta = learned([np.eye(D)] * 4, n_tasks=15, seed=seed)
        found = [shape_of(memory.target), *map(shape_of, belief.covariance)]
        sample = [shape_of(np.einsum("kna,knb->ab", beta, beta)), *map(shape_of, np.einsum("kna,knb->kab", beta, beta))]
        apart = [[np.sum((shape - np.eye(D)) ** 2) for shape in side] for side in (found, sample)]
        common.append(apart[0][0] / apart[1][0])
        own.append(sum(apart[0][1:]) / sum(apart[1][1:]))

    # With 60 pairs the identity may have at most the weight 9 (60 + 50) / 50 = 20, a share of 1/4: (3/4)^2 is left of
    # the squared distance. Arms are drawn to a shape with four times their pairs, which alone leaves half.
    assert 0.4 < np.mean(common) < 0.8
    assert max(common) < 1
    assert max(own) < 0.6


def test_a_common_shape_of_arms_is_learned():
    belief, memory, _ = learned([FLAT, 4.0 * FLAT, FLAT, 0.3 * FLAT], n_tasks=15)

    # Arms of any level weigh the same; the identity has lost its weight.
    assert memory.identity_share[0] < 0.1
    assert_allclose(shape_of(memory.target), FLAT, atol=0.5)
    for covariance in belief.covariance:
        assert shape_of(covariance)[0, 0] > 1.9
        assert shape_of(covariance)[2, 2] < 0.35
    levels = np.trace(belief.covariance, axis1=1, axis2=2) / D
    # Of 1, 4, 1 and 0.3: drawn together, in their order.
    assert levels[1] > 1.5 * max(levels[0], levels[2])
    assert levels[3] < min(levels[0], levels[2])


def test_arms_with_shapes_of_their_own_keep_them_and_lean_less_on_the_common_one():
    other = FLAT[::-1, ::-1].copy()
    alike, unlike = (learned(shapes, n_tasks=40) for shapes in ([FLAT] * 4, [FLAT, other, FLAT, other]))

    assert unlike[1].target_weight[0] < 0.3 * alike[1].target_weight[0]
    assert shape_of(unlike[0].covariance[0])[0, 0] > 1.9
    assert shape_of(unlike[0].covariance[1])[2, 2] > 1.9


def test_shrinkage_is_all_without_a_surplus_and_little_with_a_large_one():
    # Without pairs it is the start; with plenty of them and no surplus it grows with them: all the way.
    assert evidence.shrinkage(0.0, 18.0, 0.0, 9.0) == pytest.approx(9.0)
    assert evidence.shrinkage(-5.0, 18.0, 450.0, 9.0) == pytest.approx(9.0 * 10)
    # noise / variance beyond it, in pairs: Ledoit and Wolf's.
    assert evidence.shrinkage(1e6 * 2.0, 18.0, 1e6, 9.0) == pytest.approx(18.0 / 2.0, rel=1e-3)


def measures_of(context, reward):
    both = np.column_stack([context, reward])
    return np.triu(both.T @ both)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_scatter_is_that_around_one_regression(offset):
    rng = np.random.default_rng(3)
    n = 50
    context = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    reward = offset + context @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(n)
    left = reward - context @ np.linalg.lstsq(context, reward)[0]

    found = evidence.scatter_of(measures_of(context, reward), float(n))

    assert found == pytest.approx(left @ left / (n - 3 - 2), rel=1e-5)


def test_scatter_that_cannot_be_known_is_the_mean_square():
    context = np.ones((10, 1))
    for reward in (np.full(10, 3.0), np.array([3.0, 3.1, 2.9])):
        found = evidence.scatter_of(measures_of(context[: reward.size], reward), float(reward.size))
        assert found == pytest.approx((reward**2).mean())


@pytest.mark.parametrize("value", [0.0, -1.0, 0.1, 1e6])
def test_rewards_that_were_all_the_same_are_noticed(value):
    rng = np.random.default_rng(5)
    context = np.column_stack([np.ones(1000), 1e3 * rng.standard_normal((1000, 2))])
    reward = np.full(1000, value)

    assert evidence.is_constant(measures_of(context, reward), 1000.0)
    assert evidence.is_constant(measures_of(context[:2], reward[:2]), 2.0)
    assert not evidence.is_constant(measures_of(context[:1], reward[:1]), 1.0)
    # One that differs by a thousandth, or a regression that explains everything, is something else.
    reward[7] = value * 1.001 if value else 1e-6
    assert not evidence.is_constant(measures_of(context, reward), 1000.0)
    assert not evidence.is_constant(measures_of(context, context @ [1.0, 2.0, -1.0]), 1000.0)


def test_an_arm_that_is_taken_nearly_always_does_not_hide_what_others_pay():
    rng = np.random.default_rng(6)
    arm = (np.arange(3000) < 6).astype(int)
    context, reward = np.column_stack([np.ones(3000), rng.standard_normal(3000)]), -1.0 * arm
    arms = np.stack([measures_of(context[arm == k], reward[arm == k]) for k in range(2)])

    # Half of the weight at 0 and half at -1: a variance of 1/4, of which one feature explains a sixth at most or so.
    balanced = evidence.balanced_scatter(arms, np.array([2994.0, 6.0]), 3000.0)
    assert 0.15 < balanced <= 0.26
    assert evidence.scatter_of(arms.sum(axis=0), 3000.0) < 0.003
    # Arms that had as many: the scatter of all.
    even = np.stack([measures_of(context[:100], reward[:100]), measures_of(context[100:200], reward[100:200])])
    assert_allclose(
        evidence.balanced_scatter(even, np.array([100.0, 100.0]), 200.0),
        evidence.scatter_of(even.sum(axis=0), 200.0), rtol=1e-12,
    )  # fmt: skip


def overdispersion_of(reward, task, n_tasks):
    stats = Statistics.from_data(
        task=task, arm=np.zeros(task.size, dtype=int), context=np.ones((task.size, 1)), reward=reward,
        n_tasks=n_tasks, n_arms=1,
    )  # fmt: skip
    buffers = new_buffers(1)
    prior = Prior(covariance=[[[1e-6]]], noise_variance=float(np.var(reward)) or 1.0)
    belief, memory = new_belief(stats, prior, buffers), evidence.new_evidence(1, n_tasks, 1, 0.0)
    # Learned before, from this feature: the first sums are those of the prior as it is.
    memory.refreshed_at[0], memory.feature_seen[:] = 1, True
    refresh = Refresh(belief, memory, in_place=True)
    refresh.begin(LiveReader(belief), steps=1, settled=0.0, exact=True)
    refresh.proceed(LiveReader(belief), refresh.rows, until=INFORMATION)
    return evidence.overdispersion(memory.summaries), memory.summaries[0]


def test_rare_clicks_are_overdispersed_and_gaussian_rewards_are_not():
    rng = np.random.default_rng(0)
    task = np.tile(np.arange(400), 10)
    clicks, _ = overdispersion_of((rng.random(4000) < 0.01) * 1.0, task, 400)
    normal, summary = overdispersion_of(rng.standard_normal(4000), task, 400)

    # One 0/1 reward of rate p has a squared residual of variance (1 - 2p)^2 / (p (1 - p)) in units of its mean: 97 for
    # 1 %, against 2 for a Gaussian one; 50 degrees of freedom of belief in Gaussian noise take little from it. The
    # Gaussian ratio is known to sqrt(2 / 400) = 7 %.
    assert 25 < clicks < 60
    assert normal < 1.25
    assert summary[GAUSSIAN_SCATTER] == pytest.approx(2 * 4000, rel=0.01)


def test_rewards_that_are_all_the_same_say_nothing_about_tails():
    # What rounding and shrinking leave of equal rewards is the first arm's only residual; it is no sign of heavy tails.
    rng = np.random.default_rng(2)
    n = 3000
    task, arm = rng.integers(40, size=n), rng.integers(2, size=n)
    context = np.column_stack([np.ones(n), rng.standard_normal((n, D - 1))])
    reward = np.where(arm == 0, 5.3, context @ [1.0, 0.5, -0.5] + rng.standard_normal(n))
    _, memory = settle(
        Statistics.from_data(task=task, arm=arm, context=context, reward=reward, n_tasks=40, n_arms=2), 40
    )

    assert memory.summaries[0, SCATTER] <= abs(memory.summaries[0, GAUSSIAN_SCATTER])
    assert [bool(is_silent(summary)) for summary in memory.summaries] == [True, False]
    assert memory.overdispersion[0] < 1.25


def test_the_sign_of_a_silent_arm_changes_no_overdispersion():
    summaries = np.zeros((2, 7))
    summaries[:, SCATTER], summaries[:, GAUSSIAN_SCATTER] = [300.0, 10.0], [100.0, 20.0]
    plain = evidence.overdispersion(summaries)
    summaries[1, GAUSSIAN_SCATTER] *= -1
    assert evidence.overdispersion(summaries) == plain == (50 + 310) / (50 + 120)
