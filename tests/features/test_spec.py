"""The declaration as a value: names, columns, scaling that is learned once."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import polars as pl
import pytest

from posse.errors import InvalidValue, NotFinite, ShapeError
from posse.features import FeatureSpec, hashed, numeric, one_hot

SPEC = FeatureSpec(
    [
        "age",
        numeric("income", scale="standard", missing="mean"),
        one_hot("color", ["red", "green"]),
        hashed("city", buckets=2),
        numeric("visits", missing="indicator"),
    ]
)
TABLE = {"age": [1, 2], "income": [10.0, 30.0], "color": ["red", "red"], "city": ["a", "b"], "visits": [None, 1]}


def test_names_and_columns():
    assert SPEC.names == ("age", "income", "color", "city", "visits")
    assert SPEC.columns == (
        "intercept",
        "age",
        "income",
        "color=red",
        "color=green",
        "city#0",
        "city#1",
        "visits",
        "visits?",
    )
    assert SPEC.n_features == 9
    assert FeatureSpec(["x"], intercept=False).columns == ("x",)


def test_scaling_is_learned_once():
    assert not SPEC.ready
    for encode in (lambda: SPEC.encode([1, 2, "red", "a", 1]), lambda: SPEC.encode_many(TABLE)):
        with pytest.raises(
            InvalidValue, match=r'the scaling of "income" has not been learned; call learn_scaling\(table\)'
        ):
            encode()

    learned = SPEC.learn_scaling(TABLE)

    assert learned.ready
    assert not SPEC.ready
    assert learned.features[1] == numeric("income", scale="standard", center=20.0, spread=10.0, missing="mean")
    assert learned.features[:1] + learned.features[2:] == SPEC.features[:1] + SPEC.features[2:]
    bucket = learned.features[3].bucket("b")
    assert learned.encode([2, 25, "green", "b", None]).tolist() == [1, 2, 0.5, 0, 1, 1 - bucket, bucket, 0, 1]
    with pytest.raises(InvalidValue, match="learned once"):
        learned.learn_scaling(TABLE)
    with pytest.raises(InvalidValue, match="no scaling to learn"):
        FeatureSpec(["x"]).learn_scaling({"x": [1.0]})


def test_only_what_has_no_scaling_learns_it():
    spec = FeatureSpec([numeric("a", scale="standard", center=1.0, spread=2.0), numeric("b", scale="standard")])
    learned = spec.learn_scaling(np.array([[5.0, 2.0], [9.0, 4.0]]))
    assert learned.features == (spec.features[0], numeric("b", scale="standard", center=3.0, spread=1.0))
    for rows in ([[5, 2], [9, 4]], [{"b": 2}, {"b": 4}, {"a": 7}], pl.DataFrame({"b": [2, 4, None], "a": [1, 2, 3]})):
        assert spec.learn_scaling(rows) == learned


def test_a_table_without_the_feature_teaches_nothing():
    with pytest.raises(InvalidValue, match='no column "income"'):
        SPEC.learn_scaling({name: values for name, values in TABLE.items() if name != "income"})
    with pytest.raises(InvalidValue, match='feature "income" at row 0 to be a number'):
        SPEC.learn_scaling(TABLE | {"income": ["10", "30"]})


def test_raw_values():
    # Also before the scaling is known: they do not depend on it.
    context = {"age": np.int8(3), "income": math.nan, "color": np.str_("red"), "city": 7.0}
    raw = SPEC.raw(context)
    assert raw == [3, None, "red", 7, None]
    assert list(map(type, raw)) == [float, type(None), str, int, type(None)]
    assert SPEC.raw([True, 10**20, "blue", False, 2])[:4] == [True, 10**20, "blue", False]
    assert SPEC.raw_rows(TABLE) == [[1, 10.0, "red", "a", None], [2, 30.0, "red", "b", 1]]
    assert FeatureSpec(["x", "y"]).raw_rows(np.array([[1, math.nan]])) == [[1.0, None]]
    assert FeatureSpec([]).raw_rows([{}, {}]) == [[], []]
    with pytest.raises(InvalidValue, match='feature "age" to be a number'):
        SPEC.raw(context | {"age": "3"})
    for value in (math.inf, 10**400):
        with pytest.raises(NotFinite, match='feature "age"'):
            SPEC.raw(context | {"age": value})
    with pytest.raises(InvalidValue, match="not declared"):
        SPEC.raw({"agee": 3})


def test_it_is_a_frozen_value():
    assert FeatureSpec(["a", "b"]) == FeatureSpec([numeric("a"), numeric("b")])
    assert FeatureSpec(["a", "b"]) != FeatureSpec(["b", "a"])
    assert FeatureSpec(["a"]) != FeatureSpec(["a"], intercept=False)
    assert SPEC == copy.deepcopy(SPEC) == pickle.loads(pickle.dumps(SPEC)) == eval(repr(SPEC))
    one = FeatureSpec(["a"])
    assert pickle.loads(pickle.dumps(one)).encode({"a": 2}).tolist() == [1, 2]
    with pytest.raises(dataclasses.FrozenInstanceError):
        SPEC.intercept = False
    with pytest.raises(TypeError, match="unhashable"):
        hash(SPEC)


def test_it_reads_as_it_was_written():
    assert (
        repr(FeatureSpec(["age", one_hot("c", [1])]))
        == "FeatureSpec([numeric('age'), one_hot('c', [1])], intercept=True)"
    )


def test_an_intercept_alone():
    spec = FeatureSpec([])
    assert spec.encode({}).tolist() == spec.encode([]).tolist() == [1.0]
    assert spec.encode_many([{}, {}]).tolist() == spec.encode_many(np.empty((2, 0))).tolist() == [[1.0], [1.0]]
    assert spec.encode_many(pl.DataFrame({"other": [1, 2]})).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("features", "error", "words"),
    [
        ("age", InvalidValue, "to be a list"),
        ({"age": 1}, InvalidValue, "to be a list"),
        (None, InvalidValue, "to be a list"),
        ([1], InvalidValue, "a feature to be a name"),
        ([numeric], InvalidValue, "a feature to be a name"),
        ([""], InvalidValue, "name of a feature"),
        (["a", "a"], InvalidValue, 'two features are called "a"'),
        (["a", hashed("a", 3)], InvalidValue, 'two features are called "a"'),
        (["intercept"], InvalidValue, 'two encoded columns are called "intercept"'),
        (["c=a", one_hot("c", ["a"])], InvalidValue, 'two encoded columns are called "c=a"'),
        ([one_hot("c", ["(other)"], unknown="other")], InvalidValue, r'two encoded columns are called "c=\(other\)"'),
        ([numeric("a", missing="indicator"), "a?"], InvalidValue, r'two encoded columns are called "a\?"'),
        ([hashed("a", 5000), hashed("b", 5000)], ShapeError, "they have 10,001"),
    ],
)
def test_declarations_that_are_refused(features, error, words):
    with pytest.raises(error, match=words):
        FeatureSpec(features)


def test_the_most_columns():
    assert FeatureSpec([hashed("a", 9999)]).n_features == 10_000
    with pytest.raises(ShapeError, match="1 to 10,000"):
        FeatureSpec([], intercept=False)
    with pytest.raises(InvalidValue, match="intercept to be True or False"):
        FeatureSpec(["a"], intercept=1)


def test_errors_of_many_rows_name_the_row_and_say_what_to_do():
    spec = FeatureSpec(["age"])
    rows = [1.0, 2.0, math.nan, math.inf]
    for contexts in (np.array(rows)[:, None], {"age": rows}, [{"age": value} for value in rows]):
        with pytest.raises(InvalidValue, match=r'^feature "age" at row 2 is nan; give a number, or declare'):
            spec.encode_many(contexts)
    with pytest.raises(
        InvalidValue, match=r'^expected feature "age" at row 1 to be a number, got "3"; convert it first$'
    ):
        spec.encode_many(pl.DataFrame({"age": [None, "3"]}))
