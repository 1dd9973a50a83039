"""What the evidence prior believes in everyday situations, beside what is true."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.model import Statistics, estimate_prior, posterior


def draw(seed, *, n_rows, n_tasks=20, n_arms=3, noise=1.0, between=0.5, offset=0.0):
    """Rows with an intercept and one feature, and the coefficients behind them."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n_arms, 1, 2)) * 0.5 + [offset, 0.0]
    beta = shared + between * rng.standard_normal((n_arms, n_tasks, 2))
    rows = {
        "task": rng.integers(n_tasks, size=n_rows),
        "arm": rng.integers(n_arms, size=n_rows),
        "context": np.column_stack([np.ones(n_rows), rng.standard_normal(n_rows)]),
    }
    mean = np.einsum("na,na->n", rows["context"], beta[rows["arm"], rows["task"]])
    return rows | {"reward": mean + noise * rng.standard_normal(n_rows)}, beta


@pytest.mark.parametrize("value", [0.0, 5.3])
def test_an_arm_that_always_pays_the_same_leaves_the_noise_of_the_others_alone(value):
    rows, _ = draw(0, n_rows=4000)
    rows["reward"] = np.where(rows["arm"] == 0, value, rows["reward"])
    prior = estimate_prior(Statistics.from_data(**rows, n_tasks=20, n_arms=3), "evidence").prior

    assert_allclose(np.sqrt(prior.noise_variance[1:]), 1.0, rtol=0.1)
    # The least that 1,333 rewards allow, of a noise that may be as large as arms differ.
    assert np.sqrt(prior.noise_variance[0]) < 0.3


@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (100.0, 1.0), (0.0, 1e-3)])
def test_a_few_equal_rewards_are_no_certainty_beside_an_arm_that_always_pays_the_same(offset, unit):
    # To do nothing pays 0, 3,000 times; to dig has cost 1, six times. Neither has shown any noise, so nothing says how
    # much digging may pay: its noise is believed to be of the size of what is known to differ.
    rng = np.random.default_rng(2)
    n = 3006
    arm = (np.arange(n) % 501 == 0).astype(int)
    stats = Statistics.from_data(
        task=rng.integers(10, size=n), arm=arm, context=np.column_stack([np.ones(n), rng.standard_normal(n)]),
        reward=unit * (offset - arm), n_tasks=10, n_arms=2,
    )  # fmt: skip
    found = estimate_prior(stats, "evidence")
    believed = posterior(stats, found.prior)

    sd = np.sqrt(believed.covariance[1, :, 0, 0]) / unit
    assert ((sd > 0.08) & (sd < 1)).all()
    assert_allclose(believed.mean[1, :, 0] / unit, offset - 1, atol=0.4)
    assert (np.sqrt(believed.covariance[0, :, 0, 0]) / unit < 0.05).all()
    assert found.report.unusual.quiet == (0, 1)


def test_rare_clicks_are_believed_at_their_rate():
    # 34 arms, 0.46 %, 10,000 rows: 46 clicks are known to 15 %, so a factor of 1.5 is three standard errors.
    rng = np.random.default_rng(1)
    n, K, N = 10_000, 34, 10
    rows = {
        "task": rng.integers(N, size=n),
        "arm": rng.integers(K, size=n),
        "context": np.ones((n, 1)),
        "reward": (rng.random(n) < 0.0046) * 1.0,
    }
    stats = Statistics.from_data(**rows, n_tasks=N, n_arms=K)
    believed = posterior(stats, estimate_prior(stats, "evidence").prior).mean[:, :, 0]

    assert 0.0046 / 1.5 < believed.mean() < 0.0046 * 1.5
    # No arm differs from any other, and no task.
    assert believed.std() < 0.0046


def test_few_rows_are_believed_no_better_than_they_are():
    # Three rewards per pair of arm and task, 50 worlds of 18 pairs, 95 % intervals of the intercepts. Pairs of a world
    # err together, so the standard error is that of 50 averages; 3 % is what few rows may cost.
    covered = []
    for seed in range(50):
        rows, beta = draw(seed, n_rows=60, n_tasks=6)
        stats = Statistics.from_data(**rows, n_tasks=6, n_arms=3)
        found = posterior(stats, estimate_prior(stats, "evidence").prior)
        sd = np.sqrt(found.covariance[..., 0, 0])
        covered.append((np.abs(found.mean - beta)[..., 0] < 1.96 * sd).mean())

    error = np.std(covered) / np.sqrt(50)
    assert np.mean(covered) > 0.95 - 0.03 - 2 * error
    assert np.mean(covered) < 0.995


@pytest.mark.parametrize("offset", [-100.0, 1e4])
def test_a_constant_added_to_all_rewards_changes_nothing(offset):
    rows, _ = draw(2, n_rows=1500)
    plain, moved = (
        estimate_prior(
            Statistics.from_data(**rows | {"reward": rows["reward"] + by}, n_tasks=20, n_arms=3), "evidence"
        ).prior
        for by in (0.0, offset)
    )

    # The common mean is drawn to 0 by what it is worth beside the spread of three arms: about 1e-3.
    assert_allclose(moved.noise_variance, plain.noise_variance, rtol=1e-3)
    assert_allclose(moved.covariance, plain.covariance, rtol=1e-3, atol=1e-3)


def test_a_new_arm_starts_among_the_others():
    rng = np.random.default_rng(4)
    n = 1200
    arm = rng.integers(4, size=n)
    worth = 100.0 + np.array([-0.5, 0.2, 0.4, 0.1])
    fleet = Posse(["a", "b", "c", "d"], [], seed=0)
    fleet.learn_many(
        pl.DataFrame(
            {
                "task": [f"task {task}" for task in rng.integers(12, size=n)],
                "arm": [["a", "b", "c", "d"][number] for number in arm],
                "reward": worth[arm] + rng.standard_normal(n),
            }
        )
    )
    fleet.refresh()
    fleet.add_arm("new")
    mean, sd = fleet.expected("unseen", {})

    others = [mean[name] for name in "abcd"]
    assert abs(mean["new"] - np.mean(others)) < sd["new"]
    # The arms differ by 0.4, tasks by nothing: a newcomer is known to about that, not to 100.
    assert 0.1 < sd["new"] < 2.0
