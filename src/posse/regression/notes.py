"""What a regression could not learn, in the words of someone who has groups, features and a target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posse.model import PriorEstimate
from posse.regression.sums import Standardised
from posse.types import BoolArray

COLLINEAR = 1e-10
"""Smallest eigenvalue of a correlation matrix below which its features are collinear."""

ONE_GROUP = "there is one group only: how groups differ cannot be learned from it"


def unlearned(data: Standardised, estimate: PriorEstimate, fixed: BoolArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return in words what the estimate could not learn from these statistics.

    ``fixed`` marks coefficients that are the same in all groups, the intercept's place first if there is one.
    """
    stats, report, p = data.stats, estimate.report, data.stats.n_features
    notes = []
    if stats.n_tasks < 2:
        notes.append(ONE_GROUP)
    elif (stats.count <= 1).all():
        notes.append("every group has one row: noise and differences between groups cannot be told apart")
    if not stats.sum_of_squares.any():
        notes.append("y is always 0: there is no scale to learn, start values stand")
    elif data.target_constant:
        notes.append("y is constant: noise variance and covariance cannot be learned")
    zeros = np.einsum("kjii->i", stats.gram)[-len(names) :] == 0
    for name, constant, zero in zip(names, data.constant, zeros, strict=True):
        if zero:
            notes.append(f"feature {name} is always 0: its coefficients stay at the start")
        elif constant:
            notes.append(f"feature {name} is constant: it cannot be told from the intercept")
    varying = np.flatnonzero(~data.constant & ~zeros) + p - len(names)
    if varying.size:
        total = stats.gram[0].sum(axis=0)[np.ix_(varying, varying)]
        if np.linalg.eigvalsh(total)[0] < COLLINEAR * stats.count.sum():
            notes.append("features are collinear: directions without data stay at the start")
    if report.method == "reml":
        if report.covariance_at_start[0]:
            notes.append(
                f"restricted likelihood needs more than {p} rows, features that are not collinear and a y that they do "
                "not fit exactly: start values stand"
            )
        else:
            covariance = estimate.prior.covariance[0][np.ix_(~fixed, ~fixed)]
            rank = int(np.linalg.matrix_rank(covariance, tol=1e-12 * np.trace(covariance), hermitian=True))
            if rank < len(covariance):
                notes.append(f"the covariance is at the boundary: its rank is {rank} of {len(covariance)}")
    return tuple(notes)
