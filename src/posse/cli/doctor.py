"""``posse service doctor``: what is wrong with a deployment, and what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import PosseError

if TYPE_CHECKING:
    from posse.service.settings import Settings
    from posse.storage import Storage

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


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what is found in settings, files and the database."""
    yield from _limits(settings)
    yield from _compiled()
    if settings.embedded:
        path = Path(settings.database.removeprefix("sqlite:///"))
        if not path.exists():
            yield Finding(ERROR, "database", f"there is no {path}", "start `posse serve` once, or name it: --database")
            return
        yield from _file(path)
    from posse.storage import open_storage

    try:
        storage = open_storage(settings.database, migrate=False)
    except PosseError as error:
        yield Finding(ERROR, "database", str(error), "docs/runbook.md, the database is gone")
        return
    try:
        yield Finding(OK, "database", f"schema version {storage.schema_version()}, {storage.size():,} bytes")
        for check in (_fleets, _keys, _clock):
            yield from check(storage, settings)
    except PosseError as error:
        yield Finding(ERROR, "database", str(error), "docs/runbook.md, the database is gone")
    finally:
        storage.close()


def _limits(settings: Settings) -> Iterator[Finding]:
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.limits.connections + 256
    if hard != resource.RLIM_INFINITY and hard < wanted:
        yield Finding(
            WARNING, "open files", f"{hard} are allowed, {wanted} are wanted for limits.connections",
            "raise LimitNOFILE (systemd) or ulimit -n",
        )  # fmt: skip
    else:
        yield Finding(OK, "open files", f"{'no limit' if hard == resource.RLIM_INFINITY else hard}")


def _compiled() -> Iterator[Finding]:
    import posse.kernels

    folder = os.environ.get("NUMBA_CACHE_DIR")
    place = Path(folder) if folder else Path(posse.kernels.__file__).parent / "__pycache__"
    n_files = sum(1 for _ in place.rglob("*.nbi")) if place.is_dir() else 0
    if folder and not _writable(place):
        yield Finding(
            WARNING, "compiled code",
            f"{place}, which NUMBA_CACHE_DIR names, cannot be written to, so Numba ignores it ({n_files} files)",
            "let the user who serves write there, or copy it to a folder that can be written to",
        )  # fmt: skip
    elif not n_files:
        yield Finding(WARNING, "compiled code", f"none in {place}", "run `posse warmup` as the user who serves")
    else:
        yield Finding(OK, "compiled code", f"{n_files} files in {place}")


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
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        yield Finding(ERROR, "file", f"others may read {path} ({mode:o})", f"chmod 600 {path}")
    else:
        yield Finding(OK, "file", f"{path} is for its owner alone")
    free = shutil.disk_usage(path.absolute().parent).free
    level = WARNING if free < LOW_DISK or free < path.stat().st_size else OK
    advice = "make room, or set retention; a backup and a rewrite need as much as the file has" if level != OK else ""
    yield Finding(level, "disk", f"{free / 1e9:.1f} GB are free, the file has {path.stat().st_size / 1e9:.1f}", advice)
    if path.stat().st_nlink > 1:
        yield Finding(ERROR, "file", f"{path} has {path.stat().st_nlink} names", "remove the other hard links")


