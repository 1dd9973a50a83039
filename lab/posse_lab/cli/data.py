"""``posse lab data``: list, fetch and verify the datasets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.console import table_console
from posse.cli.progress import stages
from posse.errors import MissingData, PosseError

if TYPE_CHECKING:
    from posse_lab.datasets.catalogue import Dataset

app = typer.Typer(no_args_is_help=True)

LONGEST_NAME = 13  # of a dataset: names are typed, so they are never cut
EVERYTHING = "all"

Folder = Annotated[Path | None, typer.Option("--data", help="The data folder. Default: the one that POSSE_DATA names.")]


@app.callback()
def _data() -> None:
    """List, fetch and verify the datasets."""


@app.command("list")
def list_datasets(data: Folder = None) -> None:
    """Show every dataset: its size, its terms, and whether it is in the data folder."""
    from posse_lab.datasets.catalogue import DATASETS
    from posse_lab.datasets.folder import data_folder

    root = data_folder(data)
    states = {name: entry.status(root) if root is not None else None for name, entry in DATASETS.items()}
    from rich.box import SIMPLE
    from rich.table import Table

    console = table_console()
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("name", min_width=LONGEST_NAME)
    table.add_column("title")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("terms")
    for name, entry in DATASETS.items():
        table.add_row(name, entry.title, _bytes(entry.size), states[name] or "-", entry.licence)
    console.print(table)
    where = f"in {root}" if root is not None else "no data folder was named: pass --data DIR or set POSSE_DATA=DIR"
    console.print(where, highlight=False, markup=False, soft_wrap=True)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Datasets of `posse lab data list`, or `all`.")],
    data: Folder = None,
) -> None:
    """Download datasets into the data folder, check them and put them into place."""
    from posse_lab.datasets.fetch import fetch as run

    chosen = _chosen(names)
    root = _folder(data, f"posse lab data fetch {' '.join(names)}")
    failed = 0
    with stages(len(chosen)) as begin:
        for entry in chosen:
            begin(f"fetching {entry.name}")
            try:
                result = run(entry.name, root)
            except PosseError as error:
                if len(chosen) == 1:
                    raise
                typer.echo(f"posse: {error}", err=True)
                failed += 1
                continue
            word = "fetched" if result.downloaded else "already there"
            for file in result.files:
                typer.echo(f"{entry.name}: {word}, {file}")
            if result.downloaded:
                typer.echo(f"{entry.name}: {entry.terms} Cite: {entry.citation}")
    if failed:
        raise typer.Exit(2)


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]", help="Default: every dataset, where it is there.")
    ] = None,
    data: Folder = None,
) -> None:
    """Compare every file with its published checksum; status 1 if one is damaged, or named and missing."""
    chosen = _chosen(names or [EVERYTHING])
    named = {entry.name for entry in chosen} if names and EVERYTHING not in names else set()
    root = _folder(data, "posse lab data verify")
    if not root.is_dir():
        raise MissingData(f"no folder {root}; posse lab data fetch makes it")
    bad = False
    for entry in chosen:
        for found in entry.check(root):
            line: str = found.state
            if found.state == "damaged":
                line = f"damaged: {found.complaint}"
            elif found.state == "ok" and found.kind is None:
                line = "there, but no checksum of it is known"
            typer.echo(f"{entry.name}: {found.path}: {line}")
            bad = bad or found.state == "damaged" or (found.state == "missing" and entry.name in named)
    if bad:
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> list[Dataset]:
    """Return the datasets that go by these names, each once."""
    from posse_lab.datasets.catalogue import DATASETS, dataset

    wanted = {name: dataset(name) for name in names if name != EVERYTHING}
    return list(DATASETS.values()) if EVERYTHING in names else list(wanted.values())


def _folder(data: Path | None, command: str) -> Path:
    from posse_lab.datasets.folder import DATA_VARIABLE, data_folder

    root = data_folder(data)
    if root is None:
        raise MissingData(f"no data folder was named: {command} --data DIR, or set {DATA_VARIABLE}=DIR")
    return root


def _bytes(count: int) -> str:
    """Return a size in words.

    Examples
    --------
    >>> _bytes(712_565), _bytes(65_570_000), _bytes(2_048), _bytes(7)
    ('0.7 MB', '65.6 MB', '2 kB', '7 B')
    """
    if count >= 100_000:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e3:.0f} kB" if count >= 1000 else f"{count} B"
