"""What a fleet shows of what it has learned: nothing here changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.decide import choose, decide_rows
from posse.engine.site_store import SiteStore
from posse.fleet.checking import require_beliefs, require_truth_value
from posse.fleet.decision import Expectation
from posse.fleet.drifting import drift_json
from posse.fleet.overview import (
    ArmOverview,
    Coefficients,
    Overview,
    TaskOverview,
    arm_overview,
    busiest_tasks,
    coefficients_of,
    over_all_tasks,
    own_share_of,
    task_rewards,
)
from posse.fleet.products import squares_of
from posse.kernels.packing import whole_matrices
from posse.model.belief import borrowing_of
from posse.model.borrowing import Borrowing
from posse.model.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posse.fleet.fleet import Fleet
    from posse.fleet.labels import Label
    from posse.types import Array, IntArray


def statistics_of(fleet: Fleet) -> Statistics:
    """Return all that was learned, as dense arrays; see :attr:`posse.Posse.statistics`."""
    with fleet._lock:
        position = {task: place for place, task in enumerate(fleet._tasks.numbers.values())}
        tasks, arms, sums = fleet._engine.store.copy_of_sums()
        dense = Statistics.zeros(
            n_tasks=max(len(position), 1), n_arms=len(fleet._arms), n_features=fleet._features.n_features
        )
        sums = sums._replace(gram=whole_matrices(sums.gram))
        if fleet._engine.known is not None:
            sums = fleet._engine.known.raw_sums(tasks, arms, sums)
    places = np.array([position[task] for task in tasks.tolist()], dtype=np.int64)
    for field, values in zip(dense.sums, sums, strict=True):
        field[arms, places] = values
    return dense


def expected_of(fleet: Fleet, task: Label, context: Any) -> Expectation:
    """Return what is believed about active arms; see :meth:`posse.Posse.expected`."""
    x = fleet._features.encode(context)
    with fleet._lock:
        number = fleet._tasks.get(task)
        if number is None:
            fleet._tasks.require_loaded([task])
        arms, names = fleet._arms.active, fleet._arms.active_names
        out = np.empty((3, arms.size))
        fleet._engine.ensure_fresh()
        choose(fleet._engine, -1 if number is None else number, x, arms, 1, False, 0.0, out)
    _, mean, sd = out.tolist()
    return Expectation(dict(zip(names, mean, strict=True)), dict(zip(names, sd, strict=True)))


def beliefs_of_rows(
    fleet: Fleet, labels: list[Label], codes: IntArray, encoded: Array, eligible: Any = None, explore: bool = True
) -> tuple[Array, Array, Array]:
    """Return probabilities, mean and standard deviation of active arms if every row were the next decision.

    Parameters
    ----------
    fleet : Fleet
    labels : list of str or int
        Distinct tasks.
    codes : ndarray of shape (n_rows,)
        The task of every row, by its position in ``labels``.
    encoded : ndarray of shape (n_rows, n_columns)
    eligible, explore
        As in :meth:`posse.Posse.decide_many`.

    Returns
    -------
    probabilities, mean, sd : ndarray of shape (n_rows, n_active_arms)
        Mean and standard deviation are those of linear predictors.
    """
    with fleet._lock:
        fleet._tasks.require_loaded(labels)
        fleet._engine.ensure_fresh()
        n = len(codes)
        mask, rows = fleet._arms.mask(eligible, n), fleet._tasks.known(labels)[codes]
        chosen, *parts = decide_rows(
            fleet._engine, rows, np.ascontiguousarray(encoded), mask, fleet._steps(), explore, np.zeros(n),
            advance=False,
        )  # fmt: skip
        require_beliefs(chosen, codes, labels)
        probabilities, mean, sd = (np.ascontiguousarray(part[:, fleet._arms.active]) for part in parts)
        return probabilities, mean, sd


def probabilities_of(fleet: Fleet, tasks: Any, contexts: Any, eligible: Any, explore: bool) -> Array:
    """Return the probability of each active arm in every row; see :meth:`posse.Posse.probabilities`."""
    require_truth_value(explore)
    return beliefs_of_rows(fleet, *fleet._rows(tasks, contexts), eligible, explore)[0]


def borrowing_in(fleet: Fleet, task: Label) -> Borrowing:
    """Return how much a task leans on the others; see :meth:`posse.Posse.borrowing`."""
    squares = squares_of(fleet)
    with fleet._lock:
        number = fleet._tasks.number(task)
        fleet._engine.ensure_fresh()
        fleet._engine.store.settle([number])
        return borrowing_of(fleet._engine.store.belief, number, squares)


def own_shares_in(fleet: Fleet, tasks: Sequence[Label]) -> Array:
    """Return the weight of own data of tasks, averaged over arms, as an overview has it."""
    squares = squares_of(fleet)
    with fleet._lock:
        numbers = [fleet._tasks.number(task) for task in tasks]
        fleet._engine.ensure_fresh()
        store = fleet._engine.store
        store.settle(numbers)
        return np.array([own_share_of(store.belief, number, squares) for number in numbers])


def coefficients_in(fleet: Fleet, task: Label) -> Coefficients:
    """Return the posterior of coefficients in a task; see :meth:`posse.Posse.coefficients`."""
    with fleet._lock:
        number = fleet._tasks.get(task)
        if number is None:
            fleet._tasks.require_loaded([task])
        engine = fleet._engine
        engine.ensure_fresh()
        store, at = engine.store, -1 if number is None else number
        if number is not None:
            store.settle([number])
        both = {label: coefficients_of(store.belief, at, arm) for label, arm in fleet._arms.numbers.items()}
        if engine.known is not None:
            both = {
                label: engine.known.coefficients(store, at, fleet._arms.numbers[label], *parts)
                for label, parts in both.items()
            }
    return Coefficients(
        fleet._features.columns,
        {label: mean for label, (mean, _) in both.items()},
        {label: covariance for label, (_, covariance) in both.items()},
    )


def arm_overviews(fleet: Fleet) -> list[ArmOverview]:
    """Return every arm's population; the lock must be held."""
    store, known = fleet._engine.store, fleet._engine.known
    found = [
        arm_overview(
            store.belief, arm, label, arm in fleet._arms.retired,
            store.noise_variance(arm) if isinstance(store, SiteStore) else None,
        )
        for label, arm in fleet._arms.numbers.items()
    ]  # fmt: skip
    return found if known is None else [over_all_tasks(known, one, arm) for arm, one in enumerate(found)]


