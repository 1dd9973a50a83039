import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.model import dense as linalg

SIZES = [1, 2, 3, 8, 21]


def positive_definite(d, seed=0):
    """A matrix with condition number of a few hundred at most, far from the identity."""
    root = np.random.default_rng(seed + 100 * d).standard_normal((d, d + 3))
    return root @ root.T + 0.3 * np.eye(d)


def of_rank(d, rank, seed=0):
    root = np.random.default_rng(seed + 100 * d).standard_normal((d, rank))
    return root @ root.T


def dirty(*shape):
    """A buffer as kernels get it: full of what was there before."""
    return np.full(shape, np.nan)


@pytest.mark.parametrize("d", SIZES)
def test_products_equal_numpys(d):
    rng = np.random.default_rng(d)
    matrix, x, y = positive_definite(d), rng.standard_normal(d), rng.standard_normal(d)

    product = dirty(d)
    linalg.multiply_symmetric(matrix, x, product)
    added = matrix.copy()
    linalg.add_outer(-0.7, x, added)
    rows = rng.standard_normal((d + 2, d))
    crossed = dirty(d, d)
    linalg.cross_product(rows, crossed)

    # Sums of d products in another order.
    assert_allclose(linalg.dot(x, y), x @ y, rtol=1e-12)
    assert_allclose(product, matrix @ x, rtol=1e-12, atol=1e-12)
    assert_allclose(added, matrix - 0.7 * np.outer(x, x), rtol=1e-12, atol=1e-12)
    assert_allclose(crossed, rows.T @ rows, rtol=1e-12, atol=1e-12)
    assert_array_equal(crossed, crossed.T)


def test_mirror_upper_overwrites_the_lower_triangle():
    matrix = np.array([[1.0, 2.0, 3.0], [-9.0, 4.0, 5.0], [-9.0, -9.0, 6.0]])

    linalg.mirror_upper(matrix)

    assert_array_equal(matrix, [[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])


@pytest.mark.parametrize("d", SIZES)
def test_factor_is_the_transposed_cholesky_factor(d):
    matrix = positive_definite(d)
    upper = dirty(d, d)

    assert linalg.factor(np.triu(matrix), upper)  # the lower triangle is not read

    assert_allclose(upper, np.linalg.cholesky(matrix).T, rtol=1e-10, atol=1e-12)
    assert_allclose(linalg.log_determinant(upper), np.linalg.slogdet(matrix)[1], rtol=1e-10)


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.0]],
        [[-1.0]],
        [[np.nan]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[4.0, 2.0], [2.0, 1.0]],
        [[1.0, np.nan], [np.nan, 1.0]],
    ],
    ids=str,
)
def test_factor_refuses_what_is_not_positive_definite(matrix):
    matrix = np.array(matrix)

    assert not linalg.factor(matrix, np.empty_like(matrix))


DEFICIENT = [(1, 0), (1, 1), (2, 1), (3, 0), (3, 1), (3, 2), (3, 3), (8, 4), (21, 15), (21, 21)]


@pytest.mark.parametrize(("d", "rank"), DEFICIENT)
def test_factor_of_a_semidefinite_matrix_gives_it_back(d, rank):
    for seed in range(100):
        matrix, upper = of_rank(d, rank, seed), dirty(d, d)
        linalg.factor_semidefinite(matrix, upper)
        assert_array_equal(upper, np.triu(upper))
        # A pivot of rounding that is taken for real costs up to the root of the machine precision.
        assert_allclose(upper.T @ upper, matrix, atol=1e-8 * np.abs(matrix).max(initial=0.0), err_msg=f"seed {seed}")


def test_factor_of_a_semidefinite_matrix_skips_a_zero_row_in_the_middle():
    # Coefficient 1 does not vary between tasks; the other two do, and together.
    matrix = np.array([[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 10.0]])
    upper = dirty(3, 3)

    linalg.factor_semidefinite(matrix, upper)

    assert_allclose(upper, [[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 3.0]])


def test_factor_of_a_semidefinite_matrix_keeps_features_on_very_different_scales():
    # A feature in seconds since 1970 has coefficients 1e9 times smaller than its neighbours'; that is no rounding.
    matrix = np.diag([1.0, 4e-18, 9.0])
    upper = dirty(3, 3)

    linalg.factor_semidefinite(matrix, upper)

    assert_allclose(upper, np.diag([1.0, 2e-9, 3.0]))


@pytest.mark.parametrize("d", SIZES)
def test_triangular_solves_equal_numpys(d):
    upper = np.linalg.cholesky(positive_definite(d)).T.copy()
    rhs = np.random.default_rng(d).standard_normal((d, 4))
    solution = rhs.copy()
    inverse = dirty(d, d)

    linalg.solve_transposed(upper, solution)
    linalg.invert_factor(upper, inverse)

    assert_allclose(solution, np.linalg.solve(upper.T, rhs), rtol=1e-9, atol=1e-10)
    assert_allclose(inverse, np.linalg.inv(upper.T), rtol=1e-9, atol=1e-10)
    assert_array_equal(inverse, np.tril(inverse))


