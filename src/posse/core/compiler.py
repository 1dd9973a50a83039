"""How compiled code is compiled: plain Numba, cached on disk, whole and by one process at a time.

Numba's cache knows when a function's own file has changed, not when a function that it calls in another file has. So
every folder of the cache has a stamp of all sources, and what was compiled from others is removed before it is loaded.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba import njit

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

SHARED = ("core", "families")  # packages whose functions those of all others call
STAMP, LOCK, DONE = "posse.stamp", "posse.lock", "posse.done"
AGAIN, SELDOM = 2.5, 20.0  # seconds after which it says how far it is, the first time and later

functions: list[Any] = []
"""All compiled functions, in the order in which they came."""
digests: dict[str, str] = {}
"""What the sources are by folder of the cache."""


class Announcement:
    """Whether it is said on stderr that something is compiled."""

    quiet = False


announcement = Announcement()


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function compiled by Numba, when it is first called, and cached on disk."""
    # error_model="numpy": a division by zero gives inf, as in the plain array code that tests compare with.
    return _noted(njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Callable[..., Any]) -> Any:
    """Return the same, which becomes part of its caller: passing a store's arrays costs as much as a small step."""
    return _noted(njit(cache=True, nogil=True, error_model="numpy", inline="always")(function))


# For functions made of others that come as arguments: a cache could not tell by which. Their callers are cached.
made = njit(nogil=True, error_model="numpy")


def _noted(function: Any) -> Any:
    functions.append(function)
    folder = function.stats.cache_path
    if folder is not None and folder not in digests:
        digests[folder] = _digest(Path(function.py_func.__code__.co_filename).parent)
        _leave_out_old(Path(folder), digests[folder])
    return function


def _digest(package: Path) -> str:
    """Return a text that is another one if any source, the compiler or the processor is."""
    processor = getattr(numba.config, "CPU_NAME", None) or llvmlite.binding.get_host_cpu_name()
    found = hashlib.blake2b(f"{numba.__version__} {processor}".encode(), digest_size=16)
    root = Path(__file__).parents[1]
    for place in sorted({package, *(root / name for name in SHARED)}):
        for source in sorted(place.glob("*.py")):
            found.update(source.name.encode() + source.read_bytes())
    return found.hexdigest()


def _leave_out_old(folder: Path, digest: str) -> None:
    """Remove what was compiled from other sources: without its index nothing is found."""
    stamp = folder / STAMP
    with suppress(OSError):
        if _says(stamp, digest):
            return
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder):
            if not _says(stamp, digest):
                for index in folder.glob("*.nbi"):
                    index.unlink(missing_ok=True)
                stamp.write_text(digest)


def _says(file: Path, digest: str) -> bool:
    with suppress(OSError):
        return file.is_file() and file.read_text() == digest
    return False


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes from compiling into a folder meanwhile, where there are locks."""
    file = None
    with suppress(OSError):
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def n_compiled() -> int:
    """Return how many functions were compiled by this process, for one kind of arguments at least."""
    return sum(bool(function.stats.cache_misses) for function in functions)


def compile_all(name: str, rehearse: Callable[[], None]) -> None:
    """Have everything compiled that ``rehearse`` calls; only one process does it, and the others find it in the cache.

    Parameters
    ----------
    name : str
        Of what is rehearsed: once it is in the cache, it is only loaded.
    rehearse : callable
        Calls every function once, with the smallest of arguments.
    """
    folder, digest = next(iter(digests.items()), ("", ""))
    done = Path(folder) / f"{name}.{DONE}"
    if not folder or _says(done, digest):
        rehearse()
        return
    ended = threading.Event()
    threading.Thread(target=_speak, args=(ended,), daemon=True).start()
    try:
        with alone(Path(folder)):
            rehearse()
            with suppress(OSError):
                done.write_text(digest)
    finally:
        ended.set()


def _speak(ended: threading.Event) -> None:
    """Say how far it is, at the start and now and then."""
    begin, pause = time.monotonic(), AGAIN
    words = "posse: compiling, once (posse warmup does it ahead)"
    while True:
        if not announcement.quiet:
            print(words, file=sys.stderr, flush=True)
        if ended.wait(pause):
            return
        pause = min(2 * pause, SELDOM)
        words = f"posse: compiling, {n_compiled()} functions so far, {time.monotonic() - begin:.0f} s"
