import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import ShapeError
from posse.kernels.posterior import new_buffers, observe
from posse.model import Prior, Statistics, new_belief, posterior


def test_belief_lists_the_tasks_with_rewards_of_each_arm(draw_log, draw_prior):
    stats = draw_log([[0, 3, 0, 1], [2, 0, 0, 0]], 2, seed=0).statistics()

    belief = new_belief(stats, draw_prior(2, 2, seed=0))

    assert_array_equal(belief.n_seen, [2, 1])
    assert_array_equal(belief.task_of[belief.seen[0, :2]], [1, 3])
    assert_array_equal(belief.task_of[belief.seen[1, :1]], [0])
    assert_array_equal(belief.seen[1, :1], belief.slot[0, 1])
    assert_array_equal(belief.rewards, [4.0, 2.0])


def test_belief_holds_the_posterior_in_parts(draw_log, draw_prior):
    stats = draw_log([[1, 3, 20, 5], [2, 2, 4, 30]], 3, seed=1).statistics()
    prior = draw_prior(2, 3, seed=1)

    belief, post = new_belief(stats, prior), posterior(stats, prior)

    local_covariance, local_mean = belief.local_covariance.reshape(2, 4, 3, 3), belief.local_mean.reshape(2, 4, 3)
    leaning = np.eye(3) - local_covariance @ stats.gram
    mean = local_mean + np.einsum("knab,kb->kna", leaning, belief.shared_mean)
    covariance = prior.noise_variance[:, None, None, None] * local_covariance
    covariance += leaning @ belief.shared_covariance[:, None] @ np.swapaxes(leaning, -1, -2)
    # The same sums through other factors of Sigma.
    assert_allclose(mean, post.mean, rtol=1e-9)
    assert_allclose(covariance, post.covariance, rtol=1e-9, atol=1e-12)


def test_learning_goes_into_the_statistics_and_leaves_the_prior_alone():
    stats = Statistics.zeros(n_tasks=2, n_arms=1, n_features=1)
    prior = Prior(covariance=[[[2.0]]], noise_variance=[0.5], shared_precision=[0.1])
    belief = new_belief(stats, prior)
    belief.noise_variance[0], belief.covariance[0], belief.shared_precision[0] = 9.0, 9.0, 9.0

    observe(belief, 0, 1, np.array([3.0]), 2.0, new_buffers(1))

    assert_array_equal(stats.moment[0, :, 0], [0.0, 6.0])
    assert (prior.covariance.item(), prior.noise_variance.item(), prior.shared_precision.item()) == (2.0, 0.5, 0.1)


def test_prior_for_other_features_is_refused():
    with pytest.raises(ShapeError, match="prior is for 1 arms and 2 features, but 1 arms and 3 features"):
        new_belief(Statistics.zeros(n_tasks=2, n_arms=1, n_features=3), Prior.isotropic(n_arms=1, n_features=2))
