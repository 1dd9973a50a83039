"""``posse service backup``: a copy of a service's database, while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import InvalidValue


def backup(
    file: Annotated[Path, typer.Argument(help="The copy; it must not exist.")],
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Copy the SQLite file of a service, also while it runs; only its owner may read the copy.

    A PostgreSQL database has its own tools: pg_dump.
    """
    from posse.cli.progress import stages
    from posse.service.settings import read_settings
    from posse.storage.backup import copy_database

    settings = read_settings(config, database=database)
    if not settings.embedded:
        raise InvalidValue("expected an SQLite file, got the address of a PostgreSQL database; copy it with pg_dump")
    with stages() as begin:
        begin("copying the database")
        size = copy_database(Path(settings.database.removeprefix("sqlite:///")), file)
    print(f"{file} has {size:,} bytes")
