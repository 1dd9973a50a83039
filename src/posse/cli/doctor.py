"""``posse service doctor``: what is wrong with a deployment, and what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import PosseError

if TYPE_CHECKING:
    from posse.service.settings import Settings
    from posse.storage import FleetRow, Storage

OK, WARNING, ERROR = "ok", "warning", "error"
LOW_DISK = 2e9  # bytes
OLD_SNAPSHOT = 86400.0  # seconds
SOON = 14 * 86400.0  # seconds before a key expires in which that is said
COLOURS = {OK: "green", WARNING: "yellow", ERROR: "red"}


class Finding(NamedTuple):
    """The result of one check: how bad it is, of what, what was found and what to do."""

    level: str
    what: str
    found: str
    advice: str = ""


def doctor(
    url: Annotated[
        str | None, typer.Option(help="Also ask the service at this address.  [default: none]", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(envvar="POSSE_KEY", help="API key with the scope read.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Check a deployment and say what is wrong and what to do. Exit status 1 if anything is.

    Looks at the settings, the database (a service may be using it), its disk, its keys, and compiled code; with --url
    also at the service itself. Nothing is changed.
    """
    from posse.service.settings import read_settings

    findings: list[Finding] = []
    try:
        settings = read_settings(config, database=database)
        findings.append(Finding(OK, "settings", "can be read"))
    except PosseError as error:
        findings.append(Finding(ERROR, "settings", str(error), "correct the file"))
        settings = None
    if settings is not None:
        findings += examine(settings)
    if url is not None:
        findings += ask(url, key)
    _show(findings, json)
    if any(finding.level == ERROR for finding in findings):
        raise typer.Exit(1)


def _ok(what: str, found: str) -> Finding:
    return Finding(OK, what, found)


def _doubt(what: str, found: str, advice: str) -> Finding:
    return Finding(WARNING, what, found, advice)


def _wrong(what: str, found: str, advice: str) -> Finding:
    return Finding(ERROR, what, found, advice)


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what is found in settings, files and the database."""
    yield from _limits(settings)
    yield from _compiled()
    if settings.embedded:
        path = Path(settings.database.removeprefix("sqlite:///"))
        if not path.exists():
            yield _wrong("database", f"there is no {path}", "start `posse serve` once, or name it: --database")
            return
        yield from _file(path)
    from posse.storage import open_storage

    try:
        with closing(open_storage(settings.database, migrate=False)) as storage:
            yield _ok("database", f"schema version {storage.schema_version()}, {storage.size():,} bytes")
            for check in (_fleets, _keys, _clock):
                yield from check(storage, settings)
    except PosseError as error:
        yield _wrong("database", str(error), "docs/runbook.md, the database is gone")


def _limits(settings: Settings) -> Iterator[Finding]:
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.limits.connections + 256
    if hard != resource.RLIM_INFINITY and hard < wanted:
        found = f"{hard} are allowed, {wanted} are wanted for limits.connections"
        yield _doubt("open files", found, "raise LimitNOFILE (systemd) or ulimit -n")
    else:
        yield _ok("open files", f"{'no limit' if hard == resource.RLIM_INFINITY else hard}")


def _compiled() -> Iterator[Finding]:
    import posse.core

    folder, what = os.environ.get("NUMBA_CACHE_DIR"), "compiled code"
    place = Path(folder) if folder else Path(posse.core.__file__).parent / "__pycache__"
    n_files = sum(1 for _ in place.rglob("*.nbi")) if place.is_dir() else 0
    if folder and not _writable(place):
        found = f"{place}, which NUMBA_CACHE_DIR names, cannot be written to, so Numba ignores it ({n_files} files)"
        yield _doubt(what, found, "let the user who serves write there, or copy it to a folder that can be written to")
    elif not n_files:
        yield _doubt(what, f"none in {place}", "run `posse warmup` as the user who serves")
    else:
        yield _ok(what, f"{n_files} files in {place}")


def _writable(folder: Path) -> bool:
    """Whether a file can be made in a folder, or the folder itself: what Numba asks before it uses one."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _file(path: Path) -> Iterator[Finding]:
    found = path.stat()
    mode, free = stat.S_IMODE(found.st_mode), shutil.disk_usage(path.absolute().parent).free
    if mode & 0o077:
        yield _wrong("file", f"others may read {path} ({mode:o})", f"chmod 600 {path}")
    else:
        yield _ok("file", f"{path} is for its owner alone")
    words = f"{free / 1e9:.1f} GB are free, the file has {found.st_size / 1e9:.1f}"
    if free < LOW_DISK or free < found.st_size:
        yield _doubt("disk", words, "make room, or set retention; a backup and a rewrite need as much as the file has")
    else:
        yield _ok("disk", words)
    if found.st_nlink > 1:
        yield _wrong("file", f"{path} has {found.st_nlink} names", "remove the other hard links")


