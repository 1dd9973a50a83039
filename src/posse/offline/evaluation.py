"""Evaluate policies from a log that another policy made: would they have earned more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from posse._version import __version__
from posse.checks import number, one_of, whole_number
from posse.errors import InvalidValue
from posse.families import family_of
from posse.fleet.catalogue import Catalogue
from posse.logs.reading import read_table
from posse.offline.data import LoggedBandit, with_prices
from posse.offline.diagnostics import Limits, Refusal, refusals_of_log
from posse.offline.estimators import ESTIMATORS, LABELS, NEED_MODEL, Contributions
from posse.offline.intervals import Estimate, IntervalRule
from posse.offline.learned import Learned
from posse.offline.model import FOLDS, deal_folds, predicted_rewards
from posse.offline.per_target import (
    Choices,
    TargetResult,
    enough_tasks,
    evaluate_replay,
    evaluate_target,
    group_rows,
    task_rows,
)
from posse.offline.replay import Replay
from posse.offline.report import Evaluation, TargetReport, make_table
from posse.offline.targets import Always, Fleet, Target, as_target
from posse.types import Array, Settings

if TYPE_CHECKING:
    from posse.families import Rewards
    from posse.features import FeatureSpec
    from posse.logs import Log

FORBIDDING = ("reward-missing-by-arm",)  # warnings of a log's check that forbid an evaluation
TOLERATED = ("propensity-missing", "feature-absent")  # errors that few of the rows may have, or that are of no concern
MISREAD = ("unknown-columns", "no-features")  # notes that mean the log may not be what its owner thinks
NOT_OF_CATALOGUES = (Always, Learned, Replay)  # they need arms that are there in every row
IN_MONEY = "in money: value x reward - cost, by the values and costs of the log or those that were given"
CHECKED_HERE = ("tiny-propensities", "zero-probabilities", "reward-missing")  # warnings about what limits are for


def evaluate(
    log: Any,
    target: Any,
    *,
    against: Any = None,
    estimators: Sequence[str] | None = None,
    groups: Sequence[str] = (),
    features: FeatureSpec | None = None,
    rewards: Rewards | None = None,
    values: Mapping[Any, float] | None = None,
    costs: Mapping[Any, float] | None = None,
    confidence: float = 0.95,
    folds: int = FOLDS,
    clip: float | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Evaluation:
    """Estimate what policies would have earned per decision, from a log that another policy made.

    Parameters
    ----------
    log : Log, path, table or LoggedBandit
        As :func:`posse.logs.read_table` takes them.
    target : Target, Replay, function, or a list of them
        Whose value is asked for.
    against : Target, optional
        The difference of every target to this one is estimated too, with an interval of its own.
    estimators : sequence of {"ips", "snips", "dm", "dr", "switch-dr"}, optional
        Default: all; for the log of a catalogue, those that need no model of the rewards: IPS and SNIPS.
    groups : sequence of str
        Columns of the log, or features, by which values are also divided.
    features : FeatureSpec, optional
        How the model of the rewards sees contexts. Default: inferred from the log.
    rewards : {"number", "binary", "count", "revenue"}, optional
        What rewards are. DM, DR and SWITCH-DR use a model of the family, whose predictions are probabilities or rates.
        Default: what the log says.
    values, costs : mapping from arms to numbers, optional
        What one unit of reward is worth, of every arm of the log, and what playing an arm costs: policies are then
        compared by value x reward - cost. Default: what the log says, row by row.
    confidence : float
        Of the intervals.
    folds : int
        For what is learned from the log and results by it.
    clip : float, optional
        Weights above this are cut to it. Not by default: it trades variance for bias.
    limits : Limits, optional
        When to refuse.
    seed : int
        Of folds and replays.
    progress : callable, optional
        Called with the name of every stage before it starts: targets, and the folds that are learned from.

    Returns
    -------
    Evaluation
        A target that the log cannot speak about has reasons in place of numbers.

    Raises
    ------
    InvalidValue
        If a reward is none of its family, or a setting is out of range.
    """
    rules = Limits() if limits is None else limits
    choices = _checked(ESTIMATORS if estimators is None else estimators, confidence, folds, clip, seed)
    asked = list(target) if isinstance(target, list | tuple) else [target]
    chosen: list[Target | Replay] = [one if isinstance(one, Replay) else as_target(one) for one in asked]
    if isinstance(against, Replay):
        raise InvalidValue("against must be a policy that does not learn: a replay has its own steps, not all rows")
    baseline = None if against is None else as_target(against)
    names = [one.name for one in (*chosen, *([] if baseline is None else [baseline]))]
    if not chosen or len(set(names)) < len(names):
        raise InvalidValue(f"targets must have different names, at least one, but {names} came; give them labels")
    notes: tuple[str, ...] = ()
    if isinstance(log, LoggedBandit):
        if groups:
            raise InvalidValue("groups of arrays come with the arrays: LoggedBandit(..., groups={...})")
        data = log.in_order_of_appearance()
    else:
        log = read_table(log)
        if rewards is not None:
            log = replace(log, rewards="number")  # what was asked for is asked of the rewards below
        refusals, notes = _findings(log, () if rewards is None else ("reward-family",))
        if refusals:
            return _refused_log(log, names, refusals, notes, _settings(choices, rules))
        data = LoggedBandit.from_log(log, features, groups)
    data = with_prices(data, values, costs)
    if data.menus is not None:
        choices, notes = _for_catalogues(choices, [*chosen, baseline], estimators is None, notes)
    if rewards is not None:
        data = replace(data, reward_family=family_of(rewards).name)

    @cache
    def model() -> Array:
        return data.in_money(predicted_rewards(data, deal_folds(data.tasks, folds=choices.folds, seed=choices.seed)))

    of_log = tuple(refusals_of_log(data, rules))
    data.fits.begin = progress
    results = []
    for one in (*chosen, *([] if baseline is None else [baseline])):
        if progress is not None:
            progress(f"estimating what {one.name} would have earned")
        if of_log:
            result = TargetResult(TargetReport(name=one.name, refusals=of_log))
        elif isinstance(one, Replay):
            result = evaluate_replay(one, data, choices, rules)
        else:
            result = evaluate_target(one, data, choices, rules, model)
        if isinstance(one, Fleet) and not isinstance(log, LoggedBandit):
            result = _with_its_own_past(result, one, log)
        results.append(result)
    if progress is not None:
        progress("computing intervals")
    return _assemble(data, results, baseline is not None, choices, rules, notes)


def _assemble(
    data: LoggedBandit,
    results: list[TargetResult],
    paired: bool,
    choices: Choices,
    limits: Limits,
    notes: tuple[str, ...],
) -> Evaluation:
    """Return the tables of an evaluation."""
    over_tasks = enough_tasks(data.tasks, limits)
    if not over_tasks:
        few = f"{data.n_tasks} tasks are too few, or too unequal, to say how tasks differ: intervals are about these"
        notes = (*notes, f"{few} very tasks, not about tasks like them")
    if data.worth is not None:
        notes = (*notes, IN_MONEY)
    family = data.reward_family if data.worth is None else "number"
    rule = IntervalRule(confidence=choices.confidence, family=family, over_tasks=over_tasks)
    table, differences, by_task, by_group = [], [], [], []
    base = results[-1] if paired else None
    for one in results:
        name = one.report.name
        count = data.effective_rewards(one.weights) if one.estimates else 0.0
        for estimator, rows in one.estimates.items():
            found = rule.estimate(data.tasks, rows, n_rewards=count)
            table.append({"target": name, "estimator": estimator, **_numbers(found)})
            if np.isnan(found.low):
                notes = (*notes, f"no interval for {LABELS[estimator]} of {name}: a single task makes its value")
            if base is None or one is base or estimator not in base.estimates:
                continue
            apart = data.effective_rewards(np.abs(one.weights - base.weights))
            found = rule.estimate(data.tasks, rows, base.estimates[estimator], n_rewards=apart)
            if found.se > 0 and apart < limits.min_effective_rewards:
                found = Estimate(found.value, found.se)
                notes = (*notes, _too_near(data, name, base.report.name, apart, limits))
            pair = {"target": name, "against": base.report.name, "estimator": estimator}
            differences.append({**pair, **_numbers(found), "positive": found.positive})
        if not one.estimates:
            continue
        if "replay" not in one.estimates:
            by_task += [{"target": name, **row} for row in task_rows(data, one.weights, one.estimates, rule, limits)]
        by_group += [{"target": name, **row} for row in group_rows(data, one.weights, one.estimates, rule, limits)]
    everything = np.ones(data.n_rows)
    own = rule.estimate(data.tasks, Contributions(data.money, everything), n_rewards=data.effective_rewards(everything))
    if data.effective_rewards(everything) < limits.min_effective_rewards:
        own = Estimate(own.value, own.se)
    return Evaluation(
        version=__version__,
        settings=_settings(choices, limits),
        rows=data.n_rows,
        tasks=data.n_tasks,
        arms=data.n_arms if data.menus is None else data.menus.n_arms,
        rows_in_log=data.n_rows + data.rows_left_out,
        rows_without_reward=data.rows_without_reward,
        rows_without_propensity=data.rows_without_propensity,
        on_policy=own,
        targets=tuple(one.report for one in results),
        notes=tuple(dict.fromkeys(notes)),
        table=make_table("table", table),
        differences=make_table("differences", differences),
        by_task=make_table("by_task", by_task),
        by_group=make_table("by_group", by_group),
    )


def _too_near(data: LoggedBandit, name: str, against: str, apart: float, limits: Limits) -> str:
    """Return why the difference of two targets has no interval."""
    other = f"rewards other than {data.usual_reward:g}"
    return (
        f"no interval for {name} less {against}: where they differ, {other} are worth {apart:.3g}, and it takes "
        f"{limits.min_effective_rewards:g}"
    )


def _with_its_own_past(result: TargetResult, target: Fleet, log: Log) -> TargetResult:
    """Refuse a fleet that made the log, or learned from the fleet that did, before it was frozen."""
    made = target.posse.made(log.frame["decision_id"].to_list())
    if not made:
        return result
    refusal = Refusal(
        "its-own-log",
        f"this fleet, or one it learned from, made {made} of these decisions, so it may have learned their rewards",
        "judge it by a log of another fleet or of a later time, or ask about learned:KEY, which is cross-fitted",
    )
    return TargetResult(replace(result.report, refusals=(refusal, *result.report.refusals)))


def _findings(log: Log, answered: tuple[str, ...]) -> tuple[tuple[Refusal, ...], tuple[str, ...]]:
    """Return what spoils any evaluation of a log, and what to keep in mind; ``answered`` are codes to leave out."""
    from posse.logs import check_log

    refusals, notes = [], []
    for finding in check_log(log):
        if finding.code in FORBIDDING or (finding.severity == "error" and finding.code not in TOLERATED):
            refusals.append(Refusal(finding.code, finding.message, finding.what_to_do))
        elif finding.code in answered:
            continue
        elif (finding.severity == "warning" and finding.code not in CHECKED_HERE) or finding.code in MISREAD:
            notes.append(finding.message)
    if log.n_rows and log.frame["propensity"].null_count() == log.n_rows and not log.frame["probabilities"].count():
        refusals.append(
            Refusal(
                "no-propensities",
                "the log has no propensities: nobody can say how often other arms would have been taken",
                "log the probability of the arm taken with every decision",
            )
        )
    return tuple(refusals), tuple(notes)


def _for_catalogues(
    choices: Choices, targets: list[Any], by_default: bool, notes: tuple[str, ...]
) -> tuple[Choices, tuple[str, ...]]:
    """Return how a catalogue's log is evaluated: without a model of the rewards, which would be one per arm."""
    for one in targets:
        if isinstance(one, NOT_OF_CATALOGUES) or (isinstance(one, Fleet) and not isinstance(one.posse, Catalogue)):
            raise InvalidValue(
                "expected a target that chooses among the arms of each request for the log of a catalogue (Uniform, "
                f"Logged, a Rule of task, context and arms, Fleet of a Catalogue), got {one.name!r}; ask about one of "
                "those"
            )
    plain = tuple(name for name in choices.estimators if name not in NEED_MODEL)
    if by_default:
        note = "the log of a catalogue: IPS and SNIPS; the others need a model with rewards of every arm"
        return replace(choices, estimators=plain), (*notes, note)
    if plain != choices.estimators:
        asked = ", ".join(name for name in choices.estimators if name in NEED_MODEL)
        raise InvalidValue(
            f"expected estimators without a model of the rewards (ips, snips) for the log of a catalogue, got {asked}; "
            "the model has coefficients for every arm, which arms that come and go do not fill"
        )
    return choices, notes