@pytest.mark.parametrize("d", SIZES)
def test_inverse_equals_numpys(d):
    matrix = positive_definite(d)
    inverse = dirty(d, d)

    assert linalg.invert(matrix, dirty(d, d), dirty(d, d), inverse)

    expected = np.linalg.inv(matrix)
    assert_allclose(inverse, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
    assert_array_equal(inverse, inverse.T)


def test_inverse_of_what_is_not_positive_definite_is_refused():
    assert not linalg.invert(np.array([[1.0, 2.0], [2.0, 1.0]]), *(np.empty((2, 2)) for _ in range(3)))


def symmetric_cases():
    rng = np.random.default_rng(7)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    wide = rng.standard_normal((21, 21))
    return {
        "one entry": np.array([[-3.5]]),
        "diagonal": np.diag([3.0, -1.0, 0.5]),
        "zero": np.zeros((4, 4)),
        "identity": 2.5 * np.eye(5),
        "equal diagonal": np.array([[2.0, -1.5], [-1.5, 2.0]]),
        "two repeated": turn @ np.diag([4.0, 4.0, 4.0, -2.0, -2.0, 7.0]) @ turn.T,
        "rank one of 21": of_rank(21, 1),
        "indefinite 21": wide + wide.T,
        "graded": np.array([[1e8, 1.0, 1e-3], [1.0, 1.0, 1e-4], [1e-3, 1e-4, 1e-6]]),
        "small": 1e-9 * positive_definite(3),
    }


@pytest.mark.parametrize("name", symmetric_cases())
def test_eigenvalues_and_vectors_rebuild_the_matrix(name):
    matrix = symmetric_cases()[name]
    matrix = (matrix + matrix.T) / 2
    d = matrix.shape[0]
    values, vectors = dirty(d), dirty(d, d)

    linalg.eigen(matrix.copy(), values, vectors)

    scale = max(np.abs(matrix).max(), 1e-300)
    assert_allclose(np.sort(values), np.linalg.eigvalsh(matrix), rtol=1e-10, atol=1e-12 * scale)
    assert_allclose(vectors @ vectors.T, np.eye(d), atol=1e-12)
    assert_allclose(vectors.T @ np.diag(values) @ vectors, matrix, atol=1e-12 * scale)


@pytest.mark.parametrize("d", [1, 2, 5, 21])
def test_raised_eigenvalues_are_clipped_and_the_others_stay(d):
    rng = np.random.default_rng(d)
    matrix = rng.standard_normal((d, d))
    matrix = (matrix + matrix.T) / 2
    floor = 0.4
    values, vectors = np.linalg.eigh(matrix)
    expected = vectors @ np.diag(np.maximum(values, floor)) @ vectors.T
    raised = matrix.copy()

    count = linalg.raise_eigenvalues(raised, floor, dirty(d), dirty(d, d), dirty(d, d))

    assert count == (values < floor).sum()
    assert_allclose(raised, expected, atol=1e-12)


def test_matrix_above_the_floor_is_left_as_it_is():
    matrix = positive_definite(4)
    raised = matrix.copy()

    assert linalg.raise_eigenvalues(raised, 0.1, dirty(4), dirty(4, 4), dirty(4, 4)) == 0

    assert_array_equal(raised, matrix)


@pytest.mark.parametrize(
    ("d", "n"), [(1, 0), (1, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 30), (8, 5), (21, 10), (21, 60)]
)
def test_least_squares_is_the_minimum_norm_solution(d, n):
    rng = np.random.default_rng(d + n)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    solution = dirty(d)

    rank = linalg.least_squares(X.T @ X, X.T @ y, solution, dirty(d, d), dirty(d), dirty(d, d))

    assert rank == min(n, d)
    # Normal equations square the condition number, here up to about 1e3.
    assert_allclose(solution, np.linalg.pinv(X) @ y, rtol=1e-7, atol=1e-9)


def test_least_squares_leaves_unseen_directions_at_zero():
    # (1, 2) was seen twice, with rewards 5 and 15: beta = 10 / 5 (1, 2), and nothing along (2, -1).
    X, y = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([5.0, 15.0])
    solution = dirty(2)

    assert linalg.least_squares(X.T @ X, X.T @ y, solution, dirty(2, 2), dirty(2), dirty(2, 2)) == 1

    assert_allclose(solution, [2.0, 4.0], rtol=1e-12)


@pytest.mark.parametrize("d", SIZES)
def test_ordinary_least_squares_equals_numpys(d):
    rng = np.random.default_rng(d)
    X, y = rng.standard_normal((2 * d + 3, d)) + 0.5, rng.standard_normal(2 * d + 3)
    gram = X.T @ X
    solution, inverse_root = dirty(d), dirty(d, d)

    condition = linalg.ordinary_least_squares(gram, X.T @ y, solution, dirty(d, d), inverse_root, 1e8)

    inverse = np.linalg.inv(gram)
    assert_allclose(solution, np.linalg.lstsq(X, y)[0], rtol=1e-8, atol=1e-10)
    assert_allclose(inverse_root.T @ inverse_root, inverse, rtol=1e-8, atol=1e-10)
    assert_allclose(condition, np.trace(gram) * np.trace(inverse), rtol=1e-8)
    assert condition >= np.linalg.cond(gram) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("diagonal", "usable"),
    [([1.0, 1.0], True), ([1.0, 1e-7], True), ([1.0, 1e-9], False), ([1.0, 0.0], False), ([0.0, 0.0], False)],
)
def test_ordinary_least_squares_refuses_a_badly_conditioned_gram_matrix(diagonal, usable):
    gram, buffers = np.diag(diagonal), [dirty(2, 2) for _ in range(2)]

    condition = linalg.ordinary_least_squares(gram, np.ones(2), dirty(2), *buffers, 1e8)

    assert np.isfinite(condition) == usable
