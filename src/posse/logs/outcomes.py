"""Recognise what the rewards of a table are, and refuse those that nothing can be learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue, NotFinite

if TYPE_CHECKING:
    import polars as pl

LARGEST_COUNT = 100
USUAL_COUNT = 10.0  # the mean of counts that are not 0, at most: amounts are larger
FEW_ROWS = 10  # of a table that may be a mere example


def reward_summary(name: str) -> list[pl.Expr]:
    """Return what is asked of a column of rewards, which may be in files that do not fit in memory."""
    import polars as pl

    values = pl.col(name).cast(pl.Float64)
    positive = values.filter(values > 0)
    return [
        pl.len().alias("rows"),
        values.null_count().alias("missing"),
        (~values.is_finite()).sum().alias("infinite"),
        values.min().alias("least"),
        values.max().alias("most"),
        (values == values.round()).all().alias("whole"),
        (values == 0).mean().alias("zeros"),
        positive.mean().alias("amount"),
        (~values.is_in([0.0, 1.0])).sum().alias("others"),
    ]


def family_of_summary(
    summary: dict[str, Any], *, truths: bool, asked: str | None, stated: pl.Series | None
) -> tuple[str, str]:
    """Return the family of rewards, and why, in words: as asked, as the table says, or by what was seen of them."""
    if asked is not None:
        return asked, "as asked"
    if stated is not None and len(names := stated.drop_nulls().unique().to_list()) == 1:
        return str(names[0]), "as the table says"
    if truths:
        return "binary", "true or false (clicks)"
    if not summary["others"]:
        return "binary", "only 0 and 1 (clicks)"
    zeros, amount = summary["zeros"], summary["amount"] or 0.0
    if summary["least"] == 0 and summary["whole"] and summary["most"] <= LARGEST_COUNT and amount <= USUAL_COUNT:
        return "count", f"whole numbers from 0 to {summary['most']:.0f}"
    if summary["least"] == 0 and zeros >= 0.5:
        return "revenue", f"{zeros:.0%} are 0, the others {amount:.4g} on average"
    return "number", f"from {summary['least']:.4g} to {summary['most']:.4g}"


def require_rewards(summary: dict[str, Any], name: str, source: str) -> None:
    """Raise unless something can be learned from rewards."""
    if summary["infinite"]:
        raise NotFinite(
            f"expected finite rewards in column {name!r} of {source}, got NaN or infinity in "
            f"{summary['infinite']} rows; leave the cell empty where there is no reward"
        )
    if summary["missing"] == summary["rows"]:
        raise InvalidValue(f"expected rewards in column {name!r} of {source}, got none; name another column")
    if summary["least"] == summary["most"] and summary["rows"] >= FEW_ROWS and not summary["missing"]:
        raise InvalidValue(
            f"expected rewards that differ in column {name!r} of {source}, got {summary['least']:g} in all "
            f"{summary['rows']:,} rows, from which no arm can be better; are rows without success missing?"
        )


def numbers_of(column: pl.Series, source: str) -> pl.Series:
    """Return rewards as numbers or truth values; text that says true or false counts as such."""
    import polars as pl

    if column.dtype.is_numeric() or column.dtype in (pl.Boolean(), pl.Null()):
        return column
    if column.dtype == pl.Object():  # values of several kinds
        column = pl.Series(column.name, [None if value is None else str(value) for value in column])
    if column.dtype == pl.String():
        low = column.str.strip_chars().str.to_lowercase()
        if low.drop_nulls().is_in(["true", "false"]).all():
            return low == "true"
        wrong = low.cast(pl.Float64(), strict=False).is_null() & low.is_not_null()
        row = int(wrong.arg_max() or 0)
        raise InvalidValue(
            f"expected numbers in the reward column {column.name!r} of {source}, got {column[row]!r} in row {row}; "
            "leave the cell empty where there is no reward, or name another column"
        )
    raise InvalidValue(
        f"expected numbers in the reward column {column.name!r} of {source}, got type {column.dtype}; name another "
        "column"
    )
