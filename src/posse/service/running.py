"""Starting the service: one process, or several that share a port."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI

from posse.errors import InvalidValue, StorageUnavailable
from posse.service.access import LOOPBACK
from posse.service.app import create_app
from posse.service.connections import LimitedProtocol, allowed_connections
from posse.service.engine import require_alone
from posse.service.keys import KeyRing
from posse.service.log_lines import write_log_lines
from posse.service.measures import SHARED
from posse.service.settings import Limits, Settings
from posse.storage import open_storage

logger = logging.getLogger("posse.service")

ENVIRONMENT = "POSSE_SERVE_SETTINGS"  # how settings reach further processes
MEMORY = "/dev/shm"  # a folder that is no disk, where there is one


def require_safe(settings: Settings) -> KeyRing | None:
    """Return the keys that there are; raise if there are none and others than this machine could ask.

    None if the database is away, which is no reason not to start: the service waits for it, and lets nobody in
    before it knows the keys.
    """
    if settings.workers > 1 and settings.embedded:
        raise InvalidValue(
            f"{settings.workers} processes cannot share the SQLite file {settings.database}; name a PostgreSQL "
            "database with --database postgresql://..., or take --workers 1"
        )
    loopback = settings.host in LOOPBACK
    if loopback and not settings.embedded:
        return None
    try:
        storage = open_storage(settings.database)
    except StorageUnavailable as error:
        if settings.embedded:
            raise
        logger.warning("%s; trying again", error)
        return None
    try:
        keys = KeyRing(storage.keys(revoked=True), settings.require_keys)
        if settings.embedded:
            require_alone(storage, settings)
    finally:
        storage.close()
    if not len(keys) and not loopback:
        raise InvalidValue(
            f"without API keys this service may listen to this machine only, not to {settings.host}: create one with "
            "`posse service keys create --scope admin`, or leave out --host"
        )
    return keys


def serve(settings: Settings, started: Callable[[str], None] | None = None, *, verbose: bool = False) -> None:
    """Run until a signal says stop; ``started`` is told the address once it listens.

    Parameters
    ----------
    settings : Settings
        Port 0 takes any that is free.
    started : callable, optional
    verbose : bool
        Whether further processes log more; this one's caller has seen to its own log.
    """
    bound = _listen(settings)
    host, port = bound.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    options: dict[str, Any] = {
        "log_config": None, "access_log": False, "server_header": False, "proxy_headers": False,
        "timeout_keep_alive": 75, "timeout_graceful_shutdown": 10, "lifespan": "on", "http": LimitedProtocol,
    }  # fmt: skip
    if settings.workers == 1:
        LimitedProtocol.most = allowed_connections(settings.limits.connections)
        if started is not None:
            started(address)
        for number in (signal.SIGTERM, signal.SIGINT):
            # The server ends in its own time, and then raises what made it end.
            signal.signal(number, _leave)
        server = uvicorn.Server(uvicorn.Config(create_app(settings), **options))
        server.run(sockets=[bound])
        if not server.started:
            raise SystemExit(3)
        return
    # Files that workers map into memory. On a disk that is full, the first page without room would end a worker.
    in_memory = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None
    folder = tempfile.TemporaryDirectory(prefix="posse-metrics-", dir=in_memory)
    os.environ[SHARED] = folder.name
    os.environ[ENVIRONMENT] = json.dumps({"settings": dataclasses.asdict(settings), "verbose": verbose})
    if started is not None:
        started(address)
    from uvicorn.supervisors import Multiprocess

    config = uvicorn.Config(
        "posse.service.running:app_from_environment", factory=True, workers=settings.workers, **options
    )
    with folder:
        Multiprocess(config, sockets=[bound]).run()


def _leave(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def app_from_environment() -> FastAPI:
    """Return the service with the settings of the process that started this one, which has set up nothing else."""
    given = json.loads(os.environ[ENVIRONMENT])
    values = given["settings"]
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), name="posse-parent", daemon=True).start()
    settings = Settings(**{**values, "limits": Limits(**values["limits"])})
    write_log_lines(given["verbose"], settings.log_format)
    LimitedProtocol.most = allowed_connections(settings.limits.connections)
    return create_app(settings)


def _end_with_parent(parent: int) -> None:
    """End this process when the one that looks after it is gone: it would hold the port for nobody."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def _listen(settings: Settings) -> socket.socket:
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(place)
            bound.listen(128)  # so that whoever is told the address can connect
            bound.set_inheritable(True)
        except BaseException:
            bound.close()
            raise
        return bound
    except OSError as error:
        raise InvalidValue(
            f"cannot listen to {settings.host}:{settings.port}: {error.strerror or error}; choose another --port"
        ) from None
