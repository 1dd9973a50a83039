"""Running experiments: result files in, and in the same folders, what they lack."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from posse.errors import InvalidValue, MissingData, MissingDependency, ResultFileError
from posse.reproduction.experiment import Experiment, Run

RESULTS = "results"
MANIFEST = "runs.json"


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


def write_manifest(out: Path, experiment: str, keys: Sequence[str]) -> None:
    """Say which runs an experiment consists of, so that one that is missing is noticed."""
    folder = out / RESULTS / experiment
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).write_text(json.dumps({"runs": list(keys)}) + "\n", encoding="utf-8")


def read_manifest(out: Path, experiment: str) -> list[str]:
    """Return the keys of the runs that an experiment consists of; none if it was never begun."""
    file = out / RESULTS / experiment / MANIFEST
    if not file.is_file():
        return []
    try:
        return [str(key) for key in json.loads(file.read_text(encoding="utf-8"))["runs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultFileError(f"{file} is damaged ({error}); run posse reproduce {experiment} again") from None


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
    for name in dict.fromkeys(experiment.name for experiment, _ in planned.runs):
        write_manifest(out, name, [run.key for owner, run in planned.runs if owner.name == name])
    for experiment, run in planned.runs:
        file = result_file(out, experiment.name, run.key)
        begin(experiment.name if run.key == experiment.name else f"{experiment.name} {run.key}")
        run.run(file, seeds, workers, advance)
