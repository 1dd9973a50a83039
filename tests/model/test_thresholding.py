import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.model.thresholding import (
    GRID,
    apply_threshold,
    choose_threshold,
    largest_off_diagonal,
    sample_covariance,
    shuffle,
)


def permutation(count, split):
    order = np.full(count + 2, -1)
    shuffle(order, count, split)
    assert_array_equal(order[count:], -1)  # nothing past the count is touched
    return order[:count]


def covariance_of(rows):
    return np.atleast_2d(np.cov(rows, rowvar=False))


def chosen_by_kernel(rows):
    n, d = rows.shape
    return choose_threshold(
        rows,
        n,
        covariance_of(rows),
        np.empty(n, dtype=np.int64),
        np.empty(GRID),
        np.empty(d),
        np.empty((d, d)),
        np.empty((d, d)),
    )


def chosen_in_plain_numpy(rows, n_splits=10, n_grid=20):
    """Bickel and Levina: the threshold whose estimate from n (1 - 1 / log n) vectors is closest to the others'."""
    n, d = rows.shape
    off_diagonal = ~np.eye(d, dtype=bool)
    grid = np.linspace(0, np.abs(covariance_of(rows)[off_diagonal]).max(), n_grid)
    n_fit = round(n * (1 - 1 / np.log(n)))
    losses = np.zeros(n_grid)
    for split in range(n_splits):
        order = permutation(n, split)
        fit, held = covariance_of(rows[order[:n_fit]]), covariance_of(rows[order[n_fit:]])
        for g, threshold in enumerate(grid):
            thresholded = np.where((np.abs(fit) >= threshold) | ~off_diagonal, fit, 0.0)
            losses[g] += ((thresholded - held) ** 2).sum() / n_splits
    # Neighbours on the grid often keep the same entries; the first of equals is meant, whatever rounding says.
    return grid[np.flatnonzero(losses <= losses.min() * (1 + 1e-12))[0]]


def draw_vectors(n, d, seed, correlated):
    """Vectors whose coordinates all covary, or none do."""
    rng = np.random.default_rng(seed)
    root = np.eye(d) + (0.8 if correlated else 0.0)
    return rng.standard_normal((n, d)) @ root * np.linspace(0.5, 2.0, d) + 3.0


@pytest.mark.parametrize("correlated", [True, False])
@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("n", [6, 7, 10, 13, 30])
def test_chosen_threshold_equals_that_of_plain_numpy(n, d, correlated):
    for seed in range(5):
        rows = draw_vectors(n, d, seed, correlated)
        assert_allclose(chosen_by_kernel(rows), chosen_in_plain_numpy(rows), rtol=1e-12, err_msg=f"seed {seed}")


def chosen_shares(n, d, correlated, seeds):
    """Chosen thresholds over the largest entry off the diagonal: 0 keeps everything, 1 drops all but that entry."""
    drawn = [draw_vectors(n, d, seed, correlated) for seed in range(seeds)]
    return np.array([chosen_by_kernel(rows) / largest_off_diagonal(covariance_of(rows)) for rows in drawn])


def test_independent_coordinates_are_thresholded_and_covarying_ones_are_not():
    independent = chosen_shares(60, 4, correlated=False, seeds=60)
    covarying = chosen_shares(60, 4, correlated=True, seeds=60)

    # A share lies in [0, 1], so a mean of 60 has a standard error of at most 0.065; five of those are asked for.
    assert independent.mean() > covarying.mean() + 0.33
    assert ((independent > 0.01) & (independent < 0.99)).any()  # not only the ends of the grid are chosen


def test_last_grid_point_is_the_largest_entry_itself():
    # One unit in the last place decides whether the largest covariance survives |s| >= threshold.
    shares = chosen_shares(30, 3, correlated=False, seeds=300)
    at_the_end = shares[shares > 0.99]

    assert at_the_end.size > 20
    assert_array_equal(at_the_end, 1.0)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_fewer_than_six_vectors_choose_no_threshold(n):
    rows = draw_vectors(max(n, 2), 3, 0, correlated=False)
    covariance = covariance_of(rows)

    chosen = choose_threshold(
        rows,
        n,
        covariance,
        np.empty(6, dtype=np.int64),
        np.empty(GRID),
        np.empty(3),
        np.empty((3, 3)),
        np.empty((3, 3)),
    )

    assert chosen == 0.0


def test_nothing_off_the_diagonal_chooses_no_threshold():
    assert chosen_by_kernel(draw_vectors(12, 1, 0, correlated=False)) == 0.0
    assert chosen_by_kernel(np.ones((12, 3))) == 0.0


@pytest.mark.parametrize(("n", "d"), [(2, 1), (2, 3), (9, 4), (40, 21)])
def test_sample_covariance_equals_numpys(n, d):
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n + 3, d)) * 2 + 50.0
    order = rng.permutation(n + 3)
    mean, covariance = np.full(d, np.nan), np.full((d, d), np.nan)

    sample_covariance(rows, order, 1, n + 1, mean, covariance)

    named = rows[order[1 : n + 1]]
    assert_allclose(mean, named.mean(axis=0), rtol=1e-13)
    assert_allclose(covariance, covariance_of(named), rtol=1e-10, atol=1e-11)


def test_shuffle_is_the_same_on_every_machine():
    # Whole-number arithmetic in plain Python: splitmix64 and Fisher-Yates.
    bits, golden = (1 << 64) - 1, 0x9E3779B97F4A7C15

    def mix(state):
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & bits
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & bits
        return state ^ (state >> 31)

    for count, split in [(6, 0), (10, 3), (31, 9)]:
        expected = list(range(count))
        state = mix((count * golden + split) & bits)
        for i in range(count - 1, 0, -1):
            state = (state + golden) & bits
            j = mix(state) % (i + 1)
            expected[i], expected[j] = expected[j], expected[i]
        assert_array_equal(permutation(count, split), expected)


@pytest.mark.parametrize(
    ("threshold", "keep_diagonal", "expected"),
    [
        (0.0, False, [[0.3, -0.5, 0.1], [-0.5, 2.0, 0.4], [0.1, 0.4, 1.0]]),
        (0.4, True, [[0.3, -0.5, 0.0], [-0.5, 2.0, 0.4], [0.0, 0.4, 1.0]]),
        (0.4, False, [[0.0, -0.5, 0.0], [-0.5, 2.0, 0.4], [0.0, 0.4, 1.0]]),
        (9.0, True, [[0.3, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]),
        (9.0, False, np.zeros((3, 3))),
    ],
)
def test_entries_below_the_threshold_become_zero(threshold, keep_diagonal, expected):
    matrix = np.array([[0.3, -0.5, 0.1], [-0.5, 2.0, 0.4], [0.1, 0.4, 1.0]])

    apply_threshold(matrix, threshold, keep_diagonal)

    assert_array_equal(matrix, expected)


def test_largest_off_diagonal_ignores_sign_and_diagonal():
    assert largest_off_diagonal(np.array([[9.0, 0.2, -0.7], [0.2, 9.0, 0.5], [-0.7, 0.5, 9.0]])) == 0.7
    assert largest_off_diagonal(np.array([[9.0]])) == 0.0
