"""The audit log: what needs an admin is noted before it is done, and what became of it before that is answered."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from posse.errors import PosseError
from posse.logs.writer import moment
from posse.service.http import heads
from posse.storage import AuditRow, digest_of

if TYPE_CHECKING:
    from posse.service.runtime import Runtime

ENTRY = "posse.audit"
UNNOTED = frozenset({"audit", "verify"})  # they only look, some rows at a time, and at nobody in particular
LOCAL, COMMAND_LINE = "local", "command line"
LONGEST = 200  # characters of a target: a path may hold anything

logger = logging.getLogger("posse.service")


async def note_begun(request: Request) -> None:
    """Note that somebody who may do so asks for something that needs an admin; raise if that cannot be noted.

    Refused requests are not noted, since anybody could fill the disk with them.
    """
    runtime: Runtime = request.app.state.runtime
    runtime.require_ready()
    route, parts = request.scope.get("route"), request.path_params
    action = getattr(route, "name", "other")
    if action in UNNOTED:
        return
    fleet, task = parts.get("fleet"), parts.get("task")
    target = parts.get("arm")
    if task is not None:
        # The name of a task that is erased must not stay behind here; whoever knows it finds it by its digest.
        target = digest_of(str(fleet), str(task)).hex()
    row = AuditRow(
        id=0,
        time=runtime.clock(),
        actor=request.scope.get("posse.key") or LOCAL,
        client=None if request.client is None else request.client.host,
        action=action,
        fleet=None if fleet is None else str(fleet)[:LONGEST],
        target=None if target is None else _storable(target),
        request=heads.current.get(),
    )
    number = await run_in_threadpool(runtime.writer.run, lambda: runtime.storage.add_audit(row))
    request.scope[ENTRY] = (runtime, number)


async def note_answer(scope: MutableMapping[str, Any], status: int) -> None:
    """Note what is about to be answered, if the request is in the audit log."""
    runtime, number = scope.pop(ENTRY)
    try:
        await run_in_threadpool(runtime.writer.run, lambda: runtime.storage.finish_audit(number, status))
    except PosseError as error:
        logger.warning("entry %d of the audit log has no status: %s", number, error)


def _storable(text: str) -> str:
    return text[:LONGEST].encode(errors="backslashreplace").decode().replace("\0", "\\0")


def audit_row(row: AuditRow) -> dict[str, Any]:
    """Return a row for people and programs."""
    return {**row._asdict(), "time": moment(row.time)}
