"""Result files: one Parquet table with a header that says how its numbers came about."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.errors import ResultFileError, SettingsDiffer
from posse.types import Settings

if TYPE_CHECKING:
    import polars as pl


def write_result(path: str | Path, table: pl.DataFrame, header: Mapping[str, Any]) -> None:
    """Write table and header to one Parquet file; a file of that name is replaced at once or not at all."""
    target = Path(path)
    require_folder(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        table.write_parquet(partial, metadata={"posse": json.dumps(header)})
        partial.replace(target)
    except OSError as error:
        raise ResultFileError(f"cannot write {target}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def read_result(
    path: str | Path, *, kind: str, keys: Collection[str], columns: Collection[str]
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return table and header of a file of the given kind, which must have these header keys and columns."""
    import polars as pl

    source = Path(path)
    if not source.is_file():
        raise ResultFileError(f"no result file {source}; write one with simulate(..., out=...) or --out")
    try:
        header = json.loads(pl.read_parquet_metadata(source).get("posse", "null"))
        table = pl.read_parquet(source, glob=False)  # a folder may be called report[1]
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise ResultFileError(f"cannot read {source} as a Parquet file: {_first_line(error)}") from error
    except BaseException as error:
        # Polars panics on some damaged files, and a panic is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise ResultFileError(f"cannot read {source} as a Parquet file: it is damaged") from None
    if not isinstance(header, dict) or header.get("posse") != kind:
        came = header.get("posse") if isinstance(header, dict) else "no posse header"
        raise ResultFileError(f"{source} is not a result of posse: expected format {kind!r}, got {came!r}")
    lacking = set(keys) - set(header)
    if lacking:
        raise ResultFileError(f"{source} is damaged: its header lacks {', '.join(sorted(lacking))}")
    missing = set(columns) - set(table.columns)
    if missing:
        raise ResultFileError(f"{source} is damaged: columns {', '.join(sorted(missing))} are missing")
    return table, header


def require_folder(path: str | Path) -> None:
    """Raise unless the folder of a file to be written exists."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise ResultFileError(f"cannot write {path}: the folder {folder} does not exist; make it first")


def require_same_run(
    path: str | Path, *, version: tuple[str, str], settings: tuple[Settings, Settings], what: str = "settings"
) -> None:
    """Raise unless a file, described by the first of each pair, can be continued by what the second describes."""
    if version[0] != version[1]:
        raise SettingsDiffer(
            f"{path} was written by posse {version[0]}, this is {version[1]}; choose another file or delete it"
        )
    # Through JSON, so that tuples and lists compare as they do on disk.
    old, new = settings[0], json.loads(json.dumps(settings[1]))
    if old != new:
        words = "; ".join(_differences(old, new)[:3])
        raise SettingsDiffer(
            f"{path} holds a run {'with' if what == 'settings' else 'of'} other {what} ({words}); choose another file "
            "or delete this one"
        )


def _differences(old: Any, new: Any, where: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in [*old, *(key for key in new if key not in old)]:
            found += _differences(old.get(key), new.get(key), f"{where}.{key}" if where else str(key))
        return found
    return [] if old == new else [f"{where}: {_short(old)} there, {_short(new)} now"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
