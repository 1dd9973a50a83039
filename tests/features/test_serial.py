"""Declarations as JSON: all that is written comes back, and nothing else is taken."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import InvalidValue
from posse.features import FeatureSpec, hashed, numeric, one_hot

SPEC = FeatureSpec(
    [
        "age",
        numeric("income", scale="standard", center=0.1, spread=1 / 3, missing="mean"),
        numeric("later", scale="standard"),
        numeric("gap", missing=-1.5),
        one_hot("color", ["red", "green"], unknown="other", missing="category"),
        one_hot("size", [3, 1]),
        one_hot("truth", [True, False]),
        hashed("city", buckets=16, missing="zeros"),
    ],
    intercept=False,
)


def test_there_and_back():
    text = json.dumps(SPEC.to_json(), allow_nan=False)
    back = FeatureSpec.from_json(json.loads(text))
    assert back == SPEC
    assert back.columns == SPEC.columns
    assert back.ready == SPEC.ready
    assert json.dumps(back.to_json()) == text


def test_what_is_written():
    # Stands in saved files: readers of the next version must take it.
    assert FeatureSpec(["age", one_hot("c", ["a"]), hashed("h", 2)]).to_json() == {
        "version": 1,
        "intercept": True,
        "features": [
            {"kind": "numeric", "name": "age", "scale": None, "center": None, "spread": None, "missing": "error"},
            {"kind": "one_hot", "name": "c", "categories": ["a"], "unknown": "error", "missing": "error"},
            {"kind": "hashed", "name": "h", "buckets": 2, "missing": "error"},
        ],
    }


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
odd = st.one_of(
    json_values, st.sampled_from(["age", "city", "numeric", "hashed", "standard", "mean", "\ud800", 10**9, "x" * 201])
)


@given(st.sampled_from(list(places(SPEC.to_json()))), odd)
def test_a_changed_value_gives_another_declaration_or_one_clear_error(path, value):
    changed = copy.deepcopy(SPEC.to_json())
    if not path:
        changed = value
    else:
        target = changed
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value
    try:
        spec = FeatureSpec.from_json(changed)
    except InvalidValue:
        return
    assert FeatureSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    if spec != SPEC:
        spec.to_json()


@given(json_values)
def test_anything_else_is_refused(value):
    with pytest.raises(InvalidValue):
        FeatureSpec.from_json(value)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.pop("version"),
        lambda value: value.update(version=2),
        lambda value: value.update(version=True),
        lambda value: value.update(version=1.0),
        lambda value: value.update(extra=1),
        lambda value: value.update(intercept=1),
        lambda value: value.update(features={"age": 1}),
        lambda value: value.update(features=["age"]),
        lambda value: value.update(features=[{"kind": "numeric", "name": "x"}]),
        lambda value: value.update(features=value["features"] * 2),
        lambda value: value.update(features=value["features"] * 5000),
        lambda value: value["features"][0].update(kind="exec"),
        lambda value: value["features"][0].update(kind=["numeric"]),
        lambda value: value["features"][0].update(extra=1),
        lambda value: value["features"][0].update(center=float("nan")),
        lambda value: value["features"][4].update(categories="red"),
        lambda value: value["features"][4].update(categories={"red": 1}),
        lambda value: value["features"][4].update(categories=["red", 1]),
        lambda value: value["features"][7].update(buckets=10**12),
        lambda value: value["features"][7].update(buckets=9995),
        lambda value: value["features"][7].update(name="age"),
    ],
)
def test_hostile_declarations(change):
    value = SPEC.to_json()
    change(value)
    with pytest.raises(InvalidValue):
        FeatureSpec.from_json(value)
