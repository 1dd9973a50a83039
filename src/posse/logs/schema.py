"""The columns of a log, and how a table is brought into their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue
from posse.logs.findings import BadRow, first_row, shown
from posse.logs.times import as_times

if TYPE_CHECKING:
    import polars as pl

    from posse.logs.log import Log

COLUMNS = (
    "decision_id",
    "time",
    "task",
    "arm",
    "eligible",
    "probabilities",
    "expected_rewards",
    "propensity",
    "context",
    "reward",
    "reward_family",
    "reward_time",
    "policy",
    "version",
    "ranking_id",
    "ranking_place",
)
ARM_FEATURES = "arm_features"
"""Features of the eligible arms of a catalogue: a list per feature, in their order. Other logs have no such column."""
PRICES = ("values", "costs")
"""What one unit of reward of the eligible arms was worth, and what they cost, where a fleet has such prices."""
REQUIRED = ("task", "arm", "reward")
NUMBER_LISTS = ("probabilities", "expected_rewards")  # of the eligible arms, in the same order
LABEL = "must be text or a whole number below 2**63"


def log_frame(table: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return a table with exactly the columns of a log, and the names of those that no log has.

    Where eligible arms have features or prices, those are further columns at the end.

    Parameters
    ----------
    table : polars.DataFrame
        Columns of :data:`REQUIRED` at least; others that are absent are filled with nulls.

    Raises
    ------
    BadRow
        If a value has a type that its column does not hold.
    """
    import polars as pl

    missing = [name for name in REQUIRED if name not in table.columns]
    if missing:
        raise InvalidValue(
            f"a log needs the columns {', '.join(REQUIRED)}, but {', '.join(map(repr, missing))} is not among "
            f"{', '.join(map(repr, table.columns)) or 'none'}"
        )
    n_rows = table.height

    def column(name: str) -> pl.Series:
        return table[name] if name in table.columns else pl.repeat(None, n_rows, dtype=pl.Null(), eager=True)

    arm = labels(column("arm"), "arm")
    readers: dict[str, Callable[[pl.Series, str], pl.Series]] = {
        "decision_id": text,
        "time": as_times,
        "task": labels,
        "eligible": lambda values, name: lists(values, name, arm.dtype),
        "probabilities": lambda values, name: lists(values, name, pl.Float64()),
        "expected_rewards": lambda values, name: lists(values, name, pl.Float64()),
        "propensity": numbers,
        "context": contexts,
        "reward": lambda values, name: numbers(values, name, truth=True),
        "reward_family": families,
        "reward_time": as_times,
        "policy": text,
        "version": text,
        "ranking_id": text,
        "ranking_place": places,
    }
    result = [arm if name == "arm" else readers[name](column(name), name) for name in COLUMNS]
    frame = pl.DataFrame([values.alias(name) for values, name in zip(result, COLUMNS, strict=True)])
    if ARM_FEATURES in table.columns and table[ARM_FEATURES].dtype != pl.Null():
        frame = frame.with_columns(arm_features(table[ARM_FEATURES], ARM_FEATURES))
    priced = [name for name in PRICES if name in table.columns and isinstance(table[name].dtype, pl.List | pl.Array)]
    frame = frame.with_columns(prices(table[name], name) for name in priced if table[name].count())
    return frame, tuple(name for name in table.columns if name not in (*COLUMNS, ARM_FEATURES, *priced))


def labels(values: pl.Series, name: str) -> pl.Series:
    """Return tasks or arms as text or as 64-bit whole numbers; each row must have one."""
    import polars as pl

    if values.null_count():
        raise BadRow(f"{name} is missing, but every decision has one", first_row(values.is_null()))
    if values.dtype == pl.Null():
        return values.cast(pl.String())
    return _plain_labels(values, name)


def _plain_labels(values: pl.Series, name: str) -> pl.Series:
    import polars as pl

    dtype = values.dtype
    if dtype == pl.String():
        return values
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return values.cast(pl.String())
    if dtype.is_integer():
        result = values.cast(pl.Int64(), strict=False)
        _refuse(result.is_null() & values.is_not_null(), values, name, LABEL)
        return result
    _refuse_type(values, name, f"{LABEL}, one kind in a log", str, int)
    return empty(values, pl.String())


def text(values: pl.Series, name: str) -> pl.Series:
    """Return text; categories become text."""
    import polars as pl

    if not isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum | pl.Null):
        _refuse_type(values, name, "must be text; cast it first", str)
        return empty(values, pl.String())
    return values.cast(pl.String())


