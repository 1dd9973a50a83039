"""``posse service restore``: a copy in the place of a service's database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import InvalidValue


def restore(
    file: Annotated[Path, typer.Argument(help="A copy that `posse service backup` made.")],
    replace: Annotated[bool, typer.Option("--replace", help="Move the database that is there aside.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare what its snapshots have learned with its log.")
    ] = True,
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Put a copy in the place of a service's SQLite file, whole and verified; stop the service first.

    A PostgreSQL database has its own tools: pg_restore.
    """
    from posse.service.settings import read_settings
    from posse.storage.backup import restore_database

    settings = read_settings(config, database=database)
    if not settings.embedded:
        raise InvalidValue("expected an SQLite file, got the address of a PostgreSQL database; use pg_restore")
    target = Path(settings.database.removeprefix("sqlite:///"))
    if not file.is_file():
        raise InvalidValue(f"there is no copy {file}; name one that `posse service backup` made")
    aside = restore_database(file, target, replace=replace)
    if aside is not None:
        print(f"what was there is {aside} now")
    _tell(target)
    if verify:
        from posse.cli.verify import verify as compare

        compare(str(target))


def _tell(target: Path) -> None:
    from posse.logs.writer import moment
    from posse.storage import open_storage

    storage = open_storage(target)  # brings it up to date
    try:
        fleets, clock = storage.fleets(), storage.clock()
    finally:
        storage.close()
    decisions = sum(row.decisions for row in fleets)
    seen = "" if clock is None else f", last served {moment(clock.seen)[:19].replace('T', ' ')} UTC"
    print(f"{target} has {len(fleets)} fleets with {decisions:,} decisions{seen}")
