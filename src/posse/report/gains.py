"""What deciding has gained, from a log; or the reasons why the log cannot tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.fleet.expecting import CONFIDENCE
from posse.model import Prior
from posse.offline import Always, Estimate, Evaluation, Learned, Logged, LoggedBandit, Refusal, Uniform, evaluate
from posse.offline.targets import as_target

if TYPE_CHECKING:
    from posse.families import Rewards
    from posse.logs import Log

ESTIMATOR = "dr"
ON_ITS_OWN = 1e12  # precision of a mean that no task may move
RANDOM, ONE_ARM, RULE, ALONE = "random", "one-arm", "rule", "alone"
NOTHING = Estimate(math.nan, math.nan)
SHARED_NAME, ALONE_NAME = "learned together", "learned alone"


@dataclass(frozen=True, slots=True)
class Gain:
    """What deciding gained per decision over one other way to decide.

    Parameters
    ----------
    over : {"random", "one-arm", "rule", "alone"}
    name : str
        Of the other way: its arm, or the rule's name.
    gain : Estimate
        NaN if the log cannot tell. Without an interval where there are too few tasks.
    refusals : tuple of Refusal
        Why it cannot.
    """

    over: str
    name: str
    gain: Estimate
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """What a log says about what deciding has gained.

    Parameters
    ----------
    earned : Estimate
        Mean reward per decision.
    rows, rows_in_log : int
        Decisions that count, and those there are.
    gains : tuple of Gain
    notes : tuple of str
    """

    earned: Estimate
    rows: int
    rows_in_log: int
    gains: tuple[Gain, ...]
    notes: tuple[str, ...]


def gains_of(
    log: Log, *, one_arm: Any = None, rule: Any = None, rewards: Rewards | None = None, seed: int = 0
) -> Gains:
    """Return what the decisions of a log gained over random play, one arm for all, a rule and no sharing.

    The first three compare what was earned with what the other would have earned in the same contexts. The last
    compares two ways to learn from this log, both judged by rows that they did not learn from: all tasks together, and
    each task alone.

    Parameters
    ----------
    log : Log
    one_arm : str or int, optional
        The arm to compare with, taken everywhere; left out where the log does not have it.
    rule : Target or function, optional
        As for :func:`posse.offline.evaluate`.
    rewards : {"number", "binary", "count"}, optional
        What rewards are. Default: what the log says.
    seed : int
        Of resamples and folds.
    """
    settings: dict[str, Any] = {"estimators": (ESTIMATOR,), "confidence": CONFIDENCE, "rewards": rewards, "seed": seed}
    others: list[tuple[str, Any]] = [(RANDOM, Uniform())]
    if rule is not None:
        others.append((RULE, as_target(rule)))
    if one_arm is not None and one_arm in log.arms:
        others.append((ONE_ARM, Always(one_arm)))
    # A rule may be one of the others.
    others = [one for i, one in enumerate(others) if one[1].name not in {other.name for _, other in others[:i]}]
    names = [str(one_arm) if over == ONE_ARM else str(target.name) for over, target in others]
    try:
        found = evaluate(log, [target for _, target in others], against=Logged(), **settings)
    except InvalidValue:
        return _nothing(log, others, names)
    gains = [_over(found, over, target.name, name) for (over, target), name in zip(others, names, strict=True)]
    sharing = _sharing(log, found, settings)
    return Gains(found.on_policy, found.rows, found.rows_in_log, (*gains, sharing), found.notes)


def _nothing(log: Log, others: list[tuple[str, Any]], names: list[str]) -> Gains:
    """Return why a log that cannot be read as decisions says nothing; whatever else is wrong is raised again."""
    try:
        LoggedBandit.from_log(log)
    except InvalidValue as error:
        # Not one row with both a reward and a propensity, or rows that contradict themselves.
        why = (Refusal("log", str(error), "posse log check says more about the log"),)
    else:
        raise
    refused = [Gain(over, name, NOTHING, why) for (over, _), name in zip(others, names, strict=True)]
    return Gains(NOTHING, 0, log.n_rows, (*refused, Gain(ALONE, ALONE_NAME, NOTHING, why)), ())


def _over(found: Evaluation, over: str, target: str, name: str) -> Gain:
    """Return the gain of the log over a target: the difference the other way round."""
    report = next(one for one in found.targets if one.name == target)
    if report.refusals:
        return Gain(over, name, NOTHING, report.refusals)
    for row in found.differences.iter_rows(named=True):
        if row["target"] == target:
            value, se, low, high, positive = _numbers(row)
            return Gain(over, name, Estimate(-value, se, -high, -low, 1 - positive))
    return Gain(over, name, NOTHING, _logged_refusals(found))


def _numbers(row: dict[str, Any]) -> list[float]:
    return [math.nan if row[part] is None else row[part] for part in ("value", "se", "low", "high", "positive")]


def _logged_refusals(found: Evaluation) -> tuple[Refusal, ...]:
    return next((target.refusals for target in found.targets if target.name == Logged().name), ())


def _sharing(log: Log, found: Evaluation, settings: dict[str, Any]) -> Gain:
    """Return what learning together gains over learning alone."""
    refused = [target.refusals for target in found.targets]
    if found.table.is_empty() and refused:
        return Gain(ALONE, ALONE_NAME, NOTHING, refused[0])
    if found.tasks < 2:
        nobody = Refusal("one-task", "there is one task only, so there is nothing to share", "more tasks")
        return Gain(ALONE, ALONE_NAME, NOTHING, (nobody,))
    data = LoggedBandit.from_log(log)
    # Clicks as numbers, as those who learn alone learn them: what is compared is sharing, not the model of a reward.
    together = Learned("ebm-rand-ucb", exploration=0.0, rewards="number", label=SHARED_NAME)
    alone = Learned("ebm-rand-ucb", exploration=0.0, prior=_own_prior(data), label=ALONE_NAME)
    both = evaluate(log, together, against=alone, **settings)
    why = tuple(dict.fromkeys(refusal for target in both.targets for refusal in target.refusals))
    if why:
        return Gain(ALONE, ALONE_NAME, NOTHING, why)
    for row in both.differences.iter_rows(named=True):
        return Gain(ALONE, ALONE_NAME, Estimate(*_numbers(row)))
    return Gain(ALONE, ALONE_NAME, NOTHING)


def _own_prior(data: LoggedBandit) -> Prior:
    """Return what a task alone starts from: the mean reward of all, and no idea of what differs from it.

    Its spread is that of the rewards, so units do not matter; numbers were scaled when the log was read.
    """
    d, K = data.contexts.shape[1], data.n_arms
    spread = max(float(data.rewards.var()), 1e-12)
    location = np.zeros((K, d))
    location[:, 0] = data.rewards.mean()  # the intercept comes first
    return Prior(
        covariance=np.tile(spread * np.eye(d), (K, 1, 1)),
        noise_variance=spread,
        shared_precision=ON_ITS_OWN / spread,
        shared_location=location,
    )
