"""``posse keys``: who may use a service."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from posse.cli.serve import CONFIG, DATABASE
from posse.errors import UnknownLabel

keys_app = typer.Typer(help="API keys of a service: made, listed and revoked.", no_args_is_help=True)


def _database(config: str | None, database: str | None) -> str:
    from posse.service.settings import read_settings

    return read_settings(config, database=database).database


@keys_app.command()
def create(
    scope: Annotated[
        list[str],
        typer.Option("--scope", "-s", help="decide, reward, read or admin; repeat for more."),
    ],
    label: Annotated[str, typer.Option("--label", "-l", help="Whose key it is, for the list.")] = "",
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Make a key and show it, once: only its digest is kept. A running service knows it within a second."""
    from posse.service.keys import new_key
    from posse.storage import open_storage

    key, row = new_key(scope, label, time.time())
    storage = open_storage(_database(config, database))
    try:
        storage.add_key(row)
    finally:
        storage.close()
    print(key)
    typer.echo("keep it: it is not shown again", err=True)


@keys_app.command("list")
def list_keys(config: CONFIG = None, database: DATABASE = None) -> None:
    """List keys: what each may do, and when it was made."""
    from rich.markup import escape

    from posse.cli.console import table_console, titled_table
    from posse.logs.writer import moment
    from posse.storage import open_storage

    storage = open_storage(_database(config, database))
    try:
        rows = storage.keys()
    finally:
        storage.close()
    if not rows:
        print("there are no keys; make one with `posse keys create --scope admin`")
        return
    table = titled_table("1 key" if len(rows) == 1 else f"{len(rows)} keys", ["id", "label", "scopes", "made"], [])
    for row in rows:
        table.add_row(
            row.id, escape(row.label) or "-", ", ".join(row.scopes), moment(row.created)[:19].replace("T", " ")
        )
    table_console().print(table)


@keys_app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The id of the key, as `posse keys list` shows it.")],
    config: CONFIG = None,
    database: DATABASE = None,
) -> None:
    """Revoke a key. A running service refuses it within a second."""
    from posse.storage import open_storage

    storage = open_storage(_database(config, database))
    try:
        found = storage.revoke_key(key_id)
    finally:
        storage.close()
    if not found:
        raise UnknownLabel(f"no key {key_id!r}; `posse keys list` shows which there are")
    print(f"key {key_id} is revoked")