def _fleets(storage: Storage, settings: Settings) -> Iterator[Finding]:
    times, now, rows = storage.fleet_times(), storage.now() or time.time(), storage.fleets()
    if len(rows) > settings.limits.fleets:
        yield _doubt("fleets", f"{len(rows)}, more than limits.fleets allows to make", "raise it, or delete some")
    for row in rows:
        pending, snapshot = times.get(row.name, (None, None))
        yield _fleet(row, None if snapshot is None else now - snapshot)
        lifetime = row.definition.get("time_to_live")
        if pending is not None and lifetime is not None and now - pending > 2 * lifetime + 3600:
            found = f"a decision has waited {(now - pending) / 3600:.0f} h, its time to live is over"
            advice = "nothing expires: is the clock held? docs/runbook.md, the clock is wrong"
            yield _doubt(f"fleet {row.name}", found, advice)


def _fleet(row: FleetRow, age: float | None) -> Finding:
    """Return what is found of a fleet whose snapshot, if there is one, is so old."""
    from posse.service.definition import new_replica, require_known

    what, news = f"fleet {row.name}", row.changes - row.snapshot
    try:
        require_known(row.definition)
        new_replica(row.definition)
    except Exception as error:
        return _wrong(what, f"its definition makes no fleet: {error}", "repair it, or delete it")
    if row.changes and age is None and news > 20_000:
        return _doubt(what, f"no snapshot, and {news:,} changes to learn at a start", "is a service running?")
    if age is not None and news > 0 and age > OLD_SNAPSHOT:
        found = f"its snapshot is {age / 86400:.1f} days old and {news:,} changes behind"
        return _doubt(what, found, "is a service running, and does one lead? docs/runbook.md, the leader is stuck")
    if row.decisions > 1000 and row.rewards == 0:
        return _doubt(what, f"{row.decisions:,} decisions and no reward", "are rewards reported?")
    return _ok(what, f"{row.tasks:,} tasks, {row.decisions:,} decisions, {row.rewards:,} rewards")


def _keys(storage: Storage, settings: Settings) -> Iterator[Finding]:
    from posse.service.http.access import LOOPBACK

    rows, now, create = storage.keys(), time.time(), "posse service keys create --scope admin"
    good = [row for row in rows if row.expires is None or row.expires > now]
    if not good and settings.host not in LOOPBACK:
        yield _wrong("keys", "there are none in force, and it listens to others", create)
    elif not rows and not storage.keys(revoked=True):
        yield _ok("keys", "none: it answers this machine only")
    else:
        yield _ok("keys", f"{len(good)} in force")
    if good and not any("admin" in row.scopes for row in good):
        yield _doubt("keys", "none of them has the scope admin", create)
    for row in rows:
        left = float("inf") if row.expires is None else row.expires - now
        if left <= 0:
            yield _doubt(f"key {row.id}", "has expired", f"posse service keys revoke {row.id}")
        elif left < SOON:
            advice = f"posse service keys rotate {row.id}"
            yield _doubt(f"key {row.id}", f"expires in {left / 86400:.1f} days", advice)


def _clock(storage: Storage, _settings: Settings) -> Iterator[Finding]:
    last, now = storage.clock(), storage.now() or time.time()
    if last is not None and now < last.seen - 60:
        yield _wrong("clock", f"it is {last.seen - now:.0f} s behind what the database saw", "set it right (NTP)")
    else:
        yield _ok("clock", "not behind what the database saw")


def ask(url: str, key: str | None) -> Iterator[Finding]:
    """Yield what a running service says of itself."""
    import httpx

    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=10) as client:
            ready, fleets = client.get("/readyz"), client.get("/v1/fleets")
    except httpx.HTTPError as error:
        yield _wrong("service", f"{url} does not answer: {error}", "is it running? docs/runbook.md")
        return
    for name, check in ready.json().get("checks", {}).items():
        level, advice = (OK, "") if check["ok"] else (ERROR, "wait, or see docs/runbook.md")
        yield Finding(level, f"service, {name}", check["detail"], advice)
    if ready.status_code == 200 and ready.json().get("clock"):
        yield _wrong("service, clock", ready.json()["clock"], "docs/runbook.md, the clock is wrong")
    if fleets.status_code != 200:
        yield _doubt("service, fleets", fleets.json()["error"]["message"], "pass --key")
        return
    for fleet in fleets.json()["fleets"]:
        if fleet["state"] != "serving":
            what = f"service, fleet {fleet['name']}"
            yield _wrong(what, f"{fleet['state']}: {fleet['reason']}", "docs/service.md")


def _show(findings: list[Finding], as_json: bool) -> None:
    from rich.markup import escape

    from posse.cli.console import table_console

    if as_json:
        from json import dumps

        print(dumps([finding._asdict() for finding in findings], indent=1))
        return
    console = table_console()
    for level, what, found, advice in findings:
        more = f"  -> {escape(advice)}" if advice else ""
        console.print(f"[{COLOURS[level]}]{level:8}[/] {escape(what)}: {escape(found)}{more}")
    wrong = [sum(finding.level == level for finding in findings) for level in (ERROR, WARNING)]
    console.print(f"{wrong[0]} errors, {wrong[1]} warnings")
