"""What the policy earned, and what a baseline would have, by the same log."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from posse.errors import InvalidValue, PosseError
from posse.fleet.expecting import CONFIDENCE
from posse.service.definition import active_arms, complete
from posse.service.engine import Engine
from posse.service.export import is_long, read_rows
from posse.service.live_fleet import LiveFleet
from posse.service.log_process import LOG_PROCESS, VALUE
from posse.service.worker_process import run_in_process
from posse.storage import LoggedDecision, Storage

MOST_ROWS = 100_000
AT_ONCE = 5000
FRESH = 15.0  # seconds for which an answer is given again
ESTIMATOR = "snips"
FEWEST = 10  # rewards

_one_at_a_time = threading.Lock()
_answers: dict[tuple[Any, ...], tuple[float, dict[str, Any]]] = {}


def value_of(engine: Engine, live: LiveFleet, baseline: str, rows: int) -> dict[str, Any]:
    """Return mean rewards with intervals, or why the log cannot tell.

    Parameters
    ----------
    engine : Engine
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
    database = engine.settings.database
    question = (database, live.name, live.created, baseline, rows)
    # Evaluating takes a core for a while, so people who look at the same page share an answer.
    with _one_at_a_time:
        now = time.monotonic()
        for old in [key for key, (at, _) in _answers.items() if now - at > FRESH]:
            del _answers[old]
        if question not in _answers:
            if is_long(engine.storage, live.name, rows):
                work = {"job": VALUE, "database": database, "fleet": live.name, "baseline": baseline, "rows": rows}
                found = json.loads(run_in_process(LOG_PROCESS, work, lambda: engine.stopping))
            else:
                found = value_in_log(engine.storage, live.name, baseline, rows)
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
        wanted = min(AT_ONCE, count - len(found))
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
    result: dict[str, Any] = {
        "rows": len(rows),
        "rewards": known,
        "confidence": CONFIDENCE,
        "policy": None,
        "baseline": None,
        "difference": None,
        "refusal": None,
    }
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
