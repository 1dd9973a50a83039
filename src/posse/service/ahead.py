"""Reading a long log in processes of their own from the moment that a service is started.

A service that has no snapshot learns its whole log before it is ready. Most of that is reading rows and parsing their
contexts, which other cores can do while this process still loads its libraries and compiled code. What they do
not read, or read too late, is read by whoever learns.
"""

from __future__ import annotations

import bisect
import json
import logging
import os
import queue
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple

import numpy as np

from posse.errors import PosseError
from posse.service.logged_contexts import contexts_of, numbers_of
from posse.service.worker_process import WorkerProcess, do
from posse.storage import FleetRow, RewardRun, Storage, open_storage
from posse.types import Array

MODULE = "posse.service.ahead"
LONG = 100 * 2**20  # bytes of a file from which on a process is worth its start
MANY = 100_000  # changes of a fleet without a snapshot, likewise
BLOCK = 10_000  # changes of a block
WAITING = 20  # blocks of one process that may wait to be learned, of two megabytes each
PATIENCE, FIRST = 2.0, 10.0  # seconds that a block, and the first, is waited for: other cores may have much to do
PROCESSES = 2  # reading takes three times as long as learning
HEAD = struct.Struct("=QQ")  # bytes of what is said about a block, and of its numbers

logger = logging.getLogger("posse.service")


class Block(NamedTuple):
    """Rewards that were read: of a fleet that was made at some time, as of some change, and its place in the log.

    The block at a place has all changes with numbers from ``place * BLOCK + 1`` on, ``BLOCK`` of them at most, unless
    one of them is none of a reward: there is none then.
    """

    of: tuple[str, float, int]
    place: int
    run: RewardRun
    contexts: Array


class _Reader:
    """A process that reads its share of the blocks, and the thread that takes what it writes."""

    def __init__(self, database: str, turn: int) -> None:
        self._process = WorkerProcess(
            MODULE, {"database": database, "turn": turn, "of": PROCESSES, "size": BLOCK, "many": MANY}
        )
        self._blocks: queue.Queue[Block | None] = queue.Queue(WAITING)
        self._next: Block | None = None
        self._patience = FIRST
        self.ended = False
        threading.Thread(target=self._take, name="posse-ahead", daemon=True).start()

    def _take(self) -> None:
        with suppress(OSError, ValueError, EOFError, struct.error):  # it was ended, or has ended
            while not self.ended:
                self._blocks.put(_received(self._process.output))
        with suppress(queue.Full):
            self._blocks.put(None, timeout=PATIENCE)

    def block(self, of: tuple[str, float, int], place: int) -> Block | None:
        while not self.ended:
            if self._next is None:
                with suppress(queue.Empty):
                    self._next = self._blocks.get(timeout=self._patience)
                self._patience = PATIENCE
            block = self._next
            if block is None:
                self.end()
            elif block.of[0] != of[0] or (block.of == of and block.place > place):
                return None
            elif block.of == of and block.place == place:
                return block
            else:
                self._next = None  # of no use any more
        return None

    def end(self) -> None:
        if not self.ended:
            self.ended = True
            self._process.close()
            with suppress(queue.Empty):
                while True:
                    self._blocks.get_nowait()  # so that whoever takes what comes is not kept


class Ahead:
    """What processes read of all long logs of a database.

    Parameters
    ----------
    database : str
        The path of an SQLite file.
    """

    def __init__(self, database: str) -> None:
        self._readers = [_Reader(database, turn) for turn in range(PROCESSES)]

    def run(self, fleet: FleetRow, after: int, settled: int) -> tuple[RewardRun, Array] | None:
        """Return what was read of a fleet's log after a change, with a matrix of contexts; None if it must be read.

        Parameters
        ----------
        fleet : FleetRow
        after, settled : int
            As :meth:`posse.storage.Storage.reward_run` takes them.
        """
        place = after // BLOCK
        block = self._readers[place % PROCESSES].block((fleet.name, fleet.created, settled), place)
        if block is None:
            return None
        begin = bisect.bisect_right(block.run.numbers, after)
        if begin == len(block.run.numbers):
            return None
        if begin == 0:
            return block.run, block.contexts
        return RewardRun._make(column[begin:] for column in block.run), block.contexts[begin:]

    def end(self) -> None:
        """End it, whatever it does."""
        for reader in self._readers:
            reader.end()


