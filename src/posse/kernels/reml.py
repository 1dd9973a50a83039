"""The restricted likelihood and its slope, summed over tasks."""

from __future__ import annotations

import math

from posse.kernels.compiler import kernel
from posse.kernels.linalg import (
    cross_product,
    dot,
    factor,
    invert,
    log_determinant,
    mirror_upper,
    multiply_symmetric,
    multiply_upper,
)
from posse.kernels.posterior import Buffers, whiten
from posse.types import Array


@kernel
def restricted_deviance(
    gram: Array,
    moment: Array,
    squares: float,
    rewards: float,
    relative_root: Array,
    task_precision: Array,
    task_moment: Array,
    buffers: Buffers,
    mean: Array,
    slope: Array,
) -> float:
    r"""Return minus twice the restricted log likelihood, noise variance and shared mean profiled out.

    ``relative_root`` is the lower T with Sigma = s2 T T'. On return ``mean`` is the shared mean and ``slope`` the slope
    of the deviance in T T'. ``task_precision`` (J, d, d) and ``task_moment`` (J, d) are buffers.
    """
    n_tasks, d = moment.shape
    root, middle, whitened = buffers.matrices[0], buffers.matrices[1], buffers.matrices[2]
    explained, total, covariance = buffers.matrices[3], buffers.matrices[4], buffers.matrices[5]
    own, shared_moment, left = buffers.vectors[0], buffers.vectors[1], buffers.vectors[2]
    for i in range(d):
        shared_moment[i] = 0.0
        for j in range(d):
            root[i, j] = relative_root[j, i]
            total[i, j] = 0.0
    deviance = 0.0
    residual = squares
    for task in range(n_tasks):
        whiten(gram[task], root, relative_root, 1.0, middle, whitened, explained)
        deviance += log_determinant(middle)
        precision = task_precision[task]
        cross_product(explained, precision)
        for i in range(d):
            own[i] = dot(whitened[i], moment[task])
            task_moment[task, i] = moment[task, i]
            for j in range(d):
                precision[i, j] = gram[task, i, j] - precision[i, j]
                total[i, j] += precision[i, j]
        residual -= dot(own, own)
        for k in range(d):
            for i in range(d):
                task_moment[task, i] -= own[k] * explained[k, i]
        for i in range(d):
            shared_moment[i] += task_moment[task, i]
    if not invert(total, middle, whitened, covariance):
        return math.inf
    deviance += log_determinant(middle)
    multiply_symmetric(covariance, shared_moment, mean)
    freedom = rewards - d
    residual -= dot(shared_moment, mean)
    # Rewards that are fitted to the last digit have no likelihood: it grows without bound.
    if not residual > 1e-13 * squares:
        return math.inf
    noise = residual / freedom
    deviance += freedom * (1.0 + math.log(2.0 * math.pi * noise))

    # P_j Phi P_j = (R P_j)'(R P_j) with Phi = R'R.
    factor(covariance, root)
    for i in range(d):
        for j in range(d):
            slope[i, j] = total[i, j]
    for task in range(n_tasks):
        precision = task_precision[task]
        multiply_symmetric(precision, mean, left)
        for i in range(d):
            left[i] = task_moment[task, i] - left[i]
        multiply_upper(root, precision, explained)
        for i in range(d):
            scaled = left[i] / noise
            for j in range(i, d):
                slope[i, j] -= scaled * left[j]
        for k in range(d):
            for i in range(d):
                weight = explained[k, i]
                for j in range(i, d):
                    slope[i, j] -= weight * explained[k, j]
    mirror_upper(slope)
    return deviance
