import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue
from posse_lab.worlds.factorisation import balanced, factorise
from posse_lab.worlds.features import signs

RNG = np.random.default_rng(7)
ROWS, COLUMNS = np.nonzero(RNG.random((40, 30)) < 0.6)
VALUES = (RNG.normal(size=(40, 2))[ROWS] * RNG.normal(size=(30, 2))[COLUMNS]).sum(axis=1)


def factors_of(values=VALUES, **settings):
    given = {"shape": (40, 30), "n_factors": 2, "penalty": 0.4, "n_iterations": 200}
    return factorise(ROWS, COLUMNS, values, **{**given, **settings})


def test_a_table_of_low_rank_is_completed():
    U, V = RNG.normal(size=(40, 2)), RNG.normal(size=(30, 2))
    values = (U[ROWS] * V[COLUMNS]).sum(axis=1)
    factors = factors_of(values, penalty=1e-6)

    assert_allclose(factors.rows @ factors.columns.T, U @ V.T, atol=1e-4)  # unknown entries too
    assert factors.rmse < 1e-5


def test_every_row_is_the_ridge_regression_on_its_known_columns():
    """A fixed point of the plain loop: at convergence both sides are ridge regressions on each other."""
    factors = factors_of()
    for row in range(40):
        known = row == ROWS
        X, y = factors.columns[COLUMNS[known]], VALUES[known]
        assert_allclose(factors.rows[row], np.linalg.solve(X.T @ X + 0.4 * np.eye(2), X.T @ y), atol=1e-6)
    for column in range(30):
        known = column == COLUMNS
        X, y = factors.rows[ROWS[known]], VALUES[known]
        assert_allclose(factors.columns[column], np.linalg.solve(X.T @ X + 0.4 * np.eye(2), X.T @ y), atol=1e-6)


def test_factors_are_balanced():
    factors = factors_of(VALUES + RNG.normal(size=VALUES.size), n_factors=4, n_iterations=5)
    gram = factors.rows.T @ factors.rows
    assert_allclose(gram, factors.columns.T @ factors.columns, atol=1e-9)
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    assert (np.diff(np.diag(gram)) < 0).all()
    assert_array_equal(signs(factors.columns), np.ones(4))
    _, singular, _ = np.linalg.svd(factors.rows @ factors.columns.T)
    assert_allclose(np.diag(gram), singular[:4])


def test_balancing_keeps_the_product():
    U, V = RNG.normal(size=(9, 3)), RNG.normal(size=(6, 3))
    rows, columns = balanced(U, V)
    assert_allclose(rows @ columns.T, U @ V.T)
    turned = balanced(-U, -V)
    assert_allclose(turned[0], rows)


def test_the_error_is_that_of_the_known_entries(monkeypatch):
    factors = factors_of(n_iterations=2)
    errors = VALUES - (factors.rows @ factors.columns.T)[ROWS, COLUMNS]
    assert_allclose(factors.rmse, np.sqrt(np.mean(errors**2)))
    monkeypatch.setattr("posse_lab.worlds.factorisation.BLOCK", 100)
    assert_allclose(factors_of(n_iterations=2).rmse, factors.rmse)


def test_the_same_entries_give_the_same_factors():
    one, same = factors_of(), factors_of()
    assert_array_equal(one.rows, same.rows)
    assert_array_equal(one.columns, same.columns)


def test_rows_without_entries_are_zero():
    factors = factors_of(shape=(41, 30))
    assert_allclose(factors.rows[40], 0, atol=1e-12)
    assert_allclose(factors.rows[:40] @ factors.columns.T, factors_of().rows @ factors_of().columns.T, atol=1e-6)


def test_bad_input_is_one_clear_error():
    with pytest.raises(InvalidValue, match="n_factors to be at most 30"):
        factors_of(n_factors=31)
    with pytest.raises(InvalidValue, match="penalty to be greater than 0"):
        factors_of(penalty=0)
    with pytest.raises(InvalidValue, match="n_iterations to be at least 1"):
        factors_of(n_iterations=0)
    with pytest.raises(InvalidValue, match="1 entries repeat others"):
        factorise(np.array([0, 0, 1]), np.array([1, 1, 0]), np.ones(3), shape=(2, 2), n_factors=1)
