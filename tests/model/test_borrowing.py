import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.model import Prior, Statistics, posterior
from posse.model.borrowing import Borrowing, mean_squares, task_borrowing


def borrowing_of(stats: Statistics, prior: Prior, task: int) -> Borrowing:
    squares = mean_squares(np.einsum("knii->i", stats.gram), float(stats.count.sum()))
    shared = posterior(stats, prior).shared_covariance
    return task_borrowing(stats.gram[:, task], stats.count[:, task], prior, shared, 1.0, squares)


def log(counts, seed=0, d=2):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((task.size, d)) * [1.0, 3.0][:d]
    return {"task": task, "arm": np.zeros(task.size, int), "context": X, "reward": rng.standard_normal(task.size)}


PRIOR = Prior(covariance=[[[1.3, 0.2], [0.2, 0.4]]], noise_variance=0.7, shared_precision=0.05)


def test_one_feature_worked_by_hand():
    # Two tasks, x = 2 always. Task 0 has 3 rewards: A = 12; task 1 has 1: A = 4. Sigma 0.5, noise 2, lambda 0.25.
    rows = {"task": [0, 0, 0, 1], "arm": [0] * 4, "context": [[2.0]] * 4, "reward": [1.0, 2.0, 3.0, 1.0]}
    stats = Statistics.from_data(**rows, n_tasks=2, n_arms=1)
    prior = Prior(covariance=[[[0.5]]], noise_variance=2.0, shared_precision=0.25)

    borrowing = borrowing_of(stats, prior, 0)

    others = 0.25 + 1 / (0.5 + 2.0 / 4)  # precision of the shared mean without task 0
    variance = 0.5 + 1 / others
    own = 12 / 2.0
    assert_allclose(borrowing.own_share, [own / (own + 1 / variance)])
    # One reward of its own says x^2 / noise = 2.
    assert_allclose(borrowing.borrowed, [(1 / variance - 1 / (0.5 + 1 / 0.25)) / 2.0])
    assert_allclose(borrowing.rewards, [3.0])


def test_the_own_share_is_the_part_of_the_variance_of_predictions_that_own_rewards_remove():
    rows = log([6, 9, 4])
    others = {name: values[rows["task"] > 0] for name, values in rows.items()}
    after, before = (
        posterior(Statistics.from_data(**some, n_tasks=3, n_arms=1), PRIOR).covariance[0, 0] for some in (rows, others)
    )
    X = rows["context"][rows["task"] == 0]
    left = np.einsum("ni,ij,nj->", X, after, X) / np.einsum("ni,ij,nj->", X, before, X)

    stats = Statistics.from_data(**rows, n_tasks=3, n_arms=1)
    assert_allclose(borrowing_of(stats, PRIOR, 0).own_share, [1 - left])


def test_much_data_is_own_data_whatever_the_features():
    # An indicator of every category beside the intercept: one direction that no reward speaks about.
    category = np.arange(4000) % 2
    X = np.stack([np.ones(4000), category == 0, category == 1], axis=1)
    prior = Prior(covariance=np.eye(3)[None], noise_variance=1.0, shared_precision=0.1)
    stats = Statistics.from_data(
        task=np.arange(4000) % 4 // 2, arm=np.zeros(4000, int), context=X, reward=np.ones(4000), n_tasks=2, n_arms=1
    )

    assert borrowing_of(stats, prior, 0).own_share[0] > 0.99


def test_a_task_without_rewards_borrows_everything():
    stats = Statistics.from_data(**log([0, 9, 4]), n_tasks=3, n_arms=1)
    borrowing = borrowing_of(stats, PRIOR, 0)

    assert borrowing.own_share[0] == 0
    assert borrowing.borrowed[0] > 0


def test_one_task_alone_borrows_nothing():
    stats = Statistics.from_data(**log([7]), n_tasks=1, n_arms=1)

    assert borrowing_of(stats, PRIOR, 0).borrowed[0] == pytest.approx(0, abs=1e-9)


def test_more_rewards_of_its_own_mean_a_larger_own_share():
    shares = [
        borrowing_of(Statistics.from_data(**log([n, 20, 20]), n_tasks=3, n_arms=1), PRIOR, 0).own_share[0]
        for n in (1, 4, 16, 64)
    ]

    assert (np.diff(shares) > 0).all()
    assert shares[-1] > 0.9


def test_nothing_is_borrowed_beyond_what_tasks_have_in_common():
    # However much the others know, a task gets at most what the population's spread leaves: noise tr((Sigma W)^-1) / d.
    stats = Statistics.from_data(**log([1, 4000, 4000]), n_tasks=3, n_arms=1)
    squares = np.einsum("knii->i", stats.gram) / stats.count.sum()
    limit = 0.7 * (np.diagonal(np.linalg.inv(PRIOR.covariance[0])) / squares).mean()

    assert 0.2 * limit < borrowing_of(stats, PRIOR, 0).borrowed[0] < limit
