"""What takes seconds to find out about a fleet: made beside requests, kept, and made again when there is news.

A copy of the fleet and an even sample of its log become the report of :mod:`posse.report` and the numbers that the page
leads with. Nobody waits for it: whoever asks gets what was made last, and has the next one made.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posse.errors import PosseError
from posse.service.export import read_rows
from posse.service.live import LiveFleet
from posse.service.slices import Slices
from posse.service.value import final_rows
from posse.storage import LoggedDecision, Storage

if TYPE_CHECKING:
    from posse.fleet import Posse
    from posse.report import Report
    from posse.service.engine import Engine

MOST_ROWS = 20_000  # of the log that are looked at
BLOCKS = 100  # in which they are taken from a longer log, evenly
MOST_KEPT = 16  # fleets of which something is kept
PAUSE = 20.0  # seconds after which another is made, at the earliest
CALM = 20  # and at most in one part of so many of the time
MOST_TASKS = 1000  # that are listed

logger = logging.getLogger("posse.service")


@dataclass(frozen=True, slots=True, eq=False)
class Insight:
    """What was found out about a fleet.

    Parameters
    ----------
    created : float
        Of the fleet, so that another of the same name is not taken for it.
    applied : int
        The change up to which it had learned.
    at, cost : float
        When it was made, and how long that took, in seconds of a clock that nobody sets.
    answer : dict
        For the page.
    report : str
        The report, as HTML; empty if there is none.
    """

    created: float
    applied: int
    at: float
    cost: float
    answer: dict[str, Any]
    report: str


class Insights:
    """Makes insights, one at a time, on a thread of its own that is started when the first is asked for.

    Parameters
    ----------
    engine : Engine
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._made: OrderedDict[str, Insight] = OrderedDict()
        self._wanted: OrderedDict[str, LiveFleet] = OrderedDict()
        self._news = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def latest(self, live: LiveFleet) -> Insight | None:
        """Return what was made last, and have another made if there is news; None while the first is made."""
        with self._news:
            found = self._made.get(live.name)
            if found is not None and found.created != live.created:
                found = None
            if found is None or _is_old(found, live):
                self._wanted.setdefault(live.name, live)
                self._start()
                self._news.notify_all()
            else:
                self._made.move_to_end(live.name)
            return found

    def stop(self, patience: float = 20.0) -> None:
        """End after what is being made, or after so many seconds."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(patience)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="posse-insights", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._stopped or self._wanted)
                if self._stopped:
                    return
                name, live = next(iter(self._wanted.items()))
            found = self._make(live)
            with self._news:
                del self._wanted[name]
                if found is not None:
                    self._made[name] = found
                    self._made.move_to_end(name)
                    while len(self._made) > MOST_KEPT:
                        self._made.popitem(last=False)

    def _make(self, live: LiveFleet) -> Insight | None:
        begin, applied = time.monotonic(), live.applied
        try:
            answer, report = make_insight(self._engine.storage, live, self._engine.clock(), lambda: self._stopped)
        except PosseError as error:
            answer, report = {"state": "failed", "problem": str(error)}, ""
        except Exception:
            logger.exception("insights of fleet %r could not be made", live.name)
            answer, report = {"state": "failed", "problem": "the log of the service says what went wrong"}, ""
        now = time.monotonic()
        return None if self._stopped else Insight(live.created, applied, now, now - begin, answer, report)


def _is_old(found: Insight, live: LiveFleet) -> bool:
    age = time.monotonic() - found.at
    return live.applied != found.applied and age >= max(PAUSE, CALM * found.cost)


def make_insight(
    storage: Storage, live: LiveFleet, now: float, stopped: Callable[[], bool] = lambda: False
) -> tuple[dict[str, Any], str]:
    """Return what the page shows, and the report as HTML.

    Parameters
    ----------
    storage : Storage
    live : LiveFleet
    now : float
        Seconds since the epoch.
    stopped : callable
        Whether to leave it.

    Raises
    ------
    PosseError
        If the log cannot be read or nothing can be said.
    """
    from posse.report import make_report
    from posse.service.telling import told

    row = storage.fleet(live.name)
    decisions = 0 if row is None else row.decisions
    rows, in_log = sample_rows(storage, live.name, stopped)
    if not rows:
        return {"state": "empty", "made": now, "rows": 0, "decisions": decisions}, ""
    fleet = copy_of(live)
    log = read_rows([final_rows(rows, live.definition)])
    if not fleet.tasks:
        return {"state": "empty", "made": now, "rows": len(rows), "decisions": decisions}, ""
    report = make_report(fleet, log, title=f"What the bandits of {live.name} have learned")
    counts = _task_counts(storage, live.name, report)
    answer = told(fleet, log, report, counts)
    answer |= {"state": "ready", "made": now, "rows": len(rows), "decisions": min(decisions, in_log)}
    return answer, report.html()


def sample_rows(
    storage: Storage, fleet: str, stopped: Callable[[], bool] = lambda: False
) -> tuple[list[LoggedDecision], int]:
    """Return the rows of a log, of a long one an even sample in blocks, and about how many there are."""
    first = storage.decisions(fleet, limit=1)
    last = storage.decisions(fleet, limit=1, newest_first=True)
    if not first or not last:
        return [], 0
    start, end = first[0].number, last[0].number
    total = end - start + 1
    size = -(-MOST_ROWS // BLOCKS)
    starts = [start - 1] if total <= MOST_ROWS else [start - 1 + round(i * total / BLOCKS) for i in range(BLOCKS)]
    found: list[LoggedDecision] = []
    slices = Slices(stopped)
    for after in starts:
        most = min(total, MOST_ROWS) if len(starts) == 1 else size
        block: list[LoggedDecision] = []

        def read(limit: int) -> int:
            asked = min(limit, most - len(block))  # noqa: B023
            rows = storage.decisions(fleet, after=block[-1].number if block else after, limit=asked)  # noqa: B023
            block.extend(rows)  # noqa: B023
            return limit if rows and len(block) < most else 0  # noqa: B023

        slices.run(read)
        found += block
    return found, total


def copy_of(live: LiveFleet) -> Posse:
    """Return a copy of what a fleet believes now, which nobody else waits for."""
    from posse.fleet.replica import Replica

    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        path = os.path.join(folder, "fleet")
        live.replica.freeze()(path)
        return Replica.load(path)


def _task_counts(storage: Storage, fleet: str, report: Report) -> dict[str, tuple[int, int]]:
    """Return how many decisions and rewards the tasks that are listed have in all."""
    wanted = [str(report.best.tasks[task]) for task in report.listed.tolist()][:MOST_TASKS]
    rows = storage.tasks(fleet, limit=MOST_TASKS)
    if len(rows) == MOST_TASKS:
        rows = [row for task in wanted if (row := storage.task(fleet, task)) is not None]
    return {row.task: (row.decisions, row.rewards) for row in rows}
