"""Sums over pairs, eight at a time, against plain formulas for one pair after the other."""

from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.kernels.lanes import (
    LEVERAGE,
    N_COUNTS,
    RESIDUAL,
    SPREAD,
    SQUARED_LEVERAGE,
    Pairs,
    new_lanes,
    sum_information,
    sum_moments,
)
from posse.kernels.linalg import EPSILON
from posse.kernels.sums import Sums

SIZES = [1, 2, 3, 8, 10, 17]
NUMBERS = [0, 1, 7, 8, 9, 21]


class Case(NamedTuple):
    """Pairs of an arm and its population, away from zeros, ones and identities."""

    pairs: Pairs
    root: np.ndarray
    s2: float

    @property
    def covariance(self):
        return self.root.T @ self.root


def new_case(d, n, *, rows=5, seed=0, scale=1.0, weights=True):
    """``n`` pairs of ``rows`` rewards each; ``scale`` is how much the data weigh."""
    rng = np.random.default_rng([d, n, rows, seed])
    size = n + 3  # some rows belong to others
    X = np.sqrt(scale) * (rng.standard_normal((size, rows, d)) + 0.3)
    noise = np.sqrt(scale) * rng.standard_normal((size, rows))
    y = np.einsum("nri,ni->nr", X, 1.0 + rng.standard_normal((size, d))) + noise
    gram = np.einsum("nri,nrj->nij", X, X)
    sums = Sums(
        (gram + gram.transpose(0, 2, 1)) / 2,
        np.einsum("nri,nr->ni", X, y),
        (y * y).sum(axis=1),
        np.full(size, float(rows)),
    )
    of_arm = rng.permutation(size)[:n]
    for field in sums[:3]:
        field[np.setdiff1d(np.arange(size), of_arm)] = np.nan  # whoever reads these spoils everything
    # Two tasks more than pairs, in another order.
    task_of = rng.permutation(size + 2)[:size]
    task_weight = rng.uniform(0.4, 2.5, size + 2) if weights else np.ones(size + 2)
    half = rng.standard_normal((d + 3, d))
    root = np.ascontiguousarray(np.linalg.cholesky(half.T @ half / d).T)
    return Case(Pairs(sums, of_arm, task_of, task_weight), root, 0.7)


def one_by_one(case):
    """Yield row, weight, A, b, y'y, Ct and m of every pair."""
    pairs, inverse = case.pairs, np.linalg.inv(case.covariance)
    for row in pairs.rows.tolist():
        weight = pairs.task_weight[pairs.task_of[row]]
        gram, moment = pairs.sums.gram[row], pairs.sums.moment[row]
        local = np.linalg.inv(gram + case.s2 * weight * inverse)
        yield row, weight, gram, moment, pairs.sums.sum_of_squares[row], local, local @ moment


def room_of(d):
    lanes = new_lanes(d)
    lanes.room[:] = np.nan  # whatever was there before must not matter
    return lanes


