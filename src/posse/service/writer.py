"""Group commit: what arrives while the disk is busy is written together, and answered when it is on disk."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from posse.errors import InvalidValue, PosseError, StorageError, StorageMismatch, StorageUnavailable
from posse.storage import NewDecision, NewReward, Outcome, Storage, Written

MOST = 500  # groups in one transaction
MOST_ENTRIES = 5000  # after which no further group is added: others wait for it, and databases give up on long ones
QUICK = 0.001  # seconds of a write that is not worth waiting for others
GATHER, LONGEST_GATHER = 0.4, 0.003  # how long others are waited for: part of a write, and seconds at most
Group = Sequence[NewDecision | NewReward]
Result = TypeVar("Result")

AGAIN = 60.0  # seconds after which it is said again that the storage fails

logger = logging.getLogger("posse.service")


class DiskHealth:
    """Knows since when the storage fails; logs when that begins, once a minute while it lasts, and when it is over.

    A damaged file may fail for some rows and work for others, so it is over only after a minute without a failure.

    Parameters
    ----------
    clock : callable
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.problem: StorageError | None = None
        """Why the storage fails; None if it does not."""
        self.tried = False
        """Whether anything was written, or could not be, since the start."""
        self._since = self._said = self._failed = 0.0
        self._refused = 0

    def failed(self, error: StorageError, requests: int = 0) -> None:
        """Note that the storage failed, and how many requests that write were refused for it."""
        what = "the storage fails" if isinstance(error, StorageMismatch) else "nothing can be written"
        with self._lock:
            now = self._failed = self._clock()
            if self.problem is None:
                self._since, self._refused = now, 0
            self._refused += requests
            if self.problem is None or now >= self._said + AGAIN:
                self._said = now
                logger.warning("%s: %s (%d requests refused in %.0f s)", what, error, self._refused, now - self._since)
            self.problem, self.tried = error, True

    def succeeded(self) -> None:
        """Note that a write arrived."""
        self.tried = True
        if self.problem is None:
            return
        with self._lock:
            now, damaged = self._clock(), isinstance(self.problem, StorageMismatch)
            if self.problem is None or (damaged and now < self._failed + AGAIN):
                return
            self.problem = None
            logger.warning(
                "writing works again after %.0f s (%d requests were refused)", now - self._since, self._refused
            )


class Writer:
    """The one thread that writes.

    Parameters
    ----------
    storage : Storage
    written : callable
        Told what was written, on this thread, before anybody gets an answer.
    waiting : int
        Groups that may wait; more are refused.
    measured : callable, optional
        Told how many seconds a transaction took, None if it could not be written.
    """

    def __init__(
        self,
        storage: Storage,
        written: Callable[[Written], None],
        waiting: int = 5000,
        measured: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        self._storage, self._written, self._most_waiting = storage, written, waiting
        self._measured = measured
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="posse-writer", daemon=True)
        self._closing, self._closed = threading.Lock(), False
        self._took = 0.0  # seconds of a write, on average
        self.disk = DiskHealth()
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Groups and jobs that wait."""
        return self._queue.qsize()

    async def write(self, group: Group) -> list[Outcome]:
        """Write entries that belong together; return what became of each once it is on disk."""
        if self._queue.qsize() >= self._most_waiting:
            raise StorageUnavailable("too many requests wait for the disk; try again in a second")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Outcome]] = loop.create_future()
        self._put((group, loop, future))
        return await future

    def run(self, job: Callable[[], Result]) -> Result:
        """Run something else that writes, between two transactions; for other threads than the loop's."""
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._put((job, done))
        failed, result = done.get()
        if failed:
            raise result
        return result  # type: ignore[no-any-return]

    def probe(self) -> None:
        """Find out whether something can be written, if nothing else is; nothing is raised if it cannot."""
        with suppress(StorageError):
            self.run(self._storage.try_write)
            self.disk.succeeded()

    def close(self) -> None:
        """Write what waits, and stop."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _put(self, item: Any) -> None:
        # Nothing may come after the item that ends the thread: nobody would answer it.
        with self._closing:
            if self._closed:
                raise StorageUnavailable("the service is stopping; try again")
            self._queue.put(item)

    def _work(self) -> None:
        while True:
            items = [self._queue.get()]
            if self._took > QUICK:
                # What comes while others are written waits anyway; a little more of it makes fewer, larger commits.
                time.sleep(min(GATHER * self._took, LONGEST_GATHER))
            size = _size(items[0])
            while len(items) < MOST and size < MOST_ENTRIES:
                try:
                    items.append(self._queue.get_nowait())
                except queue.Empty:
                    break
                size += _size(items[-1])
            groups = [item for item in items if item is not None and len(item) == 3]
            if groups:
                self._write(groups)
            for item in items:
                if item is not None and len(item) == 2:
                    self._run(*item)
            if None in items:
                return

    def _write(self, items: list[Any]) -> None:
        answers: list[Any]
        begin = time.perf_counter()
        try:
            written = self._storage.write([group for group, _, _ in items])
        except InvalidValue as error:
            if len(items) > 1:
                # Somebody else's request is not to blame.
                for item in items:
                    self._write([item])
                return
            answers = [error]
        except Exception as error:
            if not isinstance(error, PosseError):
                logger.exception("writing failed")
                error = StorageUnavailable("the storage failed; the log of the service says why")
            if isinstance(error, StorageError):
                self._measure(None)
                self.disk.failed(error, len(items))
            answers = [error] * len(items)
        else:
            # It is written, so nothing that fails from here on may refuse it.
            took = time.perf_counter() - begin
            self._took = 0.9 * self._took + 0.1 * took
            answers = list(written.outcomes)
            self.disk.succeeded()
            self._measure(took)
            try:
                self._written(written)
            except Exception:
                # It is on disk, so it is acknowledged; whoever follows the log learns it again.
                logger.exception("what was written could not be learned at once")
        by_loop: dict[Any, list[Any]] = {}
        for (_, loop, future), answer in zip(items, answers, strict=True):
            by_loop.setdefault(loop, []).append((future, answer))
        for loop, pairs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_resolve, pairs)
            except RuntimeError:  # the loop is closed: nobody waits
                logger.info("an answer came after its loop had ended")

    def _measure(self, seconds: float | None) -> None:
        try:
            self._measured(seconds)
        except Exception:
            logger.exception("a transaction could not be counted")

    def _run(self, job: Callable[[], Any], done: queue.SimpleQueue[Any]) -> None:
        try:
            done.put((False, job()))
        except BaseException as error:
            if isinstance(error, StorageError):
                self.disk.failed(error)
            done.put((True, error))


def _size(item: Any) -> int:
    """Return how many entries an item has; jobs and the end have none."""
    return len(item[0]) if item is not None and len(item) == 3 else 0


def _resolve(pairs: list[tuple[asyncio.Future[Any], list[Outcome] | BaseException]]) -> None:
    for future, answer in pairs:
        if future.done():  # whoever asked has gone
            continue
        if isinstance(answer, BaseException):
            # An error of its own for everyone: raising adds to its traceback.
            future.set_exception(type(answer)(*answer.args))
        else:
            future.set_result(answer)
