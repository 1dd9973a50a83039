"""Tables as they come: the same rows, whatever holds them."""

import datetime
import gzip
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from posse.errors import InvalidValue, MissingData, ShapeError
from posse.tables import as_frame, is_missing

EXPECTED = pl.DataFrame(
    {"task": ["a", None, "c"], "arm": [1, 2, 3], "reward": [0.5, -1.0, 2.0], "seen": [True, False, True]}
)


class Arrow:
    """An Arrow table as another library offers it: nothing but the capsule."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame.__arrow_c_stream__(requested_schema)


def columns():
    return EXPECTED.to_dict(as_series=False)


@pytest.mark.parametrize(
    "table",
    [
        EXPECTED.lazy(),
        Arrow(EXPECTED),
        pd.DataFrame(columns(), index=[7, 7, 9]),
        pd.DataFrame(columns(), dtype=object),
        columns(),
        {name: tuple(values) for name, values in columns().items()},
        {name: np.array(values) for name, values in columns().items()},
        {name: np.array(values, dtype=object) for name, values in columns().items()},
        {name: pd.Series(values, index=[3, 1, 2]) for name, values in columns().items()},
        {name: EXPECTED[name] for name in EXPECTED.columns},
        {name: Arrow(EXPECTED[name]) for name in EXPECTED.columns},
        EXPECTED.to_dicts(),
        tuple(EXPECTED.to_dicts()),
    ],
    ids=lambda table: type(table).__name__,
)
def test_the_same_rows_whatever_holds_them(table):
    assert_frame_equal(as_frame(table), EXPECTED)


def test_a_polars_frame_is_not_copied():
    assert as_frame(EXPECTED) is EXPECTED


def test_numbers_of_an_array_are_not_copied():
    values = np.arange(3.0)
    assert np.shares_memory(as_frame({"x": values})["x"].to_numpy(), values)


@pytest.mark.parametrize("suffix", [".parquet", ".PARQUET", ".csv", ".jsonl", ".ndjson"])
@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_files(tmp_path, suffix, kind):
    path = tmp_path / f"log[1]{suffix}"
    match suffix.lower():
        case ".parquet":
            EXPECTED.write_parquet(path)
        case ".csv":
            EXPECTED.write_csv(path)
        case _:
            EXPECTED.write_ndjson(path)
    assert_frame_equal(as_frame(kind(path)), EXPECTED)


def test_json_lines_keep_their_types_apart(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"x": 1}\n\n{"x": "1", "late": [1, 2.5]}\n')
    frame = as_frame(path)

    assert frame["x"].to_list() == [1, "1"]
    assert frame["late"].to_list() == [None, [1.0, 2.5]]


def test_a_csv_column_that_turns_to_text_far_down_is_text(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("x\n" + "1\n" * 5000 + "a\n")
    assert as_frame(path)["x"].dtype == pl.String()


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
def test_zero_padded_codes_are_text_and_other_whole_numbers_are_numbers(suffix, tmp_path):
    text = "code,count,share,day\n00123,0,0.5,7\n123,10,00.5,-3\n,-5,1,0\n"
    path = tmp_path / f"log{suffix}"
    path.write_bytes(gzip.compress(text.replace(",", "\t").encode()) if suffix == ".tsv.gz" else text.encode())
    table = as_frame(path)

    assert table["code"].to_list() == ["00123", "123", None]
    assert table["count"].to_list() == [0, 10, -5]
    assert table["share"].to_list() == [0.5, 0.5, 1.0]
    assert table["day"].to_list() == [7, -3, 0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.parquet", b"PAR1 and no more", "cannot be read"),
        ("log.parquet", b"", "cannot be read"),
        ("log.csv", b"", "cannot be read"),
        ("log.csv", b"a,b\n1,2,3\n", "cannot be read"),
        ("log.csv", b"a,a\n1,2\n", 'two columns "a"'),
        ("log.csv", b"a\n\xff\xfe\n", "cannot be read"),
        ("log.jsonl", b'{"a": 1}\n{"a":', "line 2 .* is not JSON"),
        ("log.jsonl", b'{"a": 1}\n[1]\n', "line 2 .* to be an object"),
        ("log.jsonl", b'{"a": "\xff"}\n', "cannot be read"),
        ("log.jsonl", b"[" * 100_000, "line 1 .* is not JSON"),
        ("log.txt", b"a", "to be a Polars or pandas data frame"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidValue, match=words):
        as_frame(path)


def test_deep_mappings_are_unchanged(tmp_path):
    path = tmp_path / "log.jsonl"
    line = '{"a": ' * 450 + "1" + "}" * 450
    path.write_text(line)
    assert as_frame(path)["a"].to_list() == [json.loads(line)["a"]]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(MissingData, match="is not there"):
        as_frame(tmp_path / "gone.parquet", name="log")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(MissingData, match=r"log .*folder.csv is not there"):
        as_frame(str(tmp_path / "folder.csv"), name="log")
    with pytest.raises(InvalidValue, match="cannot be collected"):
        as_frame(pl.scan_parquet(tmp_path / "gone.parquet"))


@pytest.mark.parametrize(
    "table",
    [
        None,
        3,
        b"x",
        b"",
        [1, 2],
        [{"a": 1}, 2],
        iter([]),
        np.eye(2),
        pl.Series([1]),
        pd.Series([1]),
        Arrow(pl.Series([1])),
        {"a": 1},
        {"a": "text"},
        {1: [1]},
        [{1: 1}],
        pd.DataFrame({0: [1]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        {"a": ["\ud800"]},
    ],
    ids=lambda table: type(table).__name__,
)
def test_what_is_no_table(table):
    with pytest.raises(InvalidValue):
        as_frame(table)


def test_columns_must_be_of_one_length_and_one_axis():
    with pytest.raises(ShapeError, match='"a" has 2 rows and "c" has 1'):
        as_frame({"a": [1, 2], "b": [3, 4], "c": [5]})
    with pytest.raises(ShapeError, match='column "a" of log to have one axis'):
        as_frame({"a": np.eye(2)}, name="log")


def test_pandas_columns_of_every_kind():
    moment = pd.Timestamp("2024-02-03 04:05:06")
    frame = as_frame(
        pd.DataFrame(
            {
                "float": [1.5, math.nan],
                "float32": np.array([0.1, 2.0], dtype=np.float32),
                "text": ["a", None],
                "string": pd.array(["a", None], dtype="string"),
                "object": pd.Series(["a", math.nan], dtype=object),
                "whole": pd.array([2**60 + 1, None], dtype="Int64"),
                "small": pd.array([1, None], dtype="UInt8"),
                "real": pd.array([1.5, None], dtype="Float64"),
                "truth": pd.array([True, None], dtype="boolean"),
                "colour": pd.Categorical(["red", None], categories=["green", "red"]),
                "size": pd.Categorical([3, None], categories=[1, 2, 3]),
                "moment": pd.Series([moment, pd.NaT]),
                "zoned": pd.Series([moment, pd.NaT]).dt.tz_localize("Europe/Berlin"),
                "mixed": pd.Series([1, True], dtype=object),
                "sparse": pd.arrays.SparseArray([0.0, 2.0]),
            }
        )
    )

    assert math.isnan(frame["float"][1])  # null and NaN are told apart
    assert frame["float"].null_count() == 0
    assert frame.drop("float").rows() == [
        (
            float(np.float32(0.1)),
            "a",
            "a",
            "a",
            2**60 + 1,
            1,
            1.5,
            True,
            "red",
            3,
            datetime.datetime(2024, 2, 3, 4, 5, 6),
            datetime.datetime(2024, 2, 3, 3, 5, 6, tzinfo=datetime.UTC),
            1,
            0.0,
        ),
        (2.0, *[None] * 11, True, 2.0),
    ]
    assert frame["mixed"].dtype == pl.Object()
    assert frame["whole"].dtype == pl.Int64()


def test_arrays_of_every_kind():
    frame = as_frame(
        {
            "half": np.array([0.5, 1.5], dtype=np.float16),
            "long": np.array([0.5, 1.5], dtype=np.longdouble),
            "swapped": np.array([0.5, 1.5], dtype=">f8"),
            "masked": np.ma.array([1, 2], mask=[False, True]),
            "text": np.array(["a", "bc"]),
            "second": np.array(["2024-01-01", "NaT"], dtype="M8[s]"),
            "span": np.array([90, "NaT"], dtype="m8[m]"),
            "strided": np.arange(4.0)[::2],
        }
    )
    new_year = datetime.datetime(2024, 1, 1)
    assert frame.rows() == [
        (0.5, 0.5, 0.5, 1, "a", new_year, datetime.timedelta(minutes=90), 0.0),
        (1.5, 1.5, 1.5, None, "bc", None, None, 2.0),
    ]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1, None], pl.Int64(), [1, None]),
        ([2**63, 1], pl.UInt64(), [2**63, 1]),
        ([2**70, -1], pl.Object(), [2**70, -1]),
        ([-1, 2**63], pl.Object(), [-1, 2**63]),
        ([1, 2.5], pl.Float64(), [1.0, 2.5]),
        ([2**60 + 1, 2.5], pl.Object(), [2**60 + 1, 2.5]),
        ([1, math.nan], pl.Int64(), [1, None]),
        (["a", math.nan], pl.String(), ["a", None]),
        (["a", pd.NA, pd.NaT], pl.String(), ["a", None, None]),
        ([np.str_("a"), np.nan], pl.String(), ["a", None]),
        ([np.float64(1.5), np.int64(2)], pl.Float64(), [1.5, 2.0]),
        ([None, None], pl.Null(), [None, None]),
        ([1, True], pl.Object(), [1, True]),
        ([True, 2], pl.Object(), [True, 2]),
        (["a", 1], pl.Object(), ["a", 1]),
        ([Decimal("1.5"), Decimal("NaN")], pl.Object(), [Decimal("1.5"), None]),
        ([[1], [2.5]], pl.List(pl.Float64()), [[1.0], [2.5]]),
        ([["a", math.nan], None, []], pl.List(pl.String()), [["a", None], None, []]),
        ([(1, 2), (3,)], pl.List(pl.Int64()), [[1, 2], [3]]),
        ([["a"], [2.5]], pl.Object(), [["a"], [2.5]]),
        ([[[1]], [[2]]], pl.Object(), [[[1]], [[2]]]),
        ([{"a": 1}, {"b": "x"}, None], None, [{"a": 1, "b": None}, {"a": None, "b": "x"}, None]),
        ([{"a": 1}, {"a": "x"}], pl.Object(), [{"a": 1}, {"a": "x"}]),
        ([{}, {}], pl.Object(), [{}, {}]),
        ([datetime.date(2024, 1, 2)], pl.Date(), [datetime.date(2024, 1, 2)]),
        ([datetime.timedelta(1)], pl.Duration("us"), [datetime.timedelta(1)]),
        (
            [datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))],
            pl.Datetime("us", "UTC"),
            [datetime.datetime(2024, 1, 1, 23, tzinfo=datetime.UTC)],
        ),
        (
            [datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)],
            pl.Object(),
            [datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)],
        ),
    ],
    ids=lambda table: type(table).__name__,
)
def test_python_values_are_of_one_type_or_stay_as_they_are(values, dtype, expected):
    column = as_frame({"x": values})["x"]

    assert dtype is None or column.dtype == dtype
    found = column.to_list()
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.dates(),
    st.binary(max_size=2),
)


@given(st.lists(scalars, max_size=6))
def test_no_value_changes(values):
    found = as_frame({"x": values})["x"].to_list()

    assert found == values
    for was, now in zip(values, found, strict=True):
        # Whole numbers between floats may become floats, which lose nothing then.
        assert type(was) is type(now) or (type(was), type(now)) == (int, float)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), scalars), max_size=4))
def test_no_row_changes(rows):
    frame = as_frame(rows)
    assert [{name: value for name, value in row.items() if value is not None} for row in frame.to_dicts()] == [
        {name: value for name, value in row.items() if value is not None} for row in (rows if frame.width else [])
    ]


def test_no_rows():
    assert as_frame([]).shape == (0, 0)
    assert as_frame({"a": []}).shape == (0, 1)


@pytest.mark.parametrize(
    "value",
    [
        None,
        math.nan,
        np.float32("nan"),
        np.longdouble("nan"),
        pd.NA,
        pd.NaT,
        np.datetime64("NaT"),
        np.timedelta64("NaT"),
        Decimal("nan"),
        Decimal("snan"),
        np.ma.masked,
    ],
)
def test_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize(
    "value", [0, 0.0, "", "nan", False, math.inf, [], np.int64(0), Decimal(0), np.datetime64(1, "s")]
)
def test_not_missing(value):
    assert not is_missing(value)


def test_pyarrow_where_it_is_installed():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1, None], "s": ["x", None], "l": [[1.5], None]})
    expected = [(1, "x", [1.5]), (None, None, None)]

    assert as_frame(table).rows() == expected
    assert as_frame(table.to_pandas(types_mapper=pd.ArrowDtype)).rows() == expected
    assert as_frame({name: table[name] for name in table.column_names}).rows() == expected
    truths = pd.DataFrame({"b": pd.array([True, None], dtype="bool[pyarrow]")})
    assert as_frame(truths)["b"].to_list() == [True, None]
