"""``posse service vacuum``: the database without unused space."""

from __future__ import annotations

from pathlib import Path

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import InvalidValue


def vacuum(config: CONFIG = None, database: DATABASE = None) -> None:
    """Rewrite the SQLite file of a stopped service: erased names leave its unused space, and the file gets smaller."""
    from posse.service.settings import read_settings
    from posse.storage.backup import vacuum_database

    settings = read_settings(config, database=database)
    if not settings.embedded:
        raise InvalidValue("expected an SQLite file, got the address of a PostgreSQL database; use its own VACUUM FULL")
    path = Path(settings.database.removeprefix("sqlite:///"))
    before = path.stat().st_size if path.is_file() else 0
    size = vacuum_database(path)
    print(f"{path} has {size:,} bytes (before: {before:,})")
