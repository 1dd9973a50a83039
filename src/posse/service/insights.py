"""What takes seconds to find out about a fleet: what was gained, which arm is best where, what a policy is worth.

A copy of the fleet and an even sample of its log become the report of :mod:`posse.report` and the numbers that the page
leads with. They are made beside requests, kept, and made again when there is news: who asks gets what was made last.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue, PosseError
from posse.fleet.expecting import CONFIDENCE
from posse.service import jobs
from posse.service.definition import CATALOGUE, active_arms, complete
from posse.service.export import AT_ONCE, is_long, json_lines, read_rows
from posse.service.jobs import run_job
from posse.service.live_fleet import LiveFleet
from posse.service.upkeep import Slices
from posse.storage import LoggedDecision, Storage, TaskRow

if TYPE_CHECKING:
    from posse.service.runtime import Runtime

MOST_ROWS = 20_000  # of the log that are looked at
BLOCKS = 100  # in which they are taken from a longer log, evenly
MOST_KEPT = 16  # fleets of which something is kept
PAUSE = 20.0  # seconds after which another is made, at the earliest
CALM = 20  # and at most in one part of so many of the time
MOST_TASKS = 1000  # whose decisions and rewards are counted exactly
MOST_VALUED = 100_000  # rows by which a policy is valued
VALUED_AT_ONCE = 5000
FRESH = 15.0  # seconds for which a value is given again
ESTIMATOR = "snips"
FEWEST = 10  # rewards

_one_at_a_time = threading.Lock()
_answers: dict[tuple[Any, ...], tuple[float, dict[str, Any]]] = {}

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
    """Has insights made, one at a time, by a thread of its own that is started when the first is asked for.

    Parameters
    ----------
    runtime : Runtime
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
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
            answer, report = make_insight(self._runtime.storage, live, self._runtime.clock(), lambda: self._stopped)
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

    Here the log is read and the fleet copied; the rest is done by a process of its own, since it would keep the
    interpreter from answering requests for tenths of seconds at a time.

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
    if live.definition.get("kind") == CATALOGUE:
        return {"state": "empty", "made": now, "problem": "nothing of this is found out about catalogues yet"}, ""
    row = storage.fleet(live.name)
    decisions = 0 if row is None else row.decisions
    rows, in_log = sample_rows(storage, live.name, stopped)
    answer: dict[str, Any] = {"state": "empty", "made": now, "rows": len(rows), "decisions": min(decisions, in_log)}
    known = sum(row.reward is not None for row in rows)
    if known < FEWEST:
        return answer | {"problem": f"{known} rewards are too few to tell; wait for {FEWEST} or more"}, ""
    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        write_work(folder, live, final_rows(rows, live.definition), storage.tasks(live.name, limit=MOST_TASKS))
        run_job({"job": jobs.INSIGHT, "folder": folder}, stopped)
        made = json.loads(Path(folder, jobs.ANSWER).read_text("utf-8"))
        return answer | made, Path(folder, jobs.REPORT).read_text("utf-8")


def write_work(folder: str, live: LiveFleet, rows: list[LoggedDecision], tasks: list[TaskRow]) -> None:
    """Write what the other process reads: a copy of the fleet, rows of its log, and counts of its tasks."""
    live.replica.freeze()(os.path.join(folder, jobs.FLEET))
    with open(os.path.join(folder, jobs.LOG), "wb") as stream:
        for start in range(0, len(rows), AT_ONCE):
            stream.writelines(json_lines([rows[start : start + AT_ONCE]], complete(live.definition)["rewards"]))
    counts = {task.task: (task.decisions, task.rewards) for task in tasks}
    Path(folder, jobs.ABOUT).write_text(json.dumps({"fleet": live.name, "counts": counts}), "utf-8")


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


