"""One promise for all features: a context gives the same numbers, bit for bit, whatever holds it and however many come.

A plain reading of the rules, one dictionary of columns per value, says what the numbers are.
"""

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import InvalidValue
from posse.features import FeatureSpec, Hashed, Numeric, hashed, numeric, one_hot
from posse.tables import as_frame

MISSING = [None, math.nan, np.float32("nan"), pd.NA]
TEXTS = ["red", "green", "", "1", "Zürich"]
WHOLES = [0, 1, -3, 7, 2**40]
moderate = st.floats(-2e49, 2e49)  # small enough after scaling, too
numbers = st.one_of(moderate, st.integers(-(2**62), 2**62), st.booleans())


@st.composite
def numeric_features(draw, name):
    center, spread = draw(st.sampled_from([(None, None), (3.0, None), (None, 0.3), (-1.7, 12.5)]))
    scaled = center is not None or spread is not None
    missing = draw(st.sampled_from(["error", "indicator", 2.5, *(["mean"] if scaled else [])]))
    return numeric(name, center=center, spread=spread, missing=missing)


@st.composite
def one_hot_features(draw, name):
    pool = draw(st.sampled_from([TEXTS, WHOLES, [True, False]]))
    categories = draw(st.lists(st.sampled_from(pool), min_size=1, unique=True))
    unknown = draw(st.sampled_from(["error", "zeros", "other"]))
    return one_hot(name, categories, unknown=unknown, missing=draw(st.sampled_from(["error", "zeros", "category"])))


@st.composite
def hashed_features(draw, name):
    return hashed(name, draw(st.integers(1, 20)), missing=draw(st.sampled_from(["error", "zeros", "category"])))


@st.composite
def specs(draw, kinds=(numeric_features, one_hot_features, hashed_features)):
    names = draw(st.lists(st.sampled_from(["a", "b", "c d", "é", "e"]), min_size=1, max_size=4, unique=True))
    features = [draw(draw(st.sampled_from(kinds))(name)) for name in names]
    return FeatureSpec(features, intercept=draw(st.booleans()))


def good_values(feature):
    """What the feature must take; the sort of values within a feature may differ from row to row."""
    gaps = [] if feature.missing == "error" else MISSING
    if isinstance(feature, Numeric):
        odd = [
            np.float32(0.1),
            np.int8(-3),
            np.bool(True),
            np.float64(2.5),
            Decimal("0.1"),
            Fraction(1, 3),
            np.array(1.5),
        ]
        return st.one_of(numbers, st.sampled_from(odd), *([st.sampled_from(gaps)] if gaps else []))
    if isinstance(feature, Hashed):
        return st.one_of(st.sampled_from([*TEXTS, *WHOLES, 7.0, True, np.int64(7), *gaps]), st.text(max_size=4))
    known = list(feature.categories)
    if feature.unknown != "error":
        known += {str: ["new", np.str_("blue")], int: [5, np.int64(6)], bool: [True, False]}[feature.kind]
    if feature.kind is int:
        known += [float(value) for value in known] + [np.int64(value) for value in known]
    return st.sampled_from(known + gaps)


odd_values = st.sampled_from(
    [
        *MISSING,
        "3",
        "red",
        1,
        1.0,
        1.5,
        True,
        math.inf,
        -math.inf,
        4e49,
        1e51,
        2**60,
        2**60 + 0.0,
        10**400,
        2**70,
        [1.0],
        1j,
    ]
)


@st.composite
def good_tables(draw, kinds=(numeric_features, one_hot_features, hashed_features)):
    spec = draw(specs(kinds))
    n_rows = draw(st.integers(0, 5))
    columns = [draw(st.lists(good_values(f), min_size=n_rows, max_size=n_rows)) for f in spec.features]
    return spec, [list(row) for row in zip(*columns, strict=True)]


@st.composite
def tables(draw):
    spec, rows = draw(good_tables())
    if rows:
        row, place = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, len(spec.names) - 1))
        rows[row][place] = draw(odd_values)
    return spec, rows


def containers(spec, rows):
    """The same contexts in everything that holds many."""
    columns = {name: [row[j] for row in rows] for j, name in enumerate(spec.names)}
    mappings = [dict(zip(spec.names, row, strict=True)) for row in rows]
    yield "mappings", mappings
    yield "sequences", rows
    yield "tuples", tuple(map(tuple, rows))
    yield "columns", columns | {"other": ["x"] * len(rows)}
    yield "polars", as_frame(columns)
    yield "pandas objects", pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    array = np.empty((len(rows), len(spec.names)), dtype=object)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            array[i, j] = value
    yield "array of objects", array


