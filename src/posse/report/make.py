"""From a fleet, a log, or both to a report."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posse.checks import number
from posse.errors import InvalidValue, PosseError
from posse.fleet.expecting import average_contexts, rewards_of_tasks, rewards_vary
from posse.fleet.posse import Posse
from posse.fleet.views import own_shares_in
from posse.logs import Log, Names, read_table
from posse.logs.columns import as_noun
from posse.logs.reading import with_missing_rewards
from posse.logs.schema import PRICES, latest_prices
from posse.report.best import Best, Unusual, best_of, unusual_tasks
from posse.report.gains import gains_of
from posse.report.report import Report
from posse.report.stopping import Stopping, stopping_of
from posse.report.words import one

if TYPE_CHECKING:
    from posse.families import Rewards
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import Array, IntArray

LISTED = 400  # tasks on the page; the table has more
MOST_TASKS = 10_000  # that are examined: shares of tasks are then known to a percent
ROWS_AHEAD = 2400  # contexts at which exploration is weighed, over all tasks
MOST_CONTEXTS = 8  # of one task


def make_report(
    fleet: Fleet | None = None,
    log: Any = None,
    *,
    rule: Any = None,
    coming: float | None = None,
    unit: str = "",
    names: Names | None = None,
    title: str = "",
    absent_reward: float | None = None,
    rewards: Rewards | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Return a report of a fleet, of a log, or of both.

    Parameters
    ----------
    fleet : Fleet, optional
        Default: one that learns from the log.
    log : Log, path or table, optional
        Decisions and rewards, as :func:`posse.logs.read_table` takes them. Without it the report does
        not say what the learned policy gains.
    rule : Target or function, optional
        Another way to choose that is compared; as for :func:`posse.offline.evaluate`.
    coming : float, optional
        Decisions to look ahead when it is asked whether exploration still pays, over all tasks, which get them in
        proportion to their rewards. Default: as many as there are rewards.
    unit : str
        Of rewards that are numbers, shown behind them.
    names : Names, optional
        The words for task, arm and reward; "person/people" gives a plural. Default: those of the log.
    title : str
    absent_reward : float, optional
        The reward of rows of the log without one. Default: what the fleet counts them as, or they are left out.
    rewards : {"number", "binary", "count", "revenue"}, optional
        What rewards of the log are, for a fleet that learns from it. Default: what the log says.
    seed : int
        Of the folds of the reward model, and of the contexts at which exploration is weighed.
    progress : callable, optional
        Called with the name of every stage before it starts.

    Returns
    -------
    Report

    Raises
    ------
    InvalidValue
        If there is neither a fleet nor a log, no task, or no intercept and no log that knows contexts.
    """
    begin = progress or (lambda _stage: None)
    if fleet is None and log is None:
        raise InvalidValue("expected a fleet, a log or both, got neither; pass one")
    if log is not None:
        if not isinstance(log, Log):
            begin("reading the log")
        log = read_table(log, rewards=rewards)
    from_log = fleet is None
    if fleet is None:
        assert log is not None
        begin("learning from the log")
        fleet = Posse.fit(log, rewards=rewards, seed=0, absent_reward=absent_reward)
        fleet.set_values(*latest_prices(log, fleet.arms))
    elif rewards is not None and rewards != fleet.rewards:
        raise InvalidValue(
            f"expected rewards={fleet.rewards!r}, as the fleet's, or none, got {rewards!r}; leave it out, or pass "
            "the log alone"
        )
    if not fleet.tasks:
        raise InvalidValue("expected a fleet with tasks, got one that has decided nothing and learned nothing")
    begin("looking at every task")
    tasks = _tasks_to_examine(fleet)
    at = _average(fleet, tasks, log)
    best = best_of(fleet, tasks, at)
    unusual = unusual_tasks(fleet, best)
    listed = _listed(best, unusual)
    overview = fleet.overview(0)
    begin("weighing exploration")
    ahead = float(best.rewards.sum()) if coming is None else number(coming, "coming", above=0)
    stopping = _ahead(fleet, log, best, at, max(ahead, 1.0), seed)
    gains, log_findings = None, []
    if log is not None:
        from posse.logs import check_log

        log = replace(log, rewards=fleet.rewards)  # who learned from it knows best
        absent = overview.pending_reward if absent_reward is None else absent_reward
        log = with_missing_rewards(log, None, absent)
        begin("checking the log")
        log_findings = check_log(log)
        begin("estimating what was gained")
        log, values, costs = _priced(fleet, log)
        gains = gains_of(
            log, rule=rule, rewards=cast("Any", fleet.rewards), values=values, costs=costs, seed=seed, progress=progress
        )
    names = names or (Names() if log is None else log.names)
    names = Names(*map(as_noun, (names.task, names.arm, names.reward)))
    return Report(
        title=title or f"Which {one(names.arm)} in which {one(names.task)}",
        made=datetime.datetime.now(datetime.UTC),
        names=names,
        unit=unit,
        overview=overview,
        best=best,
        stopping=stopping,
        gains=gains,
        unusual=unusual,
        findings=overview.findings,
        log_findings=log_findings,
        retired=fleet.retired_arms,
        listed=listed,
        own_share=own_shares_in(fleet, [best.tasks[task] for task in listed.tolist()]),
        varies=rewards_vary(fleet),
        from_log=from_log,
        table=_table(best),
        values=fleet.values,
        costs=fleet.costs,
    )


