"""Whether a fleet that was read from a file can have been written by one.

Sums and population must be possible, or the file is refused. Beliefs follow from these: where they do not, they are
computed again, since whoever wrote them had other sums, another arithmetic, or bad intentions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posse.engine.site_store import SiteStore
from posse.engine.store import Store
from posse.fleet.ledger import FORGOTTEN, Ledger
from posse.kernels import estimators
from posse.kernels.linalg import moderate
from posse.kernels.posterior import new_buffers
from posse.kernels.soundness import all_local_parts_follow, all_sums_sound, cauchy_schwarz, solves, unlisted_weights
from posse.threads import pool
from posse.types import Array

WELL_CONDITIONED = 1e10  # a correlation matrix whose inverse says something
LEAST, MOST = 1e-150, 1e150  # of a variance or precision
FEW_PAIRS = 5000  # pairs of a task and an arm with rewards
SLACK = 1e-3  # of the terms of an equation that rank-one updates keep to 1e-7


def contradiction(store: Store, whole: bool, *, faded: bool = False) -> str | None:
    """Return what in the sums or the population cannot be, or None; ``whole`` is False if only some tasks are there.

    ``faded`` is whether old rewards count less.
    """
    belief = store.belief
    d = store.n_features

    def sound(arm: int) -> bool:
        return bool(all_sums_sound(belief, arm, np.empty((d, d)), faded, isinstance(store, SiteStore)))

    if not _of_all_arms(sound, store):
        return "it has sums that no rewards can have"
    precisions = np.diagonal(belief.shared_precision, axis1=1, axis2=2)
    sizes = (np.diagonal(belief.covariance, axis1=1, axis2=2), belief.noise_variance, precisions)
    if not all((values <= MOST).all() for values in sizes) or not all((values >= LEAST).all() for values in sizes[1:]):
        return "its population has numbers that no rewards can give"
    listed = np.zeros(store.n_tasks, dtype=np.bool_)
    if store.robust:
        for arm in range(store.n_arms):
            listed[belief.task_of[belief.seen[arm, : belief.n_seen[arm]]]] = True
    largest = 1 + store.n_arms * store.n_features  # a task that lies on the shared means of all its arms
    if (
        not unlisted_weights(belief.task_weight, listed)
        or not ((belief.task_weight > 1e-200) & (belief.task_weight <= largest)).all()
    ):
        return "a task has a weight that it cannot have learned"
    if store.method != estimators.EVIDENCE:
        return None
    evidence = store.memory.evidence
    positive = (evidence.shared_scale, evidence.target_weight, evidence.feature_square)
    if not all((values > 0).all() for values in positive) or not (evidence.reward_square >= 0).all():
        return "a scale of the population is not greater than 0"
    at = float(evidence.refreshed_at[0])
    if not (at >= 0 and (not whole or faded or at <= store.n_rewards)):
        return "its population was estimated from more rewards than it has"
    return None


def _of_all_arms(check: Callable[[int], bool], store: Store) -> bool:
    """Whether a check holds for every arm; that of a small fleet is over before a thread would begin it."""
    arms = range(store.n_arms)
    return all(map(check, arms) if store.belief.n_seen.sum() < FEW_PAIRS else pool().map(check, arms))


def beliefs_follow(store: Store, *, beliefs: bool = True) -> bool:
    """Whether all that is believed follows from sums and population, but for rounding and drift.

    Without ``beliefs``, those about pairs are not asked.
    """
    belief = store.belief
    for arm in range(store.n_arms):
        shared = belief.shared_covariance[arm]
        if not cauchy_schwarz(shared):
            return False
        # Rewards only ever narrow what is believed about a shared mean.
        if (np.diagonal(shared) > (1 + SLACK) * np.diagonal(np.linalg.inv(belief.shared_precision[arm]))).any():
            return False
        if not solves(shared, belief.shared_moment[arm], belief.shared_mean[arm], 1.0):
            return False
    if store.method == estimators.EVIDENCE and store.memory.evidence.refreshed_at[0] > 0:
        inverse = store.memory.evidence.inverse
        if not np.isfinite(inverse).all():
            return False
        with np.errstate(over="ignore"):
            product, size = belief.covariance @ inverse, np.abs(belief.covariance) @ np.abs(inverse)
        if not (np.abs(product - np.eye(store.n_features)) <= SLACK * size).all():
            return False

    def follows(arm: int) -> bool:
        leaning, invertible = _leaning(belief.covariance[arm])
        return bool(all_local_parts_follow(belief, arm, leaning, invertible, new_buffers(store.n_features)))

    return not beliefs or _of_all_arms(follows, store)


def ledger_contradiction(ledger: Ledger) -> str | None:
    """Return what is wrong with the numbers of a ledger, or None."""
    if not moderate(ledger.context.reshape(-1)) or not moderate(ledger.reward):
        return "a decision has a context or a reward that no fleet takes"
    return None


def uncounted(store: Store, ledgers: list[Ledger]) -> str | None:
    """Return what is wrong if a pair has more decisions that count from the start than rewards, or None."""
    slots = []
    for ledger in ledgers:
        rows = ledger.status != FORGOTTEN
        slots.append(store.belief.slot[ledger.task[rows], ledger.arm[rows]])
    found = np.concatenate(slots)
    if (found < 0).any() or (
        np.bincount(found, minlength=1) > store.belief.sums.counts[: found.max(initial=0) + 1]
    ).any():
        return "it has decisions that count, but are not among what was learned"
    return None


def _leaning(covariance: Array) -> tuple[Array, bool]:
    """Return the row sums of the inverse, and whether there is one worth using."""
    d = len(covariance)
    scale = np.sqrt(np.diagonal(covariance))
    if not (scale > 0).all():
        return np.zeros(d), False
    correlation = covariance / scale[:, None] / scale
    if not np.isfinite(correlation).all() or not np.linalg.cond(correlation) < WELL_CONDITIONED:
        return np.zeros(d), False
    leaning = np.linalg.solve(correlation, 1 / scale) / scale
    return leaning, bool(np.isfinite(leaning).all())
