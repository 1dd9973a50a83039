"""``posse serve`` as processes that are killed, stopped and started again on the same port."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 60.0  # seconds after which something that should come is given up
BROKEN = (OSError, http.client.HTTPException)  # a request that was not answered in full

COMMAND = [sys.executable, "-m", "posse", "serve"]


class Answer(NamedTuple):
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
        told = {name.lower(): value for name, value in response.getheaders()}
        if told.get("content-type", "").startswith("application/json"):
            return Answer(response.status, json.loads(data), told)
        return Answer(response.status, data, told)

    def read(self, path: str) -> Any:
        """What a GET that must succeed says."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None


def settle(check: Any, seconds: float = PATIENCE, pause: float = 0.02) -> Any:
    """Ask until the answer is true; return it."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"it did not come within {seconds:g} s"
        time.sleep(pause)
    return found


def free_port() -> int:
    """A port that nobody has, and that no outgoing connection is given while its service is down."""
    for port in random.SystemRandom().sample(range(20000, 32000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


class Service:
    """A service that may be started many times in one folder, on one port.

    ``settings`` go into its TOML file; a relative database is one of the folder.
    """

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port()
        self.database = str(settings.get("database", folder / "posse.db"))
        self._options = options
        self._environment = {**os.environ, **(environment or {})}
        values = {"database": str(folder / "posse.db"), **settings}
        (folder / "settings.toml").write_text("".join(f"{name} = {json.dumps(v)}\n" for name, v in values.items()))
        self.errors = folder / "stderr.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self.connection = Connection(self.port)
        self._started = 0.0

    def start(self, *, ready: bool = True) -> float:
        """Start a process; return the seconds until it was ready."""
        assert self.process is None
        self._started = time.monotonic()
        with self.errors.open("ab") as stream:
            stream.write(b"--- start\n")
            stream.flush()
            self.process = subprocess.Popen(
                [*COMMAND, "--config", "settings.toml", "--port", str(self.port), *self._options],
                cwd=self.folder, stdout=stream, stderr=stream, env=self._environment,
                start_new_session=True,  # so that all of it can be ended at once
            )  # fmt: skip
        return self.wait_until_ready() if ready else 0.0

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.tail()}"
        try:
            return self.connection.ask("GET", "/readyz").status == 200
        except BROKEN:
            return False

    def wait_until_ready(self) -> float:
        """Wait; return the seconds since the start."""
        settle(self.is_ready, pause=0.01)
        return time.monotonic() - self._started

    @property
    def leading(self) -> bool:
        return bool(self.connection.read("/readyz")["leading"])

    def send(self, number: signal.Signals) -> None:
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
        """The end of what it said."""
        return "\n".join(self.errors.read_text(errors="replace").splitlines()[-lines:]) if self.errors.exists() else ""

    def complaints(self) -> list[str]:
        """Lines that only a bug makes it say."""
        pattern = re.compile(r"^(Traceback|CRITICAL|ERROR|\w+Error:)")
        return [line for line in self.errors.read_text(errors="replace").splitlines() if pattern.search(line)]
