"""What an experiment is: runs that leave result files, and a section of the report drawn from them."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from posse.environments import SyntheticWorld
from posse.environments.base import World
from posse.errors import InvalidValue
from posse.simulation import SimulationResult, simulate
from posse.simulation.factories import PolicyChoice
from posse.types import Settings
from posse_lab.reproduction.claims import Claim
from posse_lab.reproduction.seed_table import FORMAT, SeedTable, measure_seeds

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Progress = Callable[[int], None]
Results = Mapping[str, Any]
"""The results of an experiment by the key of their run: :class:`SimulationResult` or :class:`SeedTable`."""


class Run(Protocol):
    """One result file of an experiment."""

    @property
    def key(self) -> str:
        """Name of the result file inside the experiment's folder."""

    def check(self) -> None:
        """Raise if it cannot be run."""

    def run(self, file: Path, seeds: int, workers: int, progress: Progress) -> None:
        """Compute what the file lacks."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """A run that simulates policies in a world.

    Parameters
    ----------
    key : str
    world : World
    policies : mapping from name to policy
    horizon : int
    checkpoints : int
        Points of each regret curve that the file keeps.
    appendix : bool
        Whether the regret of the paper's appendix is computed too.
    """

    key: str
    world: World
    policies: Mapping[str, PolicyChoice]
    horizon: int
    checkpoints: int = 100
    appendix: bool = False

    def check(self) -> None:
        """Raise if the world cannot go on for so long."""
        self.world.draw(0, self.horizon)

    def run(self, file: Path, seeds: int, workers: int, progress: Progress) -> None:
        """Simulate the seeds that the file lacks."""
        simulate(
            self.world, self.policies, horizon=self.horizon, seeds=seeds, workers=workers, out=file,
            appendix=self.appendix, checkpoints=self.checkpoints, progress=progress,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """A run that measures something else, seed by seed.

    Parameters
    ----------
    key : str
    measure : callable from seed to rows
    settings : dict
        All that decides the rows, as plain values.
    """

    key: str
    measure: Callable[[int], list[dict[str, Any]]]
    settings: Settings

    def check(self) -> None:
        """Nothing can be wrong before it starts."""

    def run(self, file: Path, seeds: int, workers: int, progress: Progress) -> None:
        """Measure the seeds that the file lacks."""
        measure_seeds(self.measure, self.settings, file=file, seeds=seeds, workers=workers, progress=progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture of the report.

    Parameters
    ----------
    name : str
        File name without its ending.
    draw : callable that writes the figure to the given paths
    caption : str
        What is seen, including what bands and whiskers mean.
    sources : tuple of str
        Keys of the runs it was drawn from.
    """

    name: str
    draw: Callable[[Sequence[Path]], None]
    caption: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Numbers of the report.

    Parameters
    ----------
    title : str
    columns : tuple of str
    rows : tuple of tuples
        Text or numbers.
    sources : tuple of str
        Keys of the runs it was computed from.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the report says about one experiment.

    Parameters
    ----------
    found : tuple of str
        Paragraphs: what came out, with numbers.
    figures, tables, claims : tuples
    """

    found: tuple[str, ...]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment of the paper, or one that it lacks.

    Parameters
    ----------
    name : str
        What ``posse lab reproduce`` calls it.
    title : str
    figure : str
        Where it stands in the paper.
    says : str
        What the paper says about it, in our words.
    choices : tuple of str
        What the paper leaves open, and what was chosen.
    claims : mapping
        What the paper claims, in our words, by the id of the claim.
    settings, quick : dataclass instances
        Full size, and small enough for a test.
    runs : callable from (settings, data folder) to the runs
        Raises :class:`~posse.errors.MissingData` where a data set is missing.
    section : callable from the results, by key, to the section
    """

    name: str
    title: str
    figure: str
    says: str
    choices: tuple[str, ...]
    settings: DataclassInstance
    quick: DataclassInstance
    runs: Callable[[Any, Path | None], list[Run]]
    section: Callable[[Results], Section] = field(repr=False)
    claims: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_paper(cls, name: str, **parts: Any) -> Experiment:
        """Return the experiment that ``experiments.toml`` describes under a name."""
        words = experiment_texts()[name]
        return cls(name=name, **words | {"choices": tuple(words["choices"])}, **parts)

    @property
    def setting_names(self) -> frozenset[str]:
        """What can be set."""
        return frozenset(each.name for each in fields(self.settings))

    def sized(self, *, quick: bool = False, overrides: Mapping[str, str] | None = None) -> DataclassInstance:
        """Return the settings, with some of its own given as text on the command line.

        Examples
        --------
        >>> from posse_lab.reproduction.sparse import EXPERIMENT
        >>> EXPERIMENT.sized(overrides={"horizon": "500"}).horizon
        500
        """
        settings = self.quick if quick else self.settings
        values = {name: _like(getattr(settings, name), text, name) for name, text in (overrides or {}).items()}
        return replace(settings, **values)


