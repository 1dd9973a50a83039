from datetime import UTC, date, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.errors import InvalidValue
from posse.logs.times import as_text, as_times

NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)
moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00.25Z",
        "2026-01-31T12:00:00.250000999Z",  # cut, not rounded
        "2026-01-31 12:00:00.25+00:00",
        "2026-01-31T17:30:00.25+05:30",
        "20260131T120000.25Z",
        "2026-01-31T12:00:00.250000",  # without a zone it is UTC
    ],
)
def test_iso_8601_in_its_forms(text):
    assert as_times(pl.Series([None, text]), "time").to_list() == [None, NOON]


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([NOON]),
        pl.Series([NOON.replace(tzinfo=None)]),
        pl.Series([NOON.replace(tzinfo=None)], dtype=pl.Datetime("ns")),
        pl.Series([NOON.timestamp()]),
        pl.Series([NOON.astimezone(timezone(timedelta(hours=3)))], dtype=pl.Datetime("ms", "Europe/Moscow")),
    ],
)
def test_other_types_of_columns(values):
    result = as_times(values, "time")

    assert result.dtype == pl.Datetime("us", "UTC")
    assert result.to_list() == [NOON]


def test_days_and_whole_seconds():
    assert as_times(pl.Series([date(1970, 1, 2)]), "time").to_list() == [datetime(1970, 1, 2, tzinfo=UTC)]
    assert as_times(pl.Series([-86_400, None]), "time").to_list() == [datetime(1969, 12, 31, tzinfo=UTC), None]
    # 1.005 is a little less than that in binary.
    assert as_times(pl.Series([1.005]), "time").to_list() == [datetime(1970, 1, 1, 0, 0, 1, 5000, tzinfo=UTC)]
    assert as_times(pl.Series([None, None]), "time").dtype == pl.Datetime("us", "UTC")


@given(st.lists(moments | st.none(), min_size=1, max_size=5))
def test_what_is_written_is_read_again(values):
    column = as_times(pl.Series(values, dtype=pl.Datetime("us")), "time")

    assert as_times(as_text(column), "time").equals(column)


@given(moments)
def test_python_reads_what_is_written(moment):
    column = as_times(pl.Series([moment]), "time")

    assert datetime.fromisoformat(as_text(column)[0]) == moment.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("31.1.2026", "row 1 of the log: time is '31.1.2026', but a time must be ISO 8601"),
        ("2026-02-30T00:00:00Z", "ISO 8601"),
        ("2026-01-31T23:59:60Z", "ISO 8601"),
        ("12026-01-31T00:00:00Z", "ISO 8601"),
        ("0001-01-01T00:00:00+05:00", "ISO 8601"),
        (True, "ISO 8601"),
        (1.77e12, "divide milliseconds by 1000"),
        (float("nan"), "seconds since 1970 were expected"),
        (b"x", "ISO 8601"),
    ],
)
def test_anything_else_is_one_clear_error(value, words):
    with pytest.raises(InvalidValue, match=words):
        as_times(pl.Series([None, value]), "time")


def test_years_that_python_cannot_say_are_refused():
    with pytest.raises(InvalidValue, match="a year from 1 to 9999 was expected"):
        as_times(pl.Series([253_402_300_800_000]).cast(pl.Datetime("ms", "UTC")), "time")
