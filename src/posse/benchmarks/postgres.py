"""A PostgreSQL server of our own, for as long as a benchmark runs."""

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

from posse.benchmarks.ports import free_port
from posse.errors import MissingDependency

DEBIAN = Path("/usr/lib/postgresql")
OWNER = "postgres"  # of a server that is started by root, which PostgreSQL refuses to run as


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest version if Debian has several; None if there is none."""
    found = sorted(DEBIAN.glob("*/bin/postgres"), key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))])
    if found:
        return found[-1].parent
    program = shutil.which("postgres")
    return None if program is None else Path(program).parent


@contextmanager
def private_postgres(folder: Path) -> Iterator[str]:
    """Start a server on this machine with its data in a folder, as durable as it is by default; yield its address.

    Parameters
    ----------
    folder : Path
        That other users of this machine may enter, if this process is root.
    """
    programs = binaries()
    if programs is None:
        raise MissingDependency("PostgreSQL is not installed: apt install postgresql, or pass --database")
    owner = _owner()
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if owner is not None:
        shutil.chown(data, owner, owner)
    log = folder / "postgres.log"
    with log.open("wb") as out:
        making: list[str | Path] = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "posse",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        _check(subprocess.run(making, stdout=out, stderr=out, user=owner, group=owner, cwd="/").returncode, log)
        running: list[str | Path] = [
            programs / "postgres",
            "-D",
            data,
            "-p",
            str(port),
            "-c",
            "listen_addresses=127.0.0.1",
        ]
        running += ["-c", "unix_socket_directories="]
        server = subprocess.Popen(running, stdout=out, stderr=out, user=owner, group=owner, cwd="/")
        try:
            _await(programs, port, server, log)
            yield f"postgresql://posse@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown: who is connected is told to go
            server.wait(30)


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


def _await(programs: Path, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    asking: list[str | Path] = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    for _ in range(300):
        if server.poll() is not None:
            _check(server.returncode or 1, log)
        if subprocess.run(asking, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise MissingDependency(f"PostgreSQL did not start within 30 s; it says: {_tail(log)}")


def _check(status: int, log: Path) -> None:
    if status != 0:
        raise MissingDependency(f"PostgreSQL did not start; it says: {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-500:].strip()
