"""Which fleets are served, and which are set aside: each fails, and is tried again, by itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from posse.errors import PosseError, StorageUnavailable
from posse.service.definition import require_known
from posse.service.http.errors import ApiError
from posse.service.live_fleet import LiveFleet
from posse.storage import FleetRow, Progress, Storage

UPKEEP = ("publishing", "expiry", "snapshot", "pruning")
"""What is done for a fleet by itself, in one process for all."""

SMALL, SMALL_AT_ONCE = 1000, 100
"""Tasks, and changes since the snapshot, of a fleet that is loaded in milliseconds; how many are loaded at a time."""

BUSY_SECONDS = 0.020  # for which a fleet that somebody works on is waited for
PATIENCE = 3  # times in a row that a fleet may fail to learn before it is set aside: most of that passes by itself
SERVING, DEGRADED, SET_ASIDE = "serving", "degraded", "set_aside"
"""States of a fleet.

One that is degraded decides, but something that is done for it fails. One that is set aside is not in memory, or cannot
learn: its rewards are logged, and it decides nothing.
"""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # between two tries: twice as long every time

Key = TypeVar("Key", bound=Hashable)

logger = logging.getLogger("posse.service")


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


class Roster:
    """All fleets of a storage, by name.

    Parameters
    ----------
    storage : Storage
    largest : float
        How large numbers of contexts may be.
    public : callable
        What anybody may know about an error of the library.
    """

    def __init__(self, storage: Storage, largest: float, public: Callable[[PosseError], str]) -> None:
        self._storage, self._largest, self._public = storage, largest, public
        self._fleets: dict[str, LiveFleet] = {}
        self._unloaded: Problems[str] = Problems()
        self._unlearned: Problems[str] = Problems()
        self._unkept: Problems[tuple[str, str]] = Problems()  # by fleet, and what is done for it
        self._loading, self._repairing = threading.Lock(), threading.Lock()
        self._leading = False

    def __len__(self) -> int:
        return len(self._fleets)

    def all(self) -> list[LiveFleet]:
        """Return all fleets that are in memory."""
        return list(self._fleets.values())

    def find(self, name: str) -> LiveFleet | None:
        """Return a fleet if it is in memory, whether it serves or not."""
        return self._fleets.get(name)

    def serving(self, name: str) -> LiveFleet | None:
        """Return a fleet if it is in memory; raise if it is set aside."""
        live = self._fleets.get(name)
        if live is None or len(self._unlearned):
            state, reason = self.state_of(name)
            if state == SET_ASIDE:
                raise set_aside(name, str(reason))
        return live

    def knows(self, name: str) -> bool:
        """Whether a fleet is in memory, or is known to be set aside."""
        return name in self._fleets or self._unloaded.get(name) is not None

    # States.

    def state_of(self, name: str) -> tuple[str, str | None]:
        """Return the state of a fleet, and the reason unless it is :data:`SERVING`."""
        problem = self._unloaded.get(name)
        if problem is not None and name not in self._fleets:
            return SET_ASIDE, f"it cannot be loaded: {problem.reason}"
        problem = self._unlearned.get(name)
        if problem is not None:
            state = SET_ASIDE if problem.tries >= PATIENCE else DEGRADED
            return state, f"it cannot learn what its log says: {problem.reason}"
        for what in UPKEEP if len(self._unkept) else ():
            problem = self._unkept.get((name, what))
            if problem is not None:
                return DEGRADED, f"{what} failed: {problem.reason}"
        return SERVING, None

    def troubled(self) -> dict[str, str]:
        """Return the states of all fleets that are not :data:`SERVING`, by name."""
        names = {*self._unloaded, *self._unlearned, *(name for name, _ in self._unkept)}
        states = {name: self.state_of(name)[0] for name in sorted(names)}
        return {name: state for name, state in states.items() if state != SERVING}

    def attempt(self, live: LiveFleet, what: str, step: Callable[[], object]) -> None:
        """Do something for a fleet unless that failed just now; if it fails, it is tried again after a pause.

        Parameters
        ----------
        live : LiveFleet
        what : str
            One of :data:`UPKEEP`.
        step : callable

        Raises
        ------
        StorageUnavailable
            If the database is away, for all fleets.
        """
        key = (live.name, what)
        if not self._unkept.is_due(key):
            return
        try:
            step()
        except Exception as error:
            self._require_there(error)
            problem = self._unkept.note(key, self._reason(error))
            _complain(error, "%s of fleet %r failed; trying again in %g s", what, live.name, problem.pause)
        else:
            self._unkept.clear(key)

    def _require_there(self, error: Exception) -> None:
        """Raise if an error is not about one fleet: the database is away, for all of them."""
        if isinstance(error, StorageUnavailable):
            self._storage.ping()

    def _reason(self, error: Exception) -> str:
        return self._public(error) if isinstance(error, PosseError) else reason_of(error)

    # Loading and learning.

    @property
    def leading(self) -> bool:
        """Whether this process estimates populations."""
        return self._leading

    @leading.setter
    def leading(self, value: bool) -> None:
        self._leading = value
        for live in self.all():
            live.replica.leading = value

    def load(self, name: str) -> LiveFleet | None:
        """Return a fleet, which is loaded if it was not; None if there is none, or it had to be set aside."""
        try:
            with self._loading:
                # Read here, and not before: whoever deletes a fleet waits for this lock before letting go of it.
                row, live = self._storage.fleet(name), self._fleets.get(name)
                if row is None:
                    return None
                if live is None or live.created != row.created:
                    live = self._build(row)
                    self._install(live)
                return live
        except Exception as error:
            self._require_there(error)
            problem = self._unloaded.note(name, self._reason(error))
            logger.exception("fleet %r is set aside, and tried again in %g s", name, problem.pause)
            return None

    def _build(self, row: FleetRow, *, from_log: bool = False) -> LiveFleet:
        """Return a fleet as its log says, from its newest snapshot on, or else from the log alone."""
        require_known(row.definition)
        try:
            return LiveFleet(self._storage, row, self._largest, from_log=from_log)
        except (StorageUnavailable, OSError, MemoryError):
            raise  # which the log alone does not help against
        except Exception:
            if from_log or not row.snapshot or not self._storage.is_whole(row.name):
                raise
            logger.exception("fleet %r cannot go on from its snapshot; its log is learned from the start", row.name)
            return LiveFleet(self._storage, row, self._largest, from_log=True)

    def _install(self, live: LiveFleet) -> None:
        live.replica.leading = self._leading
        self._fleets[live.name] = live
        self._unloaded.clear(live.name)
        self._unlearned.clear(live.name)

    def learn(self, live: LiveFleet) -> bool:
        """Let a fleet apply what it has not; False if it cannot, which is tried again later."""
        try:
            live.follow()
        except Exception as error:
            self._require_there(error)
            problem = self._unlearned.note(live.name, self._reason(error))
            _complain(
                error, "fleet %r could not learn what its log says; trying again in %g s", live.name, problem.pause
            )
            return False
        self._unlearned.clear(live.name)
        return True

    def can_learn(self, name: str) -> bool:
        """Whether nothing failed the last time that a fleet learned."""
        return self._unlearned.get(name) is None

    def follow(self, rows: dict[str, Progress]) -> bool:
        """Let go of fleets that are gone, load new ones and learn what others have written; False if some are left.

        Of small fleets only some are loaded at a time: after a start with thousands, whoever asks for one before it is
        its turn loads it in milliseconds, and nobody waits for all of them.
        """
        for name in {*self._fleets, *self._unloaded}.difference(rows):
            self.drop(name)
        small, complete, failed = SMALL_AT_ONCE, True, len(self._unlearned) > 0
        for name, row in rows.items():
            live = self._fleets.get(name)
            if live is not None and row.created != live.created:
                self.drop(name)
                live = None
            if live is None and self._unloaded.get(name) is None:
                is_small = row.tasks <= SMALL and row.changes - row.snapshot <= SMALL
                if is_small and small == 0:
                    complete = False
                    continue
                small -= is_small
                live = self.load(name)
            # One that has applied all may still have failed after that.
            has_work = live is not None and (
                row.changes > live.applied or live.is_relearning_due or (failed and not self.can_learn(name))
            )
            if live is not None and has_work and self._unlearned.is_due(name):
                # Whoever works on it for long, to learn all of it again say, keeps no other fleet from learning.
                with live.working_if_free(BUSY_SECONDS) as free:
                    if free:
                        self.learn(live)
        return complete

    def drop(self, name: str) -> None:
        """Let go of a fleet if it was deleted."""
        with self._loading:
            # Read here: it may have been made, or made again, since whoever calls this looked.
            row, live = self._storage.fleet(name), self._fleets.get(name)
            if row is None or (live is not None and row.created != live.created):
                self._fleets.pop(name, None)
                self._unloaded.clear(name)
                self._unlearned.clear(name)
                for what in UPKEEP:
                    self._unkept.clear((name, what))

    # Repairing.

    def to_repair(self) -> str | None:
        """Return a fleet that is set aside and to be tried again now, or None."""
        for problems in (self._unloaded, self._unlearned):
            for name in problems:
                if problems.is_due(name) and self.state_of(name)[0] == SET_ASIDE:
                    return name
        return None

    def repair(self, name: str, *, from_log: bool = True) -> LiveFleet:
        """Build a fleet again from its log, serve that and return it.

        Parameters
        ----------
        name : str
        from_log : bool
            Whether snapshots are left aside, as long as the log has all that counts. If not, that is done only where
            the newest snapshot does not lead to a fleet.

        Raises
        ------
        ApiError
            If there is no such fleet, or it cannot be built; one that serves goes on as it is then.
        """
        with self._repairing:
            row = self._storage.fleet(name)
            if row is None:
                raise unknown_fleet(name)
            try:
                live = self._build(row, from_log=from_log)
            except Exception as error:
                self._require_there(error)
                if self.state_of(name)[0] == SET_ASIDE:
                    (self._unlearned if name in self._fleets else self._unloaded).note(name, self._reason(error))
                logger.exception("fleet %r could not be built from its log", name)
                raise set_aside(name, f"it cannot be built from its log: {self._reason(error)}") from error
            with self._loading:
                row = self._storage.fleet(name)
                if row is None or row.created != live.created:
                    raise unknown_fleet(name)
                self._install(live)
            logger.warning("fleet %r was built again from its log", name)
            return live


def _complain(error: Exception, message: str, *values: object) -> None:
    """Log that something failed: in a line where it is known what that means (no room, say), else with its place."""
    if isinstance(error, PosseError | OSError):
        logger.warning(message + ": %s", *values, error)
    else:
        logger.error(message, *values, exc_info=error)


def unknown_fleet(name: str) -> ApiError:
    """Return the error about a fleet that is not there."""
    return ApiError("unknown_fleet", f"no fleet {name[:100]!r}; create it with PUT /v1/fleets/NAME", "fleet")


def set_aside(name: str, reason: str) -> ApiError:
    """Return the error about a fleet that cannot be served now."""
    message = (
        f"fleet {name!r} is set aside: {reason}. Rewards of its decisions are still logged; it is tried again by "
        f"itself, or with POST /v1/fleets/{name}/repair"
    )
    return ApiError("fleet_set_aside", message, "fleet", retry_after=5)


def reason_of(error: BaseException) -> str:
    """Return why something failed, without what is nobody's business: paths, addresses and places in the code."""
    if isinstance(error, PosseError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, MemoryError):
        return "there is no memory left"
    return f"{type(error).__name__} (the log of this service says more)"
