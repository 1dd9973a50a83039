"""Moments as they stand in tables and files, as UTC with microseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from posse.logs.rows import BadRow, first_row, shown

if TYPE_CHECKING:
    import polars as pl

WRITTEN = "%Y-%m-%dT%H:%M:%S%.6fZ"
READ = "%Y-%m-%dT%H:%M:%S%.fZ"
PLAIN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(\.\d+)?Z$"  # what READ reads right; it would also take second 60
EXPECTED = "a time must be ISO 8601 such as '2026-01-31T12:00:00Z', or seconds since 1970"
EARLIEST, LATEST = -62_135_596_800, 253_402_300_800  # seconds from 1970 to the years 1 and 10000


def as_times(values: pl.Series, name: str) -> pl.Series:
    """Return a column of times as ``Datetime("us", "UTC")``.

    Parameters
    ----------
    values : polars.Series
        Datetimes or dates (without a zone they are taken as UTC), text in ISO 8601, or seconds since 1970.
    name : str
        What errors call the column.

    Examples
    --------
    >>> import polars as pl
    >>> as_times(pl.Series(["2026-01-31T12:00:00.5+01:00"]), "time")[0]
    datetime.datetime(2026, 1, 31, 11, 0, 0, 500000, tzinfo=zoneinfo.ZoneInfo(key='UTC'))
    """
    import polars as pl

    wanted = pl.Datetime("us", "UTC")
    dtype = values.dtype
    if dtype == pl.Null():
        return values.cast(wanted)
    if dtype == pl.Date():
        values = values.cast(pl.Datetime("us"))
        dtype = values.dtype
    if isinstance(dtype, pl.Datetime):
        in_zone = values.dt.replace_time_zone("UTC") if dtype.time_zone is None else values.dt.convert_time_zone("UTC")
        # Nanoseconds are cut, and years that no calendar of Python has are refused below.
        result = in_zone.dt.cast_time_unit("us")
        seconds = result.dt.epoch("s")
        _require(~((seconds < EARLIEST) | (seconds >= LATEST)), values, name, "a year from 1 to 9999 was expected")
        return result
    if dtype == pl.String():
        return _from_text(values, name)
    if dtype.is_numeric() and not dtype.is_decimal():
        return _from_seconds(values, name)
    row = first_row(values.is_not_null())
    raise BadRow(f"{name} is {shown(values[row])}, but {EXPECTED}", row)


def _from_text(values: pl.Series, name: str) -> pl.Series:
    import polars as pl

    plain = values.str.contains(PLAIN)
    result = (
        pl.select(pl.when(plain).then(values))
        .to_series()
        .str.to_datetime(READ, time_unit="us", time_zone="UTC", strict=False)
    )
    rest = (result.is_null() & values.is_not_null()).arg_true()
    if rest.is_empty():
        return result
    # Other forms of ISO 8601 are rare enough to be read one by one.
    moments = []
    for row, text in zip(rest.to_list(), values.gather(rest).to_list(), strict=True):
        try:
            moment = datetime.fromisoformat(text)
            moments.append(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
        except (ValueError, OverflowError):
            raise BadRow(f"{name} is {shown(text)}, but {EXPECTED}", row) from None
    return result.scatter(rest, pl.Series(moments, dtype=result.dtype))


def _from_seconds(values: pl.Series, name: str) -> pl.Series:
    import polars as pl

    seconds = values.cast(pl.Float64())
    inside = (seconds >= EARLIEST) & (seconds < LATEST)
    _require(inside, values, name, "seconds since 1970 were expected; divide milliseconds by 1000")
    return (seconds * 1e6).round().cast(pl.Int64()).cast(pl.Datetime("us", "UTC"))


def _require(right: pl.Series, values: pl.Series, name: str, expected: str) -> None:
    wrong = ~right & values.is_not_null()
    if wrong.any():
        row = first_row(wrong)
        came = values[row : row + 1].cast(str)[0]  # Python has no value for a year beyond 9999
        raise BadRow(f"{name} is {came}, but {expected}", row)


def as_text(times: pl.Series) -> pl.Series:
    """Return times as text in ISO 8601 with microseconds and Z."""
    return times.dt.strftime(WRITTEN)
