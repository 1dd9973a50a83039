"""What takes too long for every run: make test-slow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.environments import SyntheticWorld
from posse.model import Prior, posterior
from posse.policies import EbmUCB
from posse.simulation import simulate

pytestmark = pytest.mark.slow


def test_the_papers_base_setting_with_100_seeds():
    rivals = {"LinUCB": "lin-ucb", "LinTS": "lin-ts", "OLSBandit": "ols-bandit", "RMBandit": "rm-bandit"}
    result = simulate(
        SyntheticWorld(), {"ebmUCB": "ebm-ucb", "ebmTS": "ebm-ts", **rivals}, horizon=2000, seeds=100, workers=2
    )

    for ours in ("ebmUCB", "ebmTS"):
        for rival in rivals:
            # The paired bootstrap interval of the difference lies below zero as a whole.
            assert result.compare(ours, rival, level=0.99).difference_interval[1] < 0, (ours, rival)


def test_a_million_rank_one_steps_stay_on_the_posterior():
    # A known prior is rebuilt only when an arm's rewards have doubled, so the last half million steps are rank-one.
    N, K, D, steps = 3, 2, 4, 1_000_000
    prior = Prior(
        covariance=[np.diag([0.5, 1.5, 0.1, 3.0]) + 0.05, np.diag([1.0, 0.2, 2.0, 0.4])],
        noise_variance=[0.7, 1.3],
        shared_precision=0.01,
    )
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((steps, D)) * [1.0, 10.0, 0.1, 1.0]
    policy = EbmUCB(n_tasks=N, n_arms=K, n_features=D, prior=prior)
    policy.play(rng.integers(0, N, steps), contexts, rng.standard_normal((steps, K)), rng)

    post = posterior(policy.statistics, prior)
    for x in rng.standard_normal((5, D)):
        for task in range(N):
            found = policy.predict(task, x)
            variance = np.einsum("a,kab,b->k", x, post.covariance[:, task], x)
            # Half a million updates of relative error 1e-16 each, added up in the worst way, would be 1e-10.
            assert_allclose(found.mean, post.mean[:, task] @ x, rtol=1e-6, atol=1e-9)
            assert_allclose(found.sd**2, variance, rtol=1e-6)
