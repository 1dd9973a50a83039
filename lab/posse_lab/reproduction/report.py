"""The report: drawn and written from result files alone."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from posse._version import __version__
from posse.errors import ResultFileError, UnknownPolicy
from posse.simulation import SimulationResult
from posse_lab.reproduction.chapters import Chapter, Picture, Report, ResultFile
from posse_lab.reproduction.experiment import Experiment, Figure, Section, load_run
from posse_lab.reproduction.markdown import claims_markdown
from posse_lab.reproduction.page import render_page
from posse_lab.reproduction.run import RESULTS, command_of, read_manifest, result_file
from posse_lab.reproduction.seed_table import SeedTable

FIGURES = "figures"
SKIPPED = "Not run: its data were not there. posse lab data list says what is missing, posse lab data fetch gets it."


def write_report(out: Path, experiments: Sequence[Experiment], *, skipped: Collection[str] = ()) -> Report:
    """Draw every figure and write ``index.html``, ``claims.json`` and ``claims.md`` from the result files in ``out``.

    Parameters
    ----------
    out : path
        Folder that holds ``results/``.
    experiments : sequence of Experiment
        What the page is about; those without results are mentioned.
    skipped : collection of str
        Experiments whose data were missing.
    """
    chapters = tuple(_chapter(out, experiment, experiment.name in skipped) for experiment in experiments)
    if not any(chapter.files for chapter in chapters):
        raise ResultFileError(f"no complete results in {out / RESULTS}; run posse lab reproduce NAME --out {out} first")
    report = Report(version=__version__, chapters=chapters, command="posse lab reproduce all", note=_note(chapters))
    _write(out / "claims.json", json.dumps([claim.to_dict() for claim in report.claims], indent=2) + "\n")
    _write(out / "claims.md", claims_markdown(report))
    _write(out / "index.html", render_page(report))
    return report


def _chapter(out: Path, experiment: Experiment, skipped: bool) -> Chapter:
    words: dict[str, Any] = {name: getattr(experiment, name) for name in ("name", "title", "figure", "says", "choices")}
    keys, command = read_manifest(out, experiment.name)
    words["command"] = command
    files = {key: result_file(out, experiment.name, key) for key in keys}
    if not any(file.is_file() for file in files.values()):
        return Chapter(**words, missing=SKIPPED if skipped else f"Not run yet: posse lab reproduce {experiment.name}")
    lacking = [key for key, file in files.items() if not file.is_file()]
    if lacking:
        missing = f"The result file {lacking[0]} is missing: posse lab reproduce {experiment.name} continues the run"
        return Chapter(**words, missing=missing)
    results = {key: load_run(file) for key, file in files.items()}
    unfinished = [key for key, result in results.items() if not result.complete]
    if unfinished:
        again = f"The run was stopped ({', '.join(unfinished)}): posse lab reproduce {experiment.name} continues it"
        return Chapter(**words, missing=again)
    written_by = {result.version for result in results.values()} - {__version__}
    if written_by:
        other = f"The results are of posse {', '.join(sorted(written_by))}"
        return Chapter(**words, missing=f"{other}: delete {RESULTS}/{experiment.name} and run it again")
    try:
        section = experiment.section(results)
    except UnknownPolicy as error:
        other = f"The result files are of other methods ({error}): delete {RESULTS}/{experiment.name} and run it again"
        return Chapter(**words, missing=other)

    def traced(keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(_relative(experiment.name, key) for key in keys)

    return Chapter(
        **words,
        found=section.found,
        pictures=tuple(
            Picture(name=figure.name, svg=svg, caption=figure.caption, sources=traced(figure.sources))
            for figure, svg in _drawn(out, section)
        ),
        tables=tuple(replace(table, sources=traced(table.sources)) for table in section.tables),
        claims=tuple(
            replace(claim, experiment=experiment.name, claim=experiment.claims[claim.id], sources=traced(claim.sources))
            for claim in section.claims
        ),
        files=tuple(_described(result, _relative(experiment.name, key)) for key, result in results.items()),
    )


def _relative(experiment: str, key: str) -> str:
    return f"{RESULTS}/{experiment}/{key}.parquet"


def _note(chapters: Sequence[Chapter]) -> str:
    """Return a warning if anything was run in another way than the text describes."""
    other = [chapter.name for chapter in chapters if chapter.files and chapter.command != command_of(chapter.name)]
    if not other:
        return ""
    names = "All experiments" if len(other) == sum(bool(chapter.files) for chapter in chapters) else ", ".join(other)
    return (
        f"{names}: run with another number of seeds or other settings than the text describes; each chapter's last "
        "part says with which. Quick runs show that everything works, not who is better."
    )


def _drawn(out: Path, section: Section) -> Iterator[tuple[Figure, str]]:
    folder = out / FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    for figure in section.figures:
        file = folder / f"{figure.name}.svg"
        figure.draw([file])
        yield figure, file.read_text(encoding="utf-8")


def _described(result: SimulationResult | SeedTable, path: str) -> ResultFile:
    if isinstance(result, SeedTable):
        return ResultFile(path=path, seeds=len(result.seeds), settings=_words(result.settings))
    settings = {"horizon": result.settings["horizon"], **result.settings["world"]}
    return ResultFile(path=path, seeds=len(result.seeds), settings=_words(settings), policies=result.descriptions)


def _words(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultFileError(f"cannot write {path}: {error.strerror or error}") from error