def numbers(values: pl.Series, name: str, *, truth: bool = False) -> pl.Series:
    """Return floats; with ``truth``, false and true are 0 and 1."""
    import polars as pl

    dtype = values.dtype
    if not (dtype.is_numeric() or dtype == pl.Null() or (truth and dtype == pl.Boolean())):
        _refuse_type(values, name, "must be a number", int, float)
        return empty(values, pl.Float64())
    return values.cast(pl.Float64())


def families(values: pl.Series, name: str) -> pl.Series:
    """Return what rewards are, by name; a gap says nothing."""
    result = text(values, name)
    if not result.count():
        return result
    from posse.families import FAMILIES  # with Numba, which a log of numbers need not wait for

    _refuse(~result.fill_null("number").is_in(list(FAMILIES)), result, name, f"must be {', '.join(FAMILIES)}")
    return result


def places(values: pl.Series, name: str) -> pl.Series:
    """Return places of rankings, whole numbers from 1 on."""
    import polars as pl

    expected = "must be a whole number from 1 on"
    if not (values.dtype.is_numeric() or values.dtype == pl.Null()):
        _refuse_type(values, name, expected, int)
        return empty(values, pl.Int64())
    result = values.cast(pl.Int64(), strict=False)
    same = (result.cast(pl.Float64()) == values.cast(pl.Float64())) & (result >= 1)
    _refuse(values.is_not_null() & ~same.fill_null(value=False), values, name, expected)
    return result


def lists(values: pl.Series, name: str, inner: pl.DataType) -> pl.Series:
    """Return lists of labels or floats; an entry may be null, but nothing in it."""
    import polars as pl

    wanted = pl.List(inner)
    what = {pl.Float64(): "numbers", pl.Int64(): "whole numbers, as arm is", pl.String(): "text, as arm is"}[inner]
    if values.dtype == pl.Null():
        return values.cast(wanted)
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List):
        if values.dtype == pl.Object():
            _refuse_lists(
                values, name, what, {str} if inner == pl.String() else {int} if inner == pl.Int64() else {int, float}
            )
        _refuse_type(values, name, f"must be a list of {what}")
        return empty(values, wanted)
    entries = values.dtype.inner
    if entries == pl.Null():
        fits = True
    elif inner == pl.Float64():
        fits = isinstance(entries, pl.DataType) and entries.is_numeric()
    elif inner == pl.Int64():
        fits = isinstance(entries, pl.DataType) and entries.is_integer()
    else:
        fits = isinstance(entries, pl.String | pl.Categorical | pl.Enum)
    if not fits:
        _refuse(values.list.len() > 0, values, name, f"must be a list of {what}")
    result = values.cast(wanted, strict=False)
    # A null and an empty list each leave one null behind; any other null was in a list.
    nothing = result.null_count() + int((result.list.len() == 0).sum())
    if result.explode().null_count() > nothing:
        whole = result.list.drop_nulls().list.len() == values.list.len()
        _refuse(~whole, values, name, f"must be a list without gaps of {what}")
    return result


def _refuse_lists(values: pl.Series, name: str, what: str, kinds: set[type]) -> None:
    """Raise for the first of many Python values that is no list of these kinds."""
    for row, value in enumerate(values):
        if value is not None and not (isinstance(value, list) and set(map(type, value)) <= kinds):
            raise BadRow(f"{name} must be a list of {what}, but {shown(value)} came", row)


def contexts(values: pl.Series, name: str) -> pl.Series:
    """Return features as a struct of numbers, text and truth values; one without any value is a float."""
    import polars as pl

    if values.dtype == pl.Object():
        values = _from_objects(values, name)
    if values.dtype == pl.Null():
        return no_features(values.len())
    if not isinstance(values.dtype, pl.Struct):
        _refuse_type(values, name, "must be a struct of features by name")
        return no_features(values.len())
    return join_features([_feature(values.struct.field(name)) for name in values.struct.fields], values.len())


def join_features(features: list[pl.Series], n_rows: int) -> pl.Series:
    """Return features as one column."""
    import polars as pl

    return pl.DataFrame(features).to_struct("context") if features else no_features(n_rows)


def no_features(n_rows: int) -> pl.Series:
    """Return the contexts of a log without features."""
    import polars as pl

    return pl.Series("context", [{}] * n_rows, dtype=pl.Struct([]))


def _feature(values: pl.Series) -> pl.Series:
    import polars as pl

    dtype = values.dtype
    name = f"feature {values.name!r}"
    if values.len() and values.null_count() == values.len():
        return empty(values, pl.Float64())
    if dtype in (pl.String(), pl.Boolean(), pl.Int64(), pl.Float64()):
        return values
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return values.cast(pl.String())
    if dtype.is_integer():
        whole = values.cast(pl.Int64(), strict=False)
        return whole if whole.null_count() == values.null_count() else values.cast(pl.Float64())
    if dtype.is_numeric() or dtype == pl.Null():
        return values.cast(pl.Float64())
    _refuse_type(values, name, "must be a number, text, true or false")
    return empty(values, pl.Float64())


