"""The working form of a posterior: arrays that the compiled kernels update in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.kernels.packing import diagonal_places, whole_matrix
from posse.kernels.posterior import Belief, Buffers, new_buffers, rebuild
from posse.kernels.sums import Sums
from posse.model.borrowing import Borrowing, _at_least, _inverse, mean_squares
from posse.model.prior import Prior

AT_ONCE = 8192  # pairs that are read at a time

if TYPE_CHECKING:
    from posse.model.statistics import Statistics
    from posse.types import Array


def new_belief(
    stats: Statistics,
    prior: Prior,
    buffers: Buffers | None = None,
    *,
    triangles: bool = False,
    rebuilt: bool = True,
) -> Belief:
    """Return the belief that ``stats`` leave under ``prior``.

    The belief works on the arrays of ``stats`` themselves; pass a copy to keep them. The prior is copied. With
    ``triangles`` it works on upper triangles of its own, as fleets do: the kernels are then those of fleets, and what
    one has compiled the other need not. Unless ``rebuilt``, posteriors are left for the caller to compute.
    """
    prior.require_shape(n_arms=stats.n_arms, n_features=stats.n_features)
    n_arms, n_tasks, d = stats.moment.shape
    # Every (arm, task) has its row here, in the order of the statistics.
    rows = np.arange(n_arms * n_tasks).reshape(n_arms, n_tasks)
    sums = Sums(*(field.reshape(-1, *field.shape[2:]) for field in stats.sums))
    local_covariance = np.empty((n_arms * n_tasks, d, d))
    if triangles:
        upper = np.triu_indices(d)
        sums = sums._replace(gram=np.ascontiguousarray(sums.gram[:, *upper]))
        local_covariance = np.empty(sums.gram.shape)
    belief = Belief(
        sums=sums,
        slot=np.ascontiguousarray(rows.T),
        task_of=np.tile(np.arange(n_tasks), n_arms),
        seen=np.zeros((n_arms, n_tasks), dtype=np.int64),
        n_seen=np.zeros(n_arms, dtype=np.int64),
        rewards=stats.count.sum(axis=1),
        covariance=prior.covariance.copy(),
        noise_variance=prior.noise_variance.copy(),
        shared_precision=prior.shared_precisions,
        shared_location=prior.shared_location.copy(),
        task_weight=np.ones(n_tasks),
        # Entries of tasks without rewards are never read, and untouched pages cost no memory.
        local_covariance=local_covariance,
        local_mean=np.empty((n_arms * n_tasks, d)),
        shared_covariance=np.empty((n_arms, d, d)),
        shared_moment=np.empty((n_arms, d)),
        shared_mean=np.empty((n_arms, d)),
    )
    buffers = buffers or new_buffers(d)
    for arm in range(n_arms):
        tasks = np.flatnonzero(stats.count[arm] > 0)
        belief.seen[arm, : tasks.size] = rows[arm, tasks]
        belief.n_seen[arm] = tasks.size
        if rebuilt:
            rebuild(belief, arm, buffers)
    return belief


def put_prior(belief: Belief, prior: Prior, buffers: Buffers) -> None:
    """Put another prior in force, and rebuild all that is believed under it."""
    belief.covariance[:] = prior.covariance
    belief.noise_variance[:] = prior.noise_variance
    belief.shared_precision[:] = prior.shared_precisions
    belief.shared_location[:] = prior.shared_location
    for arm in range(prior.n_arms):
        rebuild(belief, arm, buffers)


def prior_of(belief: Belief) -> Prior:
    """Return the prior in force as a value of its own."""
    return Prior(
        covariance=belief.covariance.copy(),
        noise_variance=belief.noise_variance.copy(),
        shared_precision=_plainest(belief.shared_precision),
        shared_location=belief.shared_location,
    )


def _plainest(precision: Array) -> Array:
    """Return one number per arm, or one per feature, where matrices say no more than that."""
    diagonal: Array = np.diagonal(precision, axis1=1, axis2=2).copy()
    if (precision != diagonal[:, :, None] * np.eye(precision.shape[1])).any():
        return precision.copy()
    return diagonal[:, 0].copy() if (diagonal == diagonal[:, :1]).all() else diagonal


def feature_squares(belief: Belief) -> Array:
    """Return the mean squares of the features over all rewards; 1 for one that was always 0.

    Reads the pairs with rewards and no others: arrays may have space for many times as many.
    """
    n_arms, d = belief.shared_mean.shape
    squares, places = np.zeros(d), diagonal_places(d)
    gram = belief.sums.gram
    for arm in range(n_arms):
        seen = belief.seen[arm, : belief.n_seen[arm]]
        for start in range(0, seen.size, AT_ONCE):
            rows = seen[start : start + AT_ONCE, None]
            squares += (gram[rows, places] if gram.ndim == 2 else gram[rows, np.arange(d), np.arange(d)]).sum(axis=0)
    return mean_squares(squares, float(belief.rewards.sum()))


def borrowing_of(belief: Belief, task: int, squares: Array | None = None) -> Borrowing:
    """Return what stands behind the predictions of one task; ``squares`` are those of the features, if at hand."""
    n_arms, d = belief.shared_mean.shape
    own_share, borrowed = np.zeros(n_arms), np.zeros(n_arms)
    rows = belief.slot[task, :n_arms]
    counts = np.where(rows >= 0, belief.sums.counts[rows], 0.0)
    if squares is None:
        squares = feature_squares(belief)
    grams = [
        whole_matrix(belief.sums.gram[row]) if count > 0 else np.zeros((d, d))
        for row, count in zip(rows, counts, strict=True)
    ]
    contexts = np.sum(grams, axis=0)
    for arm in range(n_arms):
        noise = float(belief.noise_variance[arm])
        spread = belief.covariance[arm] / belief.task_weight[task]
        prior_precision = belief.shared_precision[arm]
        shared_precision = _inverse(belief.shared_covariance[arm])
        if counts[arm] > 0:
            gram = grams[arm]
            local_covariance = whole_matrix(belief.local_covariance[rows[arm]])
            leaning = np.eye(d) - local_covariance @ gram
            covariance = noise * local_covariance
            covariance = covariance + leaning @ belief.shared_covariance[arm] @ leaning.T
            # Without this task; what rounding takes below the bare prior is given back.
            shared_precision = shared_precision - gram @ leaning / noise
        before = _inverse(_at_least(shared_precision, prior_precision)) + spread
        if counts[arm] > 0 and (variance := np.vdot(before, contexts)) > 0:
            own_share[arm] = np.clip(1 - np.vdot(covariance, contexts) / variance, 0.0, 1.0)
        others = _inverse(before)
        alone = _inverse(_inverse(prior_precision) + spread)
        borrowed[arm] = max(noise * float((np.diagonal(others - alone) / squares).mean()), 0.0)
    return Borrowing(own_share, borrowed, counts)
