"""Long work in processes of their own: it would keep this one's interpreter from answering requests.

A process is told what to do by a line of JSON on its standard input, and ends with whoever started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from posse.errors import InvalidValue, PosseError
from posse.service.http.errors import ApiError

Work = dict[str, Any]
"""What a process is to do, as JSON has it: the name of a job, and what that needs."""
Result = TypeVar("Result")

JSON_LINES, PARQUET, VALUE, INSIGHT = "jsonl", "parquet", "value", "insight"
FLEET, LOG, ABOUT, ANSWER, REPORT = "fleet", "log.jsonl", "about.json", "answer.json", "report.html"
"""Files in the folder of an insight: those that it reads, and those that it writes."""

REFUSED = 3  # its status if it cannot be done, for the reason that it writes to standard error
NICE = 10  # requests come first
BLOCK = 1 << 16  # bytes that are read at a time
FOLDER = "temporary_folder"  # of what it is told: where its temporary files go
LONGEST = 900.0  # seconds after which it is given up: the first of a machine may have to compile
MOST_STREAMS = 8  # processes that write what is streamed
MOST_WAITING = 16  # requests that wait for something that is done one at a time


class Job:
    """A process that does some work; as a context, at whose end it is ended."""

    def __init__(self, work: Work) -> None:
        # No pipe: nobody reads it before the end.
        self._said = tempfile.TemporaryFile(prefix="posse-")  # noqa: SIM115
        # Removed here: a process that is killed leaves its files behind.
        self._folder = tempfile.TemporaryDirectory(prefix="posse-")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "posse.service.jobs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._said, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
        except BaseException:
            self._said.close()
            self._folder.cleanup()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # It stays open: the process ends when it is closed.
        self._input, self.output = self._process.stdin, self._process.stdout
        with suppress(BrokenPipeError):  # it has ended, and says why
            # Not on the command line, which others may see.
            self._input.write(json.dumps(work | {FOLDER: self._folder.name}).encode() + b"\n")
            self._input.flush()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self.output, self._said):
            stream.close()
        with suppress(BrokenPipeError):
            self._input.close()
        self._folder.cleanup()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def require_done(self) -> None:
        """Wait for its end, and raise if it could not do what it was told."""
        status = self._process.wait()
        if not status:
            return
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()
        if status == REFUSED:
            raise InvalidValue(said)
        raise RuntimeError(f"the process ended with {status}: {said[-2000:]}")


def run_job(work: Work, stopped: Callable[[], bool] = lambda: False) -> bytes:
    """Return what a process writes until it ends, which must be short.

    Parameters
    ----------
    work : dict
    stopped : callable
        Whether nobody wants it any more.

    Raises
    ------
    InvalidValue
        If it cannot be done, or takes too long.
    """
    end = time.monotonic() + LONGEST
    with Job(work) as job:
        while not job.ended and not stopped() and time.monotonic() < end:
            time.sleep(0.02)
        if not job.ended and stopped():
            raise InvalidValue("it was given up: the service is stopping, or nobody waits for it any more")
        if not job.ended:
            raise InvalidValue(f"it took more than {LONGEST:g} seconds, and was given up; ask again later")
        job.require_done()
        return job.output.read()


async def stream_job(work: Work) -> AsyncGenerator[bytes, None]:
    """Yield what a process writes, as it comes; it is ended with this, and waits while nobody asks for more."""
    job = await anyio.to_thread.run_sync(Job, work)
    try:
        reader = asyncio.StreamReader(limit=BLOCK)
        # A descriptor of its own, which a loop closes when it comes to that: by then another file may have the number
        # of the one that is closed below.
        own = os.fdopen(os.dup(job.output.fileno()), "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), own
        )
        try:
            while block := await reader.read(BLOCK):
                yield block
        finally:
            transport.close()
        await anyio.to_thread.run_sync(job.require_done)
    finally:
        job.close()


class Jobs:
    """Limits how much long work requests have done at once, so that it does not take the threads that others need."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(1)
        self.asked = self.streams = 0
        self._turns = asyncio.Semaphore(MOST_STREAMS)

    async def run(self, function: Callable[..., Result], *values: Any) -> Result:
        """Return what a function returns when it is its turn, one at a time, or raise if too many wait."""
        if self.asked > MOST_WAITING:
            raise ApiError("rate_limited", "too many tables and values are asked for at once; try again", retry_after=5)
        self.asked += 1
        try:
            return await anyio.to_thread.run_sync(partial(function, *values), limiter=self._limiter)
        finally:
            self.asked -= 1

    def stream(self, work: Work) -> AsyncIterator[bytes]:
        """Return what a process writes, or raise if too many write something."""
        if self.streams >= MOST_STREAMS:
            raise ApiError("rate_limited", "too many logs are exported at once; try again", retry_after=5)
        return self._stream(work)

    async def _stream(self, work: Work) -> AsyncIterator[bytes]:
        self.streams += 1
        try:
            # Those that came at once have all been let in; they wait for each other.
            async with self._turns, aclosing(stream_job(work)) as blocks:
                async for block in blocks:
                    yield block
        finally:
            self.streams -= 1


def do(jobs: dict[str, Callable[[Work], None]]) -> None:
    """Do what the line on standard input says, and end this process."""
    work = json.loads(sys.stdin.readline())
    tempfile.tempdir = work.pop(FOLDER)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(NICE)
    status = 1
    try:
        jobs[work["job"]](work)
        sys.stdout.flush()
        status = 0
    except PosseError as error:
        print(error, file=sys.stderr)
        status = REFUSED
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # not through the end of the interpreter: a thread still waits for the parent


def _end_with_parent() -> None:
    sys.stdin.read()  # ends when the other end is closed
    os._exit(0)


# What processes do: import what they need here, since whoever starts them has no use for it.


def _read_log(work: Work) -> None:
    """Write a log as JSON Lines or Parquet, or what a policy is worth by it."""
    from posse.service.export import json_lines, rows_of, write_parquet
    from posse.storage import open_storage

    storage, fleet = open_storage(work["database"], migrate=False), work["fleet"]
    if work["job"] == JSON_LINES:
        for piece in json_lines(rows_of(storage, fleet), work["rewards"]):
            sys.stdout.buffer.write(piece)
    elif work["job"] == PARQUET:
        write_parquet(rows_of(storage, fleet), Path(work["path"]), work["rewards"])
    else:
        from posse.service.insights import value_in_log

        print(json.dumps(value_in_log(storage, fleet, work["baseline"], work["rows"])))
    storage.close()


def _make_insight(work: Work) -> None:
    """Read the copy of a fleet, rows of its log and counts of a folder, and write the answer and the report there."""
    from posse.fleet.replica import Replica
    from posse.logs import read_log
    from posse.report import make_report
    from posse.service.report_json import report_as_json

    place = Path(work["folder"])
    about = json.loads((place / ABOUT).read_text("utf-8"))
    fleet, log = Replica.load(place / FLEET), read_log(place / LOG)
    report = make_report(fleet, log, title=f"What the bandits of {about['fleet']} have learned")
    answer = report_as_json(fleet, log, report, {task: tuple(both) for task, both in about["counts"].items()})
    (place / REPORT).write_text(report.html(), "utf-8")
    (place / ANSWER).write_text(json.dumps({"state": "ready", **answer}), "utf-8")


if __name__ == "__main__":
    do({JSON_LINES: _read_log, PARQUET: _read_log, VALUE: _read_log, INSIGHT: _make_insight})
