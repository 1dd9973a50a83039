"""Contexts as they come: the raw values of one row in the order of the features, or the columns of many rows."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posse.checks import nearest
from posse.errors import InvalidValue, ShapeError
from posse.features.columns import Column, NumberColumn, SeriesColumn
from posse.features.values import shown
from posse.tables import as_frame

FOR_TABLES = "many rows go to decide_many (or encode_many)"


def raw_values(context: Any, names: Sequence[str], row: int | None = None) -> Sequence[Any]:
    """Return the raw values of one context in the order of ``names``; None where a mapping has none.

    A mapping is written by hand, so a name that is not declared is a typo and a name that is absent means a missing
    value. A row of a table has whatever columns the table has: others are ignored, and absent ones are refused.
    """
    place = "context" if row is None else f"the context at row {row}"
    if context is None:
        if not names:
            return ()
        raise InvalidValue(f"expected {place} to be a mapping with {_listed(names)}, or these in order, got None")
    if isinstance(context, Mapping):
        known = set(names)
        unknown = [name for name in context if name not in known]
        if unknown:
            hint = nearest(unknown[0], names, "features", shown)
            raise InvalidValue(f"{place} has {_listed(unknown)}, which is not declared; {hint}")
        return [context.get(name) for name in names]
    fields = _fields(context)
    if fields is not None:
        absent = [name for name in names if name not in fields]
        if absent:
            raise InvalidValue(f"{place} is a row without {_listed(absent)}; its fields are {_listed(list(fields))}")
        return [fields[name] for name in names]
    values = _sequence(context, place)
    if len(values) != len(names):
        raise ShapeError(f"{place} has {len(values)} values, but there are {len(names)} features: {_listed(names)}")
    return values


def is_rows(contexts: Any) -> bool:
    """Whether these are contexts one by one, rather than an array or a table."""
    return isinstance(contexts, list | tuple) and not hasattr(contexts, "_fields")


def raw_columns(contexts: Any, names: Sequence[str]) -> tuple[int, list[Column]]:
    """Return the number of rows and the raw values of each feature."""
    if is_rows(contexts):
        rows = [raw_values(context, names, row) for row, context in enumerate(contexts)]
        return len(rows), [Column([row[j] for row in rows]) for j in range(len(names))]
    array = matrix(contexts, names)
    if array is None:
        frame = as_frame(contexts, name="contexts")
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise InvalidValue(f"contexts has no column {_listed(absent)}; its columns are {_listed(frame.columns)}")
        return frame.height, [SeriesColumn(frame[name]) for name in names]
    columns = (array[:, j] for j in range(len(names)))
    if is_numbers(array):
        return len(array), [NumberColumn(column) for column in columns]
    return len(array), [Column(column.tolist()) for column in columns]


def is_numbers(array: np.ndarray[Any, Any]) -> bool:
    """Whether all entries are numbers that floats hold; NaN may stand for missing ones, a mask may not."""
    return array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and not isinstance(array, np.ma.MaskedArray)


def matrix(contexts: Any, names: Sequence[str]) -> np.ndarray[Any, Any] | None:
    """Return contexts that are an array, with one column per feature, or None for what is a table."""
    array: np.ndarray[Any, Any]
    if isinstance(contexts, np.ndarray):
        array = contexts
    else:
        tabular = hasattr(contexts, "__arrow_c_stream__") or hasattr(type(contexts), "columns")
        if tabular or isinstance(contexts, Mapping) or not hasattr(contexts, "__array__"):
            return None
        array = np.asarray(contexts)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise ShapeError(
            f"contexts must have the shape (rows, {len(names)}), one column for each of {_listed(names)}, but its "
            f"shape is {array.shape}"
        )
    return array


def _fields(context: Any) -> dict[str, Any] | None:
    """Return the values of a row by name, or None if it has no names."""
    if isinstance(context, tuple) and hasattr(context, "_fields"):
        return dict(zip(context._fields, context, strict=True))
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        return {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(context, pandas.Series):
        labels = context.index.tolist()
        if any(isinstance(label, str) for label in labels):
            if len(set(labels)) < len(labels):
                raise InvalidValue("context is a pandas row with a label twice; rename one of its columns")
            return dict(zip(labels, context.tolist(), strict=True))
    return None


def _sequence(context: Any, place: str) -> Sequence[Any]:
    if isinstance(context, Sequence) and not isinstance(context, str | bytes | bytearray):
        return context
    if hasattr(context, "to_list"):  # a Polars or pandas series
        return list(context.to_list())
    array = context if isinstance(context, np.ndarray) else None
    if array is None and hasattr(context, "__array__") and not hasattr(type(context), "columns"):
        array = np.asarray(context)
    if array is None:
        expected = f"expected {place} to be a mapping by feature name, a row, or the values in order"
        if hasattr(type(context), "columns") or hasattr(context, "__arrow_c_stream__"):
            raise InvalidValue(f"{expected}, got a table ({type(context).__name__}); {FOR_TABLES}")
        raise InvalidValue(f"{expected}, got {shown(context)}")
    if array.ndim != 1:
        raise ShapeError(f"expected {place} to have one axis, got shape {array.shape}; {FOR_TABLES}")
    return array.tolist()  # type: ignore[no-any-return]


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(shown, names[:10])) + (", ..." if len(names) > 10 else "")
