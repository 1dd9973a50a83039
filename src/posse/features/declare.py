"""Features declared by looking at a table or at files, or from plain JSON values that may come from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from posse.checks import nearest, whole_number
from posse.errors import InvalidValue
from posse.features.categories import hashed, one_hot
from posse.features.parts import Feature
from posse.features.quantities import numeric
from posse.features.values import MOST_COLUMNS, shown
from posse.tables import as_frame

if TYPE_CHECKING:
    import polars as pl


def from_table(
    table: Any, columns: Sequence[str] | None, *, scale: str | None, max_categories: int, buckets: int
) -> list[Feature]:
    """Return a feature for each of the columns, in their order."""
    frame = as_frame(table)
    if isinstance(columns, str):
        raise InvalidValue(f"expected columns to be a list of names, got {shown(columns)}; pass [{shown(columns)}]")
    names = frame.columns if columns is None else list(columns)
    absent = [name for name in names if name not in frame.columns]
    if absent:
        hint = nearest(absent[0], frame.columns, "columns", shown)
        raise InvalidValue(f"table has no column {', '.join(map(shown, absent))}; {hint}")
    most = whole_number(max_categories, "max_categories", at_least=0)
    return [_declared(frame[name], scale=scale, most=most, buckets=buckets) for name in names]


def _declared(column: pl.Series, *, scale: str | None, most: int, buckets: int) -> Feature:
    import polars as pl

    name, dtype = column.name, column.dtype
    if dtype.is_numeric() or dtype == pl.Boolean():
        gaps = column.null_count() > 0 or (dtype.is_float() and column.is_nan().any())
        return numeric(name, scale=scale, missing="indicator" if gaps else "error")
    missing = "category" if column.null_count() else "error"
    if dtype in (pl.String(), pl.Categorical()) or isinstance(dtype, pl.Enum):
        categories = column.drop_nulls().unique().cast(pl.String()).sort()
        if not len(categories):
            raise InvalidValue(f'column "{name}" has no values to take categories from; declare it by hand')
        if len(categories) > most:
            return hashed(name, buckets, missing=missing)
        return one_hot(name, categories.to_list(), unknown="zeros", missing=missing)
    raise InvalidValue(
        f'column "{name}" is of type {dtype}, neither a number nor text; leave it out of columns, or convert it'
    )


def representative_rows(contexts: pl.LazyFrame, *, max_categories: int = 50) -> pl.DataFrame:
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
    summaries: list[pl.Expr] = []
    for name, kind in schema.items():
        column = pl.col(name)
        if kind.is_numeric() or kind == pl.Boolean:
            gaps = column.null_count() > 0
            gaps = gaps | column.is_nan().any() if kind.is_float() else gaps
            summaries.append(gaps.alias(name))
        else:
            # Others are refused when they are declared, by their type.
            values = column.cast(pl.String) if isinstance(kind, pl.Categorical | pl.Enum) else column
            summaries.append(values.unique().head(max_categories + 2).implode().alias(name))
    found = contexts.select(summaries).collect(engine="streaming").row(0, named=True) if summaries else {}
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


VERSION = 1

KINDS: dict[str, tuple[Callable[..., Feature], frozenset[str]]] = {
    "numeric": (numeric, frozenset({"name", "scale", "center", "spread", "missing"})),
    "one_hot": (one_hot, frozenset({"name", "categories", "unknown", "missing"})),
    "hashed": (hashed, frozenset({"name", "buckets", "missing"})),
}


def to_json(features: Sequence[Feature], *, intercept: bool) -> dict[str, Any]:
    """Return plain values that :func:`from_json` takes."""
    return {"version": VERSION, "intercept": intercept, "features": [feature.to_json() for feature in features]}


def from_json(value: Any) -> tuple[list[Feature], bool]:
    """Return the features and whether there is an intercept."""
    fields = _fields(value, {"version", "intercept", "features"}, "declared features")
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        raise InvalidValue(
            f"expected declared features to be of version {VERSION}, got {shown(fields['version'])}; a newer posse may "
            "have written them"
        )
    if not isinstance(fields["intercept"], bool):
        raise InvalidValue(f"expected intercept to be true or false, got {shown(fields['intercept'])}")
    if not isinstance(fields["features"], list) or len(fields["features"]) > MOST_COLUMNS:
        raise InvalidValue(f"features must be a list of at most {MOST_COLUMNS:,}")
    return [_feature(entry) for entry in fields["features"]], fields["intercept"]


def _feature(value: Any) -> Feature:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or value["kind"] not in KINDS:
        raise InvalidValue(f'a feature must be an object whose "kind" is one of {", ".join(KINDS)}')
    make, keys = KINDS[value["kind"]]
    fields = _fields(value, {"kind", *keys}, f"a feature of kind {value['kind']}")
    if not isinstance(fields.get("categories", []), list):
        raise InvalidValue(f"expected categories to be a list, got {shown(fields['categories'])}")
    return make(**{key: fields[key] for key in keys})


def _fields(value: Any, keys: set[str], name: str) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != keys:
        came = f"one with {', '.join(map(shown, list(value)[:10]))}" if isinstance(value, dict) else shown(value)
        raise InvalidValue(f"expected {name} to be an object with exactly {', '.join(sorted(keys))}, got {came}")
    return value
