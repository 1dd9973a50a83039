"""What a fleet shows of what it has learned: nothing here changes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.core.looking import (
    arm_of,
    context_squares_of,
    known_scatter,
    through,
)
from posse.core.revenue import of_all_rewards
from posse.fleet.deciding import believe_rows
from posse.fleet.decision import Expectation
from posse.fleet.late import expire
from posse.fleet.overview import ArmOverview, Coefficients, Overview, TaskOverview
from posse.fleet.settings import require_truth_value
from posse.fleet.tables import encoded_rows
from posse.fleet.worth import Prices, money_of, worth_of_rows
from posse.model.borrowing import Borrowing
from posse.model.statistics import Statistics

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import Array


def whole_matrices(triangles: Array, d: int) -> Array:
    """Return symmetric matrices, given their upper triangles."""
    whole = np.zeros((len(triangles), d, d))
    rows, columns = np.triu_indices(d)
    whole[:, rows, columns] = whole[:, columns, rows] = triangles
    return whole


def statistics_of(fleet: Fleet) -> Statistics:
    """Return all that was learned, as dense arrays; see :attr:`posse.Posse.statistics`."""
    d = fleet.features.n_features
    with fleet.lock:
        position = {task: place for place, task in enumerate(fleet.names.tasks.numbers.values())}
        tasks, arms, gram, *rest = fleet.core.sums(None, fleet.now)
        dense = Statistics.zeros(n_tasks=max(len(position), 1), n_arms=len(fleet.names.arms), n_features=d)
    places = np.array([position[task] for task in tasks.tolist()], dtype=np.int64)
    for field, values in zip(dense.sums, (whole_matrices(gram, d), *rest), strict=True):
        field[arms, places] = values
    return dense


def expected_of(fleet: Fleet, task: Label, context: Any) -> Expectation:
    """Return what is believed about active arms; see :meth:`posse.Posse.expected`."""
    x = fleet.features.encode(context)
    with fleet.lock:
        number = fleet.names.tasks.get(task)
        if number is None:
            fleet.names.tasks.require_loaded([task])
        arms, names = fleet.names.arms.active
        out = np.empty((2, arms.size))
        fleet.core.ensure_fresh()
        fleet.core.predict(-1 if number is None else number, x, fleet.now, arms, out)
        fleet.core.show(out[0], out[1])
        worth = None if fleet.worth is None else fleet.worth.among(arms)
    mean, sd = out.tolist()
    expected = Expectation(dict(zip(names, mean, strict=True)), dict(zip(names, sd, strict=True)))
    if worth is not None:
        expected.worth = dict(zip(names, money_of(worth, *out)[0].tolist(), strict=True))
    return expected


def probabilities_of(fleet: Fleet, tasks: Any, contexts: Any, eligible: Any, explore: bool, prices: Prices) -> Array:
    """Return the probability of each active arm in every row; see :meth:`posse.Posse.probabilities`."""
    require_truth_value(explore)
    labels, codes, X = encoded_rows(fleet, tasks, contexts)
    with fleet.lock:
        mask = fleet.names.arms.mask(eligible, len(codes))
        worth = worth_of_rows(fleet, mask, len(codes), *prices)
        return believe_rows(fleet, labels, codes, X, mask, explore, worth=worth)[1]


def coefficients_in(fleet: Fleet, task: Label) -> Coefficients:
    """Return the posterior of coefficients in a task; see :meth:`posse.Posse.coefficients`."""
    with fleet.lock:
        number = fleet.names.tasks.get(task)
        if number is None:
            fleet.names.tasks.require_loaded([task])
        fleet.core.ensure_fresh()
        at, now = -1 if number is None else number, fleet.now
        core: Any = fleet.core
        amounts = None
        if fleet.rewards == "revenue":
            columns = (*fleet.features.columns, "logit of a purchase")
            amounts = _coefficients(fleet, columns, core.amounts.coefficients, at, now)
        return _coefficients(fleet, fleet.features.columns, fleet.core.coefficients, at, now)._replace(amounts=amounts)


def _coefficients(fleet: Fleet, columns: tuple[str, ...], of: Any, task: int, now: float) -> Coefficients:
    both = {label: of(task, arm, now) for label, arm in fleet.names.arms.numbers.items()}
    return Coefficients(
        columns,
        {label: mean for label, (mean, _) in both.items()},
        {label: covariance for label, (_, covariance) in both.items()},
    )


def borrowing_in(fleet: Fleet, task: Label) -> Borrowing:
    """Return how much a task leans on the others; see :meth:`posse.Posse.borrowing`."""
    with fleet.lock:
        number = fleet.names.tasks.number(task)
        fleet.core.ensure_fresh()
        return _borrowing(fleet, number)


def _borrowing(fleet: Fleet, number: int) -> Borrowing:
    core, d, now = of_all_rewards(fleet.core), fleet.features.n_features, fleet.now
    store, squares = core.state.store, context_squares_of(core)
    _, arms, triangles, _, _, some = core.sums(np.array([number]), now)
    counts, grams = np.zeros(core.n_arms), np.zeros((core.n_arms, d, d))
    counts[arms], grams[arms] = some, whole_matrices(triangles, d)
    contexts, project = grams.sum(axis=0), through(store.known[number], d)
    own_share, borrowed = np.zeros(core.n_arms), np.zeros(core.n_arms)
    for arm in range(core.n_arms):
        view, gram = arm_of(core, arm), grams[arm]
        spread = view.covariance / store.weight[number]
        # Directions in which features say nothing for certain are left out.
        used = np.flatnonzero(np.diagonal(view.before) > 0)
        precision, there = _inverse(view.uncertainty[np.ix_(used, used)]), project[used]
        if counts[arm] > 0:
            # Without this task; what rounding takes below the bare prior is given back.
            told = _solved(gram @ spread + view.noise * np.eye(d), gram)
            precision = precision - there @ (0.5 * (told + told.T)) @ there.T
        least = _inverse(view.before[np.ix_(used, used)])
        before = there.T @ _inverse(_at_least(precision, least)) @ there + spread
        alone = project.T @ view.before @ project + spread
        if counts[arm] > 0 and (variance := np.vdot(before, contexts)) > 0:
            covariance = core.coefficients(number, arm, now)[1]
            own_share[arm] = np.clip(1 - np.vdot(covariance, contexts) / variance, 0.0, 1.0)
        more = np.diagonal(_inverse(before) - _inverse(alone)) / squares
        borrowed[arm] = max(view.noise * float(more.mean()), 0.0)
    return Borrowing(own_share, borrowed, counts)


def _inverse(matrix: Array) -> Array:
    """Return the inverse of a symmetric matrix, or the best there is of one that has none."""
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True))


def _solved(matrix: Array, right: Array) -> Array:
    """Return the solution of linear equations, or the best there is where a matrix has no inverse."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def _at_least(precision: Array, least: Array) -> Array:
    """Return a precision that is no less than another one in any direction."""
    values, vectors = np.linalg.eigh(precision - least)
    return np.asarray(least + (vectors * np.maximum(values, 0.0)) @ vectors.T)


