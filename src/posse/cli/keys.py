"""``posse service keys``: who may use a service."""

from __future__ import annotations

import getpass
import re
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import InvalidValue, UnknownLabel

if TYPE_CHECKING:
    from posse.storage import Storage

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def seconds_of(text: str, what: str) -> float:
    """Return a length of time in seconds.

    Examples
    --------
    >>> seconds_of("1.5h", "grace")
    5400.0
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", text.strip())
    if match is None:
        raise InvalidValue(f"expected {what} as a number and a unit, such as 90d, 12h, 30m or 45s, got {text!r}")
    return float(match[1]) * UNITS[match[2] or "s"]


keys_app = typer.Typer(help="Create, list, rotate and revoke the API keys of a service.", no_args_is_help=True)

EXPIRES = Annotated[
    str | None,
    typer.Option(help="When it expires: after 90d, 12h.  [default: never]", show_default=False),
]
KEY_ID = Annotated[str, typer.Argument(help="The id of the key, as `posse service keys list` shows it.")]


def _opened(config: str | None, database: str | None) -> closing[Storage]:
    from posse.service.settings import read_settings
    from posse.storage import open_storage

    return closing(open_storage(read_settings(config, database=database).database))


def _note(storage: Storage, action: str, key_id: str) -> None:
    """Note in the audit log who did what to a key."""
    from posse.service.audit import COMMAND_LINE
    from posse.storage import AuditRow

    who = None
    with suppress(Exception):  # no name of a user: in a container, say
        who = getpass.getuser()[:100]
    storage.add_audit(AuditRow(0, time.time(), COMMAND_LINE, who, action, target=key_id, status=200))


@keys_app.command()
def create(
    scope: Annotated[
        list[str],
        typer.Option("--scope", "-s", help="decide, reward, read or admin; repeat for more."),
    ],
    label: Annotated[str, typer.Option("--label", "-l", help="Whose key it is, for the list.")] = "",
    fleet: Annotated[
        list[str] | None, typer.Option("--fleet", "-f", help="A fleet that it is for; repeat for more.  [default: all]")
    ] = None,
    expires: EXPIRES = None,
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Make a key and show it, once: only its digest is kept. A running service knows it within a second."""
    from posse.service.keys import new_key

    now = time.time()
    end = None if expires is None else now + seconds_of(expires, "--expires")
    key, row = new_key(scope, label, now, fleets=fleet or (), expires=end)
    with _opened(config, database) as storage:
        storage.add_key(row)
        _note(storage, "keys create", row.id)
    print(key)
    typer.echo("keep it: it is not shown again", err=True)


@keys_app.command("list")
def list_keys(config: CONFIG = None, database: DATABASE = None) -> None:
    """List keys: what each may do, for which fleets, when it was made and last used, and when it expires."""
    from rich.markup import escape

    from posse.cli.console import table_console, titled_table

    with _opened(config, database) as storage:
        rows = storage.keys()
    if not rows:
        print("there are no keys; make one with `posse service keys create --scope admin`")
        return
    columns = ["id", "label", "scopes", "fleets", "made", "last used", "expires"]
    table = titled_table("1 key" if len(rows) == 1 else f"{len(rows)} keys", columns, [])
    now = time.time()
    for row in rows:
        gone = row.expires is not None and row.expires <= now
        table.add_row(
            row.id, escape(row.label) or "-", ", ".join(row.scopes), ", ".join(row.fleets) or "all",
            _when(row.created), "never" if row.used is None else _when(row.used),
            "never" if row.expires is None else f"{_when(row.expires)}{' (over)' if gone else ''}",
        )  # fmt: skip
    table_console().print(table)


@keys_app.command()
def rotate(
    key_id: KEY_ID,
    grace: Annotated[str, typer.Option(help="How long the old key still works: 7d, 1h, 0s.")] = "1d",
    expires: EXPIRES = None,
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Make a key that may do what another may, and let the other expire after a while. Shows the new one, once."""
    from posse.service.keys import rotated

    now = time.time()
    wait = seconds_of(grace, "--grace")
    end = None if expires is None else now + seconds_of(expires, "--expires")
    with _opened(config, database) as storage:
        rows = storage.keys()
        found = next((row for row in rows if row.id == key_id), None)
        if found is None:
            raise _unknown(key_id)
        key, row = rotated(found, now, end)
        # The new one first: whoever is interrupted in between has both.
        storage.add_key(row)
        storage.expire_key(key_id, now + wait)
        _note(storage, "keys rotate", key_id)
    print(key)
    typer.echo(f"keep it: it is not shown again; key {key_id} is good until {_when(now + wait)} UTC", err=True)


@keys_app.command()
def revoke(key_id: KEY_ID, config: CONFIG = None, database: DATABASE = None) -> None:
    """Revoke a key. A running service refuses it within a second."""
    with _opened(config, database) as storage:
        if not storage.revoke_key(key_id):
            raise _unknown(key_id)
        _note(storage, "keys revoke", key_id)
    print(f"key {key_id} is revoked")


@keys_app.command()
def audit(
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 50,
    fleet: Annotated[str | None, typer.Option("--fleet", "-f", help="Only this fleet.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """List calls that need an admin, and what was done to keys, the newest first."""
    from json import dumps

    from rich.markup import escape

    from posse.cli.console import table_console, titled_table
    from posse.service.audit import audit_row

    with _opened(config, database) as storage:
        rows = storage.audit(fleets=() if fleet is None else (fleet,), limit=limit)
    if json:
        for row in rows:
            print(dumps(audit_row(row)))
        return
    table = titled_table(f"{len(rows)} calls", ["time", "who", "from", "what", "fleet", "target", "status"], [])
    for row in rows:
        cells = [row.actor, row.client, row.action, row.fleet, row.target, row.status]
        table.add_row(_when(row.time), *("-" if value is None else escape(str(value)) for value in cells))
    table_console().print(table)


def _when(seconds: float) -> str:
    from posse.logs.writer import moment

    return moment(seconds)[:19].replace("T", " ")


def _unknown(key_id: str) -> UnknownLabel:
    return UnknownLabel(f"no key {key_id!r}; `posse service keys list` shows which there are")
