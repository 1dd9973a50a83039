"""The page of a report: values into the template, with everything escaped."""

from __future__ import annotations

import base64
import hashlib
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from posse._version import __version__
from posse.fleet.expecting import CONFIDENCE as BELIEVED
from posse.report.best import MOST_UNUSUAL
from posse.report.gains import CONFIDENCE
from posse.report.lead import Bar, lead_of
from posse.report.words import SPACE, Words, count, in_their_words, many, one, sureness

if TYPE_CHECKING:
    from posse.report.report import Report

ARMS_LISTED = 60
OPEN_LISTED = 5
NEAR = 0.2  # of the largest value: bars that differ by less are drawn without their zero
DIGITS = 6  # of numbers that are sorted by


def render(report: Report) -> str:
    """Return the page of a report: one HTML document, styles, drawings and script included."""
    from jinja2 import Environment, StrictUndefined, select_autoescape

    folder = files("posse.report") / "template"
    style, script, template = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js", "page.html"))
    environment = Environment(
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "sure": sureness,
        "count": count,
        "digits": lambda value: f"{value:.{DIGITS}g}",
        "longest_word": lambda text: max(map(len, text.split()), default=0),
        "sentence": lambda text: text[:1].upper() + text[1:],
        "named": lambda text: in_their_words(text, report.names),
    }
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string(template).render(
        style=style, script=script, script_hash=digest, version=__version__, **_values(report)
    )


def _values(report: Report) -> dict[str, Any]:
    best, lead, names = report.best, lead_of(report), report.names
    percent = report.earned == "binary"
    widths = (best.high - best.low)[np.arange(len(best.tasks)), best.arm] / 2
    return {
        "report": report,
        "lead": lead,
        "bars": _bars(lead.bars),
        "level": f"{100 * CONFIDENCE:g}{SPACE}%",
        "believed": f"{100 * BELIEVED:g}{SPACE}%",
        "words": Words.for_widths(widths, report.unit, percent),
        "noun": names,
        "task": one(names.task),
        "tasks": many(names.task),
        "arm": one(names.arm),
        "arms": many(names.arm),
        "reward": one(names.reward),
        "rewards": many(names.reward),
        "n_tasks": len(best.tasks),
        "n_sure": int(best.sure.sum()),
        "rows": [
            _task_row(report, task) | {"own": own}
            for task, own in zip(report.listed.tolist(), report.own_share.tolist(), strict=True)
        ],
        "open": _open(report),
        "arm_rows": _arm_rows(report, ranked=lead.prefers),
        "arms_listed": ARMS_LISTED,
        "stopping": _stopping(report),
        "unusual": report.unusual[:MOST_UNUSUAL],
        "problems": [found for found in report.log_findings if found.severity != "note"],
        "notes": [found for found in report.log_findings if found.severity == "note"],
    }


def _bars(bars: tuple[Bar, ...]) -> list[dict[str, Any]]:
    """Return places on a scale from zero; without it where all bars would look alike."""
    ends = [end for bar in bars for end in (bar.value.low, bar.value.high, bar.value.value) if math.isfinite(end)]
    if not ends:
        return []
    low, high = min(ends), max(ends)
    from_zero = high - low >= NEAR * max(abs(low), abs(high))
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    else:
        low, high = low - 0.1 * (high - low), high + 0.1 * (high - low)
    span = high - low or 1.0

    def at(value: float) -> float:
        return round(100 * (value - low) / span, 1)

    rows = []
    for bar in bars:
        start, stop = sorted((at(0.0) if from_zero else at(bar.value.value), at(bar.value.value)))
        ranged = math.isfinite(bar.value.low)
        left, right = (at(bar.value.low), at(bar.value.high)) if ranged else (stop, stop)
        place = {
            "start": start,
            "width": stop - start,
            "at": at(bar.value.value),
            "ranged": ranged,
            "dot": ranged or not from_zero,
        }
        rows.append({"bar": bar, **place, "left": left, "reach": right - left})
    return rows


def _task_row(report: Report, task: int) -> dict[str, Any]:
    best, stopping = report.best, report.stopping
    arm = int(best.arm[task])
    second = int(np.argsort(best.mean[task])[-2]) if len(best.arms) > 1 else None
    return {
        "task": best.tasks[task],
        "arm": best.arms[arm],
        "sure": float(best.sureness[task]),
        "is_sure": bool(best.sure[task]),
        "mean": float(best.mean[task, arm]),
        "low": float(best.low[task, arm]),
        "high": float(best.high[task, arm]),
        "second": None if second is None else best.arms[second],
        "second_sure": 0.0 if second is None else float(best.probability[task, second]),
        "margin": 0.0 if second is None else float(best.mean[task, arm] - best.mean[task, second]),
        "loss": float(best.loss[task]),
        "explore": math.ceil(stopping.explore[task]) if stopping.pays[task] else 0,
        "rewards": float(best.rewards[task]),
    }


def _open(report: Report) -> dict[str, Any]:
    """Return how much the tasks in which no arm is surely best may lose, and those that may lose most in all."""
    best = report.best
    places = np.flatnonzero(~best.sure)
    weights = best.rewards[places] + 1e-9
    order = places[np.argsort(-best.loss[places] * weights, kind="stable")][:OPEN_LISTED]
    return {
        "n": places.size,
        "loss": float(best.loss[places] @ weights / weights.sum()) if places.size else 0.0,
        "rows": [_task_row(report, task) for task in order.tolist()],
    }


def _arm_rows(report: Report, *, ranked: bool) -> list[dict[str, Any]]:
    """Return every arm: in how many tasks it is best, and what to expect of it in a new task or the only one.

    The best one comes first, or the fleet's first if the data do not rank them.
    """
    best, n_arms = report.best, len(report.best.arms)
    wins = np.bincount(best.arm, minlength=n_arms)
    sure = np.bincount(best.arm[best.sure], minlength=n_arms)
    rewards = {arm.arm: arm.rewards for arm in report.overview.arms}
    mean, low, high = best.new_mean, best.new_low, best.new_high
    if len(best.tasks) == 1:
        mean, low, high = best.mean[0], best.low[0], best.high[0]
    return [
        {
            "arm": best.arms[arm],
            "wins": int(wins[arm]),
            "sure": int(sure[arm]),
            "probability": float(best.probability[0, arm]),
            "share": round(100 * wins[arm] / len(best.tasks), 1),
            "sure_share": round(100 * sure[arm] / len(best.tasks), 1),
            "mean": float(mean[arm]),
            "low": float(low[arm]),
            "high": float(high[arm]),
            "rewards": float(rewards.get(best.arms[arm], 0.0)),
        }
        for arm in (np.lexsort((-mean, -wins)) if ranked else np.arange(n_arms)).tolist()
    ]


def _stopping(report: Report) -> dict[str, Any]:
    found = report.stopping
    pays, gain = found.pays, float(found.gain[found.pays].sum())
    words = Words(0 if gain >= 10 else 1, report.unit)
    if report.earned in ("number", "money", "revenue") or report.unit:
        worth = words.reward(gain)
    else:
        worth = f"{words.plain(gain)}{SPACE}{many(report.names.reward)}"
    coming = float(found.coming.sum())
    return {
        "coming": coming,
        "pays": int(pays.sum()),
        "worth": worth,
        "explore": float(f"{found.explore[pays].sum():.2g}"),
    }