def _priced(fleet: Fleet, log: Log) -> tuple[Log, Any, Any]:
    """Return a log with its prices, or values and costs to judge it by; neither where the fleet has no prices."""
    there = [name for name in PRICES if name in log.frame.columns]
    if fleet.worth is None:
        return replace(log, frame=log.frame.drop(there)), None, None
    if there and not any(log.frame[name].null_count() for name in there):
        return log, None, None
    values, costs = (dict(zip(fleet.names.arms, part, strict=True)) for part in fleet.worth.table.tolist())
    known = [arm for arm in log.arms if values.get(arm, np.nan) >= 0]
    return log, {arm: values[arm] for arm in known}, {arm: costs[arm] for arm in known}


def _tasks_to_examine(fleet: Fleet) -> list[Label]:
    """Return all tasks; of very many, some that are evenly picked and those with the most rewards."""
    tasks = list(fleet.tasks)
    if len(tasks) <= MOST_TASKS:
        return tasks
    picked = set(np.linspace(0, len(tasks) - 1, MOST_TASKS - LISTED).round().astype(np.int64).tolist())
    busiest = np.argsort(-rewards_of_tasks(fleet, tasks), kind="stable")[:LISTED].tolist()
    return [tasks[place] for place in sorted(picked.union(busiest))]


def _average(fleet: Fleet, tasks: list[Label], log: Log | None) -> Array:
    """Return the average context of every task: of its rewards, or of the log where they do not tell."""
    if fleet.features.intercept:
        return average_contexts(fleet, tasks)
    if log is None or not log.n_rows:
        raise InvalidValue(
            "expected a log, got none: without an intercept a fleet does not know its average context; pass its log"
        )
    average = fleet.features.encode_many(log.contexts).mean(axis=0)
    return np.tile(average, (len(tasks), 1))


def _ahead(fleet: Fleet, log: Log | None, best: Best, at: Array, coming: float, seed: int) -> Stopping:
    """Return what exploration is worth, at contexts of the log where there are any."""
    tasks = list(best.tasks)
    shares = (best.rewards + 1) / (best.rewards + 1).sum()
    codes, encoded = _contexts(fleet, log, tasks, seed)
    missing = np.setdiff1d(np.arange(len(tasks)), codes)
    codes = np.concatenate([codes, missing])
    encoded = np.concatenate([encoded, at[missing]])
    return stopping_of(fleet, tasks, codes, encoded, coming * shares, contexts=missing.size < len(tasks))


def _contexts(fleet: Fleet, log: Log | None, tasks: list[Label], seed: int) -> tuple[IntArray, Array]:
    """Return a few contexts of every task that the log has: positions of tasks, and encoded contexts."""
    nothing = np.empty(0, dtype=np.int64), np.empty((0, fleet.features.n_features))
    if log is None or not log.n_rows or not set(fleet.features.names) <= set(log.features):
        return nothing
    position = {task: place for place, task in enumerate(tasks)}
    codes = np.array([position.get(task, -1) for task in log.frame["task"].to_list()], dtype=np.int64)
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(codes >= 0))
    rows = rows[np.argsort(codes[rows], kind="stable")]
    starts = np.r_[0, np.flatnonzero(np.diff(codes[rows])) + 1] if rows.size else np.empty(0, dtype=np.int64)
    rank = np.arange(rows.size) - np.repeat(starts, np.diff(np.r_[starts, rows.size]))
    rows = rows[rank < max(2, min(MOST_CONTEXTS, ROWS_AHEAD // len(tasks)))]
    if not rows.size:
        return nothing
    try:
        return codes[rows], fleet.features.encode_many(log.contexts[rows.tolist()])
    except PosseError:  # a log of other features: average contexts are as good as it gets
        return nothing


def _listed(best: Best, unusual: list[Unusual]) -> IntArray:
    """Return the tasks that the page lists: those with most rewards first, and the unusual ones in any case."""
    order = np.argsort(-best.rewards, kind="stable")
    if order.size <= LISTED:
        return order
    position = {task: place for place, task in enumerate(best.tasks)}
    always = {position[found.task] for found in unusual[: LISTED // 4]}
    listed = set(order[: LISTED - len(always)].tolist()) | always
    return np.array([task for task in order.tolist() if task in listed], dtype=np.int64)


def _table(best: Best) -> Any:
    import polars as pl

    n, k = best.mean.shape
    row = np.repeat(np.arange(n), k)
    return pl.DataFrame(
        {
            "row": row,
            "task": pl.Series(best.tasks).gather(row),
            "arm": pl.Series(best.arms).gather(np.tile(np.arange(k), n)),
            "mean": best.mean.ravel(),
            "low": best.low.ravel(),
            "high": best.high.ravel(),
            "probability_best": best.probability.ravel(),
        }
    )
