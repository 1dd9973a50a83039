"""``posse log``: check and convert logs of decisions and rewards, and write one to try things on."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli import columns
from posse.cli.console import table_console

if TYPE_CHECKING:
    from posse.logs import Finding, Log

log_app = typer.Typer(no_args_is_help=True)

COLOURS = {"error": "red", "warning": "yellow", "note": "dim"}
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help="jsonl, parquet or dsjson. Default: by name and content."),
]
Task = Annotated[
    str | None,
    typer.Option(
        "--task-column",
        metavar="PATH",
        help="The column of a table with the task; where dsjson has it, e.g. Shared.store, or =NAME for one task.",
    ),
]
Arms = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Where dsjson has an action's name, e.g. Arm.id or _tag. Default: its position."),
]


@log_app.callback()
def _log() -> None:
    """Check and convert logs of decisions and rewards."""


@log_app.command()
def check(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A log (.jsonl, .ndjson, .parquet or .dsjson; text also .gz) or a table (.csv, .parquet, .jsonl).",
        ),
    ],
    file_format: Format = None,
    task: Task = None,
    arms: Arms = None,
    arm: columns.ArmColumn = "arm",
    reward: columns.RewardColumn = "reward",
    propensity: columns.PropensityColumn = None,
    time: columns.TimeColumn = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Look at this feature only; may be given several times.")
    ] = None,
    ignore: columns.Ignore = None,
    rewards: columns.Rewards = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Find what would spoil an evaluation from a log; status 1 if there are errors."""
    from posse.cli.progress import stages
    from posse.logs import check_log, read_log

    with stages() as begin:
        begin("reading the log")
        if file_format is not None or arms is not None or not file.is_file():
            log = read_log(file, file_format, task=task, arms=arms)
        else:
            log = columns.read(
                file, task=task or "task", arm=arm, reward=reward, propensity=propensity, time=time,
                ignore=ignore or (), rewards=rewards,
            )  # fmt: skip
        begin("checking it")
        findings = check_log(log, features=feature)
    if json:
        found = [asdict(finding) for finding in findings]
        typer.echo(
            json_module.dumps({"file": str(file), **_size(log), "findings": found}, indent=2, ensure_ascii=False)
        )
    else:
        _show(log, findings)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)


@log_app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The log to read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; it is replaced at once.")],
    source_format: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of IN. Default: by name and content.")
    ] = None,
    target_format: Annotated[
        str | None, typer.Option("--to", metavar="FORMAT", help="Format of OUT. Default: by name.")
    ] = None,
    task: Task = None,
    arms: Arms = None,
) -> None:
    """Write a log of any format as JSON Lines or Parquet."""
    from posse.cli.progress import stages
    from posse.logs import read_log, write_log
    from posse.logs.files import format_to_write

    chosen = format_to_write(target, target_format)
    with stages() as begin:
        begin("reading the log")
        log = read_log(source, source_format, task=task, arms=arms)
        begin("writing it")
        write_log(log, target, chosen)
    typer.echo(f"{target}: {log.n_rows} decisions")
    for line in _left_out(log, chosen):
        typer.echo(f"not carried over: {line}", err=True)


@log_app.command()
def example(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: .jsonl or .parquet.")] = Path(
        "retailer.jsonl"
    ),
    decisions: Annotated[int, typer.Option(metavar="N", help="Number of decisions.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Another seed is another retailer.")] = 0,
) -> None:
    """Write a log to try things on: a simulated retailer, 60 stores, four offers, and whether visitors bought."""
    from posse.examples import load_retailer
    from posse.logs import write_log
    from posse.logs.files import format_to_write

    chosen = format_to_write(target, None)
    write_log(load_retailer(decisions, seed), target, chosen)
    typer.echo(f"{target}: {decisions} decisions")


def _left_out(log: Log, target_format: str) -> list[str]:
    """Return what the other format has no place for."""
    lines = [finding.message for finding in log.notes]
    if log.unknown:
        lines.append(f"what no log has: {', '.join(log.unknown)}")
    if log.task_features is not None and target_format != "jsonl":
        lines.append(f"what {target_format} has no place for: when task features changed")
    return lines


def _size(log: Log) -> dict[str, int]:
    changes = {} if log.task_features is None else {"changes of task features": log.task_features.height}
    return {
        "rows": log.n_rows,
        "tasks": log.frame["task"].n_unique(),
        "arms": len(log.arms),
        "features": len(log.features),
        **changes,
    }


def _show(log: Log, findings: Sequence[Finding]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    console = table_console()
    if findings:
        table = Table(box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("severity", no_wrap=True)
        table.add_column("found", ratio=5)
        table.add_column("rows", justify="right", no_wrap=True)
        table.add_column("first", ratio=2)
        table.add_column("what to do", ratio=4)
        for finding in findings:
            table.add_row(
                Text(finding.severity, style=COLOURS[finding.severity]),
                Text(f"{finding.message} ({finding.code})"),
                str(finding.rows),
                Text(finding.example or ""),
                Text(finding.what_to_do),
            )
        console.print(table)
    counts = [sum(finding.severity == severity for finding in findings) for severity in COLOURS]
    words = ", ".join(
        f"{count} {severity}{'s' * (count != 1)}" for count, severity in zip(counts, COLOURS, strict=True)
    )
    size = ", ".join(f"{count} {word}" for word, count in _size(log).items())
    console.print(f"{words} in {size}", highlight=False, markup=False, soft_wrap=True)
