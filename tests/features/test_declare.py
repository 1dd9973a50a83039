"""Features by looking at a table."""

import math

import pandas as pd
import polars as pl
import pytest

from posse.errors import InvalidValue
from posse.features import FeatureSpec, hashed, numeric, one_hot

FRAME = pl.DataFrame(
    {
        "age": [3, 4, 5],
        "income": [1.5, math.nan, 2.5],
        "hour": [1.0, None, 2.0],
        "member": [True, False, True],
        "color": ["red", "green", "red"],
        "shape": pl.Series(["round", None, "flat"], dtype=pl.Categorical),
        "kind": pl.Series(["b", "a", "a"], dtype=pl.Enum(["c", "b", "a"])),
        "city": ["x", "y", "z"],
        "day": pl.Series([1, 2, 3]).cast(pl.Date),
    }
)
COLUMNS = FRAME.columns[:-1]


def test_every_type():
    assert FeatureSpec.from_table(FRAME, columns=COLUMNS, max_categories=2, buckets=8) == FeatureSpec(
        [
            numeric("age"),
            numeric("income", missing="indicator"),
            numeric("hour", missing="indicator"),
            numeric("member"),
            one_hot("color", ["green", "red"], unknown="zeros"),
            one_hot("shape", ["flat", "round"], unknown="zeros", missing="category"),
            one_hot("kind", ["a", "b"], unknown="zeros"),
            hashed("city", 8),
        ]
    )


def test_the_table_it_looked_at_can_be_encoded():
    spec = FeatureSpec.from_table(FRAME, columns=COLUMNS)
    assert spec.encode_many(FRAME).shape == (3, spec.n_features)


def test_pandas_and_order_and_scale():
    table = pd.DataFrame({"b": ["x", "y"], "a": [1.0, 3.0], "c": pd.Categorical(["v", "u"])})
    spec = FeatureSpec.from_table(table, columns=["a", "b", "c"], intercept=False, scale="standard")
    assert spec.names == ("a", "b", "c")
    assert not spec.ready
    assert spec.learn_scaling(table).encode_many(table).tolist() == [[-1, 1, 0, 0, 1], [1, 0, 1, 1, 0]]


def test_what_is_refused():
    with pytest.raises(InvalidValue, match='column "day" is of type Date'):
        FeatureSpec.from_table(FRAME)
    with pytest.raises(InvalidValue, match='table has no column "ages"'):
        FeatureSpec.from_table(FRAME, columns=["ages"])
    with pytest.raises(InvalidValue, match=r'pass \["age"\]'):
        FeatureSpec.from_table(FRAME, columns="age")
    with pytest.raises(InvalidValue, match='column "x" has no values'):
        FeatureSpec.from_table(pl.DataFrame({"x": []}, schema={"x": pl.String}))
    with pytest.raises(InvalidValue, match="max_categories"):
        FeatureSpec.from_table(FRAME, columns=["age"], max_categories=-1)
    with pytest.raises(InvalidValue, match='column "x" is of type Null'):
        FeatureSpec.from_table({"x": [None]})
    with pytest.raises(InvalidValue, match='column "x" is of type Object'):
        FeatureSpec.from_table({"x": [1, "a"]})
