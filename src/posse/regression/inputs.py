"""Features, targets and group labels as they come: arrays, lists, pandas and polars."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from posse.checks import real_array
from posse.errors import InvalidValue, ShapeError
from posse.types import Array, BoolArray


def feature_matrix(X: Any) -> Array:
    """Return features as floats, shape (n_rows, n_features)."""
    if hasattr(X, "toarray"):
        raise InvalidValue(f"expected X to be dense, got a sparse {type(X).__name__}; pass X.toarray()")
    result = real_array(X, "X")
    if result.ndim != 2:
        raise ShapeError(
            f"expected X to have shape (rows, features), got shape {result.shape}. Reshape your data: X.reshape(-1, 1) "
            "for one feature, X.reshape(1, -1) for one row"
        )
    if 0 in result.shape:
        raise ShapeError(f"expected X to have at least one row and one feature, got shape {result.shape}")
    return result


def feature_names(X: Any) -> list[str] | None:
    """Return the column names of a data frame, or None where there are none."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = list(columns)
    return names if all(isinstance(name, str) for name in names) else None


def fixed_features(fixed: Any, n_features: int, names: Sequence[str] | None) -> BoolArray:
    """Return which features are fixed, from their names or positions, shape (n_features,)."""
    result = np.zeros(n_features, dtype=np.bool_)
    if fixed is None:
        return result
    if isinstance(fixed, str | bytes) or not isinstance(fixed, Iterable):
        raise InvalidValue(
            f"expected fixed to be a list of feature names or positions, got {fixed!r}; pass [{fixed!r}]"
        )
    for feature in fixed:
        if isinstance(feature, str):
            if names is None:
                raise InvalidValue(
                    f"fixed names the feature {feature!r}, but the columns of X have no names; pass positions from 0 "
                    f"to {n_features - 1}, or X as a data frame"
                )
            if feature not in names:
                close = difflib.get_close_matches(feature, names, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else "."
                raise InvalidValue(f"fixed has no feature {feature!r}{hint} The features are {', '.join(names)}")
            place = list(names).index(feature)
        elif isinstance(feature, int | np.integer) and not isinstance(feature, bool):
            place = int(feature)
            if not 0 <= place < n_features:
                raise InvalidValue(f"expected positions from 0 to {n_features - 1} in fixed, got {place}")
        else:
            raise InvalidValue(f"expected feature names or positions in fixed, got {feature!r}")
        if result[place]:
            raise InvalidValue(f"expected every feature once in fixed, got {feature!r} again")
        result[place] = True
    return result


def target_vector(y: Any, n_rows: int) -> Array:
    """Return targets as floats, one per row; a single column will do."""
    if y is None:
        raise InvalidValue("HierarchicalRegressor requires y to be passed, but the target y is None")
    result = real_array(y, "y")
    if result.ndim == 2 and result.shape[1] == 1:
        result = result[:, 0]
    if result.ndim != 1:
        raise ShapeError(f"expected y to have one axis, got shape {result.shape}; fit one regressor per target")
    if result.size != n_rows:
        raise ShapeError(f"expected y to have one entry per row of X, {n_rows}, got {result.size}")
    return result


def group_labels(groups: Any, n_rows: int) -> list[Hashable]:
    """Return one label per row; without groups, None for every row."""
    if groups is None:
        return [None] * n_rows
    axes = getattr(groups, "ndim", len(getattr(groups, "shape", (0,))))
    if axes != 1 or isinstance(groups, str | bytes):
        came = f"shape {groups.shape}" if hasattr(groups, "shape") else repr(groups)
        raise ShapeError(f"expected groups to be one label per row, got {came}")
    # Arrays and series give Python's own values this way, and a list of mixed labels stays as it is.
    as_list = getattr(groups, "tolist", getattr(groups, "to_list", None))
    labels: Sequence[Hashable]
    try:
        labels = as_list() if as_list is not None else list(groups)
    except TypeError:
        raise ShapeError(f"expected groups to be one label per row, got {groups!r}") from None
    if len(labels) != n_rows:
        raise ShapeError(f"expected groups to have one label per row of X, {n_rows}, got {len(labels)}")
    result = list(labels)
    for row, label in enumerate(result):
        # NaN differs from itself.
        if label is None or label != label:
            raise InvalidValue(f"groups has no label at row {row}; name the group of every row, or pass groups=None")
        if not isinstance(label, Hashable):
            raise InvalidValue(
                f"expected group labels to be hashable, such as str or int, got {type(label).__name__} in row {row}"
            )
    return result


def label_array(labels: Sequence[Hashable]) -> np.ndarray[Any, Any]:
    """Return labels as an array that turns none of them into something else."""
    if {type(label) for label in labels} in ({str}, {int}):
        return np.array(labels)
    result = np.empty(len(labels), dtype=object)
    result[:] = labels
    return result
