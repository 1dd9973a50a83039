"""``posse service verify``: whether what a service has learned is what its log says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from posse.errors import InvalidValue, PosseError, StorageError

if TYPE_CHECKING:
    from posse.service.verify import Comparison
    from posse.storage import FleetRow, Storage


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
    from posse.cli.progress import stages
    from posse.storage import open_storage

    storage = open_storage(database, migrate=False)
    try:
        rows = storage.fleets()
        if fleet is not None:
            rows = [row for row in rows if row.name == fleet]
            if not rows:
                raise InvalidValue(f"expected the name of a fleet, got {fleet!r}; leave --fleet out to verify all")
        if repair and not storage.lead():
            raise InvalidValue(
                f"expected no service to use {database} while it is repaired, but one does; stop it, or ask it with "
                "POST /v1/fleets/NAME/repair"
            )
        wrong = []
        with stages(len(rows)) as begin:
            for row in rows:
                begin(f"verifying fleet {row.name}")
                if not _verify(storage, row, repair):
                    wrong.append(row.name)
    finally:
        storage.close()
    if wrong:
        raise typer.Exit(1)


def _verify(storage: Storage, row: FleetRow, repair: bool) -> bool:
    """Tell about one fleet; return whether it is right in the end."""
    found = _compare(storage, row)
    if found is None:
        return True
    _tell(found)
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
    """Return what a snapshot is found to be, or None if there is none."""
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


def _tell(found: Comparison) -> None:
    if not found.differences:
        if not found.different:
            print(found.words())
        return
    print(found.words())
    for one in found.differences:
        arm = f", arm {one.arm!r}" if one.arm else ""
        print(f"  task {one.task!r}{arm}: {one.learned:g} rewards learned, {one.logged:g} logged, off by {one.off:.3g}")
    told = len({one.task for one in found.differences})
    if told < found.different:
        print(f"  and {found.different - told:,} more tasks")
