"""The working form of a posterior: arrays that the compiled kernels update in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.kernels.posterior import Belief, Buffers, new_buffers, rebuild
from posse.kernels.sums import Sums
from posse.model.prior import Prior

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
