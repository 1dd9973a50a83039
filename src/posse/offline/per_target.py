"""Evaluate one target on one log: whether the log can speak about it, and what it is worth in parts of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posse.errors import InvalidValue
from posse.offline.data import LoggedBandit
from posse.offline.diagnostics import Limits, Refusal, diagnose, few_rewards, refusals
from posse.offline.estimators import Contributions, direct_method, doubly_robust, ips, snips, switch_threshold
from posse.offline.intervals import IntervalRule, effective_rewards, effective_size
from posse.offline.learned import Learned
from posse.offline.replay import Replay, smallest_propensity
from posse.offline.report import TargetReport
from posse.offline.rules import Column, Rule
from posse.offline.targets import Always, Fleet, Logged, Target, checked_probabilities, weights_of
from posse.types import Array, IntArray

NO_RANKING = Refusal(
    "rankings",
    "the log has rankings, but this target does not say what it would do with the arms that the places above have left",
    "ask about uniform, logged, a fleet, a catalogue, a rule with a third parameter (task, context, arms) or a "
    "function of the log; or keep the first places of the log only",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Checked settings of an evaluation."""

    estimators: tuple[str, ...]
    confidence: float
    folds: int
    clip: float | None
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class TargetResult:
    """A target's report, and what rows contribute to its estimates: nothing if it was refused.

    Parameters
    ----------
    report : TargetReport
    weights : ndarray of shape (n_rows,)
    estimates : dict
        Contributions by estimator.
    """

    report: TargetReport
    weights: Array = field(default_factory=lambda: np.empty(0))
    estimates: dict[str, Contributions] = field(default_factory=dict)


def evaluate_target(
    target: Target, data: LoggedBandit, choices: Choices, limits: Limits, model: Callable[[], Array]
) -> TargetResult:
    """Return what a log says about a policy that does not learn.

    Parameters
    ----------
    model : callable
        Returns the cross-fitted rewards of every row and arm; asked only if there is a use for them.
    """
    if data.rankings is not None and not _ranks(target):
        return TargetResult(TargetReport(name=target.name, refusals=(NO_RANKING,)))
    probabilities, unclipped = _probabilities_and_weights(target, data)
    weights = unclipped if choices.clip is None or isinstance(target, Logged) else np.minimum(unclipped, choices.clip)
    found = diagnose(data, probabilities, weights, floor=limits.floor, unclipped=unclipped)
    reasons = tuple(refusals(found, data, probabilities, limits))
    notes = []
    if isinstance(target, Fleet) and data.menus is None:
        unknown = [repr(arm) for arm in target.posse.arms if arm not in data.arm_labels]
        if unknown:
            reason = f"the fleet also chooses {', '.join(unknown)}, which the log never could"
            reasons = (Refusal("arms-outside-log", reason, "retire them in a copy, or log with them first"), *reasons)
        absent = [repr(arm) for arm in data.arm_labels if arm not in target.posse.arms]
        if absent:
            notes.append(f"the fleet has no arm {', '.join(absent)} and never chooses it")
    if isinstance(target, Fleet):
        notes.append("right only if this fleet has not learned from this log; else its value is too high")
    if found.clipped > 0:
        notes.append(
            f"weights are clipped at {choices.clip:g}, which removes {100 * found.clipped:.3g} % of all weight: IPS is "
            "drawn towards 0, SNIPS towards rows with small weights, DR towards the model, by up to that part"
        )
    if reasons:
        return TargetResult(TargetReport(name=target.name, diagnostics=found, refusals=reasons, notes=tuple(notes)))
    estimates, threshold = {}, None
    for name in choices.estimators:
        if name == "ips":
            estimates[name] = ips(weights, data.money)
        elif name == "snips":
            estimates[name] = snips(weights, data.money)
        elif name == "dm":
            estimates[name] = direct_method(probabilities, model())
            notes.append(_model_note(target))
        elif name == "dr":
            estimates[name] = doubly_robust(probabilities, model(), weights, data.arms, data.money)
        else:
            rows = (probabilities, model(), weights, data.arms, data.money)
            threshold = switch_threshold(*rows, data.tasks, data.probabilities)
            estimates[name] = doubly_robust(*rows, threshold=threshold)
            notes.append(_switch_note(threshold, weights))
    report = TargetReport(name=target.name, diagnostics=found, notes=tuple(notes), switch_threshold=threshold)
    return TargetResult(report, weights, estimates)


def _ranks(target: Target) -> bool:
    """Return whether a target says what it would do with the arms that the places above have left."""
    if isinstance(target, Rule):
        return target.takes_arms
    return not isinstance(target, Always | Column | Learned)


def _probabilities_and_weights(target: Target, data: LoggedBandit) -> tuple[Array, Array]:
    """Return what a target would do in every row, and how much more often it would have done what the log shows.

    In rankings both are those of the places up to the row: a place counts as often as the target would come to it.
    """
    if data.rankings is None:
        probabilities = checked_probabilities(target, data)
        return probabilities, weights_of(target, probabilities, data)
    whole = data.rankings.whole
    probabilities = checked_probabilities(target, whole)
    weights, reach = data.rankings.weights(weights_of(target, probabilities, whole))
    # Places in a catalogue's menus are padded to the longest, which may be one without a reward.
    return reach[:, None] * probabilities[data.rankings.rows, : data.n_arms], weights


