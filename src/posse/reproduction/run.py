"""Running experiments: result files in, and in the same folders, what they lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from posse.errors import InvalidValue, MissingData, MissingDependency
from posse.reproduction.experiment import Experiment, Run

RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be run.

    Parameters
    ----------
    runs : list of (experiment, run)
        In the order of the report.
    skipped : dict from the name of an experiment to the reason
    """

    runs: list[tuple[Experiment, Run]]
    skipped: dict[str, str]


def plan(
    experiments: Sequence[Experiment],
    *,
    data: Path | None = None,
    quick: bool = False,
    overrides: Mapping[str, str] | None = None,
    begin: Callable[[str], None] | None = None,
) -> Plan:
    """Return the runs of the experiments; those whose data are missing are skipped, unless only one was asked for.

    Parameters
    ----------
    experiments : sequence of Experiment
    data : path, optional
        The data folder. Default: the one that the environment variable ``POSSE_DATA`` names.
    quick : bool
    overrides : mapping, optional
        Settings as text; each goes to the experiments that have it.
    begin : callable, optional
        Told the name of an experiment before its worlds are built, which takes seconds where they come from data.
    """
    given = dict(overrides or {})
    known = frozenset().union(*(experiment.setting_names for experiment in experiments))
    for name in given:
        if name not in known:
            raise InvalidValue(f"no setting {name!r} here; there are {', '.join(sorted(known))}")
    runs: list[tuple[Experiment, Run]] = []
    skipped: dict[str, str] = {}
    for experiment in experiments:
        own = {name: text for name, text in given.items() if name in experiment.setting_names}
        settings = experiment.sized(quick=quick, overrides=own)
        if begin is not None:
            begin(experiment.name)
        try:
            runs += [(experiment, each) for each in experiment.runs(settings, data)]
        except (MissingData, MissingDependency) as missing:
            if len(experiments) == 1:
                raise
            skipped[experiment.name] = str(missing)
    return Plan(runs, skipped)


def result_file(out: Path, experiment: str, key: str) -> Path:
    """Return where a run leaves its result."""
    return out / RESULTS / experiment / f"{key}.parquet"


def execute(
    planned: Plan,
    *,
    out: Path,
    seeds: int,
    workers: int,
    begin: Callable[[str], None],
    advance: Callable[[int], None],
) -> None:
    """Run all that the result files lack.

    Parameters
    ----------
    planned : Plan
    out : path
        Folder of the report.
    seeds : int
    workers : int
    begin : callable
        Told the name of each run before it starts.
    advance : callable
        Told how many seeds are newly done.
    """
    for experiment, run in planned.runs:
        file = result_file(out, experiment.name, run.key)
        file.parent.mkdir(parents=True, exist_ok=True)
        begin(experiment.name if run.key == experiment.name else f"{experiment.name} {run.key}")
        run.run(file, seeds, workers, advance)
