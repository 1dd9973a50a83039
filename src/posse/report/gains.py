"""Estimate what the learned policy, the log and the best single arm earn; or say why nobody can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.offline import Estimate, Evaluation, Learned, Logged, LoggedBandit, Refusal, Uniform, evaluate
from posse.offline.data import with_prices
from posse.offline.evaluation import IN_MONEY
from posse.offline.model import FOLDS, deal_folds
from posse.offline.targets import as_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from posse.families import Rewards
    from posse.logs import Log
    from posse.types import Array

ESTIMATOR = "dr"
CONFIDENCE = 0.95
POLICY = "ebm-rand-ucb"
LEARNED, ONE_ARM, RULE, RANDOM = "learned", "one-arm", "rule", "random"
UNKNOWN = Estimate(math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to choose, and what it would have earned per decision of the log.

    Parameters
    ----------
    way : {"learned", "one-arm", "rule", "random"}
    name : str
        Of the policy, the arm or the rule.
    value, uplift : Estimate
        What it would earn, and how much more than the log did; NaN where the log cannot tell.
    refusals : tuple of Refusal
        Why it cannot.
    """

    way: str
    name: str
    value: Estimate = UNKNOWN
    uplift: Estimate = UNKNOWN
    refusals: tuple[Refusal, ...] = ()

    @property
    def known(self) -> bool:
        """True if there is a number."""
        return math.isfinite(self.value.value) and math.isfinite(self.uplift.value)


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """Estimated earnings of several ways to choose, from one log.

    Parameters
    ----------
    earned : Estimate
        Mean reward per decision of the log; without an interval where the log as a whole cannot be evaluated.
    logged : Estimate
        What the policy that made the log earns: its mean reward less the luck of its draws, by the same estimator as
        the other ways, so that their uplifts are differences to it.
    variance : float
        Of its rewards.
    rows, rows_in_log : int
        Decisions that count, and those there are.
    ways : tuple of Way
        What was learned, the best single arm, the rule if there is one, and random choice.
    notes : tuple of str
    """

    earned: Estimate
    logged: Estimate
    variance: float
    rows: int
    rows_in_log: int
    ways: tuple[Way, ...]
    notes: tuple[str, ...]

    @property
    def learned(self) -> Way:
        """The policy learned from the log."""
        return self.ways[0]


class BestArm:
    """Choose the arm that earns most if all decisions have to take the same one, cross-fitted.

    In every fold it is the arm with the highest weighted mean reward (SNIPS) in the other folds; where that one is not
    eligible, the next best that is. So nothing is judged by a reward that it was picked by.
    """

    name = "best single arm"

    def __init__(self) -> None:
        self.picked: tuple[str, ...] = ()

    def probabilities(self, data: LoggedBandit) -> Array:
        """Return 1 for the arm that the other folds would pick."""
        folds, result, picked = deal_folds(data.tasks), np.zeros((data.n_rows, data.n_arms)), []
        for fold in range(FOLDS):
            seen, rows = folds != fold, np.flatnonzero(folds == fold)
            weights = 1 / data.propensities[seen]
            total = np.bincount(data.arms[seen], weights, minlength=data.n_arms)
            earned = np.bincount(data.arms[seen], weights * data.money[seen], minlength=data.n_arms)
            worth = np.divide(earned, total, out=np.full(data.n_arms, -1e300), where=total > 0)
            picked.append(str(data.arm_labels[worth.argmax()]))
            result[rows, np.where(data.eligible[rows], worth, -np.inf).argmax(axis=1)] = 1.0
        self.picked = tuple(dict.fromkeys(picked))
        return result


def gains_of(
    log: Log,
    *,
    rule: Any = None,
    rewards: Rewards | None = None,
    values: Mapping[Any, float] | None = None,
    costs: Mapping[Any, float] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Gains:
    """Return what was earned, and what the learned policy, one arm for all, a rule and random choice would earn.

    The numbers are those of ``evaluate(log, Learned("ebm-rand-ucb"), against=Logged(), estimators=["dr"])``.

    Parameters
    ----------
    log : Log
    rule : Target or function, optional
        As for :func:`posse.offline.evaluate`.
    rewards : {"number", "binary", "count", "revenue"}, optional
        What rewards are. Default: what the log says.
    values, costs : mapping, optional
        As for :func:`posse.offline.evaluate`.
    seed : int
        Of the folds of the reward model.
    progress : callable, optional
        As for :func:`posse.offline.evaluate`.
    """
    best = BestArm()
    asked: dict[str, Any] = {LEARNED: Learned(POLICY), ONE_ARM: best}
    if rule is not None:
        asked[RULE] = as_target(rule)
    if rule is None or asked[RULE].name != Uniform().name:
        asked[RANDOM] = Uniform()
    known = log.frame["reward"].drop_nulls().to_numpy().astype(np.float64)
    mean, variance = (float(known.mean()), float(known.var())) if known.size else (math.nan, math.nan)
    settings: dict[str, Any] = {
        "estimators": (ESTIMATOR,), "confidence": CONFIDENCE, "rewards": rewards, "seed": seed, "values": values,
        "costs": costs,
    }  # fmt: skip
    try:
        found = evaluate(log, list(asked.values()), against=Logged(), progress=progress, **settings)
    except InvalidValue:
        why = _unreadable(log)
        if why is None:
            raise
        ways = tuple(Way(way, target.name, refusals=(why,)) for way, target in asked.items())
        earned = Estimate(mean, math.nan)
        return Gains(earned, earned, variance, 0, log.n_rows, ways, ())
    if IN_MONEY in found.notes:
        variance = float(with_prices(LoggedBandit.from_log(log), values, costs).money.var())
    ways = tuple(
        _way(found, way, target.name, " or ".join(best.picked) if way == ONE_ARM else target.name)
        for way, target in asked.items()
    )
    earned = found.on_policy if math.isfinite(found.on_policy.value) else Estimate(mean, math.nan)
    logged = _estimate(found.table, Logged().name)
    return Gains(
        earned,
        logged if math.isfinite(logged.value) else earned,
        variance,
        found.rows,
        found.rows_in_log,
        ways,
        found.notes,
    )


def _unreadable(log: Log) -> Refusal | None:
    """Return why a log cannot be read as decisions: no row with reward and propensity, or rows that contradict."""
    try:
        LoggedBandit.from_log(log)
    except InvalidValue as error:
        return Refusal("log", str(error), "posse log check says more about the log")
    return None


def _way(found: Evaluation, way: str, target: str, name: str) -> Way:
    report = next(one for one in found.targets if one.name == target)
    logged = next((one for one in found.targets if one.name == Logged().name), report)
    if report.refusals or logged.refusals:
        return Way(way, name, refusals=report.refusals or logged.refusals)
    return Way(way, name, _estimate(found.table, target), _estimate(found.differences, target))


def _estimate(table: pl.DataFrame, target: str) -> Estimate:
    row = next((row for row in table.iter_rows(named=True) if row["target"] == target), {})
    parts = (row.get(part) for part in ("value", "se", "low", "high", "positive"))
    return Estimate(*(math.nan if part is None else part for part in parts))
