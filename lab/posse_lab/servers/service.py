"""``posse serve`` as processes that are killed, stopped and started again on the same port."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posse.errors import PosseError

PATIENCE = 60.0  # seconds after which something that should come is given up
BROKEN = (OSError, http.client.HTTPException)  # a request that was not answered in full

SERVE = (sys.executable, "-m", "posse", "serve")
_numbers = itertools.count(1)


class NotStarted(PosseError):
    """A service that was started did not come up."""


class Answer(NamedTuple):
    """What a service answered."""

    status: int
    body: Any
    headers: dict[str, str]


class Connection:
    """One connection that is kept open, and made again after it broke."""

    def __init__(self, port: int, seconds: float = 30.0) -> None:
        self.port, self._seconds = port, seconds
        self._http: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """Return the answer; raise one of BROKEN if none came in full."""
        try:
            if self._http is None:
                self._http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self._seconds)
                self._http.connect()
                self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sent = None if body is None else json.dumps(body).encode()
            kind = {} if body is None else {"content-type": "application/json"}
            self._http.request(method, path, sent, {**kind, **(headers or {})})
            response = self._http.getresponse()
            data = response.read()
        except BROKEN:
            self.close()
            raise
        found = {name.lower(): value for name, value in response.getheaders()}
        if found.get("content-type", "").startswith("application/json"):
            return Answer(response.status, json.loads(data), found)
        return Answer(response.status, data, found)

    def read(self, path: str) -> Any:
        """Return the body of a GET that must succeed."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def close(self) -> None:
        """Close it."""
        if self._http is not None:
            self._http.close()
            self._http = None


def settle(check: Callable[[], Any], seconds: float = PATIENCE, pause: float = 0.02) -> Any:
    """Ask until the answer is true; return it."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"it did not come within {seconds:g} s"
        time.sleep(pause)
    return found


def free_port() -> int:
    """Return a port that nobody has, and that no outgoing connection is given while its service is down."""
    for port in random.SystemRandom().sample(range(20000, 32000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NotStarted("no free port between 20000 and 32000")


class Service:
    """A service that may be started many times in one folder, on one port.

    Parameters
    ----------
    folder : Path
        Where it runs; files with what it says are made there.
    *options : str
        Of ``posse serve``.
    port : int, optional
        Default: a free one. 0: the service chooses, see :meth:`printed_url`.
    command : sequence of str
        What is run.
    environment : dict, optional
        Beside this process's own, of which keys of services are left out.
    **settings
        Written to a TOML file, if there are any.
    """

    def __init__(
        self,
        folder: Path,
        *options: object,
        port: int | None = None,
        command: Sequence[str] = SERVE,
        environment: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port() if port is None else port
        self.database = str(settings.get("database", folder / "posse.db"))
        self._command = [*command, *map(str, options)]
        own = {name: value for name, value in os.environ.items() if not name.startswith("POSSE_KEY")}
        self._environment = {**own, **(environment or {})}
        number = next(_numbers)
        if settings:
            lines = (f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
            (folder / f"settings-{number}.toml").write_text("".join(lines))
            self._command += ["--config", f"settings-{number}.toml"]
        self.output, self.errors = (folder / f"{name}-{number}.txt" for name in ("stdout", "stderr"))
        self.process: subprocess.Popen[bytes] | None = None
        self.connection = Connection(self.port)
        self._started = 0.0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def words(self) -> str:
        """All that it has said, to both streams."""
        return _read(self.output) + _read(self.errors)

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self.process is not None
        return self.process.pid

    def start(self, *, ready: bool = True) -> float:
        """Start a process; return the seconds until it was ready."""
        assert self.process is None
        self._started = time.monotonic()
        with self.output.open("ab") as output, self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*self._command, "--port", str(self.port)],
                cwd=self.folder, stdout=output, stderr=errors, env=self._environment,
                start_new_session=True,  # so that all of it can be ended at once
            )  # fmt: skip
        return self.wait_until_ready() if ready else 0.0

    def printed_url(self, seconds: float = PATIENCE) -> str | None:
        """Return the address that it prints, once it does; None if it ends before."""

        def found() -> tuple[str | None] | None:
            assert self.process is not None
            ended = self.process.poll() is not None
            printed = re.search(r"https?://\S+(?=\s)", _read(self.output))
            return (printed and printed[0],) if printed or ended else None

        url: str | None = settle(found, seconds, 0.005)[0]
        if url is not None and self.port == 0:
            self.port = self.connection.port = int(url.rpartition(":")[2].rstrip("/"))
        return url

    def is_ready(self) -> bool:
        """Whether it answers that it is; raises if it has ended."""
        assert self.process is not None
        if self.process.poll() is not None:
            raise NotStarted(f"posse serve ended with {self.process.returncode}; it says: {self.tail()}")
        try:
            return self.connection.ask("GET", "/readyz").status == 200
        except BROKEN:
            return False

    def wait_until_ready(self) -> float:
        """Wait; return the seconds since the start."""
        try:
            settle(self.is_ready, pause=0.01)
        except AssertionError:
            words = f"posse serve did not start within {PATIENCE:g} s; it says: {self.tail()}"
            raise NotStarted(words) from None
        return time.monotonic() - self._started

    @property
    def leading(self) -> bool:
        """Whether it is the process that estimates populations."""
        return bool(self.connection.read("/readyz")["leading"])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as the kernel would, without a word."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None
        self.connection.close()

    def stop(self) -> int:
        """Ask it to end; return its status."""
        self.send(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; return its status."""
        assert self.process is not None
        status = self.process.wait(PATIENCE)
        self.process = None
        self.connection.close()
        return status

    def clear(self) -> None:
        """Leave nothing running, whatever happened."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)
            self.process = None
        self.connection.close()

    def tail(self, lines: int = 40) -> str:
        """Return the end of what it said."""
        return "\n".join(_read(self.errors).splitlines()[-lines:])

    def complaints(self) -> list[str]:
        """Return lines that only a bug makes it say."""
        pattern = re.compile(r"^(Traceback|CRITICAL|ERROR|\w+Error:)")
        return [line for line in _read(self.errors).splitlines() if pattern.search(line)]


@contextlib.contextmanager
def services(database: str, n_processes: int, folder: Path) -> Iterator[list[Service]]:
    """Start services on one database, wait until they are ready, and stop them in the end.

    Parameters
    ----------
    database : str
        As ``posse serve --database`` takes it.
    n_processes : int
    folder : Path
        For what they say.
    """
    running: list[Service] = []
    try:
        for _ in range(n_processes):  # one after the other: the first makes the tables
            running.append(Service(folder, "--database", database))
            running[-1].start()
        yield running
    finally:
        for service in running:
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                service.stop()
            service.clear()


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
