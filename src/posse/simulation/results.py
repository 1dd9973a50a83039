"""Results of a simulation: one table, one Parquet file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number
from posse.errors import InvalidValue, ResultFileError, UnknownPolicy
from posse.showing import Sheet, Table
from posse.simulation.files import read_result, require_same_run, write_result
from posse.types import Array, IntArray, Settings

if TYPE_CHECKING:
    import polars as pl

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Difference and ratio of mean regret, with bootstrap intervals over seeds.

    Parameters
    ----------
    first, second : str
    difference : float
        Mean regret of the first less that of the second.
    difference_interval : tuple of two floats
    ratio : float
        Mean regret of the first over that of the second.
    ratio_interval : tuple of two floats
    wins : float
        Share of seeds in which the first has the lower regret.
    seeds : int
    level : float
        Coverage of the intervals.
    """

    first: str
    second: str
    difference: float
    difference_interval: tuple[float, float]
    ratio: float
    ratio_interval: tuple[float, float]
    wins: float
    seeds: int
    level: float

    def __str__(self) -> str:
        low, high = self.difference_interval
        ratio_low, ratio_high = self.ratio_interval
        return (
            f"{self.first} - {self.second}: {self.difference:+.1f} ({low:+.1f} to {high:+.1f}), "
            f"ratio {self.ratio:.3f} ({ratio_low:.3f} to {ratio_high:.3f}), "
            f"lower in {self.wins:.0%} of {self.seeds} seeds"
        )


@lru_cache(maxsize=4)
def resampled(size: int) -> Array:
    """Return how often each seed occurs in each bootstrap sample, shape (RESAMPLES, size); the same for every pair."""
    rows = np.random.default_rng(0).integers(0, size, (RESAMPLES, size))
    places = np.arange(RESAMPLES)[:, None] * size + rows
    counts = np.bincount(places.reshape(-1), minlength=RESAMPLES * size)
    return counts.reshape(RESAMPLES, size).astype(np.float64)


def compare_paired(first: str, second: str, a: Array, b: Array, *, level: float = 0.95) -> Comparison:
    """Compare paired values; seeds are resampled as pairs.

    Examples
    --------
    >>> compare_paired("a", "b", np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).ratio_interval
    (0.5, 0.5)
    """
    level = number(level, "level", above=0)
    if level >= 1:
        raise InvalidValue(f"expected level to be between 0 and 1, got {level:g}")
    counts = resampled(a.size)
    means_a, means_b = counts @ a / a.size, counts @ b / a.size
    tails = [(1 - level) / 2, (1 + level) / 2]
    difference = np.quantile(means_a - means_b, tails)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = means_a / means_b
        # A resample of seeds without any regret is 0 / 0 and says nothing; infinite ones do count.
        ratios = ratios[~np.isnan(ratios)]
        ratio = np.quantile(ratios, tails, method="inverted_cdf") if ratios.size else np.full(2, np.nan)
        middle = float(np.divide(a.mean(), b.mean()))
    return Comparison(
        first=first,
        second=second,
        difference=float(a.mean() - b.mean()),
        difference_interval=(float(difference[0]), float(difference[1])),
        ratio=middle,
        ratio_interval=(float(ratio[0]), float(ratio[1])),
        wins=float((a < b).mean()),
        seeds=int(a.size),
        level=level,
    )


FORMAT = "posse.simulation/1"