def own_shares_in(fleet: Fleet, tasks: Sequence[Label]) -> Array:
    """Return the weight of own data of tasks, averaged over arms, as an overview has it."""
    with fleet.lock:
        fleet.core.ensure_fresh()
        numbers = [fleet.names.tasks.number(task) for task in tasks]
        return np.array([_borrowing(fleet, number).own_share.mean() for number in numbers])


def arm_overviews(fleet: Fleet) -> list[ArmOverview]:
    """Return every arm's population over all tasks; the lock must be held."""
    core, d = of_all_rewards(fleet.core), fleet.features.n_features
    _, arms, *_, counts = core.sums(None, fleet.now)
    tasks = np.bincount(arms, minlength=core.n_arms)
    rewards = np.bincount(arms, weights=counts, minlength=core.n_arms)
    known, scatter = core.state.store.known[-1], known_scatter(core)
    noise, paid = reward_variances(fleet), purchases_of(fleet)
    found = []
    for label, arm in fleet.names.arms.numbers.items():
        view = arm_of(core, arm)
        project, effects = through(known, d), view.mean.reshape(-1, d)[1:]
        found.append(
            ArmOverview(
                arm=label,
                retired=arm in fleet.names.arms.retired,
                tasks=int(tasks[arm]),
                rewards=float(rewards[arm]),
                noise_sd=float(np.sqrt(view.noise if noise is None else noise[arm])),
                mean=project.T @ view.mean,
                mean_sd=np.sqrt(np.diagonal(project.T @ view.uncertainty @ project)),
                covariance=view.covariance + effects.T @ scatter @ effects,
                buys=None if paid is None else float(paid.share[arm]),
                pays=None if paid is None else float(paid.amount[arm]),
            )
        )
    return found