def information(case, *, keep=True, pairs=None):
    """Return the sum of w [V, z], and local covariances and means."""
    pairs, d, size = pairs or case.pairs, len(case.root), len(case.pairs.sums.moment)
    shape = (size, d, d) if pairs.sums.gram.ndim == 3 else (size, d * (d + 1) // 2)
    local_covariance, local_mean, out = np.full(shape, np.nan), np.full((size, d), np.nan), np.full((d, d + 1), np.nan)
    sum_information(pairs, case.root, case.s2, local_covariance, local_mean, keep, room_of(d), out)
    return out, local_covariance, local_mean


def shared_mean_of(case):
    """Return covariance and mean of the shared mean under a precision that is not the identity."""
    d = len(case.root)
    precision, moment = np.diag(np.linspace(0.4, 1.7, d)), np.zeros(d)
    for _, _, A, b, _, local, mean in one_by_one(case):
        precision = precision + (A - A @ local @ A) / case.s2
        moment = moment + (b - A @ mean) / case.s2
    covariance = np.linalg.inv(precision)
    return covariance, covariance @ moment


def moments(case, *, robust=True, pairs=None):
    """Return second moments of u, counts and distances."""
    pairs, d = pairs or case.pairs, len(case.root)
    shared_covariance, shared_mean = shared_mean_of(case)
    shared_root = np.ascontiguousarray(np.linalg.solve(case.root.T, np.linalg.cholesky(shared_covariance)).T)
    start = np.linalg.solve(case.root.T, shared_mean)
    out, counts = np.full((d, d), np.nan), np.full(N_COUNTS, np.nan)
    distance = np.full(pairs.rows.size if robust else 0, np.nan)
    sum_moments(
        pairs, case.root, case.s2, shared_mean, shared_root, start, distance, room_of(d), out, counts
    )  # fmt: skip
    return out, counts, distance


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("d", SIZES)
def test_information_is_that_of_all_pairs(d, n, weights):
    case = new_case(d, n, weights=weights)

    out, local_covariance, local_mean = information(case)

    G, g = np.zeros((d, d)), np.zeros(d)
    for row, _, A, b, _, local, mean in one_by_one(case):
        assert_allclose(local_covariance[row], local, rtol=1e-9, atol=1e-9 * np.abs(local).max())
        assert_allclose(local_mean[row], mean, rtol=1e-9, atol=1e-9 * np.abs(mean).max())
        G, g = G + (A - A @ local @ A) / case.s2, g + (b - A @ mean) / case.s2
    # R G R' is the sum of w V, R g that of w z.
    expected = np.column_stack([case.root @ G @ case.root.T, case.root @ g])
    assert_allclose(out, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max(initial=0))
    others = np.setdiff1d(np.arange(n + 3), case.pairs.rows)
    assert np.isnan(local_covariance[others]).all()
    assert np.isnan(local_mean[others]).all()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("d", SIZES)
def test_moments_are_those_of_all_pairs(d, n, weights):
    case = new_case(d, n, weights=weights)
    shared_covariance, shared_mean = shared_mean_of(case)
    inverse = np.linalg.inv(case.covariance)

    out, counts, distance = moments(case)

    second, leverage, squared, residual, spread = np.zeros((d, d)), 0.0, 0.0, 0.0, 0.0
    expected_distance = []
    for _, weight, A, b, squares, local, mean in one_by_one(case):
        settled = local @ A
        deviation = mean - settled @ shared_mean
        both = settled @ shared_covariance @ settled.T
        moment = both + case.s2 * local + np.outer(deviation, deviation)
        second = second + weight * moment
        expected_distance.append(np.trace(inverse @ moment))
        leverage += np.trace(settled)
        squared += np.trace(settled @ settled)
        spread += weight * np.trace(inverse @ (settled @ shared_covariance - both))
        coefficients = shared_mean + deviation
        residual += max(squares + coefficients @ (A @ coefficients - 2 * b), 0.0)
    assert_allclose(case.root.T @ out @ case.root, second, rtol=1e-8, atol=1e-8 * np.abs(second).max())
    found = [counts[LEVERAGE], counts[SQUARED_LEVERAGE], counts[RESIDUAL], counts[SPREAD]]
    assert_allclose(found, [leverage, squared, residual, spread], rtol=1e-8, atol=1e-8)
    assert_allclose(distance, expected_distance, rtol=1e-8)
    assert (out == out.T).all()


@pytest.mark.parametrize("d", [1, 3, 10])
def test_a_pair_is_the_same_in_every_lane(d):
    case = new_case(d, 21)
    _, together, means = information(case)
    out, _, distance = moments(case)

    for position, row in enumerate(case.pairs.rows.tolist()):
        alone = case._replace(pairs=case.pairs._replace(rows=np.array([row])))
        _, local, mean = information(alone)
        assert local[row].tobytes() == together[row].tobytes()
        assert mean[row].tobytes() == means[row].tobytes()
        assert np.isfinite(distance[position])
    assert np.isfinite(out).all()


def solve_exactly(matrix, right):
    """Solve by elimination with pivots, in whatever numbers came."""
    n = len(matrix)
    table = np.concatenate([matrix, right], axis=1)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(table[k:, k])))
        table[[k, pivot]] = table[[pivot, k]]
        table[k] = table[k] / table[k, k]
        for i in range(n):
            if i != k:
                table[i] = table[i] - table[i, k] * table[k]
    return table[:, n:]


