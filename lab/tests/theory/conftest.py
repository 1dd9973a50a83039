"""Small worlds and runs, away from 0, 1 and the identity."""

from types import SimpleNamespace

import numpy as np
import pytest

from posse.model import Prior, Statistics, posterior
from posse_lab.theory.constants import Constants


@pytest.fixture
def draw_run():
    """A function that draws a world and a run of random pulls in it."""

    def draw(seed, *, noise_sd=0.7, shared_precision=0.4, n_tasks=3, n_arms=2, n_features=2, n_steps=40):
        rng = np.random.default_rng(seed)
        factor = rng.standard_normal((n_arms, n_features, n_features))
        prior = Prior(
            covariance=factor @ np.swapaxes(factor, 1, 2) + 0.3 * np.eye(n_features),
            noise_variance=noise_sd**2,
            shared_precision=shared_precision,
        )
        shared = rng.standard_normal((n_arms, 1, n_features)) / np.sqrt(shared_precision)
        root = np.linalg.cholesky(prior.covariance)
        own = np.einsum("kab,knb->kna", root, rng.standard_normal((n_arms, n_tasks, n_features)))
        coefficients = shared + own
        tasks = rng.integers(0, n_tasks, n_steps)
        arms = rng.integers(0, n_arms, n_steps)
        contexts = rng.uniform(-1.5, 1.5, (n_steps, n_features))
        expected = np.einsum("td,td->t", contexts, coefficients[arms, tasks])
        rewards = expected + noise_sd * rng.standard_normal(n_steps)

        def statistics(n=n_steps):
            return Statistics.from_data(
                task=tasks[:n],
                arm=arms[:n],
                context=contexts[:n],
                reward=rewards[:n],
                n_tasks=n_tasks,
                n_arms=n_arms,
            )

        return SimpleNamespace(
            prior=prior,
            coefficients=coefficients,
            tasks=tasks,
            arms=arms,
            contexts=contexts,
            rewards=rewards,
            n_tasks=n_tasks,
            statistics=statistics,
            constants=Constants.of(prior, coefficients, contexts),
        )

    return draw


@pytest.fixture
def sample_posteriors():
    """A function that draws a world and plays it by Thompson sampling.

    It returns the coefficients, the posterior in the end, and of every step the expected rewards, their standard
    deviations and the arm.
    """
    prior = Prior(covariance=[[[1.5, 0.6], [0.6, 0.5]]] * 2, noise_variance=0.4, shared_precision=0.7)
    root = np.linalg.cholesky(prior.covariance[0])

    def play(rng, n_steps):
        beta = rng.standard_normal((2, 1, 2)) / np.sqrt(0.7) + rng.standard_normal((2, 2, 2)) @ root.T
        stats, steps = Statistics.zeros(n_tasks=2, n_arms=2, n_features=2), []
        for _ in range(n_steps):
            post = posterior(stats, prior)
            task, x = int(rng.integers(2)), rng.uniform(-1, 1, 2)
            sd = np.sqrt(np.einsum("kab,a,b->k", post.covariance[:, task], x, x))
            arm = int((post.mean[:, task] @ x + sd * rng.standard_normal(2)).argmax())
            expected = beta[:, task] @ x
            steps.append((expected, sd, arm))
            reward = expected[arm] + np.sqrt(0.4) * rng.standard_normal()
            stats = stats + Statistics.from_data(
                task=[task], arm=[arm], context=[x], reward=[reward], n_tasks=2, n_arms=2
            )
        return beta, posterior(stats, prior), steps

    return play


@pytest.fixture
def stacked_prior():
    """A function that returns the prior covariance of an arm's stacked coefficients."""

    def covariance(prior, arm, n_tasks):
        shared = np.linalg.inv(prior.shared_precisions[arm])
        return np.kron(np.ones((n_tasks, n_tasks)), shared) + np.kron(np.eye(n_tasks), prior.covariance[arm])

    return covariance


@pytest.fixture
def constants():
    """Numbers that are easy to work with by hand, and none of them 1."""
    return Constants(
        n_tasks=4,
        n_arms=3,
        n_features=2,
        noise_sd=0.5,
        shared_precision=0.1,
        precision_max=2.0,
        precision_min=0.5,
        coefficient_bound=1.5,
        context_bound=3.0,
    )