def plain(feature, value):
    """One encoded value by the rules, as a dictionary of columns."""
    columns = dict.fromkeys(feature.columns, 0.0)
    missing = value is None or value is pd.NA or (isinstance(value, float | np.floating) and math.isnan(value))
    if isinstance(feature, Numeric):
        raw = feature.missing if missing else float(value)
        if raw in ("indicator", "mean"):
            columns[feature.name] = 0.0
            if raw == "indicator":
                columns[f"{feature.name}?"] = 1.0
        elif feature.center is None:
            columns[feature.name] = raw
        else:
            columns[feature.name] = (raw - feature.center) / feature.spread
        return columns
    if missing:
        if feature.missing == "category":
            columns[feature.columns[-1]] = 1.0
        return columns
    if isinstance(value, float):
        value = int(value)
    if isinstance(feature, Hashed):
        columns[f"{feature.name}#{feature.bucket(value if isinstance(value, bool | str) else int(value))}"] = 1.0
    elif value in feature.categories:
        columns[f"{feature.name}={value}"] = 1.0
    elif feature.unknown == "other":
        columns[f"{feature.name}=(other)"] = 1.0
    return columns


@given(good_tables())
def test_every_row_is_what_the_rules_say(table):
    spec, rows = table
    for row in rows:
        expected = {"intercept": 1.0} if spec.intercept else {}
        for feature, value in zip(spec.features, row, strict=True):
            expected |= plain(feature, value)

        encoded = spec.encode(dict(zip(spec.names, row, strict=True)))

        assert dict(zip(spec.columns, encoded.tolist(), strict=True)) == expected
        assert encoded.dtype == np.float64
        assert encoded.flags.c_contiguous
        assert encoded.flags.owndata


@given(good_tables())
def test_many_rows_are_the_same_as_each_of_them(table):
    spec, rows = table
    expected = np.array([spec.encode(row) for row in rows]).reshape(len(rows), spec.n_features)
    for name, contexts in containers(spec, rows):
        many = spec.encode_many(contexts)
        assert many.shape == (len(rows), spec.n_features), name
        assert many.dtype == np.float64, name
        assert many.flags.c_contiguous, name
        assert many.tobytes() == expected.tobytes(), name


@given(good_tables((numeric_features,)), st.sampled_from([np.float64, np.float32, np.int64, bool]))
def test_an_array_of_numbers_is_the_same_as_its_rows(table, dtype):
    spec, rows = table
    shape = (len(rows), len(spec.names))
    if dtype is np.float64:
        array = np.array([[math.nan if value is pd.NA else value for value in row] for row in rows], dtype=dtype)
    else:
        array = np.arange(math.prod(shape)).astype(dtype)
    array = array.reshape(shape)
    expected = np.array([spec.encode(row) for row in array]).reshape(len(rows), spec.n_features)

    for contexts in (array, np.asfortranarray(array), list(array), pd.DataFrame(array, columns=list(spec.names))):
        assert spec.encode_many(contexts).tobytes() == expected.tobytes()
    for row, numbers_ in zip(expected, array, strict=True):
        assert spec.encode(numbers_.tolist()).tobytes() == row.tobytes()


@given(good_tables())
def test_raw_values_go_through_json(table):
    spec, rows = table
    expected = spec.encode_many(rows).tobytes()
    for name, contexts in containers(spec, rows):
        raw = json.loads(json.dumps(spec.raw_rows(contexts), allow_nan=False))
        assert spec.encode_many(raw).tobytes() == expected, name
    assert [spec.raw(row) for row in rows] == spec.raw_rows(rows)


@given(tables())
def test_what_one_row_refuses_many_refuse_by_its_number(table):
    spec, rows = table
    refusals = {}
    for number, row in enumerate(rows):
        try:
            spec.encode(row)
        except InvalidValue as error:
            refusals[number] = str(error)
    for name, contexts in containers(spec, rows):
        if not refusals:
            assert spec.encode_many(contexts).tobytes() == b"".join(spec.encode(row).tobytes() for row in rows), name
            continue
        with pytest.raises(InvalidValue) as refused:
            spec.encode_many(contexts)
        words = str(refused.value)
        assert any(f" at row {number}" in words for number in refusals), (name, words)
        assert any(f'feature "{feature}"' in words for feature in spec.names), (name, words)