def value_of(runtime: Runtime, live: LiveFleet, baseline: str, rows: int) -> dict[str, Any]:
    """Return mean rewards with intervals, or why the log cannot tell.

    Parameters
    ----------
    runtime : Runtime
    live : LiveFleet
    baseline : str
        "uniform", or "arm:" and a name.
    rows : int
        How many of the newest decisions are looked at.
    """
    if baseline.startswith("arm:"):
        arm = baseline.removeprefix("arm:")
        if arm not in live.definition["arms"]:
            raise InvalidValue(f"no arm {arm!r}; the arms are {', '.join(active_arms(live.definition))}")
    elif baseline != "uniform":
        raise InvalidValue(f"expected baseline to be uniform or arm:NAME, got {baseline!r}")
    database = runtime.settings.database
    question = (database, live.name, live.created, baseline, rows)
    # Evaluating takes a core for a while, so people who look at the same page share an answer.
    with _one_at_a_time:
        now = time.monotonic()
        for old in [key for key, (at, _) in _answers.items() if now - at > FRESH]:
            del _answers[old]
        if question not in _answers:
            if is_long(runtime.storage, live.name, rows):
                work = {"job": jobs.VALUE, "database": database, "fleet": live.name, "baseline": baseline, "rows": rows}
                found = json.loads(run_job(work, lambda: runtime.stopping))
            else:
                found = value_in_log(runtime.storage, live.name, baseline, rows)
            _answers[question] = (now, found)
        return _answers[question][1]


def value_in_log(storage: Storage, fleet: str, baseline: str, rows: int) -> dict[str, Any]:
    """Return what the newest rows of a log say about a baseline that is known to be one."""
    from posse.offline import Always, Uniform

    there = storage.fleet(fleet)
    if there is None:
        raise InvalidValue(f"no fleet {fleet!r}; it was deleted")
    target = Uniform() if baseline == "uniform" else Always(baseline.removeprefix("arm:"))
    newest = _newest(storage, fleet, rows)
    kind = complete(there.definition)["rewards"]
    return evaluate_rows(final_rows(newest, there.definition), target, baseline, rewards=kind)


def _newest(storage: Storage, fleet: str, count: int) -> list[LoggedDecision]:
    found: list[LoggedDecision] = []
    before: int | None = None
    while len(found) < count:
        wanted = min(VALUED_AT_ONCE, count - len(found))
        rows = storage.decisions(fleet, before=before, limit=wanted, newest_first=True)
        found += rows
        if len(rows) < wanted:
            break
        before = rows[-1].number
    return found[::-1]


def final_rows(rows: list[LoggedDecision], definition: dict[str, Any]) -> list[LoggedDecision]:
    """Return rows with the rewards that are learned: early ones alone would look too good, or too bad."""
    absent = definition["absent_reward"]
    if absent is None:
        return rows
    if definition["count_pending"]:
        return [row if row.reward is not None else row._replace(reward=absent) for row in rows]
    return [row for row in rows if row.change is not None]


def evaluate_rows(rows: list[LoggedDecision], target: Any, name: str, rewards: str = "number") -> dict[str, Any]:
    """Return what rows say about a target and about what was decided, or why they cannot tell."""
    from posse.offline import Logged, evaluate

    known = sum(row.reward is not None for row in rows)
    result: dict[str, Any] = dict.fromkeys(("policy", "baseline", "difference", "refusal"))
    result |= {"rows": len(rows), "rewards": known, "confidence": CONFIDENCE}
    if known < FEWEST:
        result["refusal"] = f"{known} rewards are too few to tell; wait for {FEWEST} or more"
        return result
    try:
        log = read_rows([rows], rewards)
        found = evaluate(log, [target], against=Logged(), estimators=(ESTIMATOR,), confidence=CONFIDENCE)
    except PosseError as error:
        result["refusal"] = str(error)
        return result
    for row in found.table.iter_rows(named=True):
        part = {"value": row["value"], "low": row["low"], "high": row["high"]}
        if row["target"] == "logged":
            result["policy"] = part
        elif row["estimator"] == ESTIMATOR:
            result["baseline"] = {"name": name, **part}
    for row in found.differences.iter_rows(named=True):
        if row["estimator"] == ESTIMATOR:
            # The difference there is of the baseline against the policy; people ask for the opposite.
            low, high = row["low"], row["high"]
            result["difference"] = {
                "value": -row["value"],
                "low": None if high is None else -high,
                "high": None if low is None else -low,
            }
    refusals = [refusal for report in found.targets for refusal in report.refusals]
    if refusals and result["baseline"] is None:
        result["refusal"] = " ".join(map(str, refusals))
    return result
