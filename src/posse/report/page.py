"""The page of a report: values into the template, with everything escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse._version import __version__
from posse.report.best import SURE
from posse.report.gains import ALONE, ONE_ARM, RANDOM, RULE
from posse.report.unusual import LISTED as MOST_UNUSUAL
from posse.report.words import PERCENT, Words, count, share, short_names, sureness

if TYPE_CHECKING:
    from posse.report.gains import Gain
    from posse.report.report import Report
    from posse.types import Array

CARDS_SHOWN = 24  # tasks drawn at once; the others unfold
ARMS_DRAWN = 8  # of one task
ARMS_LISTED = 60
NOT_SHARING = ("lin-ts", "lin-ucb", "random")  # policies whose tasks borrow nothing
BINS = 10  # of the histogram of borrowing
DIGITS = 6  # of numbers in cells and in the table to download


def render(report: Report) -> str:
    """Return the page of a report: one HTML document, styles, drawings, data and script included."""
    from jinja2 import Environment, StrictUndefined, select_autoescape

    folder = files("posse.report") / "template"
    style, script, template = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js", "page.html"))
    environment = Environment(
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"sure": sureness, "share": share, "count": count, "digits": _digits}
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string(template).render(
        style=style, script=script, script_hash=digest, version=__version__, percent=PERCENT, **_values(report)
    )


class Scale(NamedTuple):
    """The range of rewards that all drawings share."""

    low: float
    high: float

    @classmethod
    def around(cls, low: Array, high: Array) -> Scale:
        """Return a range that holds nearly all intervals: a few very wide ones are cut rather than squeeze the rest."""
        least, most = float(np.quantile(low, 0.01)), float(np.quantile(high, 0.99))
        if not most > least:
            least, most = least - 1.0, least + 1.0
        room = 0.04 * (most - least)
        return cls(least - room, most + room)

    def at(self, value: float) -> float:
        """Return a place as a percentage of the width."""
        return round(min(max(100 * (value - self.low) / (self.high - self.low), 0.0), 100.0), 1)


def _values(report: Report) -> dict[str, Any]:
    best, listed = report.best, report.listed
    words = Words.for_widths((best.high - best.low)[np.arange(len(best.tasks)), best.arm] / 2, report.unit)
    scale = Scale.around(best.low[listed], best.high[listed])
    short = short_names(best.arms)
    rows = [_task_row(report, task) | {"short": short[best.arm[task]]} for task in listed.tolist()]
    return {
        "report": report,
        "words": words,
        "scale": scale,
        "rows": rows,
        "cards": [_card(report, task, scale, short) for task in listed.tolist()],
        "cards_shown": CARDS_SHOWN,
        "n_tasks": len(best.tasks),
        "n_sure": int(best.sure.sum()),
        "open_loss": float(best.loss[~best.sure].mean()) if (~best.sure).any() else 0.0,
        "one": rows[0] if len(best.tasks) == 1 else None,
        "arms": _arms(report),
        "arms_listed": ARMS_LISTED,
        "gains": [] if report.gains is None else _gain_rows(report),
        "stopping": _stopping(report),
        "unusual": report.unusual[:MOST_UNUSUAL],
        "borrowing": _borrowing(report),
        "problems": [found for found in report.log_findings if found.severity != "note"],
        "notes": [found for found in report.log_findings if found.severity == "note"],
        "data": _data(report),
    }


def _task_row(report: Report, task: int) -> dict[str, Any]:
    best, stopping = report.best, report.stopping
    arm = int(best.arm[task])
    means = np.sort(best.mean[task])
    return {
        "task": best.tasks[task],
        "rewards": float(best.rewards[task]),
        "arm": best.arms[arm],
        "sure": float(best.sureness[task]),
        "is_sure": bool(best.sureness[task] >= SURE),
        "mean": float(best.mean[task, arm]),
        "low": float(best.low[task, arm]),
        "high": float(best.high[task, arm]),
        "ahead": float(means[-1] - means[-2]) if means.size > 1 else None,
        "loss": float(best.loss[task]),
        "explore": math.ceil(stopping.explore[task]) if stopping.pays[task] else 0,
        "trial": math.ceil(stopping.trial[task]) if stopping.trial_pays[task] else 0,
        "own": float(best.own_share[task]),
    }


def _card(report: Report, task: int, scale: Scale, short: list[str]) -> dict[str, Any]:
    """Return one task's arms, the most likely best ones first."""
    best = report.best
    order = np.lexsort((-best.mean[task], -best.probability[task]))
    order = np.concatenate([[best.arm[task]], order[order != best.arm[task]]])
    return {
        "task": best.tasks[task],
        "rewards": float(best.rewards[task]),
        "others": max(len(order) - ARMS_DRAWN, 0),
        "arms": [
            {
                "arm": best.arms[arm],
                "short": short[arm],
                "left": scale.at(best.low[task, arm]),
                "width": round(scale.at(best.high[task, arm]) - scale.at(best.low[task, arm]), 1),
                "at": scale.at(best.mean[task, arm]),
                "chance": float(best.probability[task, arm]),
                "mean": float(best.mean[task, arm]),
                "low": float(best.low[task, arm]),
                "high": float(best.high[task, arm]),
            }
            for arm in order[:ARMS_DRAWN].tolist()
        ],
    }


