"""Forced samples: the schedule and the two-step choice that OLSBandit and RMBandit share."""

from __future__ import annotations

import math

from posse.kernels.compiler import inner_kernel
from posse.kernels.linalg import dot
from posse.kernels.select import best
from posse.types import Array


@inner_kernel
def forced_arm(clock: int, n_arms: int, pulls: int) -> int:
    """Return the arm that round ``clock`` (from 1) must pull, or -1 if it is free.

    Blocks of ``n_arms * pulls`` forced rounds begin after rounds 0, 1, 3, 7, ... times their own length.
    """
    block = n_arms * pulls
    start = 0
    while start < clock:
        if clock <= start + block:
            return (clock - start - 1) // pulls
        start = 2 * start + block
    return -1


@inner_kernel
def prune_then_pick(
    forced: Array, estimates: Array, task: int, x: Array, gap: float, draws: Array, scores: Array
) -> int:
    """Drop arms that forced samples say are ``gap / 2`` worse than the best, then pick by all samples.

    ``forced`` and ``estimates`` are coefficients, shape (K, N, d).
    """
    n_arms = scores.shape[0]
    top = -math.inf
    for arm in range(n_arms):
        scores[arm] = dot(x, forced[arm, task])
        top = max(top, scores[arm])
    for arm in range(n_arms):
        scores[arm] = dot(x, estimates[arm, task]) if scores[arm] >= top - gap / 2.0 else -math.inf
    return best(scores, draws)