_started: dict[str, Ahead] = {}


def read_ahead(database: str, *, embedded: bool) -> None:
    """Begin to read long logs of a database, if it is a file that may have one and there is a core for it."""
    path = os.path.abspath(database.removeprefix("sqlite:///"))
    try:
        if embedded and (os.cpu_count() or 1) > 1 and os.path.getsize(path) >= LONG:
            _started[path] = Ahead(path)
    except OSError:
        pass  # there is none yet, or no process to be had: it takes longer alone


def taken_ahead(database: str) -> Ahead | None:
    """Return what is being read of a database, once; whoever asks ends it."""
    return _started.pop(os.path.abspath(database.removeprefix("sqlite:///")), None)


def _read(work: dict[str, Any]) -> None:
    """Write blocks of all long logs to standard output, one share of them."""
    storage = open_storage(work["database"], migrate=False)
    for progress in storage.progress():
        fleet = storage.fleet(progress.name) if not progress.snapshot and progress.changes >= work["many"] else None
        if fleet is not None:
            places = range(work["turn"], fleet.changes // work["size"], work["of"])
            for block in blocks_of(storage, fleet, places, work["size"]):
                _send(sys.stdout.buffer, block)
    storage.close()


def blocks_of(storage: Storage, fleet: FleetRow, places: Iterable[int], size: int) -> Iterator[Block]:
    """Yield blocks of a fleet at some places, those that are nothing but rewards with contexts of numbers.

    Parameters
    ----------
    storage : Storage
    fleet : FleetRow
    places : iterable of int
    size : int
        Changes of a block.
    """
    features = fleet.definition.get("features", {}).get("features", [])
    if not features or fleet.definition.get("kind") is not None or {one["kind"] for one in features} != {"numeric"}:
        return
    names = [one["name"] for one in features]
    for place in places:
        after = place * size
        run = storage.reward_run(fleet.name, after, size, least=size, settled=fleet.changes)
        if run is None:
            continue  # there is something else among them
        count = bisect.bisect_right(run.numbers, after + size)  # where some are gone, it goes on into the next
        if count < len(run.numbers):
            run = RewardRun._make(column[:count] for column in run)
        contexts = numbers_of(contexts_of(run.bodies), names)
        if contexts is not None and all(old is None for old in run.old):
            yield Block((fleet.name, fleet.created, fleet.changes), place, run, contexts)


def _send(stream: IO[bytes], block: Block) -> None:
    run, contexts = block.run, block.contexts
    said = json.dumps({
        "of": block.of, "place": block.place, "shape": contexts.shape, "tasks": run.tasks, "arms": run.arms,
    }).encode()  # fmt: skip
    numbers = b"".join((
        np.array(run.numbers, dtype=np.int64).tobytes(), np.array(run.rewards, dtype=np.float64).tobytes(),
        np.array(run.times, dtype=np.float64).tobytes(), contexts.tobytes(),
    ))  # fmt: skip
    stream.write(HEAD.pack(len(said), len(numbers)) + said + numbers)
    stream.flush()


def _received(stream: IO[bytes]) -> Block:
    head = stream.read(HEAD.size)
    n_said, n_numbers = HEAD.unpack(head)
    said, numbers = json.loads(stream.read(n_said)), stream.read(n_numbers)
    if len(numbers) < n_numbers:
        raise EOFError
    n, d = said["shape"]
    parts = np.frombuffer(numbers, np.float64)
    places, rewards, times = np.frombuffer(numbers, np.int64, n), parts[n : 2 * n], parts[2 * n : 3 * n]
    run = RewardRun(
        places.tolist(), said["tasks"], said["arms"], [], rewards.tolist(), [None] * n, times.tolist()
    )  # fmt: skip
    return Block(tuple(said["of"]), said["place"], run, parts[3 * n :].reshape(n, d))


if __name__ == "__main__":
    with suppress(BrokenPipeError, PosseError):  # nobody wants it any more, or the database is not what it should be
        do(_read)
