"""Measurements that are no simulation of policies: rows per seed, in a file that continues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from posse._version import __version__
from posse.checks import whole_number
from posse.simulation.files import read_result, require_folder, require_same_run, write_result
from posse.simulation.run import over_seeds, seed_list
from posse.types import Settings

if TYPE_CHECKING:
    import polars as pl

FORMAT = "posse.measurement/1"


@dataclass(frozen=True, slots=True, eq=False)
class SeedTable:
    """Rows of every seed.

    Parameters
    ----------
    table : polars.DataFrame
        Ordered by ``seed``; the other columns are those of the measurement.
    settings : dict
        All that decides the numbers, as plain values.
    version : str
        The version of posse that measured.
    """

    table: pl.DataFrame
    settings: Settings
    version: str
    complete: ClassVar[bool] = True  # as results of simulations say; this file is written at the end

    @property
    def seeds(self) -> list[int]:
        """The seeds that were measured."""
        return [int(seed) for seed in self.table["seed"].unique().sort()]

    def save(self, path: str | Path) -> None:
        """Write one Parquet file."""
        write_result(path, self.table, {"posse": FORMAT, "version": self.version, "settings": self.settings})

    @classmethod
    def load(cls, path: str | Path) -> SeedTable:
        """Read a file that :meth:`save` wrote."""
        table, header = read_result(path, kind=FORMAT, keys=("settings", "version"), columns=("seed",))
        return cls(table, header["settings"], header["version"])


def measure_seeds(
    measure: Callable[[int], list[dict[str, Any]]],
    settings: Settings,
    *,
    file: Path,
    seeds: int | Sequence[int],
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> SeedTable:
    """Measure every seed that the file lacks, and save them all.

    Parameters
    ----------
    measure : callable
        From a seed to its rows: mappings from column to value, without the seed.
    settings : dict
        What decides the rows; a file with other settings is not continued.
    file : path
    seeds : int or sequence of int
    workers : int
    progress : callable, optional
        Told how many seeds are newly done.
    """
    import polars as pl

    workers = whole_number(workers, "workers", at_least=1)
    require_folder(file)
    wanted = seed_list(seeds)
    rows: list[dict[str, Any]] = []
    if file.exists():
        earlier = SeedTable.load(file)
        require_same_run(file, version=(earlier.version, __version__), settings=(earlier.settings, settings))
        rows = earlier.table.to_dicts()
    finished = {row["seed"] for row in rows}
    missing = [seed for seed in wanted if seed not in finished]
    advance = progress or (lambda _seeds: None)
    advance(len(wanted) - len(missing))
    for seed, new in over_seeds(_Labelled(measure), missing, workers):
        rows += [{"seed": seed, **row} for row in new]
        advance(1)
    rows.sort(key=lambda row: int(row["seed"]))
    result = SeedTable(pl.DataFrame(rows, infer_schema_length=None), settings, __version__)
    if missing:
        result.save(file)
    return result


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A measurement that also says which seed it was; a class, so that any worker process can have it."""

    measure: Callable[[int], list[dict[str, Any]]]

    def __call__(self, seed: int) -> tuple[int, list[dict[str, Any]]]:
        return seed, self.measure(seed)