def overview_of(fleet: Fleet, n_tasks: int) -> Overview:
    """Return what was learned, for people to look at; see :meth:`posse.Posse.overview`."""
    findings = fleet.findings()
    engine, behaviour = fleet._engine, fleet._behaviour
    with fleet._lock:
        fleet._expire(fleet._clock())
        engine.ensure_fresh()
        belief, n_seen = engine.store.belief, engine.store.belief.n_seen.copy()
    numbers = busiest_tasks(belief, n_seen, n_tasks)
    squares = squares_of(fleet) if numbers else np.ones(0)
    with fleet._lock:
        engine.ensure_fresh()
        belief = engine.store.belief
        busiest = task_rewards(belief, [task for task in numbers if fleet._tasks.has(task)])
        engine.store.settle([task for task, _ in busiest])
        return Overview(
            policy=behaviour.policy,
            prior=behaviour.prior,
            columns=fleet._features.columns,
            arms=arm_overviews(fleet),
            tasks=[
                TaskOverview(fleet._tasks.label(task), rewards, own_share_of(belief, task, squares))
                for task, rewards in busiest
            ],
            n_tasks=len(fleet._tasks),
            n_decisions=fleet._decided,
            n_pending=sum(ledger.n_pending for ledger in fleet._ledgers()),
            n_rewards=engine.store.n_rewards,
            pending_reward=fleet._late.absent_reward if fleet._counts_pending else None,
            findings=findings,
            rewards=behaviour.family.name,
            drift=None if engine.fading is None else drift_json(engine.fading, fleet._tasks),
            effects=None if engine.known is None else fleet.effects(),
        )
