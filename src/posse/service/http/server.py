"""Start the service: one process, or several that share a port; and limit connections where the server does not."""

from __future__ import annotations

import asyncio
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
from contextlib import suppress
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from posse.errors import InvalidValue, StorageUnavailable
from posse.service.http.access import LOOPBACK
from posse.service.http.app import create_app
from posse.service.http.errors import error_body
from posse.service.keys import KeyRing
from posse.service.log_lines import write_log_lines
from posse.service.measures import SHARED
from posse.service.runtime import require_alone
from posse.service.settings import Limits, Settings
from posse.storage import open_storage

logger = logging.getLogger("posse.service")

ENVIRONMENT = "POSSE_SERVE_SETTINGS"  # how settings reach further processes
MEMORY = "/dev/shm"  # a folder that is no disk, where there is one
LARGEST_HEAD = 1 << 16  # bytes of a request before its body
OTHER_FILES = 256  # that a process may have open beside connections: databases, snapshots, compiled code, threads
REQUEST_SECONDS = 60.0  # from its first byte, or from connecting, to its last


def allowed_connections(most: int) -> int:
    """Return how many connections this process may hold: at most so many, and some files must be left to open.

    The system's limit of open files is raised as far as it lets us.
    """
    try:
        import resource
    except ImportError:  # not a Unix
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + OTHER_FILES
    if resource.RLIM_INFINITY not in (soft, hard) and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
            soft = min(wanted, hard)
    return most if soft == resource.RLIM_INFINITY else max(min(most, soft - OTHER_FILES), 1)


class LimitedProtocol(HttpToolsProtocol):
    """Ends connections whose request has no end of headers, or does not come to its end: neither needs a key.

    Where there are as many connections as may be, one that nobody waits at makes room for a new one, so that those who
    only hold connections shut out nobody: first those that never asked, then those that were silent for longest.
    """

    most = 1000
    """Connections of this process; see :func:`allowed_connections`."""

    _in_head, _head, _heads, _begun = True, 0, 0, False
    _silent_since = 0.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._silent_since = self.loop.time()
        if len(self.connections) > self.most and not self._room():
            message = "too many connections are busy; try again in a second"
            self._end(b"503 Service Unavailable", error_body("too_busy", message, None), b"retry-after: 1\r\n")
            return
        self._late = self.loop.call_later(REQUEST_SECONDS, transport.close)

    def _room(self) -> bool:
        """Make room for this connection; return whether there is."""
        others = [one for one in self.connections if one is not self and not one.transport.is_closing()]
        if len(others) < self.most:
            return True
        silent = [one for one in others if isinstance(one, LimitedProtocol) and one._is_silent()]
        if not silent:
            return False
        min(silent, key=lambda one: (one._heads > 0, one._silent_since)).transport.close()
        return True

    def _is_silent(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        before, heads = self._in_head, self._heads
        super().data_received(data)
        # Bodies have a limit of their own: only what is nothing but a head counts.
        if before and self._in_head and heads == self._heads and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse()
        # Most requests come whole and need no clock.
        if self._begun and self._late is None:
            self._late = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        """Wait for the rest of a request."""
        self._begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Go on with the body."""
        self._in_head, self._head, self._heads = False, 0, self._heads + 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._in_head, self._head, self._begun = True, 0, False
        self._in_time()
        self._silent_since = self.loop.time()
        super().on_message_complete()

    def send_400_response(self, *_: Any) -> None:
        """Answer what is not HTTP in the one shape."""
        self._end(b"400 Bad Request", error_body("bad_request", "this is not an HTTP request", None))

    def _refuse(self) -> None:
        message = f"the line and headers of a request must have at most {LARGEST_HEAD} bytes; send fewer"
        self._end(b"431 Request Header Fields Too Large", error_body("head_too_large", message, None))

    def _end(self, status: bytes, body: bytes, headers: bytes = b"") -> None:
        head = b"HTTP/1.1 " + status + b"\r\n" + headers
        head += b"content-type: application/json\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
        self.transport.write(head + b"content-length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        self.transport.close()


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
        "posse.service.http.server:app_from_environment", factory=True, workers=settings.workers, **options
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
