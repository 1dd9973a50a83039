"""Beliefs that are brought up to date when they are looked at, and predictions of all arms side by side."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.kernels.decision_arrays import predict_arms, set_roots, set_triangles
from posse.kernels.lanes import Pairs, new_lanes, sum_information
from posse.kernels.posterior import new_buffers, predict_arm, rebuild
from posse.model import Prior, Statistics, new_belief

N_TASKS = 5
LAST = N_TASKS - 1  # a task without rewards


def some_prior(n_arms, d, seed=0, rank=None):
    rng = np.random.default_rng([n_arms, d, seed])
    half = rng.standard_normal((n_arms, d, rank or d + 2))
    return Prior(
        covariance=half @ half.transpose(0, 2, 1) / d,
        noise_variance=rng.uniform(0.3, 1.5, n_arms),
        shared_precision=rng.uniform(0.1, 2.0, (n_arms, d)),
    )


def some_belief(n_arms, d, prior, *, weights=False, n_rows=40):
    """Beliefs after a few rewards, by which most pairs of the first tasks were seen and none of the last."""
    rng = np.random.default_rng([n_arms, d])
    stats = Statistics.from_data(
        task=rng.integers(LAST, size=n_rows),
        arm=rng.integers(n_arms, size=n_rows),
        context=rng.standard_normal((n_rows, d)) + 0.3,
        reward=1.0 + rng.standard_normal(n_rows),
        n_tasks=N_TASKS,
        n_arms=n_arms,
    )
    belief = new_belief(stats, prior)
    if weights:
        belief.task_weight[:] = rng.uniform(0.3, 3.0, N_TASKS)
        rebuild_all(belief)
    return belief


def rebuild_all(belief):
    for arm in range(belief.n_seen.size):
        rebuild(belief, arm, new_buffers(belief.shared_mean.shape[1]))


def predicted(ground, task, x, arms):
    """Mean and standard deviation of some arms."""
    mean, sd = np.full(len(arms), np.nan), np.full(len(arms), np.nan)
    room = new_lanes(x.size)
    room.room[:] = np.nan
    predict_arms(ground.parts, task, x, np.asarray(arms), len(arms), room, mean, sd)
    return mean, sd


def require_same_predictions(ground, belief, tolerance=1e-12):
    """All arms side by side predict what each does alone."""
    n_arms, d = belief.shared_mean.shape
    rng = np.random.default_rng(0)
    for task in range(-1, N_TASKS):
        x = rng.standard_normal(d)
        mean, sd = predicted(ground, task, x, range(n_arms))
        alone = np.array([predict_arm(belief, task, arm, x, np.empty((4, d))) for arm in range(n_arms)])
        # A mean is a sum of terms of either sign; it is known as well as the largest of them.
        size = np.abs(x).sum() * max(np.abs(belief.shared_mean).max(), np.abs(alone).max())
        assert_allclose(mean, alone[:, 0], rtol=tolerance, atol=tolerance * size)
        assert_allclose(sd, alone[:, 1], rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 8, 17])
@pytest.mark.parametrize("n_arms", [1, 7, 8, 9, 20])
def test_arms_side_by_side_predict_what_each_does_alone(ground_of, n_arms, d, weights):
    belief = some_belief(n_arms, d, some_prior(n_arms, d), weights=weights)

    require_same_predictions(ground_of(belief), belief)


@pytest.mark.parametrize("kind", ["rank one", "a feature without variance", "none at all"])
@pytest.mark.parametrize("n_arms", [3, 10])
def test_a_singular_population_is_as_good_as_any(ground_of, n_arms, kind):
    prior = some_prior(n_arms, 3, rank=1 if kind == "rank one" else None)
    covariance = prior.covariance.copy()
    if kind == "a feature without variance":
        covariance[:, 1], covariance[:, :, 1] = 0.0, 0.0
    if kind == "none at all":
        covariance[1] = 0.0
    prior = Prior(covariance=covariance, noise_variance=prior.noise_variance, shared_precision=prior.shared_precision)
    belief = some_belief(n_arms, 3, prior)

    ground = ground_of(belief)

    require_same_predictions(ground, belief)
    # And the same if local parts must be computed first.
    ground.parts.settled[:] = -1
    ground.parts.belief.local_covariance[:] = np.nan
    ground.parts.belief.local_mean[:] = np.nan
    require_same_predictions(ground, belief, 1e-11)


def test_an_arm_predicts_the_same_whichever_others_are_asked(ground_of):
    belief = some_belief(20, 3, some_prior(20, 3))
    ground, x = ground_of(belief), np.array([0.3, -1.2, 0.8])
    rng = np.random.default_rng(1)
    for task in range(-1, N_TASKS):
        mean, sd = predicted(ground, task, x, range(20))
        for size in (1, 5, 8, 13):
            arms = rng.permutation(20)[:size]
            some_mean, some_sd = predicted(ground, task, x, arms)
            assert some_mean.tobytes() == mean[arms].tobytes()
            assert some_sd.tobytes() == sd[arms].tobytes()


def new_population(belief, ground, seed=1):
    """Put another prior in the place of the old one, as a refresh does; local parts are left as they were."""
    n_arms, d = belief.shared_mean.shape
    prior, parts = some_prior(n_arms, d, seed), ground.parts
    weight = np.random.default_rng(seed).uniform(0.3, 3.0, N_TASKS)
    for mine in (belief, parts.belief):
        mine.covariance[:], mine.noise_variance[:] = prior.covariance, prior.noise_variance
        mine.shared_precision[:], mine.task_weight[:] = prior.shared_precisions, weight
    rebuild_all(belief)
    for name in ("shared_covariance", "shared_moment", "shared_mean"):
        getattr(parts.belief, name)[:] = getattr(belief, name)
    set_roots(belief.covariance, parts.root)
    set_triangles(belief.covariance, parts.triangle)
    parts.generation[0] += 1


def eagerly(ground, arm):
    """Local parts of all pairs of an arm, computed at once."""
    belief = ground.parts.belief
    d = belief.shared_mean.shape[1]
    local_covariance, local_mean = np.full_like(belief.local_covariance, np.nan), np.full_like(belief.local_mean, 9.0)
    rows = belief.seen[arm, : belief.n_seen[arm]]
    sum_information(
        Pairs(belief.sums, rows, belief.task_of, belief.task_weight), ground.parts.root[arm],
        belief.noise_variance[arm], local_covariance, local_mean, True, new_lanes(d), np.empty((d, d + 1)),
    )  # fmt: skip
    return rows, local_covariance[rows], local_mean[rows]


@pytest.mark.parametrize("d", [1, 3, 8])
@pytest.mark.parametrize("n_arms", [3, 9, 20])
def test_what_is_looked_at_is_brought_to_the_new_population(ground_of, n_arms, d):
    belief = some_belief(n_arms, d, some_prior(n_arms, d))
    ground = ground_of(belief)

    new_population(belief, ground)

    require_same_predictions(ground, belief, 1e-10)
    assert (ground.parts.settled[belief.seen[0, : belief.n_seen[0]]] == 1).all()
    # To the last bit what a pass over all pairs computes, and again: it is computed once.
    for _ in range(2):
        for arm in range(n_arms):
            rows, local_covariance, local_mean = eagerly(ground, arm)
            assert ground.parts.belief.local_covariance[rows].tobytes() == local_covariance.tobytes()
            assert ground.parts.belief.local_mean[rows].tobytes() == local_mean.tobytes()
        require_same_predictions(ground, belief, 1e-10)
