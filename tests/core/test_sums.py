"""Sums over all pairs in blocks, against plain NumPy for one pair after another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import posse.core.sums
from posse.core.capacity import new_store
from posse.core.store import COUNT, SQUARES, totals_at
from posse.core.sums import PART, Pairs

N_ARMS = 3


class Case(NamedTuple):
    pairs: Pairs
    noise: np.ndarray
    prior: np.ndarray
    shared: np.ndarray
    known: np.ndarray
    weight: np.ndarray


def new_case(d: int, n: int, p: int, *, rows: int = 3, noise: float = 0.7, weight: float = 1.0, seed: int = 0) -> Case:
    """Return pairs of some rewards each, fewer than features for singular grams; slots that others have lie between."""
    rng = np.random.default_rng([d, n, p, rows, seed])
    n_tasks, at = -(-n // N_ARMS) + 1, totals_at(d)
    store = new_store(0, np.array([np.inf]), N_ARMS, d, p)
    pairs, owner = np.zeros((n + 4, store.pairs.shape[1])), np.full((n + 4, 2), -1)
    for place in range(n):
        X = rng.normal(size=(rows, d)) + 0.3
        y = X @ (1.0 + rng.normal(size=d)) + rng.normal(size=rows)
        gram = X.T @ X
        pairs[place + 2, :at] = np.concatenate([gram[np.triu_indices(d)], X.T @ y])
        pairs[place + 2, at + COUNT], pairs[place + 2, at + SQUARES] = rows, y @ y
        owner[place + 2] = place // N_ARMS, place % N_ARMS
    roots = rng.normal(size=(N_ARMS, d, d)) / np.sqrt(d)
    covariance = roots @ roots.swapaxes(1, 2) + 0.3 * np.eye(d)
    inverse = np.linalg.inv(covariance)
    pivots = np.diagonal(np.linalg.cholesky(inverse), axis1=1, axis2=2) ** 2
    known = np.concatenate([np.ones((n_tasks, 1)), rng.normal(size=(n_tasks, p))], axis=1)
    size = (1 + p) * d
    wide = rng.normal(size=(N_ARMS, size, size)) / np.sqrt(size)
    shared = np.concatenate([0.2 * wide @ wide.swapaxes(1, 2), rng.normal(size=(N_ARMS, 1, size))], axis=1)
    return Case(
        Pairs.of(store._replace(pairs=pairs, owner=owner), n + 4),
        noise * np.linspace(1.0, 1.5, N_ARMS),
        np.concatenate([inverse, pivots[:, None], covariance], axis=1),
        shared,
        known,
        weight * np.linspace(0.5, 1.0, n_tasks),
    )


class Plain(NamedTuple):
    """What one pair adds."""

    arm: int
    message: np.ndarray
    moment: np.ndarray
    second_moment: np.ndarray
    leverage: float
    squared_leverage: float
    residual: float
    stretch: float
    distance: float


def plain(case: Case, slot: int) -> Plain:
    """Return the plain formulas for one pair."""
    task, arm = case.pairs.store.owner[slot]
    d, row, z = case.pairs.d, case.pairs.store.pairs[slot], case.known[task]
    at, A, upper = totals_at(d), np.zeros((d, d)), np.triu_indices(d)
    A[upper] = row[: upper[0].size]
    A = A + np.triu(A, 1).T
    b, s2, w = row[upper[0].size : at], case.noise[arm], case.weight[task]
    Q, covariance, size = case.prior[arm, :d], case.prior[arm, d + 1 :], case.shared.shape[2]
    V = np.linalg.solve(A @ covariance + s2 * w * np.eye(d), A).T  # w Q P^-1 A, without Q
    L = covariance @ V
    own = np.linalg.solve(A @ covariance + s2 * w * np.eye(d), b)
    Z = np.kron(z[:, None], np.eye(d))
    phi, centre = Z.T @ case.shared[arm, :size] @ Z, Z.T @ case.shared[arm, size]
    delta = covariance @ own - L @ centre
    mean = centre + delta
    residual = row[at + SQUARES] - 2.0 * b @ mean + mean @ A @ mean
    spread = L @ phi @ L.T
    second = w * (np.outer(delta, delta) + spread) + covariance - 0.5 * (L @ covariance + covariance @ L.T)
    lengths = np.trace(Q @ spread) + delta @ Q @ delta
    return Plain(
        int(arm), w * Z @ V @ Z.T, w * Z @ own, second, np.trace(L), np.trace(L @ L), max(residual, 0.0),
        w * np.trace(Q @ spread), (d - np.trace(L)) / w + lengths,
    )  # fmt: skip


def by_arm(parts: list[Plain], name: str) -> Any:
    return np.array([sum(getattr(part, name) for part in parts if part.arm == arm) for arm in range(N_ARMS)])


def compare(case: Case, rtol: float) -> None:
    pairs = case.pairs
    parts = [plain(case, slot) for slot in pairs.slots]
    precision, moment = pairs.messages(case.noise, case.prior, case.known, case.weight)
    sums = pairs.moments(case.noise, case.prior, case.shared, case.known, case.weight, distances=True)

    def close(mine: Any, theirs: Any, scale: float = 0.0) -> None:
        assert_allclose(mine, theirs, rtol=rtol, atol=rtol * max(np.abs(theirs).max(), scale, 1e-300))

    close(precision, by_arm(parts, "message"))
    close(moment, by_arm(parts, "moment"))
    # What rewards have not settled is a difference from the covariance.
    close(sums.second_moment, by_arm(parts, "second_moment"), float(np.abs(case.prior[:, pairs.d + 1 :]).max()))
    close(sums.leverage, by_arm(parts, "leverage"))
    close(sums.squared_leverage, by_arm(parts, "squared_leverage"))
    close(sums.stretch, by_arm(parts, "stretch"))
    close(sums.distance, [part.distance for part in parts])
    squares = pairs.store.pairs[pairs.slots, totals_at(pairs.d) + SQUARES].sum()
    assert_allclose(sums.residual, by_arm(parts, "residual"), rtol=rtol, atol=rtol * squares)


@given(
    d=st.integers(1, 12), n=st.integers(3, 80), p=st.integers(0, 3), rows=st.integers(1, 14), seed=st.integers(0, 99)
)
def test_blocks_say_what_one_pair_after_another_says(d: int, n: int, p: int, rows: int, seed: int) -> None:
    compare(new_case(d, n, p, rows=rows, seed=seed), 1e-9)


@pytest.mark.parametrize(("noise", "weight", "rtol"), [(1e-9, 1e-3, 1e-5), (1e6, 1e-12, 1e-7), (1e6, 1e-3, 1e-9)])
def test_hardly_any_noise_and_hardly_any_weight(noise: float, weight: float, rtol: float) -> None:
    # The plain formulas solve with numbers of such different sizes beside each other, and lose as many digits.
    compare(new_case(4, 30, 0, rows=6, noise=noise, weight=weight), rtol)


def test_singular_grams_without_noise_to_speak_of_leave_precisions_positive() -> None:
    case = new_case(6, 60, 0, rows=2, noise=1e-9)
    precision, _ = case.pairs.messages(case.noise, case.prior, case.known, case.weight)
    assert np.linalg.eigvalsh(precision).min() > 0  # twenty pairs of two rewards fix six coefficients
    sums = case.pairs.moments(case.noise, case.prior, case.shared, case.known, case.weight, distances=False)
    assert_allclose(sums.leverage, 2.0 * case.pairs.n_pairs, rtol=1e-6)


def test_sums_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    case = new_case(3, N_ARMS * (PART + 300), 1)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(posse.core.sums, "workers", lambda threads=threads: threads)
        sums = case.pairs.moments(case.noise, case.prior, case.shared, case.known, case.weight, distances=False)
        messages = case.pairs.messages(case.noise, case.prior, case.known, case.weight)
        found.append([sums.second_moment, sums.residual, *messages, case.pairs.measures()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_measures_are_products_of_features_and_rewards() -> None:
    case = new_case(3, 20, 0, rows=5)
    d, at, pairs = 3, totals_at(3), case.pairs
    for arm, measures in enumerate(pairs.measures()):
        rows = pairs.store.pairs[pairs.of_arm(arm)]
        gram = np.zeros((d, d))
        gram[np.triu_indices(d)] = rows[:, :6].sum(axis=0)
        assert_allclose(measures[:d, :d], gram)
        assert_allclose(measures[:d, d], rows[:, 6:at].sum(axis=0))
        assert_allclose(measures[d, d], rows[:, at + SQUARES].sum())
        assert_allclose(measures[d, :d], (rows[:, [0, 3, 5]] ** 2 / rows[:, [at + COUNT]]).sum(axis=0))
