"""Rows dealt into folds, so that nothing is judged by the rows it learned from."""

from __future__ import annotations

import numpy as np

from posse.checks import whole_number
from posse.types import IntArray

FOLDS = 5


def deal_folds(tasks: IntArray, *, folds: int = FOLDS, seed: int = 0) -> IntArray:
    """Return the fold of every row: the rows of each task are shuffled and dealt out in turn.

    So every task has its rows spread over the folds as evenly as can be. Names of tasks do not matter, only which rows
    share one.

    Parameters
    ----------
    tasks : ndarray of shape (n_rows,)
    folds : int, at least 2
    seed : int

    Examples
    --------
    >>> deal_folds(np.array([0, 0, 0, 0, 1, 1]), folds=2)
    array([1, 0, 0, 1, 1, 0])
    """
    folds = whole_number(folds, "folds", at_least=2)
    shuffled = np.random.default_rng([seed, folds]).permutation(tasks.size)
    # Tasks in the order in which the shuffled rows meet them; the deal goes on from one task to the next, so that tasks
    # of a single row do not all land in the first fold.
    _, first, place = np.unique(tasks[shuffled], return_index=True, return_inverse=True)
    order = np.argsort(first[place], kind="stable")
    result = np.empty(tasks.size, dtype=np.int64)
    result[shuffled[order]] = np.arange(tasks.size) % folds
    return result
