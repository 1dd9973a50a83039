import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue
from posse_lab.worlds.features import Components, Scaling, indicators, signs, with_intercept

ROWS = np.random.default_rng(0).normal(size=(80, 4)) @ np.random.default_rng(1).normal(size=(4, 4)) + [3, -2, 0, 9]


def test_scaling_is_that_of_the_rows_it_was_made_of():
    scaling = Scaling.of(ROWS[:30], "feature")
    first = scaling.apply(ROWS[:30])

    assert_allclose(first.mean(axis=0), 0, atol=1e-12)
    assert_allclose(first.std(axis=0), 1)
    assert_allclose(scaling.apply(ROWS) * ROWS[:30].std(axis=0) + ROWS[:30].mean(axis=0), ROWS)


def test_a_constant_column_cannot_be_scaled():
    with pytest.raises(InvalidValue, match="torque 1 is constant"):
        Scaling.of(np.array([[1.0, 2.0], [2.0, 2.0]]), "torque")


def test_components_are_those_of_the_singular_vectors():
    components = Components.of(ROWS, 3)

    _, singular, inner = np.linalg.svd(ROWS - ROWS.mean(axis=0))
    assert_allclose(components.variances, singular[:3] ** 2 / 80)
    assert_allclose(np.abs(np.sum(components.directions.T * inner[:3], axis=1)), 1)
    assert_allclose(components.apply(ROWS).var(axis=0), components.variances)
    assert_allclose(components.apply(ROWS), (ROWS - ROWS.mean(axis=0)) @ components.directions)


def test_components_keep_their_sign_when_all_columns_are_turned():
    assert_allclose(Components.of(-ROWS, 4).directions, Components.of(ROWS, 4).directions)
    assert (signs(Components.of(ROWS, 4).directions) == 1).all()


def test_all_components_lose_nothing():
    components = Components.of(ROWS, 4)
    assert_allclose(components.apply(ROWS) @ components.directions.T + components.mean, ROWS)


def test_more_components_than_directions_are_refused():
    repeated = np.column_stack([ROWS[:, :2], ROWS[:, 0] - ROWS[:, 1]])
    with pytest.raises(InvalidValue, match=r"n_components to be at most 2, the number of directions .* got 3"):
        Components.of(repeated, 3)
    with pytest.raises(InvalidValue, match="n_components to be at least 1"):
        Components.of(ROWS, 0)


def test_intercept_and_indicators():
    assert_array_equal(with_intercept(np.array([[4.0], [5.0]])), [[1, 4], [1, 5]])
    assert_array_equal(indicators(np.array([2, 0]), 3), [[0, 0, 1], [1, 0, 0]])
