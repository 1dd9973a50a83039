"""Effects of features on the population, beside dense Gaussian regression."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.model.effects import learn_effects, no_effects, regression, task_information

RNG = np.random.default_rng(0)
D, N, P = 2, 40, 3


def spd(size, rng=RNG):
    root = rng.normal(size=(size, size))
    return root @ root.T + 0.3 * np.eye(size)


def world(effect_sd, seed=1, *, n_units=3, groups=(0, 0, 1)):
    """Rows of tasks whose means depend on what is known about them: sums, the design, and all that is true."""
    rng = np.random.default_rng(seed)
    covariance, noise = np.diag([0.3, 0.2]), 0.5
    squares = np.array([1.0, 4.0])
    z = np.column_stack([np.ones(N), rng.normal(size=(N, len(groups)))])
    units = []
    for _ in range(n_units):
        effects = rng.normal(size=(len(groups), D)) * np.array(effect_sd)[list(groups)][:, None] / np.sqrt(squares)
        mean = rng.normal(size=D) + z[:, 1:] @ effects
        theta = mean + rng.normal(size=(N, D)) @ np.sqrt(covariance)
        X = rng.normal(size=(N, 12, D)) * np.sqrt(squares)
        y = np.einsum("nri,ni->nr", X, theta) + np.sqrt(noise) * rng.normal(size=(N, 12))
        gram, moment = np.einsum("nri,nrj->nij", X, X), np.einsum("nri,nr->ni", X, y)
        units.append(regression(z, *task_information(gram, moment, covariance, np.full(N, noise))))
    precision, moment = (np.array(part) for part in zip(*units, strict=True))
    return precision, moment, squares


def test_what_a_task_says_is_the_gaussian_with_its_coefficients_integrated_out():
    gram, covariance, noise = spd(D), spd(D), 0.7
    moment = RNG.normal(size=D)
    information, rest = task_information(gram[None], moment[None], covariance, np.array([noise]))

    assert_allclose(information[0], np.linalg.inv(noise * np.linalg.inv(gram) + covariance))
    assert_allclose(rest[0], information[0] @ np.linalg.solve(gram, moment))


def test_a_singular_gram_matrix_is_as_good_as_any():
    x, noise, covariance = np.array([1.0, 2.0]), 0.7, spd(D)
    information, rest = task_information(np.outer(x, x)[None], 3.0 * x[None], covariance, np.array([noise]))
    total = noise + x @ covariance @ x  # one reward of 3 at x

    assert_allclose(information[0], np.outer(x, x) / total)
    assert_allclose(rest[0], 3.0 * x / total)


def test_effects_are_those_of_one_dense_regression():
    precision, moment, squares = world([0.6, 0.6])
    base, base_moment = np.array([spd(D) for _ in range(3)]), RNG.normal(size=(3, D))
    found = learn_effects(
        precision, moment, base, base_moment, squares, np.array([0, 0, 1]), np.array([0.5, 0.5]), np.full(2, np.nan)
    )

    assert (found.variance > 0).all()
    for unit in range(3):
        total = precision[unit].copy()
        total[:D, :D] += base[unit]
        total[D:, D:] += np.diag(np.tile(squares, 3) / found.variance[[0, 0, 0, 0, 1, 1]])
        right = moment[unit].copy()
        right[:D] += base_moment[unit]
        assert_allclose(found.mean[unit].ravel(), np.linalg.solve(total, right)[D:])
        assert_allclose(found.covariance[unit], np.linalg.inv(total)[D:, D:])
        # Of the mean at z in a direction: what is left of it given the effects, and what the effects add.
        z, x = np.array([0.4, -0.2, 1.1]), np.array([1.0, 0.6])
        whole = np.kron([1.0, *z], x)
        given = x @ np.linalg.solve(total[:D, :D], x)
        more = found.uncertainty(np.array([unit]), z[None], x[None])[0]
        assert given + more == pytest.approx(whole @ np.linalg.inv(total) @ whole)


def test_variances_are_learned_and_useless_features_say_nothing():
    base = np.tile(1e-3 * np.eye(D), (3, 1, 1)), np.zeros((3, D))
    useful = []
    for seed in range(20):
        precision, moment, squares = world([0.6, 0.0], seed)
        found = learn_effects(
            precision, moment, *base, squares, np.array([0, 0, 1]), np.array([0.5, 0.5]), np.full(2, np.nan)
        )
        useful.append(found.variance[0])
        if found.variance[1] == 0:
            assert not found.mean[:, 2].any()
            assert not found.covariance[:, 4:].any()
        else:
            assert found.variance[1] < 0.1  # 20 to 1 is now and then not enough
    # Twelve effects in every world: the variance of their mean square is 2 / 12 of its square.
    assert np.mean(useful) == pytest.approx(0.36, abs=3 * 0.36 * np.sqrt(2 / 12 / 20))


def test_nothing_is_known_before_the_first_estimate():
    nothing = no_effects(3, 2, D, 1)
    assert not nothing.mean.any()
    assert not nothing.covariance.any()
    assert np.isnan(nothing.variance).all()
