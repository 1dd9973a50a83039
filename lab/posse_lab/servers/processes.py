"""What the system says about processes and those that they have started."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import psutil


def family(pids: Sequence[int]) -> list[psutil.Process]:
    """Return processes and all that they have started."""
    found: list[psutil.Process] = []
    for pid in pids:
        process = psutil.Process(pid)
        found += [process, *process.children(recursive=True)]
    return found


def resident(pids: Sequence[int]) -> int:
    """Return bytes of memory of processes and of all that they have started."""
    return int(sum(process.memory_info().rss for process in family(pids)))


def processor_seconds(pids: Sequence[int]) -> float:
    """Return the processor time that processes and all that they have started took."""
    return float(sum(times.user + times.system for times in (process.cpu_times() for process in family(pids))))


class Watch:
    """Notes the memory of processes and of all that they have started, once a second; as a context."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.memory: list[float] = []
        """Bytes of all of them together."""

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(1.0):
            try:
                self.memory.append(float(resident(self._pids)))
            except psutil.Error:  # one of them ended just now
                continue