def arm_features(values: pl.Series, name: str) -> pl.Series:
    """Return features of eligible arms as a struct of lists of numbers, text or truth values."""
    import polars as pl

    expected = "must be a struct of features by name, each a list with one value per eligible arm"
    if not isinstance(values.dtype, pl.Struct):
        _refuse_type(values, name, expected)
        return values.cast(pl.Null())
    columns = []
    for feature in values.struct.fields:
        column = values.struct.field(feature)
        if isinstance(column.dtype, pl.Array):
            column = column.arr.to_list()
        if column.dtype == pl.Null():
            column = column.cast(pl.List(pl.Float64()))
        if not isinstance(column.dtype, pl.List):
            _refuse(column.is_not_null(), column, f"{name} of {feature!r}", expected)
        flat = _feature(column.explode().alias(feature))
        columns.append(column.cast(pl.List(flat.dtype)))
    return pl.DataFrame(columns).to_struct(name)


def prices(values: pl.Series, name: str) -> pl.Series:
    """Return lists of values or costs of the eligible arms, none of them negative."""
    import polars as pl

    result = lists(values, name, pl.Float64())
    wrong = ~result.list.eval((pl.element() >= 0) & pl.element().is_finite()).list.all()
    _refuse(wrong.fill_null(value=False), result, name, "must be a list of numbers from 0 on, one per eligible arm")
    return result


def latest_prices(log: Log, arms: Sequence[Any]) -> list[dict[Any, float] | None]:
    """Return the last values and costs that a log has, by arm; None for both unless every arm has some."""
    import polars as pl

    there = [name for name in PRICES if name in log.frame.columns]
    if not there:
        return [None, None]
    rows = log.frame.filter(pl.col(name).is_not_null() for name in there)
    if not rows["time"].null_count():
        rows = rows.sort("time", maintain_order=True)
    found: list[dict[Any, float] | None] = []
    for name in PRICES:
        known = {}
        if name in there:
            pairs = rows.select("eligible", name).explode("eligible", name).drop_nulls()
            known = dict(pairs.unique("eligible", keep="last", maintain_order=True).iter_rows())
        found.append({arm: known[arm] for arm in arms} if set(arms) <= set(known) else None)
    return found if None not in found else [None, None]


def empty(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return as many nulls of a type, under the same name."""
    import polars as pl

    return pl.repeat(None, values.len(), dtype=dtype, eager=True).alias(values.name)


def _from_objects(values: pl.Series, name: str) -> pl.Series:
    """Return Python mappings as a struct, or say which row cannot be part of one."""
    import polars as pl

    kinds: dict[Any, tuple[str, int]] = {}
    for row, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, dict):
            raise BadRow(f"{name} must be a struct of features by name, but {shown(value)} came", row)
        for key, entry in value.items():
            if not isinstance(key, str):
                raise BadRow(f"{name} must name its features by text, but {shown(key)} came", row)
            kind = kind_of(entry)
            if kind is None:
                continue
            first, where = kinds.setdefault(key, (kind, row))
            if kind != first:
                raise BadRow(f"feature {key!r} is {kind} here, but {first} in row {where}; make it one kind", row)
    if kinds:
        # Mappings of one kind per feature, which Polars holds as objects for another reason, such as huge numbers.
        key, (kind, row) = next(iter(kinds.items()))
        raise BadRow(f"feature {key!r} is {kind} that no column holds", row)
    return empty(values, pl.Null())


def kind_of(value: Any) -> str | None:
    """Return what a value of a feature is, in words; None for a gap."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else f"of type {type(value).__name__}"


def _refuse(wrong: pl.Series, values: pl.Series, name: str, expected: str) -> None:
    """Raise for the first wrong row, if there is one."""
    if wrong.any():
        row = first_row(wrong)
        entry = values[row]
        raise BadRow(
            f"{name} {expected}, but {shown(entry.to_list() if hasattr(entry, 'to_list') else entry)} came", row
        )


def _refuse_type(values: pl.Series, name: str, expected: str, *types: type) -> None:
    """Raise for the first value of a column whose type is wrong as a whole; nulls are of every type."""
    import polars as pl

    if values.dtype == pl.Object():
        # A mixed column: the first value that is wrong in itself, else the first that is not like those before it.
        entries = [(row, value) for row, value in enumerate(values) if value is not None]
        wrong = [row for row, value in entries if type(value) not in types]
        wrong += [row for row, value in entries if type(value) is not type(entries[0][1])]
        if wrong:
            raise BadRow(f"{name} {expected}, but {shown(values[wrong[0]])} came", wrong[0])
    _refuse(values.is_not_null(), values, name, expected)
