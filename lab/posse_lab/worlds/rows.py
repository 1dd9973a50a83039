"""Which rows of a data set are fitted on and which are met."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posse.checks import number, whole_number
from posse.errors import InvalidValue
from posse.types import Array, BoolArray, IntArray


def checked_share(value: float, name: str) -> float:
    """Return a share that leaves something on both sides."""
    if number(value, name, above=0) >= 1:
        raise InvalidValue(f"expected {name} to be less than 1, got {value:g}")
    return float(value)


def size_of_share(n_rows: int, share: float, name: str) -> int:
    """Return how many of ``n_rows`` a share is, rounded down, if that leaves rows on both sides."""
    # A hair more, so that a share such as 0.29 of 100 rows is 29 of them in spite of rounding.
    size = int(checked_share(share, name) * n_rows + 1e-9)
    if not 0 < size < n_rows:
        raise InvalidValue(f"{name}={share:g} of {n_rows} rows leaves no rows on one side; more rows are needed")
    return size


def split_at_random(n_rows: int, share: float, name: str, seed: int) -> tuple[IntArray, IntArray]:
    """Return a share of the rows that ``seed`` chooses and the others, both in order."""
    seed = whole_number(seed, "split_seed", at_least=0)
    order = np.random.default_rng(seed).permutation(n_rows)
    size = size_of_share(n_rows, share, name)
    return np.sort(order[:size]), np.sort(order[size:])


def not_among(rows: Array, others: Array) -> BoolArray:
    """Return where a row equals none of ``others``.

    Examples
    --------
    >>> not_among(np.array([[1.0, 2.0], [0.0, 4.0]]), np.array([[-0.0, 4.0], [1.0, 3.0]]))
    array([ True, False])
    """
    known = {row.tobytes() for row in others + 0.0}  # -0 becomes 0
    return np.array([row.tobytes() not in known for row in rows + 0.0], dtype=np.bool_)


def require_every_class(found: IntArray, classes: Sequence[str], where: str) -> None:
    """Raise unless every class has a row."""
    missing = np.bincount(found, minlength=len(classes)) == 0
    if missing.any():
        name = classes[int(np.argmax(missing))]
        raise InvalidValue(f"class {name!r} has no row among {where}, so nothing can be fitted to it; use more rows")
