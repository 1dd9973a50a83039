"""Low-rank factors of a table of which few entries are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posse.checks import number, whole_number
from posse.errors import InvalidValue
from posse.types import Array, IntArray
from posse_lab.worlds.features import signs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

START_SEED = 0
PENALTY, ROUNDS = 8.0, 20  # as docs/worlds.md chose them
BLOCK = 500_000  # entries whose errors are computed at once, so that ten million need no gigabytes


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """A table :math:`R` approximated by :math:`U V^T` where it is known.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_factors)
        :math:`U`. Columns are orthogonal, the weightiest first.
    columns : ndarray of shape (n_columns, n_factors)
        :math:`V`. Singular values are split by square root: its columns have the lengths of those of :math:`U`.
    rmse : float
        Root of the mean squared error at the known entries.
    """

    rows: Array
    columns: Array
    rmse: float


def factorise(
    rows: IntArray,
    columns: IntArray,
    values: Array,
    *,
    shape: tuple[int, int],
    n_factors: int,
    penalty: float = PENALTY,
    n_iterations: int = ROUNDS,
) -> Factors:
    r"""Minimise the squared error at known entries by alternating ridge regressions.

    .. math:: \sum_{(i, j) \text{ known}} (R_{ij} - u_i^\top v_j)^2
        + \lambda \Bigl(\sum_i |u_i|^2 + \sum_j |v_j|^2\Bigr)

    Parameters
    ----------
    rows, columns : ndarray of shape (n_entries,)
        Where the known entries are; each place once.
    values : ndarray of shape (n_entries,)
        What they are; centred.
    shape : (n_rows, n_columns)
    n_factors : int
    penalty : float
        :math:`\lambda`.
    n_iterations : int
        How often both sides are solved for.

    Notes
    -----
    The start is a fixed one, so the same entries give the same factors. A row or column without an entry gets zeros.
    All Gram matrices of a side are one product of the sparse pattern with the products of the other side's factors.
    """
    from scipy.sparse import csr_array

    n_factors = whole_number(n_factors, "n_factors", at_least=1)
    n_iterations = whole_number(n_iterations, "n_iterations", at_least=1)
    penalty = number(penalty, "penalty", above=0)
    if n_factors > min(shape):
        raise InvalidValue(
            f"expected n_factors to be at most {min(shape)} for a table of shape {shape}, got {n_factors}"
        )
    table = csr_array((values, (rows, columns)), shape=shape)
    table.sum_duplicates()
    if table.nnz != values.size:
        raise InvalidValue(f"every place may be known once, but {values.size - table.nnz} entries repeat others")
    turned = table.T.tocsr()
    V = np.random.default_rng(START_SEED).normal(scale=0.1, size=(shape[1], n_factors))
    for _ in range(n_iterations):
        U = _solve(table, V, penalty)
        V = _solve(turned, U, penalty)
    U, V = balanced(U, V)
    squares = 0.0
    for first in range(0, values.size, BLOCK):
        part = slice(first, first + BLOCK)
        errors = values[part] - np.einsum("ij,ij->i", U[rows[part]], V[columns[part]])
        squares += float(errors @ errors)
    return Factors(U, V, float(np.sqrt(squares / values.size)))


def balanced(U: Array, V: Array) -> tuple[Array, Array]:
    """Return factors with the same product, orthogonal columns, and singular values split by square root.

    The entry of each column of V that is largest in size is positive.
    """
    left, upper_left = np.linalg.qr(U)
    right, upper_right = np.linalg.qr(V)
    outer, singular, inner = np.linalg.svd(upper_left @ upper_right.T)
    rows, columns = left @ outer * np.sqrt(singular), right @ inner.T * np.sqrt(singular)
    sign = signs(columns)
    return rows * sign, columns * sign


def _solve(table: csr_array, factors: Array, penalty: float) -> Array:
    """Return the ridge regression of every row of ``table`` on the factors of its known columns."""
    from scipy.sparse import csr_array

    d = factors.shape[1]
    upper = np.triu_indices(d)
    place = np.empty((d, d), dtype=np.int64)
    place[upper] = place.T[upper] = np.arange(upper[0].size)
    known = csr_array((np.ones(table.nnz), table.indices, table.indptr), shape=table.shape)
    grams = np.asarray(known @ (factors[:, upper[0]] * factors[:, upper[1]]))[:, place]
    grams[:, np.arange(d), np.arange(d)] += penalty
    return np.asarray(np.linalg.solve(grams, (table @ factors)[:, :, None])[:, :, 0])