def _arms(report: Report) -> list[dict[str, Any]]:
    """Return every arm with the number of tasks in which it is best, and what a new task may expect of it."""
    best, n_arms = report.best, len(report.best.arms)
    wins = np.bincount(best.arm, minlength=n_arms)
    sure = np.bincount(best.arm[best.sure], minlength=n_arms)
    rewards = {arm.arm: arm.rewards for arm in report.overview.arms}
    mean, low, high = (part.mean(axis=0) for part in (best.typical_mean, best.typical_low, best.typical_high))
    order = np.lexsort((-mean, -wins))
    return [
        {
            "arm": best.arms[arm],
            "wins": int(wins[arm]),
            "sure": int(sure[arm]),
            "share": round(100 * wins[arm] / len(best.tasks), 1),
            "sure_share": round(100 * sure[arm] / len(best.tasks), 1),
            "mean": float(mean[arm]),
            "low": float(low[arm]),
            "high": float(high[arm]),
            "rewards": float(rewards.get(best.arms[arm], 0.0)),
        }
        for arm in order.tolist()
    ]


OVER = {
    RANDOM: "playing the arms at random",
    ONE_ARM: "taking one arm everywhere:",
    RULE: "the rule",
    ALONE: "every task learning alone",
}


def _gain_rows(report: Report) -> list[dict[str, Any]]:
    assert report.gains is not None
    found = [gain.gain for gain in report.gains.gains if not gain.refusals]
    ends = [end for one in found for end in (one.low, one.high, one.value) if math.isfinite(end)]
    scale = Scale.around(np.array([*ends, 0.0]), np.array([*ends, 0.0]))
    return [_gain_row(gain, scale) for gain in report.gains.gains]


def _gain_row(gain: Gain, scale: Scale) -> dict[str, Any]:
    value, low, high = gain.gain.value, gain.gain.low, gain.gain.high
    known = math.isfinite(value)
    ranged = known and math.isfinite(low)
    return {
        "over": gain.over,
        "words": OVER[gain.over],
        "name": gain.name,
        "detail": gain.over in (ONE_ARM, RULE),
        "known": known,
        "ranged": ranged,
        "value": value,
        "low": low,
        "high": high,
        "positive": gain.gain.positive,
        "zero": scale.at(0.0),
        "at": scale.at(value) if known else 0.0,
        "left": scale.at(low) if ranged else 0.0,
        "width": round(scale.at(high) - scale.at(low), 1) if ranged else 0.0,
        "refusals": gain.refusals,
    }


def _stopping(report: Report) -> dict[str, Any]:
    found = report.stopping
    cost, ceiling = found.per_decision
    coming, pays, trial = float(found.coming.sum()), found.pays, found.trial_pays
    return {
        "cost": cost,
        "ceiling": ceiling,
        "ceiling_total": ceiling * coming,
        "coming": coming,
        "pays": int(pays.sum()),
        "gain": float(found.gain[pays].sum()),
        "explore": math.ceil(found.explore[pays].sum()),
        "trial_pays": int(trial.sum()),
        "trial_gain": float(found.trial_gain[trial].sum()),
        "trial": math.ceil(found.trial[trial].sum()),
        "contexts": found.contexts,
    }


def _borrowing(report: Report) -> dict[str, Any]:
    best = report.best
    own = best.own_share
    heights = np.histogram(own, bins=BINS, range=(0.0, 1.0))[0]
    return {
        "learns": report.overview.policy not in NOT_SHARING,
        "mean": float(own.mean()),
        "half": int((own < 0.5).sum()),
        "least": [(best.tasks[task], float(own[task])) for task in np.argsort(own, kind="stable")[:5].tolist()],
        "bins": [
            {"from": 10 * i, "to": 10 * (i + 1), "n": int(n), "height": round(100 * n / heights.max(), 1)}
            for i, n in enumerate(heights.tolist())
        ],
    }


def _digits(value: float) -> str:
    """Return a number for programs."""
    return f"{value:.{DIGITS}g}"


def _data(report: Report) -> str:
    """Return the numbers of the listed tasks as JSON that can stand inside a script element."""
    best = report.best

    def numbers(row: Array) -> list[float]:
        return [float(_digits(value)) for value in row.tolist()]

    content = {
        "arms": list(best.arms),
        "tasks": [
            [best.tasks[task], *(numbers(part[task]) for part in (best.mean, best.low, best.high, best.probability))]
            for task in report.listed.tolist()
        ],
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    # Nothing in it may end the element or start a comment.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")
