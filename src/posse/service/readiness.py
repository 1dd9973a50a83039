"""Whether a service is ready, one check after another, each with what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from posse.errors import PosseError

if TYPE_CHECKING:
    from posse.service.engine import Engine


class Check(NamedTuple):
    """What one check found."""

    ok: bool
    detail: str


def checks_of(engine: Engine) -> dict[str, Check]:
    """Return all checks by name; asks the database, so it is for a thread that may wait."""
    warming = engine.warming
    opened = engine.opened
    count = engine.n_fleets
    loaded = ("1 fleet" if count == 1 else f"{count} fleets") if engine.ready else engine.problem
    return {
        "compiled": Check(warming.done, str(warming)),
        "database": _database(engine) if opened else Check(False, engine.problem),
        "loaded": Check(engine.ready, loaded),
        "disk": _disk(engine) if opened else Check(False, "not open yet"),
        "leader": _leader(engine),
    }


def failed_check(checks: dict[str, Check]) -> tuple[str, str] | None:
    """Return the name and the words of what is not as it should be, the first cause first; None if all is."""
    return next(((name, check.detail) for name, check in checks.items() if not check.ok), None)


def _database(engine: Engine) -> Check:
    try:
        engine.storage.ping()
    except PosseError as error:
        return Check(False, engine.public(error))
    return Check(True, "answers")


def _disk(engine: Engine) -> Check:
    disk = engine.writer.disk
    if disk.problem is not None:
        return Check(False, engine.public(disk.problem))
    return Check(disk.tried, "writable" if disk.tried else "nothing was written yet")


def _leader(engine: Engine) -> Check:
    if engine.leader_known:
        return Check(True, "this process learns" if engine.leading else "another process learns")
    return Check(False, "it is not known yet which process learns")
