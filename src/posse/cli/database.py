"""``posse service backup``, ``restore``, ``vacuum`` and ``verify``: copies of a database, and what it holds."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import InvalidValue, PosseError, StorageError

if TYPE_CHECKING:
    from posse.service.verify import Comparison
    from posse.storage import FleetRow, Storage


def backup(
    file: Annotated[Path, typer.Argument(help="The copy; it must not exist.")],
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Copy the SQLite file of a service, also while it runs; only its owner may read the copy.

    A PostgreSQL database has its own tools: pg_dump.
    """
    from posse.cli.progress import stages
    from posse.storage.copies import copy_database

    source = _sqlite_file(config, database, "copy it with pg_dump")
    with stages() as begin:
        begin("copying the database")
        size = copy_database(source, file)
    print(f"{file} has {size:,} bytes")


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
    from posse.logs.writer import moment
    from posse.storage import open_storage
    from posse.storage.copies import restore_database

    target = _sqlite_file(config, database, "use pg_restore")
    if not file.is_file():
        raise InvalidValue(f"there is no copy {file}; name one that `posse service backup` made")
    aside = restore_database(file, target, replace=replace)
    if aside is not None:
        print(f"what was there is {aside} now")
    with closing(open_storage(target)) as storage:  # brings it up to date
        fleets, clock = storage.fleets(), storage.clock()
    decisions = sum(row.decisions for row in fleets)
    seen = "" if clock is None else f", last served {moment(clock.seen)[:19].replace('T', ' ')} UTC"
    print(f"{target} has {len(fleets)} fleets with {decisions:,} decisions{seen}")
    if verify:
        _verify_database(str(target))


def vacuum(config: CONFIG = None, database: DATABASE = None) -> None:
    """Rewrite the SQLite file of a stopped service: erased names leave its unused space, and the file gets smaller."""
    from posse.storage.copies import vacuum_database

    path = _sqlite_file(config, database, "use its own VACUUM FULL")
    before = path.stat().st_size if path.is_file() else 0
    size = vacuum_database(path)
    print(f"{path} has {size:,} bytes (before: {before:,})")


def verify(
    database: Annotated[
        str, typer.Argument(help="An SQLite file, or postgresql://user@host/name; a service may be using it.")
    ],
    fleet: Annotated[str | None, typer.Option("--fleet", "-f", help="Check only this fleet.  [default: all]")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild fleets that differ from their logs; stop the service first.")
    ] = False,
) -> None:
    """Compare the snapshots of a service with its log. Exit status 1 if they differ.

    A snapshot is what a service starts from; rewards since then are learned from the log. What a running service has in
    memory is compared by the service itself, and by GET /v1/fleets/NAME/verify.
    """
    _verify_database(database, fleet, repair=repair)


def _sqlite_file(config: str | None, database: str | None, otherwise: str) -> Path:
    from posse.service.settings import read_settings

    settings = read_settings(config, database=database)
    if not settings.embedded:
        raise InvalidValue(f"expected an SQLite file, got the address of a PostgreSQL database; {otherwise}")
    return Path(settings.database.removeprefix("sqlite:///"))


def _verify_database(database: str, fleet: str | None = None, *, repair: bool = False) -> None:
    from posse.cli.progress import stages
    from posse.storage import open_storage

    with closing(open_storage(database, migrate=False)) as storage:
        rows = [row for row in storage.fleets() if fleet in (None, row.name)]
        if fleet is not None and not rows:
            raise InvalidValue(f"expected the name of a fleet, got {fleet!r}; leave --fleet out to verify all")
        if repair and not storage.lead():
            raise InvalidValue(
                f"expected no service to use {database} while it is repaired, but one does; stop it, or ask it with "
                "POST /v1/fleets/NAME/repair"
            )
        right = []
        with stages(len(rows)) as begin:
            for row in rows:
                begin(f"verifying fleet {row.name}")
                right.append(_verify_fleet(storage, row, repair))
    if not all(right):
        raise typer.Exit(1)


def _verify_fleet(storage: Storage, row: FleetRow, repair: bool) -> bool:
    """Print what is found about one fleet; return whether it is right in the end."""
    found = _compare(storage, row)
    if found is None:
        return True
    _show(found)
    if not (repair and found.different):
        return not found.different
    from posse.service.live_fleet import LiveFleet

    live = LiveFleet(storage, row)
    if not live.relearn():
        print("  not repaired: rows have left the log by retention; restore a backup")
        return False
    live.write_snapshot(lambda job: job(), time.time())
    again = _compare(storage, row)
    if again is None or again.different:
        print("  not repaired: it still differs; tell the authors of posse")
        return False
    print(f"  repaired: learned again from the log, {again.rewards:,} rewards in {again.tasks:,} tasks")
    return True


def _compare(storage: Storage, row: FleetRow) -> Comparison | None:
    """Return how a snapshot differs from the log, or None if there is none."""
    from posse.service.live_fleet import read_snapshot
    from posse.service.verify import Comparison, Verification

    try:
        replica = read_snapshot(storage, row.name)
    except StorageError:
        raise
    except PosseError as error:
        print(f"fleet {row.name!r}: its snapshot cannot be read: {error}")
        return Comparison(row.name, different=max(row.tasks, 1))
    if replica is None:
        print(f"fleet {row.name!r}: there is no snapshot yet; a service learns it from its log")
        return None
    return Verification(storage, row, replica).all()


def _show(found: Comparison) -> None:
    if found.differences or not found.different:
        print(found.words())
    for one in found.differences:
        arm = f", arm {one.arm!r}" if one.arm else ""
        print(f"  task {one.task!r}{arm}: {one.learned:g} rewards learned, {one.logged:g} logged, off by {one.off:.3g}")
    shown = len({one.task for one in found.differences})
    if 0 < shown < found.different:
        print(f"  and {found.different - shown:,} more tasks")
