r"""Arms come from a population too: their shared means scatter around a common mean.

.. math:: M \sim \mathcal N(0, W), \qquad b_k \mid M \sim \mathcal N(M, \Lambda^{-1})

with :math:`b_k` the shared mean of arm k, :math:`\Lambda` and W diagonal, and W as wide as M asks for. What the tasks
of an arm say about its shared mean is a Gaussian factor with precision G and moment g. Passed on to M, it has lost
what the spread of the arms takes from it::

    P = Lambda (Lambda + G)^-1 G          h = Lambda (Lambda + G)^-1 g

Factors multiply, so what the *other* arms say about M is a sum over them, and what they say about b_k is that sum
passed back in the same way. That is the prior of b_k, exactly: no arm's rewards count twice, a lone arm is believed
to lie anywhere, and a constant added to all rewards moves M and nothing else.
"""

from __future__ import annotations

import math
from typing import Any

from posse.kernels.centring import shift_coefficients, shift_moment, shift_precision
from posse.kernels.compiler import inner_kernel, woven_kernel
from posse.kernels.linalg import dot, factor, invert, log_determinant, multiply
from posse.kernels.posterior import Buffers
from posse.types import Array

NARROW = 8.0  # the arms' variance over the squared width of the law of their common mean
DOUBT = 4.0  # how much wider that law is, in variances of the common mean, where the mean is clearly not 0
SLOPE, INFORMATION, POOLED = 0, 1, 2  # of the log scale of the arms' spread; what pooling adds to the log evidence


@inner_kernel
def invert_sum(matrix: Array, diagonal: Array, scale: float, buffers: Buffers, out: Array) -> bool:
    """Write ``(matrix + scale diag(diagonal))^-1`` to ``out``; a little more is added if rounding asks for it."""
    d = matrix.shape[0]
    work = buffers.matrices[0]
    extra = 1.0
    for _attempt in range(20):
        for i in range(d):
            for j in range(d):
                work[i, j] = 0.5 * (matrix[i, j] + matrix[j, i])
            work[i, i] += extra * scale * diagonal[i]
        if invert(work, buffers.matrices[1], buffers.matrices[2], out):
            return True
        extra = 1.0 + 1e-12 if extra == 1.0 else 1.0 + 100.0 * (extra - 1.0)
    return False


@inner_kernel
def pass_on(
    precision: Array, moment: Array, diagonal: Array, scale: float, buffers: Buffers, inverse: Array, out: Array
) -> None:
    """Pass a factor through the spread of the arms: write [P, h] to ``out`` (d, d + 1), (Lambda + G)^-1 to ``inverse``.

    Lambda is ``scale diag(diagonal)``. P is a product, not a difference: nothing cancels, however weak the factor.
    """
    d = moment.shape[0]
    invert_sum(precision, diagonal, scale, buffers, inverse)
    product = buffers.matrices[3]
    multiply(inverse, precision, product)
    for i in range(d):
        out[i, d] = scale * diagonal[i] * dot(inverse[i], moment)
    for i in range(d):
        for j in range(d):
            out[i, j] = 0.5 * scale * (diagonal[i] * product[i, j] + diagonal[j] * product[j, i])


@woven_kernel
def gather_arm(belief: Any, evidence: Any, arm: int, buffers: Buffers) -> None:
    """Write what the tasks of one arm say about its shared mean."""
    precision, moment = evidence.information[arm], evidence.moment[arm]
    d = moment.shape[0]
    if belief.n_seen[arm] == 0:
        for i in range(d):
            moment[i] = 0.0
            for j in range(d):
                precision[i, j] = 0.0
        return
    invert(belief.shared_covariance[arm], buffers.matrices[0], buffers.matrices[1], precision)
    for i in range(d):
        moment[i] = belief.shared_moment[arm, i]
        for j in range(d):
            precision[i, j] -= belief.shared_precision[arm, i, j]
            moment[i] -= belief.shared_precision[arm, i, j] * belief.shared_location[arm, j]
    shift_moment(moment, evidence.feature_mean, evidence.intercept, 1.0)
    shift_precision(precision, evidence.feature_mean, evidence.intercept, 1.0)


@woven_kernel
def gather_arms(belief: Any, evidence: Any, buffers: Buffers) -> None:
    """Write what the tasks of every arm say about its shared mean: the posterior in force less its prior."""
    for arm in range(belief.n_seen.shape[0]):
        gather_arm(belief, evidence, arm, buffers)


@woven_kernel
def set_width(evidence: Any) -> None:
    """Set how far from 0 the common mean is believed to be: a law with heavy tails, narrower than the arms' spread.

    Common coefficients that are small beside the spread of the arms are drawn to 0; large ones (sales near 100) are let
    go. Its penalty, log(1 + t^2) / 2, is that of a Gaussian whose precision follows the common mean as it was last.
    A mean that is larger than it is uncertain, a few clicks in a thousand rows, is drawn to 0 less.
    """
    for i in range(evidence.arm_mean.shape[0]):
        scale = NARROW * evidence.shared_scale[0] * evidence.feature_square[i]
        square, variance = evidence.arm_mean[i] * evidence.arm_mean[i], evidence.arm_covariance[i, i]
        doubt = variance * (1.0 - variance / square) if square > variance else 0.0
        square += variance + DOUBT * doubt
        evidence.arm_precision[i] = scale / (1.0 + scale * square)