@given(good_tables())
def test_one_row_in_every_form(table):
    spec, rows = table
    for row in rows:
        expected = spec.encode(row).tobytes()
        mapping = dict(zip(spec.names, row, strict=True))
        forms = [mapping, tuple(row), pd.Series(row, index=list(spec.names), dtype=object)]
        forms.append({name: value for name, value in mapping.items() if value is not None})  # absent is missing
        forms.append(pd.Series([*row, "x"], index=[*spec.names, "other"], dtype=object))
        if all(name.isidentifier() for name in spec.names):
            kind = NamedTuple("Row", [(name, object) for name in [*spec.names, "other"]])
            forms.append(kind(*row, "x"))
        for form in forms:
            assert spec.encode(form).tobytes() == expected


TYPED = pl.DataFrame(
    {
        "i8": pl.Series([1, -2, None], dtype=pl.Int8),
        "u64": pl.Series([2**64 - 1, 2**63 + 1025, 0], dtype=pl.UInt64),
        "i128": pl.Series([2**90 + 2**37 + 1, 2**100 + 2**47 + 1, -5], dtype=pl.Int128),
        "f32": pl.Series([0.1, None, math.nan], dtype=pl.Float32),
        "bool": pl.Series([True, None, False]),
        "decimal": pl.Series([Decimal("0.1"), None, Decimal("1234567890123456789.123456789")]),
        "null": pl.Series([None, None, None]),
        "nothing": pl.Series([None, None, None], dtype=pl.String),
    }
)


def test_numbers_of_every_type_of_a_table():
    spec = FeatureSpec([numeric(name, center=0.1, spread=0.3, missing="indicator") for name in TYPED.columns])
    rows = [spec.encode(row) for row in TYPED.iter_rows(named=True)]
    assert spec.encode_many(TYPED).tobytes() == np.array(rows).tobytes()


CATEGORIES = pl.DataFrame(
    {
        "i8": pl.Series([1, 1, None], dtype=pl.Int8),
        "u64": pl.Series([1, 3, 3], dtype=pl.UInt64),
        "f64": pl.Series([1.0, math.nan, None]),
        "nothing": pl.Series([None, None, None]),
        "text": pl.Series(["red", None, "blue"]),
        "categorical": pl.Series(["red", None, "blue"], dtype=pl.Categorical),
        "enum": pl.Series(["red", None, "blue"], dtype=pl.Enum(["blue", "red"])),
    }
)


@pytest.mark.parametrize("name", CATEGORIES.columns)
def test_categories_of_every_type_of_a_table(name):
    categories = [1, 2] if name in ("i8", "u64", "f64") else ["green", "red"]
    spec = FeatureSpec([one_hot(name, categories, unknown="other", missing="category")])
    rows = [spec.encode(row) for row in CATEGORIES.select(name).iter_rows(named=True)]
    assert spec.encode_many(CATEGORIES).tobytes() == np.array(rows).tobytes()

    spec = FeatureSpec([hashed(name, 50, missing="category")])
    rows = [spec.encode(row) for row in CATEGORIES.select(name).iter_rows(named=True)]
    assert spec.encode_many(CATEGORIES).tobytes() == np.array(rows).tobytes()


def test_more_rows_than_fit_in_one_block():
    rng = np.random.default_rng(3)
    n_rows = 10_001
    frame = pl.DataFrame(
        {
            "x": rng.normal(size=n_rows),
            "gap": np.where(rng.random(n_rows) < 0.3, math.nan, rng.normal(size=n_rows)),
            "color": pl.Series(rng.choice(["red", "green", "blue", None], n_rows).tolist()),
            "city": pl.Series([f"city {k}" for k in rng.integers(0, 500, n_rows)]),
        }
    )
    spec = FeatureSpec(
        [
            numeric("x", center=0.1, spread=3.0),
            numeric("gap", missing="indicator"),
            one_hot("color", ["red", "green"], unknown="zeros", missing="category"),
            hashed("city", 16),
        ]
    )
    expected = np.array([spec.encode(row) for row in frame.iter_rows(named=True)])
    assert spec.encode_many(frame).tobytes() == expected.tobytes()


@pytest.mark.parametrize("values", [["a", "b"], ["a"] * 9000 + [1.5]])
def test_the_first_row_that_is_wrong_is_named(values):
    spec = FeatureSpec([one_hot("x", ["a"])])
    row = next(k for k, value in enumerate(values) if value != "a")
    with pytest.raises(InvalidValue, match=f'feature "x" at row {row} '):
        spec.encode_many({"x": values})
