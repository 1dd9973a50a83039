"""A report as JSON for the page: what was gained, how it went, which arm where, what is unusual, what looks wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from posse.fleet.expecting import CONFIDENCE
from posse.logs.writer import moment
from posse.report.best import distances
from posse.report.gains import ONE_ARM, RANDOM
from posse.report.over_time import over_time
from posse.report.segments import Segment, segments_of

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.logs import Log
    from posse.offline import Estimate
    from posse.report import Report
    from posse.report.gains import Way

AS_EXPECTED = ("reward-censored",)  # findings of logs that every log has that still grows
SHARES = 4  # digits of shares and of numbers in long lists


def report_as_json(fleet: Fleet, log: Log, report: Report, counts: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Return a report as plain values.

    Parameters
    ----------
    fleet : Fleet
    log : Log
        As the report has it.
    report : Report
    counts : dict
        Decisions and rewards of tasks, by name.
    """
    return {
        "confidence": CONFIDENCE,
        "rewards": int(log.frame["reward"].is_not_null().sum()),
        **_gained(report),
        "over_time": _over_time(fleet, log),
        "arms": _arms(fleet, log, report),
        "segments": [_segment(one) for one in segments_of(fleet, log)],
        "tasks": _tasks(log, report, counts),
        "unusual": [
            {
                "task": one.task,
                "arm": one.arm,
                "mean": one.mean,
                "typical": one.typical,
                "distance": one.distance,
                "feature": one.feature,
            }
            for one in report.unusual
        ],
        "findings": _findings(report),
    }


def _gained(report: Report) -> dict[str, Any]:
    if report.gains is None:
        return {"earned": None, "gains": []}
    ways = {one.way: one for one in report.gains.ways}
    others = [ways[way] for way in (RANDOM, ONE_ARM) if way in ways]
    return {"earned": _estimate(report.gains.earned), "gains": [_gain(one) for one in others]}


def _estimate(found: Estimate) -> dict[str, Any] | None:
    if not math.isfinite(found.value):
        return None
    return {"value": found.value, "low": _number(found.low), "high": _number(found.high)}


def _gain(way: Way) -> dict[str, Any]:
    """Return by how much the log earned more than another way to choose would have."""
    more = way.uplift
    known = math.isfinite(more.value)
    return {
        "over": way.way,
        "name": way.name,
        "gain": {"value": -more.value, "low": _number(-more.high), "high": _number(-more.low)} if known else None,
        "probability": _number(1 - more.positive) if known else None,
        "refusals": [f"{one.reason}; what helps: {one.remedy}" for one in way.refusals],
    }


def _over_time(fleet: Fleet, log: Log) -> dict[str, Any]:
    arms = [*fleet.arms, *fleet.retired_arms]
    found = over_time(log, arms)
    entries = [
        {
            "time": moment(found.start[i]),
            "decisions": int(found.decisions[i].sum()),
            "shares": _rounded(found.decisions[i] / max(found.decisions[i].sum(), 1.0)),
            "means": _rounded(found.mean[i]),
            "earned": _number(found.earned[i]),
            "low": _number(found.low[i]),
            "high": _number(found.high[i]),
        }
        for i in range(found.start.size)
    ]
    return {"stretch": found.bin_seconds, "arms": arms, "entries": entries}


def _arms(fleet: Fleet, log: Log, report: Report) -> list[dict[str, Any]]:
    """Return every arm with how often it was taken, what it earned, and in how many tasks it is best."""
    frame, best = log.frame, report.best
    taken = dict(frame["arm"].value_counts().iter_rows())
    wins = np.bincount(best.arm, minlength=len(best.arms)).tolist()
    sure = np.bincount(best.arm[best.sure], minlength=len(best.arms)).tolist()
    place = {arm: k for k, arm in enumerate(best.arms)}
    means = _mean_rewards(log, "arm")
    return [
        {
            "arm": arm,
            "retired": arm in fleet.retired_arms,
            "share": taken.get(arm, 0) / max(log.n_rows, 1),
            "mean_reward": means.get(arm),
            "best_in": wins[place[arm]] if arm in place else 0,
            "sure_in": sure[place[arm]] if arm in place else 0,
        }
        for arm in [*fleet.arms, *fleet.retired_arms]
    ]


def _mean_rewards(log: Log, column: str) -> dict[Any, float]:
    """Return the mean of known rewards by task or arm."""
    return dict(log.with_rewards().frame.group_by(column).agg(mean=pl.col("reward").mean()).iter_rows())


def _segment(one: Segment) -> dict[str, Any]:
    return {
        "feature": one.feature,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "share": one.share,
        "arm": one.arm,
        "second": one.second,
        "mean": one.mean,
        "ahead": one.ahead,
        "probability": one.probability,
    }


def _tasks(log: Log, report: Report, counts: dict[str, tuple[int, int]]) -> list[dict[str, Any]]:
    best = report.best
    away = np.abs(distances(best))
    odd = {one.task for one in report.unusual}
    means = _mean_rewards(log, "task")
    found = []
    for place in report.listed.tolist():
        task = best.tasks[place]
        decisions, rewards = counts.get(str(task), (0, int(best.rewards[place])))
        arm = int(best.arm[place])
        found.append(
            {
                "task": task,
                "decisions": decisions,
                "rewards": rewards,
                "mean_reward": means.get(task),
                "arm": best.arms[arm],
                "expected": float(best.mean[place, arm]),
                "probability": float(best.sureness[place]),
                "distance": float(away[place].max()),
                "unusual": task in odd,
            }
        )
    return found


def _findings(report: Report) -> list[dict[str, str]]:
    own = [{"about": "learning", "severity": "warning", "text": text, "what_to_do": ""} for text in report.findings]
    return own + [
        {
            "about": "log",
            "severity": "note" if one.code in AS_EXPECTED else one.severity,
            "text": one.message,
            "what_to_do": one.what_to_do,
        }
        for one in report.log_findings
    ]


def _rounded(values: Any) -> list[float | None]:
    return [_number(float(f"{value:.{SHARES}g}")) for value in values]


def _number(value: float) -> float | None:
    """Return a number, None for one that is none."""
    return float(value) if math.isfinite(value) else None
