import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue, NotPositiveDefinite, ShapeError
from posse_lab.worlds import PopulationWorld

RNG = np.random.default_rng(4)
POOL = RNG.normal(size=(70, 3)) * [1.0, 2.0, 0.5] + 1
CENTRES = np.array([[1.0, -2.0, 0.5], [0.3, 4.0, -1.0]])
FULL = np.array([[[2.0, 0.6, -0.4], [0.6, 0.5, 0.1], [-0.4, 0.1, 1.5]], np.diag([0.3, 0.0, 2.0])])


def world_of(**settings):
    given = {"name": "toy", "contexts": POOL, "centres": CENTRES, "covariance": FULL, "noise_sd": [0.5, 2.0]}
    return PopulationWorld(**{**given, "n_tasks": 4, **settings})


def test_tasks_scatter_as_the_prior_says():
    # 20,000 tasks: a covariance entry of variables with variances up to 5 has a standard error below 5 / 141 x sqrt 2,
    # five of which are 0.25.
    draw = world_of(n_tasks=20_000, heterogeneity=2.5).draw(0, horizon=1)

    for arm in range(2):
        assert_allclose(np.cov(draw.coefficients[arm].T), 2.5 * FULL[arm], atol=0.25)
    assert_allclose(draw.coefficients.mean(axis=1), CENTRES, atol=5 * np.sqrt(5 / 20_000))
    assert_allclose(draw.prior.covariance, 2.5 * FULL)
    assert_allclose(draw.prior.noise_variance, [0.25, 4.0])
    assert_allclose(draw.prior.shared_precision, 1 / np.mean(CENTRES**2))
    assert_array_equal(draw.coefficients[1, :, 1], np.full(20_000, 4.0))  # a coefficient without variance


def test_diagonals_are_short_for_matrices():
    variances = np.array([[1.0, 0.2, 3.0], [0.5, 0.0, 2.0]])
    short, full = (world_of(covariance=given).draw(3, 40) for given in (variances, variances[:, :, None] * np.eye(3)))
    assert_allclose(short.coefficients, full.coefficients, atol=1e-12)
    assert_allclose(short.prior.covariance, full.prior.covariance)


def test_no_heterogeneity_makes_tasks_identical():
    coefficients = world_of(heterogeneity=0.0).draw(0, 5).coefficients
    assert_array_equal(coefficients, np.repeat(CENTRES[:, None], 4, axis=1))


def test_rewards_follow_the_coefficients():
    draw = world_of().draw(2, 70)

    assert_allclose(draw.expected, np.einsum("ti,kti->tk", draw.contexts, draw.coefficients[:, draw.tasks]), atol=1e-12)
    noise = (draw.rewards - draw.expected) / [0.5, 2.0]
    assert_allclose(noise[:, 0], noise[:, 1], atol=1e-9)
    # 70 standard normal numbers: four standard errors of their mean square are 4 sqrt(2 / 70).
    assert abs(np.mean(noise[:, 0] ** 2) - 1) < 4 * np.sqrt(2 / 70)


def test_every_row_of_the_pool_comes_once():
    contexts = world_of().draw(1, 70).contexts
    assert_array_equal(contexts[np.lexsort(contexts.T)], POOL[np.lexsort(POOL.T)])


def test_tasks_arrive_equally_often():
    draw = world_of(contexts=np.tile(POOL, (300, 1))).draw(0, 21_000)
    assert_allclose(draw.arrival_probabilities, 0.25)
    # Four standard errors of a share.
    assert_allclose(np.bincount(draw.tasks) / 21_000, 0.25, atol=4 * np.sqrt(0.25 * 0.75 / 21_000))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"n_tasks": 0}, InvalidValue, "n_tasks to be at least 1"),
        ({"heterogeneity": -0.1}, InvalidValue, "heterogeneity to be at least 0"),
        ({"contexts": POOL[:, :2]}, ShapeError, "contexts have 2 features, but the centres have 3"),
        ({"contexts": POOL[0]}, ShapeError, "contexts to be a table"),
        ({"centres": CENTRES[0]}, ShapeError, "centres to be a table"),
        ({"covariance": FULL[0]}, ShapeError, r"covariance to have shape \(2, 3, 3\), or \(2, 3\) for diagonals"),
        ({"covariance": -FULL}, NotPositiveDefinite, "covariance"),
        ({"covariance": np.full((2, 3), -1.0)}, InvalidValue, "variances of at least 0, got -1"),
        ({"noise_sd": [1.0]}, ShapeError, "noise_sd to be one number or have length 2"),
        ({"noise_sd": -1.0}, InvalidValue, "noise_sd to be at least 0"),
    ],
)
def test_bad_input_is_one_clear_error(change, error, words):
    with pytest.raises(error, match=words):
        world_of(**change)
