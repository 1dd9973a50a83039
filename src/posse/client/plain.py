"""Python and NumPy values as JSON, with an error that names the place of what JSON cannot hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from posse.errors import InvalidValue, NotFinite


def to_json(value: Any, name: str) -> bytes:
    """Return a value as JSON.

    Parameters
    ----------
    value : object
        Mappings, sequences, text, numbers, true, false and None; NumPy's scalars and arrays become numbers and lists.
    name : str
        What errors call it.

    Examples
    --------
    >>> import numpy as np
    >>> to_json({"hour": np.float32(9.5), "sizes": np.arange(2), "open": np.True_}, "context")
    b'{"hour":9.5,"sizes":[0,1],"open":true}'
    >>> to_json({"hour": float("nan")}, "context")
    Traceback (most recent call last):
        ...
    posse.errors.NotFinite: context['hour'] is nan, which JSON cannot hold; drop or replace such values first
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        _find_fault(value, name)
        raise InvalidValue(
            f"{name} cannot be sent as JSON: {error}; send text, numbers, true, false and None"
        ) from None


def _plain(value: Any) -> Any:
    # NumPy's scalars and arrays, and what behaves like them, say what they hold; NumPy itself need not be imported.
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        raise TypeError("a set has no order")
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _find_fault(value: Any, name: str, depth: int = 50) -> None:
    """Raise an error that names the place of the first value that JSON cannot hold."""
    if depth == 0:
        raise InvalidValue(f"{name} is nested too deeply; send flat values")
    if callable(getattr(value, "tolist", None)):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        raise NotFinite(f"{name} is {value}, which JSON cannot hold; drop or replace such values first")
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise InvalidValue(f"{name} has the key {key!r}, but names are text; use str({key!r})")
            _find_fault(entry, f"{name}[{key!r}]", depth - 1)
    elif isinstance(value, (list, tuple)):
        for position, entry in enumerate(value):
            _find_fault(entry, f"{name}[{position}]", depth - 1)
    elif value is not None and not isinstance(value, (str, int, float)):
        raise InvalidValue(f"{name} is a {type(value).__name__}; send text, numbers, true, false and None")
