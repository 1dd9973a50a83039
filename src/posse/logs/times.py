"""Times in tables and files: read as UTC with microseconds, written, and recognised in columns that nobody named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from posse.logs.findings import BadRow, first_row, shown

if TYPE_CHECKING:
    import polars as pl

WRITTEN = "%Y-%m-%dT%H:%M:%S%.6fZ"
READ = "%Y-%m-%dT%H:%M:%S%.fZ"
PLAIN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(\.\d+)?Z$"  # what READ reads right; it would also take second 60
EXPECTED = "a time must be ISO 8601 such as '2026-01-31T12:00:00Z', or seconds since 1970"
EARLIEST, LATEST = -62_135_596_800, 253_402_300_800  # seconds from 1970 to the years 1 and 10000
DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
CLOCKS = ("%H:%M", "%H:%M:%S%.f", "%H:%M:%S%.f%#z")
FRACTIONS = (1, 10**3, 10**6, 10**9)  # of a second: s, ms, us, ns
USUAL_FIRST, USUAL_LAST = 631_152_000, 4_102_444_800  # seconds from 1970 to 1990 and to 2100
LOOKED_AT = 100  # values of text that are tried first


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
    times = []
    for row, text in zip(rest.to_list(), values.gather(rest).to_list(), strict=True):
        try:
            moment = datetime.fromisoformat(text)
            times.append(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
        except (ValueError, OverflowError):
            raise BadRow(f"{name} is {shown(text)}, but {EXPECTED}", row) from None
    return result.scatter(rest, pl.Series(times, dtype=result.dtype))


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


def recognised_times(column: pl.Series, *, named: bool) -> pl.Series | str | None:
    """Return the times of a column, why it has times that cannot be read, or None if it has none.

    Parameters
    ----------
    column : polars.Series
    named : bool
        Whether its name says that these are times, so that numbers may be seconds since 1970 in any order.
    """
    import polars as pl

    dtype = column.dtype
    if dtype.is_temporal():
        return column if isinstance(dtype, pl.Date | pl.Datetime) else "a time of day or a duration"
    if dtype == pl.String():
        return _recognised_text(column)
    if dtype.is_numeric() and not dtype.is_decimal():
        return _recognised_numbers(column, named=named)
    return None


def _recognised_text(column: pl.Series) -> pl.Series | str | None:
    forms = [form for form in _forms() if _parsed(column.drop_nulls().head(LOOKED_AT), form) is not None]
    found = [(form, times) for form in forms if (times := _parsed(column, form)) is not None]
    if not found:
        return None
    if len(found) > 1 and not (found[0][1] == found[1][1]).all():
        return "a date of which day or month comes first"
    return found[0][1]


def _forms() -> list[str]:
    return [*DAYS, *(f"{day}{between}{clock}" for day in DAYS for clock in CLOCKS for between in (" ", "T"))]


def _parsed(column: pl.Series, form: str) -> pl.Series | None:
    """Return text as times in UTC if all of it has this form."""
    import polars as pl

    result = column.str.to_datetime(form, time_unit="us", strict=False)
    if not result.count() or result.null_count() > column.null_count():
        return None
    zone = result.dtype.time_zone if isinstance(result.dtype, pl.Datetime) else None
    return result if zone else result.dt.replace_time_zone("UTC")


def _recognised_numbers(column: pl.Series, *, named: bool) -> pl.Series | None:
    import polars as pl

    values = column.drop_nulls()
    if named and column.dtype.is_integer() and values.is_between(19_900_101, 20_991_231).all():
        return _parsed(column.cast(pl.String()), "%Y%m%d")
    ordered = values.is_sorted() and values.n_unique() > 0.5 * values.len()
    if not (named or (ordered and column.dtype.is_integer())):
        return None
    for parts in FRACTIONS:
        if values.is_between(USUAL_FIRST * parts, USUAL_LAST * parts).all():
            micro = (column.cast(pl.Float64()) * (10**6 / parts)).round().cast(pl.Int64())
            return micro.cast(pl.Datetime("us", "UTC"))
    return None
