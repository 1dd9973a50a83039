"""Declared features as plain JSON values, and back from ones that may come from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posse.errors import InvalidValue
from posse.features.categories import one_hot
from posse.features.hashing import hashed
from posse.features.parts import Feature
from posse.features.quantities import numeric
from posse.features.values import MOST_COLUMNS, shown

VERSION = 1

KINDS: dict[str, tuple[Callable[..., Feature], frozenset[str]]] = {
    "numeric": (numeric, frozenset({"name", "scale", "center", "spread", "missing"})),
    "one_hot": (one_hot, frozenset({"name", "categories", "unknown", "missing"})),
    "hashed": (hashed, frozenset({"name", "buckets", "missing"})),
}


def to_json(features: Sequence[Feature], *, intercept: bool) -> dict[str, Any]:
    """Return plain values that :func:`from_json` takes."""
    return {"version": VERSION, "intercept": intercept, "features": [feature.to_json() for feature in features]}


def from_json(value: Any) -> tuple[list[Feature], bool]:
    """Return the features and whether there is an intercept."""
    fields = _fields(value, {"version", "intercept", "features"}, "declared features")
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        raise InvalidValue(
            f"expected declared features to be of version {VERSION}, got {shown(fields['version'])}; a newer posse may "
            "have written them"
        )
    if not isinstance(fields["intercept"], bool):
        raise InvalidValue(f"expected intercept to be true or false, got {shown(fields['intercept'])}")
    if not isinstance(fields["features"], list) or len(fields["features"]) > MOST_COLUMNS:
        raise InvalidValue(f"features must be a list of at most {MOST_COLUMNS:,}")
    return [_feature(entry) for entry in fields["features"]], fields["intercept"]


def _feature(value: Any) -> Feature:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or value["kind"] not in KINDS:
        raise InvalidValue(f'a feature must be an object whose "kind" is one of {", ".join(KINDS)}')
    make, keys = KINDS[value["kind"]]
    fields = _fields(value, {"kind", *keys}, f"a feature of kind {value['kind']}")
    if not isinstance(fields.get("categories", []), list):
        raise InvalidValue(f"expected categories to be a list, got {shown(fields['categories'])}")
    return make(**{key: fields[key] for key in keys})


def _fields(value: Any, keys: set[str], name: str) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != keys:
        came = f"one with {', '.join(map(shown, list(value)[:10]))}" if isinstance(value, dict) else shown(value)
        raise InvalidValue(f"expected {name} to be an object with exactly {', '.join(sorted(keys))}, got {came}")
    return value