@cache
def experiment_texts() -> dict[str, Any]:
    """Return title, place in the paper, what the paper says and claims, and our choices for every experiment."""
    return tomllib.loads((files("posse_lab.reproduction") / "experiments.toml").read_text("utf-8"))


def _like(old: Any, text: str, name: str) -> Any:
    """Return the value that a text stands for, of the type of the value it replaces."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    if isinstance(old, tuple):
        value = tuple(value) if isinstance(value, list) else (value,)
        fitting = bool(value) and all(_fits(old[0], each) for each in value)
    else:
        fitting = _fits(old, value)
    if not fitting:
        example = json.dumps(old)
        raise InvalidValue(f"setting {name!r} must look like {example}, but {text!r} came")
    return value


def _fits(old: Any, new: Any) -> bool:
    if isinstance(old, bool) or isinstance(new, bool):
        return type(old) is type(new)
    return isinstance(new, int | float) if isinstance(old, float) else type(old) is type(new)


def kind_of_result(path: str | Path) -> str:
    """Return the format that a result file says it has; empty if it says none or cannot be read."""
    import polars as pl

    try:
        header = json.loads(pl.read_parquet_metadata(Path(path)).get("posse", "null"))
    except Exception:
        # Whatever is wrong with the file, reading it will say so.
        return ""
    return str(header.get("posse", "")) if isinstance(header, dict) else ""


@dataclass(frozen=True)
class BaseSettings:
    """The paper's base world, its horizon in Figure 1."""

    n_tasks: int = 10
    n_arms: int = 5
    n_features: int = 3
    horizon: int = 2_000


def base_world(settings: Any, **laws: Any) -> SyntheticWorld:
    """Return the synthetic world of an experiment's sizes, with the given laws."""
    sizes = {name: getattr(settings, name) for name in ("n_tasks", "n_arms", "n_features")}
    return SyntheticWorld(**{**sizes, **laws})


def policy_of(policy: Any, world: World, prior: Any) -> Any:
    """Return a policy of the size of a world, with a prior."""
    return policy(n_tasks=world.n_tasks, n_arms=world.n_arms, n_features=world.n_features, prior=prior)


def growing(values: Sequence[int], name: str) -> None:
    """Raise unless steps are positive and grow."""
    if any(later <= earlier for earlier, later in itertools.pairwise((0, *values))):
        raise InvalidValue(f"expected {name} to be positive and to grow, got {list(values)}")


def known(value: T | None) -> T:
    """Return the population or the coefficients of a synthetic world, which are never missing."""
    assert value is not None
    return value


def load_run(file: Path) -> SimulationResult | SeedTable:
    """Return the result that a file holds, whichever kind it is."""
    return SeedTable.load(file) if kind_of_result(file) == FORMAT else SimulationResult.load(file)
