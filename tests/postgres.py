"""A real PostgreSQL for tests: its own data folder, on loopback, gone when the tests end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
fsync = on
max_connections = 100
shared_buffers = 64MB
autovacuum_naptime = 10s
log_min_messages = warning
"""


def server_programs() -> Path | None:
    """The folder of PostgreSQL's server programs, or None if there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda file: int(file.parts[4]))
    if debian:
        return debian[-1].parent
    found = shutil.which("postgres")
    return Path(found).resolve().parent if found else None


class Server:
    """A server that can be stopped, started again and killed; ``url`` is of its first database."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self._programs = programs
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        # --no-sync: only the empty cluster is not synced; what tests write is.
        self._run("initdb", "--no-sync", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-D", self.data)
        with open(self.data / "postgresql.conf", "a") as settings:
            settings.write(SETTINGS.format(port=self.port, folder=folder))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, user=self._user, group=self._user, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode()}")

    def start(self) -> None:
        """Start, and return when connections are accepted."""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.data)],
                stdout=log, stderr=log, user=self._user, group=self._user, cwd="/",
                start_new_session=True,  # Ctrl-C is for pytest, which then stops the server
            )  # fmt: skip
        deadline = time.monotonic() + 30
        status = self.data / "postmaster.pid"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}")
            lines = status.read_text().splitlines() if status.exists() else []
            if lines and lines[0] == str(self._process.pid) and lines[-1].strip() == "ready":
                return
            time.sleep(0.02)
        raise RuntimeError("PostgreSQL did not start within 30 s")

    def stop(self) -> None:
        """Stop at once, but cleanly; connections break."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Stop as a power cut would."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def database(self, name: str) -> str:
        """The address of another database."""
        return self.url.removesuffix("postgres") + name


def start_postgres(folder: Path) -> Server | None:
    """Make a server in an empty folder and start it; None if PostgreSQL is not installed.

    Not in a folder of pytest's, which nobody but root may enter where root runs the tests.
    """
    programs = server_programs()
    if programs is None:
        return None
    server = Server(programs, folder)
    server.start()
    return server