def evaluate_replay(target: Replay, data: LoggedBandit, choices: Choices, limits: Limits) -> TargetResult:
    """Return what a log says about a policy that learns as it goes."""
    reasons = []
    explore = "log with an evaluation budget, so that every arm is chosen now and then"
    smallest = smallest_propensity(data)
    if not data.eligible.all():
        reasons.append(
            Refusal(
                "replay-eligible",
                "replay needs every arm to be eligible in every row, since policies choose among all of them",
                "replay the part of the log in which all arms are eligible",
            )
        )
    elif not smallest > 0:
        reasons.append(Refusal("no-overlap", "some arms could never have been chosen in some rows", explore))
    if reasons:
        return TargetResult(TargetReport(name=target.name, refusals=tuple(reasons)))
    played = target.run(data, seed=choices.seed)
    notes = (
        f"a policy that learns from nothing over {played.steps} steps; about {smallest:.3g} of the rows can be steps, "
        "the smallest logged probability",
    )
    if played.steps < limits.min_steps:
        reasons.append(
            Refusal(
                "few-steps",
                f"only {played.steps} of {data.n_rows} rows could be steps of it, less than {limits.min_steps}",
                f"a longer log, or one with larger probabilities of the rarest arm (now {smallest:.3g})",
            )
        )
        return TargetResult(TargetReport(name=target.name, refusals=tuple(reasons), steps=played.steps))
    weights = played.accepted.astype(np.float64)
    reasons += few_rewards(data, data.effective_rewards(weights), limits)
    if reasons:
        return TargetResult(TargetReport(name=target.name, refusals=tuple(reasons), steps=played.steps))
    report = TargetReport(name=target.name, notes=notes, steps=played.steps)
    return TargetResult(report, weights, {"replay": played.contributions})


def _model_note(target: Target) -> str:
    if isinstance(target, Learned):
        return (
            "DM is too high here: its model learned from the same rows as the policy, which takes what looks best to it"
        )
    return "DM believes its model; its interval does not hold the error of the model"


def _switch_note(threshold: float, weights: Array) -> str:
    if not np.isfinite(threshold):
        return "SWITCH-DR leaves no row to the model and is DR"
    share = 100 * float((weights > threshold).mean())
    return (
        f"SWITCH-DR leaves rows with a weight above {threshold:.3g} to the model ({share:.2g} % of the rows); its "
        "interval does not hold the error of the model there"
    )


def task_rows(
    data: LoggedBandit, weights: Array, estimates: Mapping[str, Contributions], rule: IntervalRule, limits: Limits
) -> Iterator[dict[str, Any]]:
    """Yield the value of every task, by every estimator, with the interval about this very task.

    Tasks with too few effective rows, or effective rewards, get no value.
    """
    own = replace(rule, over_tasks=False)
    for task, rows in enumerate(_rows_of(data.tasks, data.n_tasks)):
        for found in _part(data, weights, estimates, rows, own, limits, limits.min_task_rows):
            yield {"task": data.task_labels[task], **found}


def group_rows(
    data: LoggedBandit, weights: Array, estimates: Mapping[str, Contributions], rule: IntervalRule, limits: Limits
) -> Iterator[dict[str, Any]]:
    """Yield the value of every group of rows, by every estimator.

    Intervals are about tasks like those that have such rows; where these are few, about these very tasks.
    """
    for column, values in data.groups.items():
        names, place = np.unique(values.astype(str), return_inverse=True)
        if names.size > limits.max_groups:
            raise InvalidValue(
                f"column {column!r} has {names.size} different values, more than {limits.max_groups} groups; put them "
                "into classes first"
            )
        for group, rows in zip(names, _rows_of(place, names.size), strict=True):
            own = replace(rule, over_tasks=enough_tasks(data.tasks[rows], limits))
            named = {"column": column, "group": str(group), "tasks": int(np.unique(data.tasks[rows]).size)}
            for found in _part(data, weights, estimates, rows, own, limits, limits.min_effective_rows):
                yield {**named, **found}


def _rows_of(place: IntArray, n: int) -> list[IntArray]:
    """Return the rows at every place."""
    return np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place, minlength=n))[:-1])


def _part(
    data: LoggedBandit,
    weights: Array,
    estimates: Mapping[str, Contributions],
    rows: IntArray,
    rule: IntervalRule,
    limits: Limits,
    least: float,
) -> Iterator[dict[str, Any]]:
    """Yield the value of some rows, or why there is none, by every estimator."""
    own, rewards, usual = weights[rows], data.rewards[rows], data.usual_reward
    effective, count = effective_size(own), effective_rewards(own, rewards, usual)
    result: dict[str, Any] = {
        "rows": int(rows.size),
        "effective_rows": effective,
        "on_policy": float(data.money[rows].mean()) if rows.size else 0.0,
        **dict.fromkeys(("value", "se", "low", "high", "refused")),
    }
    if effective < least:
        result["refused"] = f"worth {effective:.1f} rows of the target, less than {least:g}"
    elif count < limits.min_effective_rewards:
        other = f"rewards other than {usual:g}"
        result["refused"] = f"worth {count:.1f} {other}, less than {limits.min_effective_rewards:g}"
    _, tasks = np.unique(data.tasks[rows], return_inverse=True)
    for name, part in estimates.items():
        row = {"estimator": name, **result}
        if not row["refused"]:
            mine = Contributions(part.numerator[rows], part.denominator[rows])
            found = rule.estimate(tasks, mine, n_rewards=count)
            numbers = {"value": found.value, "se": found.se, "low": found.low, "high": found.high}
            row |= {key: number if math.isfinite(number) else None for key, number in numbers.items()}
        yield row


def enough_tasks(tasks: Any, limits: Limits) -> bool:
    """Return whether there are tasks enough, and not one that outweighs all others, for an interval over tasks."""
    sizes = np.bincount(tasks).astype(np.float64)
    sizes = sizes[sizes > 0]
    return sizes.size >= limits.min_tasks and effective_size(sizes) >= limits.min_effective_tasks