@inner_kernel
def pool_arms(evidence: Any, buffers: Buffers) -> None:
    """Learn the common mean of the arms from what their tasks say, and how the evidence asks for their spread.

    Writes ``arm_mean`` and ``arm_covariance``, the messages of all arms, and to ``arm_summary`` slope and information
    of the log scale of the arms' variances and what pooling adds to the log evidence.
    """
    n_arms, d = evidence.moment.shape
    squares, scale = evidence.feature_square, evidence.shared_scale[0]
    total, offset = buffers.matrices[4], buffers.vectors[0]
    for i in range(d):
        offset[i] = 0.0
        for j in range(d):
            total[i, j] = 0.0
    for arm in range(n_arms):
        message = evidence.message[arm]
        pass_on(
            evidence.information[arm], evidence.moment[arm], squares, scale, buffers, evidence.leaning[arm], message
        )
        for i in range(d):
            offset[i] += message[i, d]
            for j in range(d):
                total[i, j] += message[i, j]
    covariance = evidence.arm_covariance
    invert_sum(total, evidence.arm_precision, 1.0, buffers, covariance)
    # log det C - log det W + h'C h, halved.
    gained = -log_determinant(buffers.matrices[1])
    for i in range(d):
        evidence.arm_mean[i] = dot(covariance[i], offset)
        gained += offset[i] * evidence.arm_mean[i] + math.log(evidence.arm_precision[i])
    slope, information = 0.0, 0.0
    work, half = buffers.matrices[3], buffers.matrices[5]
    for arm in range(n_arms):
        inverse, moment = evidence.leaning[arm], evidence.moment[arm]
        # work = (Lambda + G)^-1 Lambda - I: what b_k - M does when M moves.
        for i in range(d):
            for j in range(d):
                work[i, j] = inverse[i, j] * scale * squares[j]
            work[i, i] -= 1.0
        multiply(work, covariance, half)
        for i in range(d):
            deviation = dot(inverse[i], moment) + dot(work[i], evidence.arm_mean)
            spread = inverse[i, i] + dot(half[i], work[i])
            slope += 0.5 * (scale * squares[i] * (deviation * deviation + spread) - 1.0)
            for j in range(d):
                information += 0.5 * work[i, j] * work[j, i]
    evidence.arm_summary[SLOPE] = slope
    evidence.arm_summary[INFORMATION] = max(information, 0.0)
    evidence.arm_summary[POOLED] = 0.5 * gained


@inner_kernel
def share_arms(belief: Any, evidence: Any, buffers: Buffers) -> None:
    """Set the prior of every arm's shared mean to what all other arms say about it."""
    n_arms, d = evidence.moment.shape
    before, others = buffers.matrices[4], buffers.matrices[5]
    prior_moment, moment = buffers.vectors[0], buffers.vectors[1]
    # Sums over the arms after each one, from the last on; those over the arms before it grow on the way back. No sum
    # is a difference, so an arm with nearly all the rewards does not drown the others in rounding.
    after = evidence.after
    for i in range(d):
        for j in range(d + 1):
            after[n_arms - 1, i, j] = 0.0
    for arm in range(n_arms - 2, -1, -1):
        for i in range(d):
            for j in range(d + 1):
                after[arm, i, j] = after[arm + 1, i, j] + evidence.message[arm + 1, i, j]
    for i in range(d):
        prior_moment[i] = 0.0
        for j in range(d):
            before[i, j] = 0.0
        before[i, i] = evidence.arm_precision[i]
    for arm in range(n_arms):
        for i in range(d):
            moment[i] = prior_moment[i] + after[arm, i, d]
            for j in range(d):
                others[i, j] = before[i, j] + after[arm, i, j]
        set_shared_prior(belief, evidence, arm, others, moment, buffers, after[arm])
        for i in range(d):
            prior_moment[i] += evidence.message[arm, i, d]
            for j in range(d):
                before[i, j] += evidence.message[arm, i, j]


@woven_kernel
def set_shared_prior(
    belief: Any,
    evidence: Any,
    arm: int,
    precision: Array,
    moment: Array,
    buffers: Buffers,
    room: Array,
) -> None:
    """Set the prior of an arm's shared mean, given precision and moment of the common mean; ``room`` is (d, d + 1)."""
    d = moment.shape[0]
    squares, scale = evidence.feature_square, evidence.shared_scale[0]
    pass_on(precision, moment, squares, scale, buffers, buffers.matrices[6], room)
    shared = belief.shared_precision[arm]
    for i in range(d):
        for j in range(d):
            shared[i, j] = room[i, j]
    # The location solves precision @ location = passed moment; it is the common mean itself.
    root, location = buffers.matrices[0], belief.shared_location[arm]
    factor(precision, root)
    for i in range(d):
        location[i] = moment[i]
        for k in range(i):
            location[i] -= root[k, i] * location[k]
        location[i] /= root[i, i]
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            location[i] -= root[i, k] * location[k]
        location[i] /= root[i, i]
    shift_precision(shared, evidence.feature_mean, evidence.intercept, -1.0)
    shift_coefficients(location, evidence.feature_mean, evidence.intercept, -1.0)