def _refused_log(
    log: Log, names: list[str], refusals: tuple[Refusal, ...], notes: tuple[str, ...], settings: Settings
) -> Evaluation:
    no_reward = log.frame["reward"].null_count() if log.n_rows else 0
    nan = float("nan")
    return Evaluation(
        version=__version__,
        settings=settings,
        rows=log.n_rows,
        tasks=len(log.tasks),
        arms=len(log.arms),
        rows_in_log=log.n_rows,
        rows_without_reward=no_reward,
        rows_without_propensity=log.frame["propensity"].null_count(),
        on_policy=Estimate(nan, nan),
        targets=tuple(TargetReport(name=name, refusals=refusals) for name in names),
        notes=notes,
        **{name: make_table(name, []) for name in ("table", "differences", "by_task", "by_group")},
    )


def _checked(estimators: Sequence[str], confidence: float, folds: int, clip: float | None, seed: int) -> Choices:
    if isinstance(estimators, str) or not estimators:
        raise InvalidValue(f"estimators must be a list of names, at least one, but {estimators!r} came")
    confidence = number(confidence, "confidence", above=0)
    if confidence >= 1:
        raise InvalidValue(f"confidence must be below 1, but {confidence:g} came")
    return Choices(
        estimators=tuple(dict.fromkeys(one_of(name, "estimators", ESTIMATORS) for name in estimators)),
        confidence=confidence,
        folds=whole_number(folds, "folds", at_least=2),
        clip=None if clip is None else number(clip, "clip", above=0),
        seed=whole_number(seed, "seed", at_least=0),
    )


def _settings(choices: Choices, limits: Limits) -> Settings:
    return {**asdict(choices), "estimators": list(choices.estimators), "limits": asdict(limits)}


def _numbers(found: Estimate) -> dict[str, float]:
    return {"value": found.value, "se": found.se, "low": found.low, "high": found.high}
