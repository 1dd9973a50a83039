"""Tables of any size, a batch of rows at a time: Parquet and CSV files, folders and glob patterns, and iterators.

Memory depends on the size of a batch, not on the number of rows. Rows come in the order of the files, sorted by name;
whatever adds them up in that order gets the same sums to the last bit, however they are cut into batches.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from posse.errors import InvalidValue, MissingData

if TYPE_CHECKING:
    import polars as pl

ROWS = 1 << 20
"""Rows of a batch: about 100 MB with ten features."""

SUFFIXES = (".parquet", ".csv")


class Piece(NamedTuple):
    """Neighbouring rows of some Parquet files."""

    paths: list[Path]
    first: int
    rows: int


class TableFiles:
    """One table in files of one kind and with the same columns.

    Parameters
    ----------
    path : path
        A .parquet or .csv file, a folder with such files (also in its folders), or a glob pattern.

    Raises
    ------
    MissingData
        If there is no such file.
    InvalidValue
        If files are of both kinds, or cannot be read as tables.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.paths = _listed(self.path)
        kinds = {file.suffix.lower() for file in self.paths}
        if len(kinds) > 1:
            raise InvalidValue(f"expected files of one kind, got .csv and .parquet files in {path}; name one of them")
        self.is_parquet = kinds == {".parquet"}

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of the first file."""
        return dict(self._safely(lambda: self._scan(self.paths[:1]).collect_schema()))

    @cached_property
    def rows_of_files(self) -> list[int]:
        """Rows of every Parquet file, as its footer says."""
        import polars as pl

        return [
            int(self._safely(lambda path=path: self._scan([path]).select(pl.len()).collect().item()))
            for path in self.paths
        ]

    @property
    def n_rows(self) -> int | None:
        """Rows of all files; None for CSV, which would have to be read to know."""
        return sum(self.rows_of_files) if self.is_parquet else None

    @property
    def signature(self) -> list[list[Any]]:
        """Names, sizes and times of the files, by which they are recognised."""
        states = [(path, path.stat()) for path in self.paths]
        return [[str(path), state.st_size, state.st_mtime_ns] for path, state in states]

    def scan(self) -> pl.LazyFrame:
        """Return all rows as a lazy frame."""
        return self._scan(self.paths)

    def collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Return what was asked of the rows; an error says which files it is about."""
        found: pl.DataFrame = self._safely(lambda: rows.collect(engine="streaming"))
        return found

    def first_rows(self, n_rows: int) -> pl.DataFrame:
        """Return the first rows."""
        return self.collect(self.scan().head(n_rows))

    def batches(self, columns: Sequence[str], first: int = 0) -> Iterator[pl.DataFrame]:
        """Yield these columns from row ``first`` on, in order; the next batch is read while one is worked on."""
        with ThreadPoolExecutor(1, "posse-read") as reader:
            frames = self._frames(list(columns), first)
            coming = reader.submit(next, frames, None)
            while (frame := self._safely(coming.result)) is not None:
                coming = reader.submit(next, frames, None)
                yield frame

    def _frames(self, columns: list[str], first: int) -> Iterator[pl.DataFrame]:
        if not self.is_parquet:
            rows = self._scan(self.paths).select(columns).slice(first)
            yield from rows.collect_batches(chunk_size=ROWS, maintain_order=True)
            return
        for piece in self.pieces(first):
            yield read_piece(piece, columns)

    def pieces(self, first: int = 0, rows: int | None = None) -> Iterator[Piece]:
        """Yield pieces of at most so many rows of Parquet files, from row ``first`` on; default: those of a batch."""
        return _pieces(self.paths, self.rows_of_files, first, ROWS if rows is None else rows)

    def _scan(self, paths: list[Path]) -> pl.LazyFrame:
        import polars as pl

        if self.is_parquet:
            return pl.scan_parquet(paths, glob=False)
        # Types from all rows: a column that turns from whole numbers to text far down is text.
        return pl.scan_csv(paths, infer_schema_length=None, glob=False)

    def _safely(self, read: Any) -> Any:
        import polars as pl

        try:
            return read()
        except (pl.exceptions.PolarsError, OSError, UnicodeError) as error:
            raise InvalidValue(f"table {self.path} cannot be read: {error}") from None


def read_piece(piece: Piece, columns: Sequence[str]) -> pl.DataFrame:
    """Return some columns of a piece of Parquet files."""
    import polars as pl

    rows = pl.scan_parquet(piece.paths, glob=False).select(list(columns))
    return rows.slice(piece.first, piece.rows).collect()


def is_many(table: Any) -> bool:
    """Whether a table is to be read in batches: a folder, a pattern, a large Parquet file, an iterator of tables."""
    if isinstance(table, Iterator):
        return True
    if not isinstance(table, str | Path):
        return False
    path = Path(table)
    if path.is_dir() or (not path.exists() and glob.has_magic(str(table))):
        return True
    return path.suffix.lower() == ".parquet" and path.is_file() and (TableFiles(path).n_rows or 0) > ROWS


def _listed(path: Path) -> list[Path]:
    """Return the files that a path stands for, sorted by name."""
    if path.is_dir():
        found = [file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file()]
    elif path.is_file():
        found = [path]
    else:
        found = [Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file()]
    others = [file for file in found if file.suffix.lower() not in SUFFIXES]
    if others:
        raise InvalidValue(f"expected .parquet or .csv files, got {others[0]}; name only such files")
    if not found:
        raise MissingData(
            f"expected .parquet or .csv files at {path}, got none; give the path of a file, a folder or a glob pattern"
        )
    return sorted(found)


def _pieces(paths: list[Path], rows_of_files: list[int], first: int, most: int) -> Iterator[Piece]:
    """Yield what makes a batch each: part of a large file, or several small ones, from row ``first`` on."""
    group: list[Path] = []
    rows = 0
    for path, count in zip(paths, rows_of_files, strict=True):
        skipped = min(first, count)
        first, left = first - skipped, count - skipped
        if not skipped and rows + left <= most:
            group.append(path)
            rows += left
            continue
        if rows:
            yield Piece(group, 0, rows)
        group, rows = [], 0
        for start in range(skipped, count, most):
            yield Piece([path], start, min(most, count - start))
    if rows:
        yield Piece(group, 0, rows)
