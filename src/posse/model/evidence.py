"""The evidence prior from statistics at hand: the policies' steps, taken to the end and watched."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.kernels import evidence as kernels
from posse.kernels import levels
from posse.kernels.passes import GAUSSIAN_SCATTER, LEVERAGE, REWARDS
from posse.kernels.posterior import Belief, Buffers, new_buffers
from posse.kernels.refresh import INFORMATION
from posse.model.belief import new_belief, prior_of
from posse.model.findings import Seen, Unusual, data_findings, unusual_findings
from posse.model.posterior import symmetric
from posse.model.prior import Prior, PriorEstimate, PriorReport, new_report
from posse.model.refresh import LiveReader, Refresh
from posse.model.statistics import Statistics
from posse.types import Array

ITERATIONS = 500
SETTLED = 1e-4  # relative move of every number and every direction at which the search ends
FLAT = 1e-9  # or the share of the log evidence that three steps in a row do not move any more
PATIENCE = 8  # steps without a smaller move after which steps are halved
SHORTEST = 1 / 32  # of a step
SILENT = 1.5  # times the least noise that an arm is allowed: noise this near to it gets a note
FAR = 3.0  # spreads of the arms: an arm whose shared mean lies further from the others' gets a note
STUDENT_FREEDOM = 8.0  # degrees of freedom of the population when outliers are modelled


def estimate_evidence(
    stats: Statistics, *, start: Prior | None = None, robust: bool = False, iterations: int = ITERATIONS
) -> PriorEstimate:
    """Maximise the regularised evidence; see :func:`posse.model.estimate_prior`."""
    K, d = stats.n_arms, stats.n_features
    buffers = new_buffers(d)
    belief = new_belief(stats, start or Prior.isotropic(n_arms=K, n_features=d), buffers, triangles=True)
    evidence = kernels.new_evidence(K, stats.n_tasks, d, STUDENT_FREEDOM if robust else 0.0)
    nothing = not (stats.sum_of_squares > 0).any()
    done, converged = 0, nothing
    first = last = float("nan")
    if not nothing:
        refresh, source = Refresh(belief, evidence, in_place=True), LiveReader(belief)
        if start is not None:
            evidence.refreshed_at[0] = K  # as if it had been estimated before: it is not started from anew
        refresh.begin(source, steps=iterations + 1, settled=0.0)
        if start is not None:
            back = centring(evidence)
            there = np.linalg.inv(back)
            covariance = there @ belief.covariance @ there.T
            _lift(covariance, evidence.feature_square, float(evidence.reward_scatter[0]))
            belief.covariance[:] = back @ covariance @ back.T
            spread = there @ np.linalg.inv(start.shared_precisions) @ there.T
            evidence.shared_scale[0] = 1 / float(
                np.mean(np.diagonal(spread, axis1=1, axis2=2) * evidence.feature_square)
            )
            level = np.einsum("kii,i->k", covariance, evidence.feature_square) / d
            evidence.centre[:] = np.log(belief.noise_variance).mean(), np.log(level).mean()
        refresh.look_from(source, shared=True, steps=iterations + 1)
        first = kernels.log_evidence_of(belief, evidence, buffers)
        done, converged = _climb(refresh, belief, buffers, iterations)
        last = kernels.log_evidence_of(belief, evidence, buffers)
    report = evidence_report(
        belief,
        evidence,
        stats,
        iterations=done,
        converged=converged,
        log_evidence=last,
        evidence_gained=last - first,
    )
    return PriorEstimate(prior_of(belief), report, belief.task_weight.copy())


def expected_arm(evidence: kernels.Evidence) -> Prior:
    """Return the prior of an arm that nothing is known about: arms are a population, and it is one of them."""
    back = centring(evidence)
    spread = np.diag(1 / (evidence.shared_scale[0] * evidence.feature_square)) + evidence.arm_covariance
    return Prior(
        covariance=np.exp(evidence.centre[levels.LEVEL]) * symmetric(back @ evidence.target @ back.T)[None],
        noise_variance=np.exp(evidence.centre[levels.NOISE]),
        shared_precision=symmetric(np.asarray(np.linalg.inv(back @ spread @ back.T), dtype=np.float64))[None],
        shared_location=(back @ evidence.arm_mean)[None],
    )


def centring(evidence: kernels.Evidence) -> Array:
    """Return the matrix that turns coefficients for centred columns into those for features as they came."""
    back = np.eye(evidence.feature_mean.size)
    back[evidence.intercept] -= evidence.feature_mean
    return back


def evidence_report(
    belief: Belief,
    evidence: kernels.Evidence,
    stats: Statistics,
    *,
    iterations: int,
    converged: bool,
    log_evidence: float = float("nan"),
    evidence_gained: float = float("nan"),
) -> PriorReport:
    """Return what an evidence prior rests on."""
    weight, nothing = float(evidence.target_weight[0]), not (stats.sum_of_squares > 0).any()
    notes, found = limits(stats, arms_pooled=True), None
    if not nothing:
        found = unusual(belief, evidence, converged=converged)
        notes += unusual_findings(found)
    return new_report(
        "evidence", belief.covariance, belief.n_seen, at_start=nothing, iterations=iterations, converged=converged,
        target_weight=weight / (belief.n_seen.astype(np.float64) + weight), log_evidence=log_evidence,
        evidence_gained=evidence_gained, notes=tuple(notes), unusual=found,
    )  # fmt: skip


def unusual(belief: Belief, evidence: kernels.Evidence, *, converged: bool) -> Unusual:
    """Return which arms the population hardly holds for, and where noise, coefficients and tails are hard to tell."""
    size, counts = float(evidence.reward_scatter[0]), belief.rewards / evidence.overdispersion[levels.NOISE]
    centre = float(evidence.centre[levels.NOISE])
    constant_rewards = evidence.summaries[:, GAUSSIAN_SCATTER] < 0  # posse.kernels.passes.is_silent
    least = [
        levels.least_noise(centre, float(count), size, bool(constant))
        for count, constant in zip(counts, constant_rewards, strict=True)
    ]
    quiet = (belief.rewards > 0) & (belief.noise_variance <= SILENT * np.exp(least))
    quiet &= constant_rewards | (belief.noise_variance < 0.5 * np.exp(centre))
    spread = 1 / np.sqrt(evidence.shared_scale[0] * evidence.feature_square)
    centred = np.linalg.solve(centring(evidence), belief.shared_mean.T).T
    apart = np.abs(centred - evidence.arm_mean) / spread
    far = (belief.rewards > 0) & (apart.max(axis=1) > FAR)
    rewards, leverage = evidence.summaries[:, REWARDS].sum(), evidence.summaries[:, LEVERAGE].sum()
    return Unusual(
        quiet=tuple(np.flatnonzero(quiet).tolist()),
        far=tuple(np.flatnonzero(far).tolist()),
        coefficient_share=float(leverage / rewards) if rewards > 0 else 0.0,
        overdispersion=float(evidence.overdispersion[levels.NOISE]),
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


def _lift(covariance: Array, feature_square: Array, size: float) -> None:
    """Raise a start by a millionth of its level, or of the data's, in place: the steps need its inverse."""
    d = covariance.shape[1]
    level = np.maximum(np.einsum("kii,i->k", covariance, feature_square) / d, size / d)
    covariance += 1e-6 * level[:, None, None] * np.diag(1 / feature_square)


