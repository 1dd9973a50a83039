"""Whether the numbers of a fleet can belong together: what a file says is checked by what else it says.

What holds for every fleet, with room for rounding: sums of products obey Cauchy and Schwarz, and a local part solves
its own equations.
"""

from __future__ import annotations

import math

from posse.kernels.compiler import inner_kernel, kernel
from posse.kernels.linalg import LARGEST, whole
from posse.kernels.posterior import Belief, Buffers
from posse.types import Array, BoolArray

SLACK = 1e-6  # of a bound that holds exactly but for rounding
DRIFT = 1e-3  # of the terms of an equation that rank-one updates keep to 1e-7
TRACE = 1e-9  # of a standard deviation
MOST = 2.0**53


@kernel
def cauchy_schwarz(matrix: Array) -> bool:
    """Whether a symmetric matrix has no negative square and no product larger than its squares allow."""
    d = matrix.shape[0]
    for i in range(d):
        if not matrix[i, i] >= 0.0:
            return False
        for j in range(i):
            if not abs(matrix[i, j]) <= (1.0 + SLACK) * math.sqrt(matrix[i, i]) * math.sqrt(matrix[j, j]):
                return False
    return True


@kernel
def solves(matrix: Array, x: Array, y: Array, unit: float) -> bool:
    """Whether ``matrix @ x`` is ``y``, but for rounding and drift; ``unit * matrix`` is the covariance of ``y``.

    Rewards that cancel leave rounding behind where exactly 0 is due: next to nothing beside how uncertain ``y`` is.
    """
    for i in range(y.shape[0]):
        value, size = 0.0, 0.0
        for j in range(x.shape[0]):
            value += matrix[i, j] * x[j]
            size += abs(matrix[i, j] * x[j])
        if not abs(value - y[i]) <= DRIFT * size + TRACE * math.sqrt(unit * matrix[i, i]):
            return False
    return True


@inner_kernel
def sound_sums(belief: Belief, row: int, room: Array, faded: bool, sites: bool) -> bool:
    """Whether the sums of one pair can be sums over rewards; where they have ``faded``, counts need not be whole.

    Squares of ``sites`` that were made again are what large differences left, and nothing follows from them.
    """
    gram, moment = whole(belief.sums.gram[row], room), belief.sums.moment[row]
    count, squares = belief.sums.counts[row], belief.sums.sum_of_squares[row]
    if not 0.0 < count <= MOST or not (sites or 0.0 <= squares <= count * LARGEST * LARGEST):
        return False
    if sites and not abs(squares) < math.inf:
        return False
    if not faded and count != math.floor(count):
        return False
    if not cauchy_schwarz(gram):
        return False
    for i in range(moment.shape[0]):
        if not gram[i, i] <= count * LARGEST * LARGEST:
            return False
        if sites:
            if not abs(moment[i]) < math.inf:
                return False
        elif not abs(moment[i]) <= (1.0 + SLACK) * math.sqrt(gram[i, i]) * math.sqrt(squares):
            return False
    return True


@inner_kernel
def local_part_follows(belief: Belief, arm: int, row: int, leaning: Array, invertible: bool, buffers: Buffers) -> bool:
    """Whether the local part of one pair solves its equations; ``leaning`` is the row sums of Sigma^-1."""
    gram, moment = whole(belief.sums.gram[row], buffers.matrices[0]), belief.sums.moment[row]
    local_covariance = whole(belief.local_covariance[row], buffers.matrices[1])
    local_mean, work = belief.local_mean[row], buffers.vectors[0]
    d = moment.shape[0]
    prior_weight = belief.noise_variance[arm] * belief.task_weight[belief.task_of[row]]
    if not cauchy_schwarz(local_covariance) or not solves(
        local_covariance, moment, local_mean, belief.noise_variance[arm]
    ):
        return False
    if not invertible:
        return True
    # Ct (A + s2 Sigma^-1) 1 = 1
    for i in range(d):
        work[i] = prior_weight * leaning[i]
        for j in range(d):
            work[i] += gram[i, j]
    for i in range(d):
        value, size = 0.0, 1.0
        for j in range(d):
            value += local_covariance[i, j] * work[j]
            size += abs(local_covariance[i, j] * work[j])
        if not abs(value - 1.0) <= DRIFT * size:
            return False
    return True


@kernel
def all_sums_sound(belief: Belief, arm: int, room: Array, faded: bool, sites: bool) -> bool:
    """Whether the sums of all pairs of an arm can be sums over rewards."""
    for position in range(belief.n_seen[arm]):
        if not sound_sums(belief, belief.seen[arm, position], room, faded, sites):
            return False
    return True


@kernel
def all_local_parts_follow(belief: Belief, arm: int, leaning: Array, invertible: bool, buffers: Buffers) -> bool:
    """Whether the local parts of all pairs of an arm solve their equations."""
    for position in range(belief.n_seen[arm]):
        if not local_part_follows(belief, arm, belief.seen[arm, position], leaning, invertible, buffers):
            return False
    return True


@kernel
def unlisted_weights(weights: Array, listed: BoolArray) -> bool:
    """Whether every task without rewards has weight 1."""
    for task in range(weights.shape[0]):  # noqa: SIM110 -- a generator does not compile
        if not listed[task] and weights[task] != 1.0:
            return False
    return True
