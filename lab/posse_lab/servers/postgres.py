"""A PostgreSQL server of our own: its own data folder, on loopback, gone when whoever started it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posse.errors import MissingDependency
from posse_lab.servers.service import free_port

DEBIAN = Path("/usr/lib/postgresql")
OWNER = "postgres"  # of a server that is started by root, which PostgreSQL refuses to run as
PATIENCE = 30.0  # seconds for a start or an end


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest version if Debian has several; None if there is none."""
    found = sorted(DEBIAN.glob("*/bin/postgres"), key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))])
    if found:
        return found[-1].parent
    program = shutil.which("postgres")
    return None if program is None else Path(program).resolve().parent


class Server:
    """A server as durable as it is by default, that can be stopped, started again and killed.

    Parameters
    ----------
    folder : Path
        Empty, and one that other users of this machine may enter, if this process is root.
    """

    def __init__(self, folder: Path) -> None:
        programs = binaries()
        if programs is None:
            raise MissingDependency("PostgreSQL is not installed: apt install postgresql, or pass --database")
        self._program, self._owner = programs / "postgres", _owner()
        self._log, self._data = folder / "postgres.log", folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        if self._owner is not None:
            shutil.chown(folder, self._owner, self._owner)
        # --no-sync: only the empty cluster is not synced; what is written later is.
        making = f"--no-sync -U posse -A trust -E UTF8 --locale=C -D {self._data}".split()
        with self._log.open("wb") as out:
            made = subprocess.run(
                [programs / "initdb", *making], stdout=out, stderr=out, user=self._owner, group=self._owner, cwd="/"
            )
        _check(made.returncode, self._log)

    @property
    def url(self) -> str:
        """The address of its first database."""
        return self.database("postgres")

    def database(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://posse@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start, and return when connections are accepted."""
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories="]
        options = [part for setting in settings for part in ("-c", setting)]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [self._program, "-D", self._data, "-p", str(self.port), *options],
                stdout=out, stderr=out, user=self._owner, group=self._owner, cwd="/",
                start_new_session=True,  # Ctrl-C is for whoever started it, who then stops it
            )  # fmt: skip
        status, deadline = self._data / "postmaster.pid", time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                _check(self._process.returncode or 1, self._log)
            lines = status.read_text().splitlines() if status.exists() else []
            if lines and lines[0] == str(self._process.pid) and lines[-1].strip() == "ready":
                return
            time.sleep(0.02)
        raise MissingDependency(f"PostgreSQL did not start within {PATIENCE:g} s; it says: {_tail(self._log)}")

    def stop(self) -> None:
        """Stop at once, but cleanly: who is connected is told to go."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Stop as a crash would; the next start recovers."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None


@contextmanager
def private_postgres(folder: Path) -> Iterator[str]:
    """Run a server with its data in a folder; yield the address of its database."""
    server = Server(folder)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def database_bytes(url: str) -> int:
    """Return how large a database is."""
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _owner() -> str | None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    import pwd

    try:
        pwd.getpwnam(OWNER)
    except KeyError:
        raise MissingDependency(
            f"PostgreSQL does not run as root, and there is no user {OWNER}; run this as another user"
        ) from None
    return OWNER


def _check(status: int, log: Path) -> None:
    if status != 0:
        raise MissingDependency(f"PostgreSQL did not start; it says: {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-500:].strip()
