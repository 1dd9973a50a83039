"""Features by looking at files that do not fit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def look_at(contexts: pl.LazyFrame, *, max_categories: int = 50) -> pl.DataFrame:
    """Return a small table from which the same features are declared as from all rows.

    It has every category that there is (one more than ``max_categories`` if there are more), and a gap wherever rows
    have one.

    Parameters
    ----------
    contexts : polars.LazyFrame
        The columns that may be features.
    max_categories : int, default 50
        As in :meth:`posse.features.FeatureSpec.from_table`.
    """
    import polars as pl

    schema = contexts.collect_schema()
    looks: list[pl.Expr] = []
    for name, kind in schema.items():
        column = pl.col(name)
        if kind.is_numeric() or kind == pl.Boolean:
            gaps = column.null_count() > 0
            gaps = gaps | column.is_nan().any() if kind.is_float() else gaps
            looks.append(gaps.alias(name))
        else:
            # Others are refused when they are declared, by their type.
            values = column.cast(pl.String) if isinstance(kind, pl.Categorical | pl.Enum) else column
            looks.append(values.unique().head(max_categories + 2).implode().alias(name))
    found = contexts.select(looks).collect(engine="streaming").row(0, named=True) if looks else {}
    columns = {}
    for name, kind in schema.items():
        if kind.is_numeric() or kind == pl.Boolean:
            columns[name] = pl.Series(name, [None if found[name] else 1], dtype=pl.Float64)
        else:
            plain = pl.String if isinstance(kind, pl.Categorical | pl.Enum) else kind
            columns[name] = pl.Series(name, found[name], dtype=plain)
    height = max((len(column) for column in columns.values()), default=0)
    # A value more than once is no other look.
    return pl.DataFrame(
        [
            column.gather([min(row, len(column) - 1) for row in range(height)]) if len(column) else column
            for column in columns.values()
        ]
    )
