"""Click rates and counts that people read: what is believed about predictors, through the link, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.engine.site_store import SiteStore
from posse.fleet.expecting import BORROWED_CONTEXTS, CONFIDENCE, context_shift
from posse.fleet.overview import coefficients_of

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.labels import Label
    from posse.types import Array


class Rate(NamedTuple):
    """A probability or a rate with its interval, all inside their range.

    Parameters
    ----------
    mean, low, high : float
    """

    mean: float
    low: float
    high: float


def expected_rates(fleet: Fleet, task: Label | None = None, *, confidence: float = CONFIDENCE) -> dict[Label, Rate]:
    """Return the expected reward of every arm, averaged over contexts, retired arms too; nothing for numbers.

    Parameters
    ----------
    fleet : Posse
    task : str or int, optional
        At the average of its contexts, among which ten average contexts of all tasks are counted. Default: a task
        never seen.
    confidence : float
        Of the intervals. Default 0.9.

    Raises
    ------
    InvalidValue
        If ``confidence`` is not between 0 and 1.
    """
    store = fleet._engine.store
    if not isinstance(store, SiteStore):
        return {}
    # Without the lock, since that is the part that takes long: what is learned meanwhile is among it or not.
    total, count = store.sum_of_contexts(), store.n_rewards
    shift = dict(zip(fleet.arms, context_shift(fleet).tolist(), strict=True))
    with fleet._lock:
        fleet._engine.ensure_fresh()
        store = fleet._engine.store  # an estimate may have put another in its place
        assert isinstance(store, SiteStore)
        number = -1 if task is None else fleet._tasks.numbers.get(task, -1)
        average = total / count if count > 0 else _constant(fleet)
        x = average
        if number >= 0:
            store.settle([number])
            slots = store.belief.slot[number, : store.n_arms]
            slots = slots[slots >= 0]
            own = store.sites.parts.contexts[slots].sum(axis=0) + BORROWED_CONTEXTS * average
            x = own / (float(store.belief.sums.counts[slots].sum()) + BORROWED_CONTEXTS)
        known, arms = fleet._engine.known, fleet._arms.numbers.values()
        beliefs = [coefficients_of(store.belief, number, arm) for arm in arms]
        if known is not None:
            both = zip(arms, beliefs, strict=True)
            beliefs = [known.coefficients(store, number, arm, *belief) for arm, belief in both]
    mean = np.array([coefficients @ x for coefficients, _ in beliefs])
    sd = np.sqrt([x @ covariance @ x for _, covariance in beliefs])
    mean += [shift.get(label, 0.0) for label in fleet._arms.numbers]
    low, high = store.family.interval(mean, sd, confidence)
    rows = np.stack([store.family.expected(mean, sd), low, high], axis=1).tolist()
    return {label: Rate(*row) for label, row in zip(fleet._arms.numbers, rows, strict=True)}


def _constant(fleet: Fleet) -> Array:
    """Return the context of a fleet that has seen none: nothing but the intercept."""
    x = np.zeros(fleet._features.n_features)
    x[: int(fleet._features.intercept)] = 1.0
    return x
