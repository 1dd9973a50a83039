"""Tables as they come (Polars, pandas, Arrow, columns, rows, files) as Polars data frames.

Nothing is guessed: text stays text, a whole number stays one, and a column of mixed values is kept as it is, with the
type ``polars.Object``. What pandas and Python call missing (None, NA, NaT, and NaN among things that are not floats)
becomes null. NaN in a column of floats stays NaN: Polars tells the two apart, and to change it would copy the column.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue, MissingData, ShapeError

if TYPE_CHECKING:
    import polars as pl

DEEPEST = 16  # mappings and lists inside each other; deeper ones are kept as objects
LAST = 1 << 16  # bytes that hold the last line of a file
EXACT = 2**53  # whole numbers up to this size are floats without loss
SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")  # text also gzipped: .csv.gz
EXPECTED = (
    "a Polars or pandas data frame, an Arrow table, a mapping of columns, a list of mappings, or the path of a "
    f"{', '.join(SUFFIXES)} or .gz file"
)


def as_frame(table: Any, *, name: str = "table") -> pl.DataFrame:
    """Return a table as a Polars data frame, without a copy where Polars can.

    Parameters
    ----------
    table : Polars, pandas or Arrow table, mapping of columns, list of mappings, or path
        Anything with ``__arrow_c_stream__`` is an Arrow table. The index of a pandas table is ignored; its categoricals
        become what their categories are. Keys that a mapping in a list lacks are null. A path ends in .parquet, .csv,
        .tsv, .jsonl or .ndjson; text may be gzipped, as in .csv.gz.
    name : str
        What errors call it.

    Returns
    -------
    polars.DataFrame
        It may share memory with ``table``, so do not write to that while it is in use.

    Examples
    --------
    >>> as_frame([{"task": "a", "reward": 1.0}, {"task": "b"}]).rows()
    [('a', 1.0), ('b', None)]
    """
    import polars as pl

    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        try:
            return table.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InvalidValue(f"{name} is a lazy frame that cannot be collected: {error}") from None
    if isinstance(table, str | Path):
        return _from_file(Path(table), name)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        columns = enumerate(table.columns)
        return _assemble([(label, table.iloc[:, position]) for position, label in columns], name)
    if isinstance(table, Mapping):
        return _assemble(table.items(), name)
    if isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
        return _from_rows(table, name)
    column = isinstance(table, pl.Series) or (pandas is not None and isinstance(table, pandas.Series))
    if hasattr(table, "__arrow_c_stream__") and not column:
        try:
            return pl.DataFrame(table)
        except (pl.exceptions.PolarsError, ImportError, TypeError, ValueError) as error:
            raise InvalidValue(f"{name} offers Arrow data that is no table: {error}") from None
    raise InvalidValue(f"expected {name} to be {EXPECTED}, got {type(table).__name__}")


def in_library_of(frame: pl.DataFrame, came: Any) -> Any:
    """Return a table in the library of another one: pandas for pandas, Arrow for Arrow, else as it is.

    Parameters
    ----------
    frame : polars.DataFrame
        Of numbers and text.
    came : any
        What the caller passed: a table, or a column of one.

    Examples
    --------
    >>> import pandas as pd
    >>> in_library_of(as_frame({"a": [1, 2]}), pd.DataFrame({"b": [3.5]}))
       a
    0  1
    1  2
    """
    return in_library(frame, library_of(came))


def library_of(table: Any) -> str:
    """Return "pandas" or "pyarrow" if a table, or a column, is of that library, else "polars"."""
    kind = type(table).__module__.split(".")[0]
    return kind if kind in ("pandas", "pyarrow") else "polars"


def in_library(frame: pl.DataFrame, library: str) -> Any:
    """Return a Polars table of numbers and text as one of the library that :func:`library_of` names."""
    if library == "pandas":
        pandas = sys.modules["pandas"]
        # Column by column, since Polars' own conversion needs pyarrow.
        return pandas.DataFrame({name: frame[name].to_list() for name in frame.columns})
    return frame.to_arrow() if library == "pyarrow" else frame


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, pandas' NA and NaT, NumPy's NaT and masked entries."""
    kind = type(value)
    if kind is str or kind is int:
        return False
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    # pandas need not be installed, so its values are known by name.
    return value is np.ma.masked or (kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas."))


def _assemble(columns: Iterable[tuple[Any, Any]], name: str) -> pl.DataFrame:
    import polars as pl

    result: dict[str, pl.Series] = {}
    for label, values in columns:
        if not isinstance(label, str):
            raise InvalidValue(f"expected the columns of {name} to be named by strings, got {label!r}; rename it")
        if label in result:
            raise InvalidValue(f'{name} has two columns "{label}"; rename or drop one')
        result[label] = _column(values, f'column "{label}" of {name}').alias(label)
    lengths = {label: len(values) for label, values in result.items()}
    if len(set(lengths.values())) > 1:
        first, *others = lengths
        other = next(label for label in others if lengths[label] != lengths[first])
        raise ShapeError(
            f'the columns of {name} must be of one length, but "{first}" has {lengths[first]} rows and "{other}" has '
            f"{lengths[other]}"
        )
    return pl.DataFrame(result)


def _from_rows(rows: Sequence[Mapping[Any, Any]], name: str) -> pl.DataFrame:
    labels = dict.fromkeys(label for row in rows for label in row)
    return _assemble([(label, [row.get(label) for row in rows]) for label in labels], name)


def suffix_of(path: Path) -> str:
    """Return what the name of a table's file ends in, without .gz.

    Examples
    --------
    >>> suffix_of(Path("shop.CSV.gz"))
    '.csv'
    """
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()


def _from_file(path: Path, name: str) -> pl.DataFrame:
    import polars as pl

    suffix, zipped = suffix_of(path), path.suffix.lower() == ".gz"
    if suffix not in SUFFIXES or (zipped and suffix == ".parquet"):
        raise InvalidValue(f"expected {name} to be {EXPECTED}, got the path {path}")
    if not path.is_file():
        raise MissingData(f"{name} {path} is not there; give the path of a file")
    where = f"{name} {path}"
    try:
        if suffix == ".parquet":
            return pl.read_parquet(path, glob=False, hive_partitioning=False)  # a folder may be called report[1]
        if suffix in (".csv", ".tsv"):
            source = gzip.decompress(path.read_bytes()) if zipped else path
            return _from_csv(source, "," if suffix == ".csv" else "\t", where)
        # Polars would turn 1 into "1" where another line has text.
        return _from_rows(_json_lines(gzip.decompress(path.read_bytes()) if zipped else path.read_bytes(), where), name)
    except pl.exceptions.NoDataError:
        raise InvalidValue(
            f"{where} cannot be read: it is empty; expected a line with the names of columns, and rows"
        ) from None
    except (EOFError, zlib.error):
        raise InvalidValue(f"{where} cannot be read: it is cut off; copy it again") from None
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
        raise InvalidValue(f"{where} cannot be read: {error}") from None
    except BaseException as error:
        # Polars panics on some damaged files, and a panic is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise InvalidValue(f"{where} cannot be read: it is damaged") from None


def _from_csv(source: Path | bytes, separator: str, where: str) -> pl.DataFrame:
    import polars as pl

    # Types from all rows: a column that turns from whole numbers to text far down is text.
    frame = pl.read_csv(source, separator=separator, infer_schema_length=None, glob=False)
    other = next((mark for mark in ";\t,|" if frame.width == 1 and mark in frame.columns[0]), None)
    if other is not None:
        raise InvalidValue(f"expected {separator!r} between the columns of {where}, got {other!r}; write it with that")
    for label in frame.columns:
        if f"{label}_duplicated_0" in frame.columns:
            raise InvalidValue(f'{where} has two columns "{label}"; rename one')
    if frame.height and frame[-1, -1] is None:  # Polars fills up a line that is too short
        last = _end_of(source).rstrip(b"\r\n").rpartition(b"\n")[2].decode("utf-8", "replace")
        fields = len(next(csv.reader(io.StringIO(last), delimiter=separator)))
        if fields < frame.width and '"' not in last:
            raise InvalidValue(
                f"{where} is cut off: expected {frame.width} fields in the last line, got {fields}; copy it again, or "
                "remove that line"
            )
    return _with_codes_as_text(frame, source, separator)


def _with_codes_as_text(frame: pl.DataFrame, source: Path | bytes, separator: str) -> pl.DataFrame:
    """Return the frame with its columns of zero-padded codes, such as 00123, as they are written."""
    import polars as pl

    whole = [label for label, kind in frame.schema.items() if kind.is_integer()]
    if not whole:
        return frame
    text = pl.read_csv(source, separator=separator, columns=whole, infer_schema=False, glob=False)
    padded = [label for label in whole if text[label].str.contains(r"^\s*[-+]?0\d").any()]
    return frame.with_columns(text.select(padded))


def _end_of(source: Path | bytes) -> bytes:
    """Return the last bytes of a file, enough for its last line."""
    if isinstance(source, bytes):
        return source[-LAST:]
    with source.open("rb") as stream:
        stream.seek(max(source.stat().st_size - LAST, 0))
        return stream.read()


def _json_lines(data: bytes, where: str) -> list[dict[str, Any]]:
    rows = []
    lines = data.decode("utf-8-sig").rstrip().split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            cut = " (the last: is the file cut off?)" if 1 < number == len(lines) else ""
            raise InvalidValue(f"line {number} of {where}{cut} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise InvalidValue(f"expected line {number} of {where} to be an object, got {line.strip()[:60]}")
        rows.append(row)
    return rows


def _column(values: Any, name: str) -> pl.Series:
    """Return one column from whatever holds its values."""
    import polars as pl

    pandas = sys.modules.get("pandas")
    if isinstance(values, pl.Series):
        return values
    if pandas is not None and isinstance(values, pandas.Series | pandas.Index):
        return _from_pandas(values.to_series() if isinstance(values, pandas.Index) else values, pandas)
    if isinstance(values, np.ndarray):
        return _from_numpy(values, name)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        try:
            return pl.Series(values)
        except (pl.exceptions.PolarsError, ImportError, TypeError, ValueError) as error:
            raise InvalidValue(f"{name} offers Arrow data that is no column: {error}") from None
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray):
        try:
            return _from_values(list(values))
        except UnicodeError as error:
            raise InvalidValue(f"{name} has text that is not valid Unicode: {error}") from None
    if hasattr(values, "__array__"):
        return _from_numpy(np.asarray(values), name)
    raise InvalidValue(f"expected {name} to be a list or array with one value per row, got {type(values).__name__}")


def _from_pandas(values: Any, pandas: Any) -> pl.Series:
    import polars as pl

    dtype = values.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        codes = pl.Series(values.cat.codes.to_numpy(), dtype=pl.Int64)
        return _from_pandas(values.cat.categories.to_series(), pandas).gather(codes.set(codes < 0, None))
    if isinstance(dtype, pandas.DatetimeTZDtype):
        naive = values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return pl.Series(naive).dt.replace_time_zone("UTC")
    if isinstance(dtype, np.dtype):
        return _from_numpy(values.to_numpy(), "")
    if hasattr(dtype, "pyarrow_dtype"):
        return pl.Series(values.array.__arrow_array__())
    kind = getattr(dtype, "numpy_dtype", None)  # of pandas' nullable numbers
    if kind is None or kind.kind not in "biuf":
        return _from_values(values.to_numpy(dtype=object, na_value=None).tolist())
    gaps = values.isna().to_numpy()
    return _without(pl.Series(values.to_numpy(dtype=kind, na_value=0)), gaps)


def _from_numpy(values: np.ndarray[Any, Any], name: str) -> pl.Series:
    import polars as pl

    if values.ndim != 1:
        raise ShapeError(f"expected {name} to have one axis, got shape {values.shape}")
    if isinstance(values, np.ma.MaskedArray):
        return _without(_from_numpy(values.data, name), np.ma.getmaskarray(values))
    kind = values.dtype.kind
    if kind in "biu":
        return pl.Series(values)
    if kind == "f":
        return pl.Series(values if values.dtype.itemsize in (4, 8) else values.astype(np.float64))
    if kind in "mM":
        unit = np.datetime_data(values.dtype)[0]
        if unit not in ("ns", "us", "ms"):
            values = values.astype(f"{kind}8[ms]")
        return pl.Series(values)
    return _from_values(values.tolist())


def _without(series: pl.Series, gaps: np.ndarray[Any, Any]) -> pl.Series:
    """Return the series with nulls where ``gaps`` is true."""
    import polars as pl

    return series.set(pl.Series(gaps), None) if gaps.any() else series


def _from_values(values: list[Any], depth: int = 0) -> pl.Series:
    """Return Python values as the one type that they all have, or as objects.

    Polars decides by the first value and would read True as 1, 2.5 as 2 in a list after whole numbers, and drop the
    keys that the first mapping lacks; so the types are looked at here.
    """
    import polars as pl

    plain: dict[type, pl.DataType] = {
        str: pl.String(),
        bool: pl.Boolean(),
        float: pl.Float64(),
        bytes: pl.Binary(),
        datetime.date: pl.Date(),
        datetime.time: pl.Time(),
        datetime.timedelta: pl.Duration("us"),
    }
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1 or not kinds <= {*plain, int, dict, list, datetime.datetime}:
        values = [None if is_missing(value) else _bare(value) for value in values]
        kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pl.Series(values, dtype=pl.Null())
    present = [value for value in values if value is not None]
    if kinds == {int}:
        least, most = min(present), max(present)
        if least >= -(2**63) and most < 2**63:
            return pl.Series(values, dtype=pl.Int64())
        if least >= 0 and most < 2**64:
            return pl.Series(values, dtype=pl.UInt64())
    elif kinds == {int, float}:
        if all(abs(value) <= EXACT for value in present if type(value) is int):
            return pl.Series([None if value is None else float(value) for value in values], dtype=pl.Float64())
    elif kinds == {datetime.datetime}:
        zones = {value.tzinfo is None for value in present}
        if zones == {True}:
            return pl.Series(values, dtype=pl.Datetime("us"))
        if zones == {False}:
            instants = [None if value is None else value.astimezone(datetime.UTC) for value in values]
            return pl.Series(instants, dtype=pl.Datetime("us", "UTC"))
    elif kinds == {dict} and depth < DEEPEST:
        return _structs(values, depth)
    elif kinds == {list} and depth < DEEPEST:
        inner = _from_values([value for some in present for value in some], depth + 1)
        if inner.dtype != pl.Object() and not inner.dtype.is_nested():
            cells = iter(inner.to_list())
            lists = [None if value is None else list(islice(cells, len(value))) for value in values]
            return pl.Series(lists, dtype=pl.List(inner.dtype))
    elif len(kinds) == 1 and (dtype := plain.get(next(iter(kinds)))) is not None:
        return pl.Series(values, dtype=dtype)
    return pl.Series(values, dtype=pl.Object())


def _structs(values: list[Any], depth: int) -> pl.Series:
    import polars as pl

    labels = dict.fromkeys(label for value in values if value is not None for label in value)
    if not labels or not all(isinstance(label, str) for label in labels):
        return pl.Series(values, dtype=pl.Object())
    fields = [
        _from_values([None if value is None else value.get(label) for value in values], depth + 1).alias(label)
        for label in labels
    ]
    if any(field.dtype == pl.Object() for field in fields):
        return pl.Series(values, dtype=pl.Object())  # a struct cannot hold objects
    return _without(pl.DataFrame(fields).to_struct(), np.array([value is None for value in values]))


def _bare(value: Any) -> Any:
    """Return a NumPy scalar, a tuple or a kind of string as the plain Python value."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return str.__str__(value)
    return list(value) if type(value) is tuple else value