def reward_variances(fleet: Fleet) -> Array | None:
    """Return the variance of clicks or counts of every arm at their average; None for numbers."""
    family: Any = fleet.settings.family
    if family.name == "number":
        return None
    if family.name == "revenue":  # of a mean of the logarithmic law, where some pay nothing
        paid = purchases_of(fleet)
        assert paid is not None
        return np.asarray(paid.share * paid.amount**2 * (np.exp(np.minimum(paid.noise, 50.0)) - paid.share))
    plain = fleet.core.plain_sums()
    totals, counts = (
        np.bincount(plain.arms, weights=part, minlength=fleet.core.n_arms) for part in (plain.total, plain.counts)
    )
    # Half a reward more of either kind: an arm without any click has some variance.
    means = (totals + 0.5) / (counts + 1.0)
    dispersion = fleet.core.state.population.dispersion
    return np.array([family.variance_of(float(mean)) for mean in means]) + dispersion * means * means


class Purchases(NamedTuple):
    """How many buy and how much they pay, by arm: the two parts of revenue.

    Parameters
    ----------
    share : ndarray of shape (n_arms,)
        Of rewards above 0, with half a reward more of either kind.
    amount : ndarray of shape (n_arms,)
        Mean of those, as the logarithmic law has it; NaN where nobody has paid.
    noise : ndarray of shape (n_arms,)
        Variance of their logarithms around what is expected.
    """

    share: Array
    amount: Array
    noise: Array


def purchases_of(fleet: Fleet) -> Purchases | None:
    """Return the parts of revenue; None for other rewards. The lock must be held."""
    if fleet.rewards != "revenue":
        return None
    core: Any = fleet.core
    plain, n_arms = core.plain_sums(), core.n_arms
    bought, counts = (np.bincount(plain.arms, weights=part, minlength=n_arms) for part in (plain.total, plain.counts))
    level, spread = core.logarithms(fleet.now)
    return Purchases(
        (bought + 0.5) / (counts + 1.0), np.exp(level + 0.5 * spread), core.amounts.state.store.noise.copy()
    )


def rewards_by_task(fleet: Fleet) -> Array:
    """Return how many rewards every task has, by number; the lock must be held."""
    tasks, *_, counts = fleet.core.sums(None, fleet.now)
    return np.asarray(np.bincount(tasks, weights=counts, minlength=fleet.core.n_tasks), dtype=np.float64)


def overview_of(fleet: Fleet, n_tasks: int) -> Overview:
    """Return what was learned, for people to look at; see :meth:`posse.Posse.overview`."""
    findings, settings = fleet.findings(), fleet.settings
    with fleet.lock:
        expire(fleet, fleet.clock())
        fleet.core.ensure_fresh()
        rewards = rewards_by_task(fleet) if n_tasks else np.zeros(0)
        busiest = np.argsort(-rewards, kind="stable")[:n_tasks].tolist()
        tasks = [
            TaskOverview(
                fleet.names.tasks.label(task), float(rewards[task]), float(_borrowing(fleet, task).own_share.mean())
            )
            for task in busiest
            if rewards[task] > 0
        ]
        return Overview(
            policy=settings.policy,
            prior=settings.prior,
            columns=fleet.features.columns,
            arms=arm_overviews(fleet),
            tasks=tasks,
            n_tasks=len(fleet),
            n_decisions=fleet.n_decisions,
            n_pending=fleet.ledgers.n_pending,
            n_rewards=fleet.n_rewards,
            pending_reward=settings.absent_reward if settings.counts_pending else None,
            findings=findings,
            rewards=settings.family.name,
            drift=drift_json(fleet) if fleet.fades else None,
            effects=fleet.effects() if fleet.known.there else None,
        )


def drift_json(fleet: Fleet) -> dict[str, Any]:
    """Return what was found about changes as plain values."""
    half_life = fleet.half_life
    return {
        "learned": fleet.settings.drift == "learn",
        "half_life_days": None if half_life is None else half_life / timedelta(days=1),
        "changes": [{"time": change.time.isoformat(), "task": change.task} for change in fleet.changes],
    }
