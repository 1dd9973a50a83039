import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.kernels import estimators
from posse.kernels.posterior import new_buffers, observe
from posse.model import Prior, Statistics, new_belief, posterior

N_TASKS, D = 8, 3


def start():
    """A belief of one arm about tasks with d + 1 rewards each, and an empty memory."""
    rng = np.random.default_rng(0)
    n = N_TASKS * (D + 1)
    task = np.arange(n) % N_TASKS
    X = rng.standard_normal((n, D))
    y = np.einsum("na,na->n", X, rng.standard_normal((N_TASKS, D))[task]) + 0.3 * rng.standard_normal(n)
    stats = Statistics.from_data(task=task, arm=np.zeros(n, dtype=int), context=X, reward=y, n_tasks=N_TASKS, n_arms=1)
    belief = new_belief(stats, Prior.isotropic(n_arms=1, n_features=D))
    return belief, estimators.new_memory(1, N_TASKS, D), new_buffers(D), rng


def learn(belief, n, rng, buffers):
    for row in range(n):
        observe(belief, 0, row % N_TASKS, rng.standard_normal(D), 3 * rng.standard_normal(), buffers)


@pytest.mark.slow
def test_paper_chooses_its_threshold_again_only_after_as_many_rewards_as_tasks():
    belief, memory, buffers, rng = start()
    estimators.refresh(belief, memory, 0, estimators.PAPER, buffers, N_TASKS)
    chosen_at = memory.threshold_rewards[0]
    memory.threshold[0] = 123.0  # a mark that stays until the next choice

    learn(belief, N_TASKS - 1, rng, buffers)
    estimators.refresh(belief, memory, 0, estimators.PAPER, buffers, N_TASKS)
    assert memory.threshold[0] == 123.0
    assert_array_equal(belief.covariance[0], np.diag(np.diag(belief.covariance[0])))  # and it is the one applied

    learn(belief, 1, rng, buffers)
    estimators.refresh(belief, memory, 0, estimators.PAPER, buffers, N_TASKS)
    assert memory.threshold[0] < 123.0
    assert memory.threshold_rewards[0] == chosen_at + N_TASKS


@pytest.mark.slow
def test_paper_chooses_its_threshold_again_when_a_task_becomes_usable():
    rng = np.random.default_rng(1)
    stats = Statistics.zeros(n_tasks=N_TASKS, n_arms=1, n_features=D)
    belief = new_belief(stats, Prior.isotropic(n_arms=1, n_features=D))
    memory, buffers = estimators.new_memory(1, N_TASKS, D), new_buffers(D)
    for task in range(N_TASKS - 1):
        for _ in range(D):
            observe(belief, 0, task, rng.standard_normal(D), rng.standard_normal(), buffers)
    for _ in range(D - 1):
        observe(belief, 0, N_TASKS - 1, rng.standard_normal(D), rng.standard_normal(), buffers)
    estimators.refresh(belief, memory, 0, estimators.PAPER, buffers, N_TASKS)
    assert memory.tasks_used[0] == N_TASKS - 1
    memory.threshold[0] = 123.0

    observe(belief, 0, N_TASKS - 1, rng.standard_normal(D), rng.standard_normal(), buffers)
    estimators.refresh(belief, memory, 0, estimators.PAPER, buffers, N_TASKS)

    assert memory.tasks_used[0] == N_TASKS
    assert memory.threshold[0] < 123.0


@pytest.mark.parametrize("method", [estimators.PAPER, estimators.PAPER_LITERAL, estimators.MOMENTS])
def test_refresh_leaves_the_posterior_of_its_own_estimate(method):
    belief, memory, buffers, _ = start()

    estimators.refresh(belief, memory, 0, method, buffers, N_TASKS)

    stats = Statistics(*(field.reshape(1, N_TASKS, *field.shape[1:]) for field in belief.sums))
    prior = Prior(
        covariance=belief.covariance, noise_variance=belief.noise_variance, shared_precision=belief.shared_precision
    )
    assert not np.allclose(belief.covariance[0], np.eye(D))
    # The rewards pin the tasks far better than the prior does, which costs the shared mean a few digits.
    assert_allclose(belief.shared_mean, posterior(stats, prior).shared_mean, rtol=1e-8)
    assert memory.refreshed_at[0] == belief.rewards[0]


def test_known_prior_is_rebuilt_but_not_changed():
    belief, memory, buffers, rng = start()
    learn(belief, 50, rng, buffers)
    before = belief.covariance.copy(), belief.noise_variance.copy(), belief.shared_mean.copy()

    estimators.refresh(belief, memory, 0, estimators.KNOWN, buffers, N_TASKS)

    assert_array_equal(belief.covariance, before[0])
    assert_array_equal(belief.noise_variance, before[1])
    assert_allclose(belief.shared_mean, before[2], rtol=1e-9)


@pytest.mark.parametrize(
    ("at", "now", "growth", "due"),
    [
        (0, 0, 0.0, False),
        (0, 1, 0.0, True),
        (100, 101, 0.0, True),
        (100, 109, 0.1, False),
        (100, 110, 0.1, True),
        (5, 6, 0.1, True),  # at least one reward, however small the growth asked for
        (10, 14, 0.5, False),
        (10, 15, 0.5, True),
    ],
)
def test_refresh_is_due_when_the_rewards_have_grown_by_the_fraction(at, now, growth, due):
    belief, memory, _, _ = start()
    memory.refreshed_at[0], belief.rewards[0] = at, now

    assert estimators.refresh_due(belief, memory, 0, estimators.PAPER, growth) == due


@pytest.mark.parametrize(("at", "now", "due"), [(100, 199, False), (100, 200, True)])
def test_known_prior_is_rebuilt_when_the_rewards_have_doubled(at, now, due):
    belief, memory, _, _ = start()
    memory.refreshed_at[0], belief.rewards[0] = at, now

    assert estimators.refresh_due(belief, memory, 0, estimators.KNOWN, 0.0) == due


def test_mean_diagonal_worked_by_hand():
    assert estimators.mean_diagonal(np.array([[2.0, 9.0], [9.0, 5.0]])) == 3.5


def test_eigenvalues_are_raised_to_a_millionth_of_the_scale():
    # Eigenvalues 3 and -1 along (1, 1) and (1, -1): the second becomes 1e-6 of the scale 2.
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])

    assert estimators.floor_eigenvalues(matrix, 2.0, new_buffers(2)) == 1

    assert_allclose(matrix, [[1.5 + 1e-6, 1.5 - 1e-6], [1.5 - 1e-6, 1.5 + 1e-6]], rtol=1e-14)
