"""One target on one log: whether the log can speak about it, and what every row contributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from posse.offline.data import LoggedBandit
from posse.offline.diagnostics import Limits, Refusal, diagnose, few_rewards, refusals
from posse.offline.estimators import Contributions, direct_method, doubly_robust, ips, snips, switch_threshold
from posse.offline.learned import Learned
from posse.offline.replay import Replay, smallest_propensity
from posse.offline.report import TargetReport
from posse.offline.rules import Column, Rule
from posse.offline.targets import Always, Fleet, Logged, Target, checked_probabilities, weights_of
from posse.types import Array

NO_RANKING = Refusal(
    "rankings",
    "the log has rankings, but this target does not say what it would do with the arms that the places above have left",
    "ask about uniform, logged, a fleet, a catalogue, a rule with a third parameter (task, context, arms) or a "
    "function of the log; or keep the first places of the log only",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How to evaluate; checked."""

    estimators: tuple[str, ...]
    confidence: float
    folds: int
    clip: float | None
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
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


def judge(target: Target, data: LoggedBandit, choices: Choices, limits: Limits, model: Callable[[], Array]) -> Judged:
    """Return what a log says about a policy that does not learn.

    Parameters
    ----------
    model : callable
        Returns the cross-fitted rewards of every row and arm; asked only if there is a use for them.
    """
    if data.rankings is not None and not _ranks(target):
        return Judged(TargetReport(name=target.name, refusals=(NO_RANKING,)))
    probabilities, unclipped = _weighed(target, data)
    weights = unclipped if choices.clip is None or isinstance(target, Logged) else np.minimum(unclipped, choices.clip)
    found = diagnose(data, probabilities, weights, floor=limits.floor, unclipped=unclipped)
    reasons = tuple(refusals(found, data, probabilities, limits))
    notes = []
    if isinstance(target, Fleet) and data.menus is None:
        strange = [repr(arm) for arm in target.posse.arms if arm not in data.arm_labels]
        if strange:
            reason = f"the fleet also chooses {', '.join(strange)}, which the log never could"
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
        return Judged(TargetReport(name=target.name, diagnostics=found, refusals=reasons, notes=tuple(notes)))
    estimates, threshold = {}, None
    for name in choices.estimators:
        if name == "ips":
            estimates[name] = ips(weights, data.rewards)
        elif name == "snips":
            estimates[name] = snips(weights, data.rewards)
        elif name == "dm":
            estimates[name] = direct_method(probabilities, model())
            notes.append(_model_note(target))
        elif name == "dr":
            estimates[name] = doubly_robust(probabilities, model(), weights, data.arms, data.rewards)
        else:
            seen = (probabilities, model(), weights, data.arms, data.rewards)
            threshold = switch_threshold(*seen, data.tasks, data.probabilities)
            estimates[name] = doubly_robust(*seen, threshold=threshold)
            notes.append(_switch_note(threshold, weights))
    report = TargetReport(name=target.name, diagnostics=found, notes=tuple(notes), switch_threshold=threshold)
    return Judged(report, weights, estimates)


def _ranks(target: Target) -> bool:
    """Whether a target says what it would do with the arms that the places above have left."""
    if isinstance(target, Rule):
        return target.takes_arms
    return not isinstance(target, Always | Column | Learned)


def _weighed(target: Target, data: LoggedBandit) -> tuple[Array, Array]:
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


def judge_replay(target: Replay, data: LoggedBandit, choices: Choices, limits: Limits) -> Judged:
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
        return Judged(TargetReport(name=target.name, refusals=tuple(reasons)))
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
        return Judged(TargetReport(name=target.name, refusals=tuple(reasons), steps=played.steps))
    weights = played.accepted.astype(np.float64)
    reasons += few_rewards(data, data.effective_rewards(weights), limits)
    if reasons:
        return Judged(TargetReport(name=target.name, refusals=tuple(reasons), steps=played.steps))
    report = TargetReport(name=target.name, notes=notes, steps=played.steps)
    return Judged(report, weights, {"replay": played.contributions})


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
