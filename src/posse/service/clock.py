"""A clock that is not believed when it jumps.

Rewards that come too late are refused, decisions that nobody rewarded count as the absent reward, and old rows leave
the log: each for ever. So a clock that suddenly says something else is not followed. Time goes on as a clock that
cannot be set says (the monotonic one), nothing is refused for its age, and whoever lets things go for their age holds
(``held``) until the clock is back, or has stayed there for so long that it must be right and was wrong before.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from posse.storage import ClockRow

TOLERANCE = 60.0  # seconds by which the clock may be put right at once
JITTER = 1.0  # seconds by which two looks at one clock may differ: the answer of a database was on its way
LONG_STOP = 86_400.0  # seconds for which a service may have been stopped before its clock is doubted at a start
SETTLE_SECONDS = 600.0  # for which a clock that jumped must agree with the monotonic one before it is believed
RECENT = 400 * 86_400.0  # seconds after which it is history that the clock was put forward

logger = logging.getLogger("posse.service")


BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def monotonic() -> float:
    """Return seconds that nobody can set and that, where the system knows, also count while it is suspended."""
    return time.monotonic() if BOOT_TIME is None else time.clock_gettime(BOOT_TIME)


class SteadyClock:
    """The time of a service, in seconds since the epoch.

    Parameters
    ----------
    wall : callable
        The clock that can be wrong. It is believed when this is made.
    monotonic : callable
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._lock = threading.Lock()
        self._at = monotonic()  # to which the following belong
        self._expected = self._told = wall()  # what the clock should say, and what is told
        self._last = -math.inf  # what was told last
        self._most = TOLERANCE  # by which it may be ahead of that
        self._starting = False
        self._off, self._since = 0.0, math.inf  # by how much it is wrong, and from when on it was wrong by that
        self._settled, self._shift = -math.inf, 0.0

    def __call__(self) -> float:
        """Return the time; a reward is not older than its decision because the clock was read a little later."""
        with self._lock:
            now = self._told + self._monotonic() - self._at
            if not 0.0 < self._last - now <= JITTER:
                self._last = now
            return self._last

    @property
    def held(self) -> bool:
        """Whether the clock is in doubt, so that nothing may be let go for its age."""
        return self._since < math.inf

    @property
    def off(self) -> float:
        """Seconds by which the clock is ahead of what it should say, 0 if it is not in doubt."""
        return self._off if self.held else 0.0

    @property
    def leeway(self) -> float:
        """Seconds by which a decision may seem older than its time to live."""
        return math.inf if self.held else self.allowance(RECENT)

    @property
    def problem(self) -> str | None:
        """What is wrong with the clock and what that means, or None; the same words as long as it is wrong by that."""
        with self._lock:
            if not self.held:
                return None
            elapsed = self._since - self._at
            jumped, expected = (_moment(self._expected + elapsed + off) for off in (self._off, 0.0))
        return (
            f"the clock jumped to {jumped} when {expected} was expected: decisions do not expire and no rows leave the "
            f"log until it is right again or has gone on from there for {SETTLE_SECONDS / 60:.0f} minutes; check the "
            "time (NTP) of this machine, or of the database if it is shared"
        )

    def allowance(self, lifetime: float) -> float:
        """Return the seconds by which what is as old as ``lifetime`` by now seems older than it is.

        What was made before the clock was put forward does; what came after that is not as old yet.
        """
        return self._shift if self._shift and self() - self._settled < lifetime else 0.0

    def resume(self, kept: ClockRow | None, wall: float | None = None) -> None:
        """Go on where a service of the same database ended; a clock far from there is doubted.

        Parameters
        ----------
        kept : ClockRow or None
            None for a database that has seen no time yet.
        wall : float, optional
            What the clock says, if that is not this machine's.
        """
        wall = self._wall() if wall is None else wall
        with self._lock:
            self._at = self._monotonic()
            self._expected = self._told = wall
            self._since = math.inf
            if kept is not None:
                self._settled, self._shift = kept.settled, kept.shift
                self._expected, self._most, self._starting = kept.seen, LONG_STOP, True
                # Behind what the log has: never before that. Ahead: it was stopped for long, most likely.
                self._told = max(wall, kept.seen)
        self.look(wall)

    def look(self, wall: float | None = None) -> None:
        """Compare the clock with the monotonic one; to be called every second or so."""
        wall = self._wall() if wall is None else wall
        with self._lock:
            now = self._monotonic()
            off = wall - (self._expected + now - self._at)
            if -TOLERANCE <= off <= self._most:
                if self.held:
                    logger.warning("the clock says %s, as expected again; decisions expire again", _moment(wall))
                self._believe(wall, now)
                return
            if self.held and abs(off - self._off) <= TOLERANCE and now - self._since >= SETTLE_SECONDS:
                logger.warning("the clock has stayed where it is, so it is believed from now on: %s", _moment(wall))
                if not self._starting:
                    before = self._shift if abs(wall - self._settled) < RECENT else 0.0
                    self._shift, self._settled = max(before + off, 0.0), wall
                self._believe(wall, now)
                return
            news = not self.held or abs(off - self._off) > TOLERANCE
            if news:
                self._off, self._since = off, now
        if news:
            logger.error("%s", self.problem)

    def _believe(self, wall: float, now: float) -> None:
        self._expected = self._told = wall
        self._at, self._most, self._starting, self._since = now, TOLERANCE, False, math.inf

    @property
    def kept(self) -> ClockRow:
        """What a database keeps for the next start."""
        return ClockRow(self(), self._settled if self._shift else 0.0, self._shift)


def _moment(seconds: float) -> str:
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}Z"
    except OverflowError:
        return f"{seconds:g} s after 1970"
