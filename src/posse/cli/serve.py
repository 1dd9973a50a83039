"""``posse serve``: the decision service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.errors import MissingDependency

if TYPE_CHECKING:
    from posse.service.keys import KeyRing
    from posse.service.settings import Settings

DATABASE = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", envvar="POSSE_DATABASE",
        help="An SQLite file, or postgresql://user@host/name.  [default: posse.db]", show_default=False,
    ),
]  # fmt: skip
CONFIG = Annotated[
    str | None, typer.Option("--config", "-c", help="A TOML file with settings; options given here win.")
]


def serve(
    config: CONFIG = None,
    database: DATABASE = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="Where to listen; other than this machine only with keys.  [default: 127.0.0.1]", show_default=False
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", help="0 takes any that is free.  [default: 8080]", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes; more than 1 with PostgreSQL only.  [default: 1]", show_default=False)
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="Lines of the log: text or json.  [default: text]", show_default=False)
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request: route, status, time and its id.")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Write four simulated weeks of stores, and let customers go on coming.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Serve decisions over HTTP, with a durable log and a page that shows what was learned.

    Without options: an SQLite file in the current folder, this machine only, no keys. See `posse docs service`.
    """
    read_settings = _service("settings").read_settings
    settings = read_settings(
        config, database=database, host=host, port=port, workers=workers, log_format=log_format,
        access_log=access_log or None,
    )  # fmt: skip
    running = _service("http.server")
    _service("log_lines").write_log_lines(verbose, settings.log_format)
    keys = running.require_safe(settings)
    if demo:
        _write_demo(settings)
    running.serve(settings, lambda address: _announce(settings, keys, address, demo), verbose=verbose)


def _announce(settings: Settings, keys: KeyRing | None, address: str, demo: bool) -> None:
    print(f"posse serves {address} (the page is there, too)", flush=True)
    print(f"the log is in {_without_password(settings.database)}", flush=True)
    if keys is not None and not len(keys):
        create = f"`posse service keys create --scope admin --database {_without_password(settings.database)}`"
        if keys.needed:
            why = "the last was revoked" if settings.require_keys != "always" else 'require_keys is "always"'
            print(f"it asks for API keys ({why}) and there are none, so it answers nobody;", flush=True)
            print(f"make one with {create}", flush=True)
        else:
            print(f"there are no API keys, so it answers this machine only; make one with {create}", flush=True)
    if demo:
        from posse.service.demo import start_visits

        start_visits(address)


def _write_demo(settings: Settings) -> None:
    """Write the history of the demo, before anybody can ask; a database that has it stays as it is."""
    from posse.service.demo import make_history
    from posse.service.demo.history import announcement
    from posse.service.warming import Warming
    from posse.storage import open_storage

    print("the demo: preparing simulated stores (the first time ever, posse compiles for minutes)", flush=True)
    Warming().run(lambda: None)
    storage = open_storage(settings.database)
    try:
        begin = time.monotonic()
        history = make_history(storage, settings.limits)
        print(announcement(history, time.monotonic() - begin), flush=True)
    finally:
        storage.close()


def _without_password(database: str) -> str:
    scheme, there, rest = database.partition("://")
    place = rest.partition("?")[0].rpartition("@")[2]
    return f"{scheme}://{place}" if there else database


def _service(module: str) -> Any:
    """Return a module of the service; its libraries are an extra."""
    from importlib import import_module

    try:
        return import_module(f"posse.service.{module}")
    except ImportError as error:
        if isinstance(error, MissingDependency) or (error.name or "").startswith("posse"):
            raise
        raise MissingDependency(f'the service needs {error.name}: pip install ".[serve]" in posse\'s folder') from None