def _climb(refresh: Refresh, belief: Belief, buffers: Buffers, iterations: int) -> tuple[int, bool]:
    """Step until nothing moves; return how many steps there were, and whether they came to rest.

    Steps that go to and fro are halved: what is learned about noise is tempered by how uneven it is, and task weights
    are expectations, so there is no one number that every step would raise.
    """
    share, least, waited, flat = 1.0, np.inf, 0, 0
    evidence, source = refresh.evidence, LiveReader(belief)
    log_evidence = kernels.log_evidence_of(belief, evidence, buffers)
    for done in range(1, iterations + 1):
        old = _parameters(belief, evidence)
        refresh.proceed(source, refresh.rows, until=INFORMATION)
        move = refresh.move
        if share < 1.0:
            _blend(belief, evidence, old, share)
        refresh.look_from(source, shared=True, steps=iterations + 1)
        before, log_evidence = log_evidence, kernels.log_evidence_of(belief, evidence, buffers)
        flat = flat + 1 if abs(log_evidence - before) <= FLAT * (1.0 + abs(log_evidence)) else 0
        if move < SETTLED or flat == 3:
            return done, True
        least, waited = (move, 0) if move < least else (least, waited + 1)
        if waited == PATIENCE:
            share, waited, least = max(share / 2, SHORTEST), 0, np.inf
    return iterations, False


def _parameters(belief: Belief, evidence: kernels.Evidence) -> tuple[Array, ...]:
    return (
        belief.covariance.copy(),
        belief.noise_variance.copy(),
        evidence.shared_scale.copy(),
        evidence.centre.copy(),
        evidence.target.copy(),
    )


def _blend(belief: Belief, evidence: kernels.Evidence, old: tuple[Array, ...], share: float) -> None:
    """Go back to a point between the old parameters and the new ones: arithmetic for matrices and logarithms."""
    covariance, noise, shared_scale, centre, target = old
    belief.covariance[:] = (1 - share) * covariance + share * belief.covariance
    belief.noise_variance[:] = noise ** (1 - share) * belief.noise_variance**share
    evidence.shared_scale[:] = shared_scale ** (1 - share) * evidence.shared_scale**share
    evidence.centre[:] = (1 - share) * centre + share * evidence.centre
    evidence.target[:] = (1 - share) * target + share * evidence.target
