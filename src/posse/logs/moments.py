"""Recognise times in columns of tables: dates, text that is a date in one of the usual forms, seconds since 1970."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
CLOCKS = ("%H:%M", "%H:%M:%S%.f", "%H:%M:%S%.f%#z")
PARTS = (1, 10**3, 10**6, 10**9)  # of a second: s, ms, us, ns
EARLIEST, LATEST = 631_152_000, 4_102_444_800  # seconds from 1970 to 1990 and to 2100
LOOKED_AT = 100  # values of text that are tried first


def moments_in(column: pl.Series, *, named: bool) -> pl.Series | str | None:
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
        return _from_text(column)
    if dtype.is_numeric() and not dtype.is_decimal():
        return _from_numbers(column, named=named)
    return None


def _from_text(column: pl.Series) -> pl.Series | str | None:
    forms = [form for form in _forms() if _parsed(column.drop_nulls().head(LOOKED_AT), form) is not None]
    found = [(form, moments) for form in forms if (moments := _parsed(column, form)) is not None]
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


def _from_numbers(column: pl.Series, *, named: bool) -> pl.Series | None:
    import polars as pl

    values = column.drop_nulls()
    if named and column.dtype.is_integer() and values.is_between(19_900_101, 20_991_231).all():
        return _parsed(column.cast(pl.String()), "%Y%m%d")
    ordered = values.is_sorted() and values.n_unique() > 0.5 * values.len()
    if not (named or (ordered and column.dtype.is_integer())):
        return None
    for parts in PARTS:
        if values.is_between(EARLIEST * parts, LATEST * parts).all():
            micro = (column.cast(pl.Float64()) * (10**6 / parts)).round().cast(pl.Int64())
            return micro.cast(pl.Datetime("us", "UTC"))
    return None
