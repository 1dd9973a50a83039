"""The evidence prior from statistics at hand: the steps of a core, taken to the end and watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.model.findings import Seen, Unusual, data_findings, unusual_findings
from posse.model.posterior import log_evidence, symmetric
from posse.model.prior import Prior, PriorEstimate, PriorReport, new_report
from posse.types import Array

if TYPE_CHECKING:
    from posse.core.core import Core
    from posse.core.estimate import Climb
    from posse.core.population import Population
    from posse.model.statistics import Statistics

ITERATIONS = 500
SETTLED = 1e-4  # relative move of every number and every direction at which the search ends
FLAT = 1e-9  # or the share of the log evidence that some steps do not move any more
FLAT_STEPS = 5  # between two looks at the evidence
PATIENCE = 8  # steps without a smaller move after which steps are halved
SHORTEST = 1 / 32  # of a step
SILENT = 1.5  # times the least noise that an arm is allowed: noise this near to it gets a note
FAR = 3.0  # spreads of the arms: an arm whose shared mean lies further from the others' gets a note
STUDENT_FREEDOM = 8.0  # degrees of freedom of the population when outliers are modelled


def estimate_evidence(
    stats: Statistics, *, start: Prior | None = None, robust: bool = False, iterations: int = ITERATIONS
) -> PriorEstimate:
    """Maximise the regularised evidence; see :func:`posse.model.estimate_prior`."""
    climb, nothing = climb_of(stats, start, robust=robust), not (stats.sum_of_squares > 0).any()
    done, converged, first, last = 0, nothing, float("nan"), float("nan")
    if not nothing:
        climb.measure(climb.pairs.rewards())
        if start is not None:
            climb.population = _started_from(climb.population, start)
        climb.look(climb.pairs, learned=True)
        first = total_evidence(stats, climb)
        done, converged, last = _climb(stats, climb, first, iterations)
    report = evidence_report(
        climb.population, climb.shared[:, -1], stats, iterations=done, converged=converged, log_evidence=last,
        evidence_gained=last - first,
    )  # fmt: skip
    return PriorEstimate(prior_of(climb.population), report, climb.weight[: stats.n_tasks].copy())


def climb_of(stats: Statistics, start: Prior | None = None, *, robust: bool = False) -> Climb:
    """Return an estimate of a core that has learned these statistics, at its beginning."""
    # Only here: the core knows priors, which are of this package.
    from posse.core.core import Core
    from posse.core.estimate import Climb
    from posse.core.population import with_prior
    from posse.core.rule import Rule
    from posse.core.select import OPTIMISTIC
    from posse.core.state import N_SLOTS
    from posse.core.store import COUNT, SQUARES, n_triangle, totals_at
    from posse.core.sums import Pairs
    from posse.families import FAMILIES

    K, N, d = stats.moment.shape
    core = Core(K, d, family=FAMILIES["number"], rule=Rule(OPTIMISTIC, 0.0, 0.0), robust=robust)
    core.take_tasks(core.reserve_tasks(N))
    arms, tasks = np.nonzero(stats.count > 0)
    core.prepare(tasks, arms)
    store, population, at = core.state.store, core.state.population, totals_at(d)
    slots, upper = store.slot[tasks, arms], np.triu_indices(d)
    store.pairs[slots, : n_triangle(d)] = stats.gram[arms, tasks][:, *upper]
    store.pairs[slots, n_triangle(d) : at] = stats.moment[arms, tasks]
    store.pairs[slots, at + COUNT] = stats.count[arms, tasks]
    store.pairs[slots, at + SQUARES] = stats.sum_of_squares[arms, tasks]
    if start is not None:  # as if it had been estimated before: it is not started from anew
        population = with_prior(population, start)._replace(at_last=np.array([float(K)]))
    pairs = Pairs.of(store, int(core.state.numbers[N_SLOTS]))
    return Climb(store, population, core.state.arm_features, pairs, robust=robust)


def prior_of(population: Population) -> Prior:
    """Return a population as a prior, whose shared precisions are as plain as may be."""
    precision: Array = population.prior_precision
    diagonal: Array = np.diagonal(precision, axis1=1, axis2=2).copy()
    if (precision == diagonal[:, :, None] * np.eye(precision.shape[1])).all():
        precision = diagonal[:, 0].copy() if (diagonal == diagonal[:, :1]).all() else diagonal
    return Prior(
        covariance=population.covariance.copy(), noise_variance=population.noise.copy(), shared_precision=precision,
        shared_location=population.prior_location,
    )  # fmt: skip


def _started_from(population: Population, start: Prior) -> Population:
    """Return a population of which all that a prior does not say is of its size.

    Its covariances are raised by a millionth of their level, or of the data's: the steps need their inverse.
    """
    from posse.core.population import frame_of

    frame, d = frame_of(population), start.n_features
    covariance = frame.covariance(start.covariance)
    level = np.einsum("kii->k", covariance) / d
    covariance += 1e-6 * np.maximum(level, population.reward_scatter[0] / d)[:, None, None] * np.eye(d)
    level = np.einsum("kii->k", covariance) / d
    spread = frame.covariance(np.asarray(np.linalg.inv(start.shared_precisions), dtype=np.float64))
    return population._replace(
        covariance=symmetric(frame.back @ covariance @ frame.back.T),
        noise=start.noise_variance.copy(),
        scale=np.array([1.0 / np.diagonal(spread, axis1=1, axis2=2).mean()]),
        centre=np.array([np.log(start.noise_variance).mean(), np.log(level).mean()]),
    )


def total_evidence(stats: Statistics, climb: Climb) -> float:
    """Return the log evidence of all arms, the common mean of their shared means integrated out."""
    from posse.core.population import pool

    population, frame = climb.population, climb.frame
    scale = float(population.scale[0])
    # All arms alone, each around 0; then the common mean: what they say about it is Gaussian.
    alone = Prior(
        covariance=population.covariance, noise_variance=population.noise,
        shared_precision=np.tile(scale * symmetric(frame.there.T @ frame.there), (stats.n_arms, 1, 1)),
    )  # fmt: skip
    pooled = pool(population, frame, climb.messages, climb.arm_features)
    precision, moment = pooled.factors.sum(axis=0) + np.diag(pooled.diagonal), pooled.moments.sum(axis=0)
    common = np.linalg.slogdet(precision)[1] - np.log(pooled.diagonal).sum()
    common -= moment @ np.linalg.solve(precision, moment)
    weight = climb.weight[: stats.n_tasks]
    return float(log_evidence(stats, alone, weight).sum()) - 0.5 * float(common)


def _climb(stats: Statistics, climb: Climb, first: float, iterations: int) -> tuple[int, bool, float]:
    """Step until nothing moves; return how many steps there were, whether they came to rest, and the log evidence.

    Steps that go to and fro are halved: what is learned about noise is tempered by how uneven it is, and task weights
    are expectations, so there is no one number that every step would raise.
    """
    share, least, waited, evidence, rewards = 1.0, np.inf, 0, first, climb.pairs.rewards()
    for done in range(1, iterations + 1):
        old = climb.population
        move = climb.step(climb.pairs, rewards)
        if share < 1.0:
            climb.population = _blend(climb.population, old, share)
        climb.look(climb.pairs, learned=True)
        flat = False
        if done % FLAT_STEPS == 0:
            before, evidence = evidence, total_evidence(stats, climb)
            flat = abs(evidence - before) <= FLAT * (1.0 + abs(evidence))
        if move < SETTLED or flat:
            return done, True, total_evidence(stats, climb)
        least, waited = (move, 0) if move < least else (least, waited + 1)
        if waited == PATIENCE:
            share, waited, least = max(share / 2, SHORTEST), 0, np.inf
    return iterations, False, total_evidence(stats, climb)


def _blend(new: Population, old: Population, share: float) -> Population:
    """Return a point between two populations: arithmetic for matrices and logarithms."""

    def between(name: str) -> Array:
        result: Array = (1 - share) * getattr(old, name) + share * getattr(new, name)
        return result

    def scaled(name: str) -> Array:
        result: Array = getattr(old, name) ** (1 - share) * getattr(new, name) ** share
        return result

    return new._replace(
        covariance=between("covariance"), noise=scaled("noise"), scale=scaled("scale"), centre=between("centre"),
        target=between("target"),
    )  # fmt: skip


def evidence_report(
    population: Population,
    shared_mean: Array,
    stats: Statistics,
    *,
    iterations: int,
    converged: bool,
    log_evidence: float = float("nan"),
    evidence_gained: float = float("nan"),
) -> PriorReport:
    """Return what an evidence prior rests on; ``shared_mean`` is that of every arm, of shape (n_arms, n_features)."""
    weight, nothing = float(population.target_weight[0]), not (stats.sum_of_squares > 0).any()
    tasks, notes, found = (stats.count > 0).sum(axis=1), limits(stats, arms_pooled=True), None
    if not nothing:
        found = unusual(population, shared_mean, stats.count.sum(axis=1), converged=converged)
        notes += unusual_findings(found)
    return new_report(
        "evidence", population.covariance, tasks, at_start=nothing, iterations=iterations, converged=converged,
        target_weight=weight / (tasks + weight), log_evidence=log_evidence, evidence_gained=evidence_gained,
        notes=tuple(notes), unusual=found,
    )  # fmt: skip


def core_report(core: Core, stats: Statistics) -> PriorReport:
    """Return the same of a core that has learned these statistics, as it is now."""
    from posse.core.estimate import SETTLED

    population, weight = core.state.population, core.state.store.weight[: stats.n_tasks]
    return evidence_report(
        population, core.state.store.shared[:, -1], stats, iterations=int(population.steps[0]),
        converged=bool(population.last_move[0] < SETTLED),
        log_evidence=float(log_evidence(stats, core.prior, weight).sum()),
    )  # fmt: skip


def unusual(population: Population, shared_mean: Array, rewards: Array, *, converged: bool) -> Unusual:
    """Return which arms the population hardly holds for, and where noise, coefficients and tails are hard to tell."""
    from posse.core.levels import NOISE, least_noise
    from posse.core.population import frame_of
    from posse.core.store import LEVERAGE, REWARDS

    centre, over = float(population.centre[NOISE]), float(population.overdispersion[NOISE])
    least = least_noise(centre, rewards / over, float(population.reward_scatter[0]), population.constant)
    quiet = (rewards > 0) & (population.noise <= SILENT * np.exp(least))
    quiet &= population.constant | (population.noise < 0.5 * np.exp(centre))
    apart = np.abs((shared_mean - population.common_mean[0]) @ frame_of(population).there.T)
    far = (rewards > 0) & (apart.max(axis=1) * np.sqrt(population.scale[0]) > FAR)
    total = float(population.summaries[:, REWARDS].sum())
    return Unusual(
        quiet=tuple(np.flatnonzero(quiet).tolist()),
        far=tuple(np.flatnonzero(far).tolist()),
        coefficient_share=float(population.summaries[:, LEVERAGE].sum()) / total if total > 0 else 0.0,
        overdispersion=over,
        converged=converged,
    )


def limits(stats: Statistics, *, arms_pooled: bool = False) -> list[str]:
    """Return in words what a method cannot learn from these statistics; ``arms_pooled`` if arms tell it about arms."""
    return data_findings(seen_in(stats, arms_pooled=arms_pooled))


def seen_in(stats: Statistics, **others: Any) -> Seen:
    """Return sums over tasks of what statistics have seen."""
    d = stats.n_features
    products = np.empty((d + 1, d + 1))
    products[:d, :d] = stats.gram.sum(axis=(0, 1))
    products[:d, d] = products[d, :d] = stats.moment.sum(axis=(0, 1))
    products[d, d] = stats.sum_of_squares.sum()
    there = stats.count > 0
    n_tasks = int(there.any(axis=0).sum())
    return Seen(tasks=there.sum(axis=1), rewards=stats.count.sum(axis=1), n_tasks=n_tasks, products=products, **others)
