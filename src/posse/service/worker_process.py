"""Long work in a process of its own: it would keep this one's interpreter from answering requests.

A process is told what to do by a line of JSON on its standard input and ends with whoever started it.
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
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from posse.errors import InvalidValue, PosseError

REFUSED = 3  # its status if it cannot be done, for the reason that it writes to standard error
NICE = 10  # requests come first
BLOCK = 1 << 16  # bytes that are read at a time
FOLDER = "temporary_folder"  # of what it is told: where its temporary files go
LONGEST = 900.0  # seconds after which it is given up: the first of a machine may have to compile


class WorkerProcess:
    """A process that runs a module of posse; as a context, at whose end it is ended.

    Parameters
    ----------
    module : str
        What ``python -m`` runs; it calls :func:`do`.
    work : dict
        What it is to do, as JSON has it.
    """

    def __init__(self, module: str, work: dict[str, Any]) -> None:
        # No pipe: nobody reads it before the end.
        self._said = tempfile.TemporaryFile(prefix="posse-")  # noqa: SIM115
        # Removed here: a process that is killed leaves its files behind.
        self._folder = tempfile.TemporaryDirectory(prefix="posse-")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
        except BaseException:
            self._said.close()
            self._folder.cleanup()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.output = self._process.stdout
        self._input = self._process.stdin
        with suppress(BrokenPipeError):  # it has ended, and says why
            # Not on the command line, which others may see.
            self._input.write(json.dumps(work | {FOLDER: self._folder.name}).encode() + b"\n")
            self._input.flush()

    def __enter__(self) -> WorkerProcess:
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


def run_in_process(module: str, work: dict[str, Any], stopped: Callable[[], bool] = lambda: False) -> bytes:
    """Run a process to its end and return what it writes, which must be short.

    Parameters
    ----------
    module : str
    work : dict
    stopped : callable
        Whether nobody wants it any more.

    Raises
    ------
    InvalidValue
        If it cannot be done, or takes too long.
    """
    end = time.monotonic() + LONGEST
    with WorkerProcess(module, work) as process:
        while not process.ended and not stopped() and time.monotonic() < end:
            time.sleep(0.02)
        if not process.ended and stopped():
            raise InvalidValue("it was given up: the service is stopping, or nobody waits for it any more")
        if not process.ended:
            raise InvalidValue(f"it took more than {LONGEST:g} seconds, and was given up; ask again later")
        process.require_done()
        return process.output.read()


async def stream_from_process(module: str, work: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """Yield what a process writes, as it comes; it is ended with this, and waits while nobody asks for more.

    Parameters
    ----------
    module : str
    work : dict
    """
    import anyio.to_thread  # only here: the process itself has no use for it

    process = await anyio.to_thread.run_sync(WorkerProcess, module, work)
    try:
        reader = asyncio.StreamReader(limit=BLOCK)
        # A descriptor of its own, which a loop closes when it comes to that: by then another file may have the number
        # of the one that is closed below.
        own = os.fdopen(os.dup(process.output.fileno()), "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), own
        )
        try:
            while block := await reader.read(BLOCK):
                yield block
        finally:
            transport.close()
        await anyio.to_thread.run_sync(process.require_done)
    finally:
        process.close()


def do(job: Callable[[dict[str, Any]], None]) -> None:
    """Do what the line on standard input says, and end this process; for modules that :class:`WorkerProcess` runs."""
    work = json.loads(sys.stdin.readline())
    tempfile.tempdir = work.pop(FOLDER)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(NICE)
    status = 1
    try:
        job(work)
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
    """End this process when whoever started it closes its standard input, or has ended."""
    sys.stdin.read()  # ends when the other end is closed
    os._exit(0)
