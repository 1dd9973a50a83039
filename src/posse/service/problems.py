"""What fails for one fleet: why, since when, and when it is tried again. No other fleet waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from posse.errors import PosseError

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # between two tries: twice as long every time

Key = TypeVar("Key", bound=Hashable)


class Problem(NamedTuple):
    """Something that failed, so many times in a row.

    Parameters
    ----------
    reason : str
        In words that anybody may read who may read the fleet.
    tries : int
    pause, due : float
        Seconds until the next try, and when that is by the monotonic clock.
    """

    reason: str
    tries: int
    pause: float
    due: float


class Problems(Generic[Key]):
    """Problems by what has them. Every method is a single step on a dict, so any thread may call it.

    Parameters
    ----------
    clock : callable
        Monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[Key, Problem] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._found))

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Key) -> Problem | None:
        """Return the problem of something, or None if it has none."""
        return self._found.get(key)

    def note(self, key: Key, reason: str) -> Problem:
        """Note that something failed; return the problem, which is due again after a pause."""
        before = self._found.get(key)
        tries, pause = (1, FIRST_PAUSE) if before is None else (before.tries + 1, min(2 * before.pause, LONGEST_PAUSE))
        found = self._found[key] = Problem(reason, tries, pause, self._clock() + pause)
        return found

    def clear(self, key: Key) -> None:
        """Note that something works."""
        self._found.pop(key, None)

    def is_due(self, key: Key) -> bool:
        """Whether something has no problem, or is to be tried again."""
        found = self._found.get(key)
        return found is None or self._clock() >= found.due


def reason_of(error: BaseException) -> str:
    """Return why something failed, without what is nobody's business: paths, addresses and places in the code."""
    if isinstance(error, PosseError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, MemoryError):
        return "there is no memory left"
    return f"{type(error).__name__} (the log of this service says more)"