def condition_exactly(case):
    """Return the sum of w [V, z], local covariances, local means and the largest condition number, in 60 digits."""
    exact = np.vectorize(Decimal, otypes=[object])
    d, pairs = len(case.root), case.pairs
    with localcontext(prec=60):
        root, total = exact(case.root), exact(np.zeros((d, d + 1)))
        local_covariance, local_mean, condition = [], [], 1.0
        for row in pairs.rows.tolist():
            weight = Decimal(pairs.task_weight[pairs.task_of[row]])
            own = root @ exact(pairs.sums.gram[row]) @ root.T
            middle = own + np.eye(d, dtype=int) * (Decimal(case.s2) * weight)
            moment = (root @ exact(pairs.sums.moment[row]))[:, None]
            solved = solve_exactly(middle, np.concatenate([own, moment, root], axis=1))
            total = total + weight * solved[:, : d + 1]
            local_covariance.append((root.T @ solved[:, d + 1 :]).astype(float))
            local_mean.append((root.T @ solved[:, d]).astype(float))
            condition = max(condition, float(np.linalg.cond(middle.astype(float))))
    return total.astype(float), np.array(local_covariance), np.array(local_mean), condition


def relative_difference(got, expected):
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(("d", "rows"), [(1, 1), (2, 1), (3, 20), (8, 4), (8, 20), (17, 40)])
def test_no_digits_are_lost_with_much_data(d, rows, scale):
    # Rewards worth 1e-9 and 1e9 times as much as the population. What cannot be had is more digits than the condition
    # of M'M leaves: that of a few rewards of enormous weight in some directions and none in others is enormous, while
    # enough rewards, or little weight, leave nearly all digits. (A - A Ct A) / s2 would lose nine of them either way.
    case = new_case(d, 9, rows=rows, scale=scale)

    out, local_covariance, local_mean = information(case)

    total, expected_covariance, expected_mean, condition = condition_exactly(case)
    tolerance = 8 * d * EPSILON * condition
    assert (condition < 1e5) == (scale <= 1.0 or rows >= d)
    assert relative_difference(out[:, :d], total[:, :d]) < tolerance
    assert relative_difference(out[:, d], total[:, d]) < tolerance
    for position, row in enumerate(case.pairs.rows.tolist()):
        assert relative_difference(local_covariance[row], expected_covariance[position]) < tolerance
        assert relative_difference(local_mean[row], expected_mean[position]) < tolerance


@pytest.mark.parametrize("d", [1, 3, 8])
def test_pairs_without_rewards_say_nothing(d):
    case = new_case(d, 9)
    for field in case.pairs.sums:
        field[:] = 0.0

    out, local_covariance, local_mean = information(case)
    second, counts, distance = moments(case)

    assert (out == 0).all()
    for row in case.pairs.rows.tolist():
        weight = case.pairs.task_weight[case.pairs.task_of[row]]
        assert_allclose(local_covariance[row], case.covariance / (case.s2 * weight), rtol=1e-12)
        assert (local_mean[row] == 0).all()
    # Every pair has the population's own second moment, I in units of it, and the distance d over its weight.
    assert_allclose(second, 9 * np.eye(d), rtol=1e-12)
    assert (counts == 0).all()
    assert_allclose(distance, d / case.pairs.task_weight[case.pairs.task_of[case.pairs.rows]], rtol=1e-12)


def test_a_known_population_may_be_singular():
    # No variance in feature 1: its coefficient is the shared one, whatever the rewards.
    case = new_case(3, 9)
    case.root[:, 1] = 0.0

    out, local_covariance, local_mean = information(case)

    for row in case.pairs.rows.tolist():
        weight = case.pairs.task_weight[case.pairs.task_of[row]]
        keep = [0, 2]
        free = np.linalg.inv(
            case.pairs.sums.gram[row][np.ix_(keep, keep)]
            + case.s2 * weight * np.linalg.inv(case.covariance[np.ix_(keep, keep)])
        )
        assert_allclose(local_covariance[row][np.ix_(keep, keep)], free, rtol=1e-9)
        assert (local_covariance[row][1] == 0).all()
        assert local_mean[row][1] == 0
        assert_allclose(local_mean[row][keep], free @ case.pairs.sums.moment[row][keep], rtol=1e-9)
    assert np.isfinite(out).all()
