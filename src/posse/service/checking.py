"""What a service compares by itself: one fleet after another, a little at a time."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from posse.errors import PosseError
from posse.service.live_fleet import LiveFleet
from posse.service.roster import Roster
from posse.service.verify import Comparison, Verification
from posse.storage import Progress, Storage

PAUSE = 3600.0  # seconds between two comparisons of a fleet, if it has changed
WORK = 0.001  # seconds that are worked at a time: others wait for the interpreter meanwhile
CALM = 30  # times as long as that took passes before the next

logger = logging.getLogger("posse.service")


class Checked(NamedTuple):
    """The last comparison of a fleet.

    ``repaired`` says whether what differed was learned again, None while that is being done; ``failed`` is why it could
    not be compared, if so.
    """

    at: float
    created: float
    found: Comparison
    repaired: bool | None = False
    failed: str | None = None


class Checker:
    """Compares fleets in memory with their logs, in the time that is left.

    Parameters
    ----------
    monotonic : callable
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.last: dict[str, Checked] = {}
        self._now: tuple[LiveFleet, Verification, Iterator[None]] | None = None
        self._rest_until = 0.0
        self.relearner: threading.Thread | None = None
        """What learns a fleet again at the moment."""

    def step(self, storage: Storage, roster: Roster, rows: dict[str, Progress]) -> bool:
        """Work for a moment, if anything is due; return whether a comparison is under way after that."""
        begin = self._monotonic()
        if begin < self._rest_until:
            return self._now is not None
        for name in [name for name in self.last if name not in rows]:
            del self.last[name]
        try:
            if self._now is None:
                self._now = self._begin(storage, roster, rows, begin)
            while self._now is not None:
                self._go_on(roster)
                if self._monotonic() - begin >= WORK:
                    break
        except PosseError:
            self._now = None
            raise  # the database is away
        except Exception as error:
            if self._now is not None:
                live, self._now = self._now[0], None
                logger.exception("fleet %r could not be compared with its log; tried again later", live.name)
                found = Comparison(live.name, live.applied)
                self.last[live.name] = Checked(begin, live.created, found, failed=f"{type(error).__name__}: {error}")
        finally:
            self._rest_until = self._monotonic() + CALM * (self._monotonic() - begin)
        return self._now is not None

    def _begin(
        self, storage: Storage, roster: Roster, rows: dict[str, Progress], now: float
    ) -> tuple[LiveFleet, Verification, Iterator[None]] | None:
        waiting = [live for live in roster.all() if live.name in rows and self._due(live, now)]
        if not waiting:
            return None
        live = min(waiting, key=lambda one: self.last[one.name].at if one.name in self.last else -1.0)
        row = storage.fleet(live.name)
        if row is None or row.created != live.created:
            return None
        verification = Verification(storage, row, live.replica, live.contexts)
        return live, verification, verification.steps()

    def _due(self, live: LiveFleet, now: float) -> bool:
        last = self.last.get(live.name)
        if last is None or last.created != live.created:
            return live.applied > 0
        if last.repaired is None:
            return False  # it is being learned again
        return now - last.at >= PAUSE and (live.applied > last.found.applied or last.failed is not None)

    def _go_on(self, roster: Roster) -> None:
        assert self._now is not None
        live, verification, steps = self._now
        if roster.find(live.name) is not live or verification._replica is not live.replica:
            self._now = None  # another fleet, or learned again: from the start
            return
        try:
            next(steps)
        except StopIteration:
            self._now = None
            self._note(live, verification.found)

    def _note(self, live: LiveFleet, found: Comparison) -> None:
        checked = self.last[live.name] = Checked(self._monotonic(), live.created, found)
        if not found.different:
            return
        if self.relearner is not None and self.relearner.is_alive():
            logger.error("%s; it is learned again after another fleet", found.words())
            self.last[live.name] = checked._replace(at=-PAUSE, found=dataclasses.replace(found, applied=-1))
            return
        logger.error("%s; learning it again", found.words())
        self.last[live.name] = checked._replace(repaired=None)
        # On a thread of its own: a long log takes long, and all other fleets are looked after here.
        self.relearner = threading.Thread(target=self._relearn, args=(live, checked), name="posse-relearn", daemon=True)
        try:
            self.relearner.start()
        except BaseException:
            self.last[live.name] = checked
            raise

    def _relearn(self, live: LiveFleet, checked: Checked) -> None:
        repaired = False
        try:
            repaired = live.relearn()
            if not repaired:
                logger.error("rows of fleet %r have left its log, so it cannot be learned from that", live.name)
        except Exception:
            logger.exception("fleet %r could not be learned again; tried again later", live.name)
        finally:
            self.last[live.name] = checked._replace(repaired=repaired)

    def findings(self, fleet: str) -> list[str]:
        """Return what the last comparison found that was not repaired, in sentences."""
        last = self.last.get(fleet)
        if last is not None and last.failed is not None:
            return [
                f"it could not be compared with its log ({last.failed}); this is tried again, and the log says more"
            ]
        return [] if last is None or not last.found.different or last.repaired else [last.found.words()]
