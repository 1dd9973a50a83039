"""Running experiments: result files in, and in the same folders, what they lack."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from posse.errors import InvalidValue, MissingData, MissingDependency, ResultFileError, SettingsDiffer
from posse_lab.reproduction.experiment import Experiment, Run

RESULTS = "results"
MANIFEST = "runs.json"
PAPER_SEEDS = 100
QUICK_SEEDS = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be run.

    Parameters
    ----------
    runs : list of (experiment, run)
        In the order of the report.
    skipped : dict from the name of an experiment to the reason
    quick : bool
    overrides : dict from the name of an experiment to its settings as text
    """

    runs: list[tuple[Experiment, Run]]
    skipped: dict[str, str]
    quick: bool
    overrides: dict[str, dict[str, str]]


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
    owned: dict[str, dict[str, str]] = {}
    for experiment in experiments:
        owned[experiment.name] = own = {key: text for key, text in given.items() if key in experiment.setting_names}
        settings = experiment.sized(quick=quick, overrides=own)
        if begin is not None:
            begin(experiment.name)
        try:
            new = experiment.runs(settings, data)
        except (MissingData, MissingDependency) as missing:
            if len(experiments) == 1:
                raise
            skipped[experiment.name] = str(missing)
            continue
        for run in new:
            # Before anything runs: a bad setting of a late experiment must not cost the early ones.
            run.check()
        runs += [(experiment, run) for run in new]
    return Plan(runs, skipped, quick, owned)


def result_file(out: Path, experiment: str, key: str) -> Path:
    """Return where a run leaves its result."""
    return out / RESULTS / experiment / f"{key}.parquet"


def write_manifest(out: Path, experiment: str, keys: Sequence[str], command: str) -> None:
    """Say which runs an experiment consists of, so that one that is missing is noticed, and what makes them."""
    folder = out / RESULTS / experiment
    partial = folder / f".{MANIFEST}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps({"command": command, "runs": list(keys)}) + "\n", encoding="utf-8")
        partial.replace(folder / MANIFEST)
    except OSError as error:
        raise ResultFileError(f"cannot write {folder / MANIFEST}: {error.strerror or error}") from error


def read_manifest(out: Path, experiment: str) -> tuple[list[str], str]:
    """Return the keys of an experiment's runs, and the command that makes them; no keys if it was never begun."""
    file = out / RESULTS / experiment / MANIFEST
    if not file.is_file():
        return [], command_of(experiment)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [str(key) for key in content["runs"]], str(content.get("command", command_of(experiment)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultFileError(f"{file} is damaged ({error}); run posse lab reproduce {experiment} again") from None


def command_of(
    experiment: str, *, seeds: int | None = None, quick: bool = False, overrides: Mapping[str, str] | None = None
) -> str:
    """Return the command that makes an experiment's results.

    Examples
    --------
    >>> command_of("tasks", quick=True, overrides={"horizon": "50"})
    'posse lab reproduce tasks --quick --set horizon=50'
    """
    words = ["posse", "lab", "reproduce", experiment, *(["--quick"] if quick else [])]
    if seeds not in (None, QUICK_SEEDS if quick else PAPER_SEEDS):
        words += ["--seeds", str(seeds)]
    for name, text in (overrides or {}).items():
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)


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
        runs = [run for experiment, run in planned.runs if experiment.name == name]
        command = command_of(name, seeds=seeds, quick=planned.quick, overrides=planned.overrides[name])
        before = read_manifest(out, name)
        write_manifest(out, name, [run.key for run in runs], command)
        try:
            for run in runs:
                begin(name if run.key == name else f"{name} {run.key}")
                run.run(result_file(out, name, run.key), seeds, workers, advance)
        except SettingsDiffer:
            # Nothing was run, so what was there is still what the folder has results of.
            if before[0]:
                write_manifest(out, name, *before)
            raise
