"""Real processes of ``posse serve``, and what the system says about them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from posse.client import Client, ServiceUnavailable
from posse.errors import PosseError
from posse_lab.benchmarks.ports import free_port

START = 60.0  # seconds that a service may take: on a new machine it compiles first


class NotStarted(PosseError):
    """A service that was started for a benchmark did not come up."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process that serves."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
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
    with ExitStack() as stack:
        logs = (folder / f"serve-{number}.log" for number in range(n_processes))
        # One after the other: the first makes the tables.
        yield [stack.enter_context(_service(database, log)) for log in logs]


@contextmanager
def _service(database: str, log: Path) -> Iterator[Service]:
    port = free_port()
    command = [sys.executable, "-m", "posse", "serve", "--port", str(port), "--database", database]
    # No key of whoever runs this: a service without keys is asked.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("POSSE_KEY")}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=log.parent)
    try:
        service = Service(port, process)
        _await(service, log)
        yield service
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(service: Service, log: Path) -> None:
    with Client(service.url, timeout=1.0) as client:
        end = time.monotonic() + START
        while time.monotonic() < end:
            if service.process.poll() is not None:
                break
            try:
                if client.health().ready:
                    return
            except ServiceUnavailable:
                pass
            time.sleep(0.05)
    said = log.read_text(encoding="utf-8", errors="replace")[-800:].strip()
    raise NotStarted(f"posse serve did not start within {START:.0f} s; it says: {said}")


class Watch:
    """Notes the memory of processes, their children included, once a second; as a context.

    Parameters
    ----------
    pids : sequence of int
    pause : float, default 1.0
        Seconds between two looks.
    """

    def __init__(self, pids: Sequence[int], pause: float = 1.0) -> None:
        self._pids = list(pids)
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.memory: list[float] = []
        """Bytes of all processes together; empty where the system does not say."""
        self.own: list[float] = []
        """Bytes of the processes without those that they have started."""

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(self._pause):
            for noted, pids in ((self.memory, family(self._pids)), (self.own, self._pids)):
                if (bytes_now := resident(pids)) is not None:
                    noted.append(bytes_now)


def resident(pids: Sequence[int]) -> float | None:
    """Return bytes of memory of processes; None where the system does not say."""
    found = [_status(pid) for pid in pids]
    sizes = [size for size in found if size is not None]
    return sum(sizes) if sizes else None


def processor_seconds(pids: Sequence[int]) -> float | None:
    """Return the processor time that processes and their children took; None where the system does not say."""
    ticks = 0
    try:
        for pid in family(pids):
            # The name in brackets may have spaces; what follows it are numbers.
            words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(words[11]) + int(words[12])
        return ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):  # not on this system, or a process has ended
        return None


def family(pids: Sequence[int]) -> list[int]:
    """Return processes and all that they have started."""
    found: list[int] = []
    todo = list(pids)
    while todo:
        pid = todo.pop()
        found.append(pid)
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):  # each has those that it has started
            with suppress(OSError):
                todo += map(int, thread.read_text(encoding="utf-8").split())
    return found


def _status(pid: int) -> float | None:
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