def _fleets(storage: Storage, settings: Settings) -> Iterator[Finding]:
    from posse.service.definition import new_replica, require_known

    times, now = storage.fleet_times(), storage.now() or time.time()
    rows = storage.fleets()
    if len(rows) > settings.limits.fleets:
        yield Finding(
            WARNING, "fleets", f"{len(rows)}, more than limits.fleets allows to make", "raise it, or delete some"
        )
    for row in rows:
        what = f"fleet {row.name}"
        try:
            require_known(row.definition)
            new_replica(row.definition)
        except Exception as error:
            yield Finding(ERROR, what, f"its definition makes no fleet: {error}", "repair it, or delete it")
            continue
        pending, snapshot = times.get(row.name, (None, None))
        news = row.changes - row.snapshot
        if row.changes and snapshot is None and news > 20_000:
            yield Finding(
                WARNING, what, f"no snapshot, and {news:,} changes to learn at a start", "is a service running?"
            )
        elif snapshot is not None and news > 0 and now - snapshot > OLD_SNAPSHOT:
            yield Finding(
                WARNING, what, f"its snapshot is {(now - snapshot) / 86400:.1f} days old and {news:,} changes behind",
                "is a service running, and does one lead? docs/runbook.md, the leader is stuck",
            )  # fmt: skip
        elif row.decisions > 1000 and row.rewards == 0:
            yield Finding(WARNING, what, f"{row.decisions:,} decisions and no reward", "are rewards reported?")
        else:
            yield Finding(OK, what, f"{row.tasks:,} tasks, {row.decisions:,} decisions, {row.rewards:,} rewards")
        lifetime = row.definition.get("time_to_live")
        if pending is not None and lifetime is not None and now - pending > 2 * lifetime + 3600:
            yield Finding(
                WARNING, what, f"a decision has waited {(now - pending) / 3600:.0f} h, its time to live is over",
                "nothing expires: is the clock held? docs/runbook.md, the clock is wrong",
            )  # fmt: skip


def _keys(storage: Storage, settings: Settings) -> Iterator[Finding]:
    from posse.service.http.access import LOOPBACK

    rows, now = storage.keys(), time.time()
    good = [row for row in rows if row.expires is None or row.expires > now]
    if not good and settings.host not in LOOPBACK:
        yield Finding(
            ERROR,
            "keys",
            "there are none in force, and it listens to others",
            "posse service keys create --scope admin",
        )
    elif not rows and not storage.keys(revoked=True):
        yield Finding(OK, "keys", "none: it answers this machine only")
    else:
        yield Finding(OK, "keys", f"{len(good)} in force")
    if good and not any("admin" in row.scopes for row in good):
        yield Finding(WARNING, "keys", "none of them has the scope admin", "posse service keys create --scope admin")
    for row in rows:
        if row.expires is not None and row.expires <= now:
            yield Finding(WARNING, f"key {row.id}", "has expired", f"posse service keys revoke {row.id}")
        elif row.expires is not None and row.expires - now < SOON:
            yield Finding(
                WARNING,
                f"key {row.id}",
                f"expires in {(row.expires - now) / 86400:.1f} days",
                f"posse service keys rotate {row.id}",
            )


def _clock(storage: Storage, _settings: Settings) -> Iterator[Finding]:
    last = storage.clock()
    now = storage.now() or time.time()
    if last is not None and now < last.seen - 60:
        yield Finding(
            ERROR, "clock", f"it is {last.seen - now:.0f} s behind what the database saw", "set it right (NTP)"
        )
    else:
        yield Finding(OK, "clock", "not behind what the database saw")


def ask(url: str, key: str | None) -> Iterator[Finding]:
    """Yield what a running service says of itself."""
    import httpx

    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=10) as client:
            yield from _service(client.get)
    except httpx.HTTPError as error:
        yield Finding(ERROR, "service", f"{url} does not answer: {error}", "is it running? docs/runbook.md")


def _service(get: Callable[[str], Any]) -> Iterator[Finding]:
    ready = get("/readyz")
    for name, check in ready.json().get("checks", {}).items():
        yield Finding(
            OK if check["ok"] else ERROR,
            f"service, {name}",
            check["detail"],
            "" if check["ok"] else "wait, or see docs/runbook.md",
        )
    if ready.status_code == 200 and ready.json().get("clock"):
        yield Finding(ERROR, "service, clock", ready.json()["clock"], "docs/runbook.md, the clock is wrong")
    fleets = get("/v1/fleets")
    if fleets.status_code != 200:
        yield Finding(WARNING, "service, fleets", fleets.json()["error"]["message"], "pass --key")
        return
    for fleet in fleets.json()["fleets"]:
        if fleet["state"] != "serving":
            yield Finding(
                ERROR, f"service, fleet {fleet['name']}", f"{fleet['state']}: {fleet['reason']}", "docs/service.md"
            )


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