@dataclass(frozen=True, slots=True, eq=False)
class SimulationResult:
    """Regret of every policy in every seed.

    Parameters
    ----------
    table : polars.DataFrame
        A row per policy and seed: ``policy, seed, regret, task_regret, curve, tracked_curve`` and, if they were asked
        for, the same four with ``expected_`` in front by the definition of the paper's appendix.
    settings : dict
        World, horizon, policies and steps: all that decides the numbers, as plain values.
    descriptions : dict
        What each policy says about its settings.
    version : str
        The version of posse that ran.
    complete : bool
        Whether the run got to its end.
    """

    table: pl.DataFrame
    settings: Settings
    descriptions: dict[str, str]
    version: str
    complete: bool

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[dict[str, Any]],
        *,
        settings: Settings,
        descriptions: dict[str, str],
        version: str,
        complete: bool,
        order: Sequence[str],
    ) -> SimulationResult:
        """Return a result with rows in a fixed order, whatever order the seeds finished in."""
        import polars as pl

        rank = {name: position for position, name in enumerate(order)}
        ordered = sorted(rows, key=lambda row: (row["seed"], rank[row["policy"]]))
        columns: dict[str, Any] = {}
        for name in ordered[0] if ordered else ():
            values = [row[name] for row in ordered]
            if isinstance(values[0], np.ndarray | list):
                columns[name] = pl.Series(name, [list(value) for value in values], dtype=pl.List(pl.Float64))
            else:
                columns[name] = values
        return cls(pl.DataFrame(columns), settings, dict(descriptions), version, complete)

    @property
    def policies(self) -> list[str]:
        """Names of the policies, in the order they were given."""
        return list(self.settings["policies"])

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run."""
        return [int(seed) for seed in self.table["seed"].unique().sort()]

    @property
    def steps(self) -> IntArray:
        """The steps at which the curves were kept."""
        return np.asarray(self.settings["steps"], dtype=np.int64)

    @property
    def final_regret(self) -> pl.DataFrame:
        """Cumulative regret at the horizon: columns policy, seed, regret, task_regret (list)."""
        return self.table.select("policy", "seed", "regret", "task_regret")

    @property
    def curves(self) -> pl.DataFrame:
        """Cumulative regret over time: columns policy, seed, step, regret, tracked_regret."""
        import polars as pl

        return (
            self.table.select(
                "policy",
                "seed",
                pl.lit(self.steps.tolist(), dtype=pl.List(pl.Int64)).alias("step"),
                pl.col("curve").alias("regret"),
                pl.col("tracked_curve").alias("tracked_regret"),
            )
            .explode("step", "regret", "tracked_regret")
            .sort("policy", "seed", "step", maintain_order=True)
        )

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        summary = self.summary
        title = f"{self.settings['horizon']:,} steps, {self.table['seed'].n_unique()} seeds"
        title += "" if self.complete else ", not complete"
        columns = ("policy", "regret", "standard_error", "median", "settings")
        return Sheet(title, [Table("regret, best first", columns, summary.select(columns).rows())])

    @property
    def summary(self) -> pl.DataFrame:
        """One row per policy, best first: policy, settings, seeds, regret, standard_error, median, tracked_task."""
        import polars as pl

        tracked = int(self.settings["track_task"])
        columns = [
            pl.len().alias("seeds"),
            pl.col("regret").mean(),
            (pl.col("regret").std() / pl.len().sqrt()).alias("standard_error"),
            pl.col("regret").median().alias("median"),
            pl.col("task_regret").list.get(tracked).mean().alias("tracked_task"),
        ]
        if self.settings["appendix"]:
            columns.append(pl.col("expected_regret").mean())
        table = self.table.group_by("policy", maintain_order=True).agg(columns)
        words = pl.Series("settings", [self.descriptions.get(name, "") for name in table["policy"]], dtype=pl.String)
        return table.insert_column(1, words).sort("regret", maintain_order=True)

    def regret_of(self, policy: str, column: str = "regret") -> Any:
        """Return the values of one policy, ordered by seed.

        Parameters
        ----------
        policy : str
            Its name.
        column : str, default "regret"
            A column of ``table``.

        Returns
        -------
        ndarray of shape (n_seeds,)

        Raises
        ------
        UnknownPolicy
            If this result has no such policy.
        """
        import polars as pl

        self._require(policy)
        return self.table.filter(pl.col("policy") == policy).sort("seed")[column].to_numpy()

    def compare(self, first: str, second: str, *, level: float = 0.95) -> Comparison:
        """Compare two policies seed by seed.

        Parameters
        ----------
        first, second : str
            Names of policies.
        level : float, default 0.95
            Coverage of the bootstrap intervals.

        Returns
        -------
        Comparison
            Difference (first minus second) and ratio (first over second) of mean regret, with intervals.

        Raises
        ------
        UnknownPolicy
            If this result has no such policy.
        """
        return compare_paired(first, second, self.regret_of(first), self.regret_of(second), level=level)

    def only_seeds(self, seeds: Sequence[int]) -> SimulationResult:
        """Return the part of this result with these seeds.

        Parameters
        ----------
        seeds : sequence of int
            Those that were not run are left out.

        Returns
        -------
        SimulationResult
        """
        import polars as pl

        table = self.table.filter(pl.col("seed").is_in(list(seeds)))
        return SimulationResult(table, self.settings, self.descriptions, self.version, self.complete)

    def only_policies(self, policies: Sequence[str]) -> SimulationResult:
        """Return the part of this result with these policies.

        Parameters
        ----------
        policies : sequence of str

        Returns
        -------
        SimulationResult

        Raises
        ------
        UnknownPolicy
            If this result has no such policy.
        """
        import polars as pl

        for name in policies:
            self._require(name)
        settings = {**self.settings, "policies": {name: self.settings["policies"][name] for name in policies}}
        table = self.table.filter(pl.col("policy").is_in(list(policies)))
        words = {name: self.descriptions.get(name, "") for name in policies}
        return SimulationResult(table, settings, words, self.version, self.complete)

    def rename(self, names: Mapping[str, str]) -> SimulationResult:
        """Return the same result with policies called by other names.

        Parameters
        ----------
        names : mapping
            New names by old ones; others stay.

        Returns
        -------
        SimulationResult

        Raises
        ------
        UnknownPolicy
            If this result has no such policy.
        """
        import polars as pl

        for name in names:
            self._require(name)
        settings = {
            **self.settings,
            "policies": {names.get(name, name): value for name, value in self.settings["policies"].items()},
        }
        table = self.table.with_columns(pl.col("policy").replace(dict(names)))
        words = {names.get(name, name): value for name, value in self.descriptions.items()}
        return SimulationResult(table, settings, words, self.version, self.complete)

    def save(self, path: str | Path) -> None:
        """Write one Parquet file; a file of that name is replaced at once or not at all.

        Parameters
        ----------
        path : path

        Raises
        ------
        ResultFileError
            If it cannot be written.
        """
        header = {
            "posse": FORMAT,
            "version": self.version,
            "complete": self.complete,
            "settings": self.settings,
            "descriptions": self.descriptions,
            "seeds": self.seeds,
        }
        write_result(path, self.table, header)

    def _require(self, policy: str) -> None:
        if policy not in self.policies:
            raise UnknownPolicy(f"no policy {policy!r} in this result; it has {', '.join(map(repr, self.policies))}")

    @classmethod
    def load(cls, path: str | Path) -> SimulationResult:
        """Read a file that :meth:`save` or ``simulate(..., out=path)`` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        SimulationResult

        Raises
        ------
        ResultFileError
            If there is no such file, or it is not a result.
        """
        table, header = read_result(
            path,
            kind=FORMAT,
            keys=("settings", "descriptions", "version", "complete"),
            columns=("policy", "seed", "regret", "task_regret", "curve", "tracked_curve"),
        )
        return cls(table, header["settings"], header["descriptions"], header["version"], bool(header["complete"]))


def continue_from(
    path: str | Path, settings: Settings, descriptions: Mapping[str, str], version: str
) -> tuple[list[dict[str, Any]], bool]:
    """Return the finished rows of an earlier run with the same settings and version, and whether it got to its end.

    Without a file there are none.
    """
    if not Path(path).exists():
        return [], False
    earlier = SimulationResult.load(path)
    versions = (earlier.version, version)
    require_same_run(path, version=versions, settings=(earlier.settings, settings))
    # The same call, but a default may have changed since.
    described = (earlier.descriptions, dict(descriptions))
    require_same_run(path, version=versions, settings=described, what="policies")
    counts = earlier.table.group_by("seed").len()
    if (counts["len"] != len(settings["policies"])).any():
        raise ResultFileError(f"{path} is damaged: a seed lacks a policy; delete the file and start again")
    return earlier.table.to_dicts(), earlier.complete
