"""The evidence prior from statistics at hand: the policies' steps, taken to the end and watched."""

from __future__ import annotations

import numpy as np

from posse.kernels import estimators, levels
from posse.kernels import evidence as kernels
from posse.kernels.posterior import Belief, Buffers, new_buffers
from posse.model.belief import new_belief, prior_of
from posse.model.prior import Prior
from posse.model.report import PriorEstimate, PriorReport, eigenvalues
from posse.model.statistics import Statistics
from posse.types import Array

ITERATIONS = 500
SETTLED = 1e-4  # relative move of every number and every direction at which the search ends
SILENT = 1e-6  # noise below this share of the mean square reward gets a note
HALVINGS = 10
STUCK = 1e-2  # a step that cannot be made to help counts as rest if it was no longer than this,
FLAT = 1e-6  # or if the last steps gained no more than this share of the log evidence;
RESTING = 1e-12  # steps that help but gain no more than this share are rest, too
STUDENT_FREEDOM = 8.0  # degrees of freedom of the population when outliers are modelled


def estimate_evidence(
    stats: Statistics, *, start: Prior | None = None, robust: bool = False, iterations: int = ITERATIONS
) -> PriorEstimate:
    """Maximise the regularised evidence; see :func:`posse.model.estimate_prior`."""
    K, d = stats.n_arms, stats.n_features
    buffers = new_buffers(d)
    belief = new_belief(stats, start or Prior.isotropic(n_arms=K, n_features=d), buffers)
    memory = estimators.new_memory(K, stats.n_tasks, d, STUDENT_FREEDOM if robust else 0.0)
    evidence = memory.evidence
    kernels.measure(belief, evidence, buffers)
    nothing = not evidence.reward_square[0] > 0
    done, settled, gained = 0, nothing, np.empty(0)
    first = last = float("nan")
    if not nothing:
        kernels.admit_features(belief, evidence)
        if start is None:
            kernels.start(belief, evidence, buffers)
        else:
            _lift(belief.covariance, evidence.feature_square, float(evidence.reward_scatter[0]))
            variances = np.diagonal(np.linalg.inv(start.shared_precisions), axis1=1, axis2=2)
            evidence.shared_scale[0] = 1 / float(np.mean(variances * evidence.feature_square))
            level = np.einsum("kii,i->k", belief.covariance, evidence.feature_square) / d
            evidence.centre[:] = np.log(belief.noise_variance).mean(), np.log(level).mean()
            kernels.rebuild_all(belief, evidence, buffers)
        first = kernels.log_evidence_of(belief, evidence, buffers)
        gained, settled = _climb(belief, evidence, buffers, iterations)
        done = gained.size
        last = kernels.log_evidence_of(belief, evidence, buffers)
    report = evidence_report(
        belief,
        evidence,
        stats,
        iterations=done,
        converged=settled,
        log_evidence=last,
        evidence_gained=last - first,
        # With task weights, which are expectations, the steps climb another objective than the one compared here.
        objective=gained if not robust else None,
    )
    return PriorEstimate(prior_of(belief), report, belief.task_weight.copy())


def expected_arm(evidence: kernels.Evidence) -> Prior:
    """Return the prior of an arm that nothing is known about: arms are a population, and it is one of them."""
    spread = np.diag(1 / (evidence.shared_scale[0] * evidence.feature_square))
    return Prior(
        covariance=np.exp(evidence.centre[levels.LEVEL]) * evidence.target[None],
        noise_variance=np.exp(evidence.centre[levels.NOISE]),
        shared_precision=np.linalg.inv(spread + evidence.arm_covariance)[None],
        shared_location=evidence.arm_mean[None],
    )


def evidence_report(
    belief: Belief,
    evidence: kernels.Evidence,
    stats: Statistics,
    *,
    iterations: int,
    converged: bool,
    log_evidence: float = float("nan"),
    evidence_gained: float = float("nan"),
    objective: Array | None = None,
) -> PriorReport:
    """Return what an evidence prior rests on."""
    K, weight = stats.n_arms, float(evidence.target_weight[0])
    tasks = belief.n_seen.copy()
    notes = list(limits(stats))
    size = stats.sum_of_squares.sum() / max(stats.count.sum(), 1.0)
    quiet = np.flatnonzero(belief.noise_variance <= SILENT * size)
    if size > 0 and quiet.size:
        arms = ", ".join(map(str, quiet))
        notes.append(f"rewards of arms {arms} are fitted exactly: their noise cannot be told from none")
    return PriorReport(
        method="evidence",
        tasks_used=tasks,
        covariance_at_start=np.full(K, not (stats.sum_of_squares > 0).any()),
        noise_at_start=np.full(K, not (stats.sum_of_squares > 0).any()),
        iterations=iterations,
        converged=converged,
        eigenvalues=eigenvalues(belief.covariance),
        threshold=np.zeros(K),
        eigenvalues_floored=np.zeros(K, dtype=np.int64),
        target_weight=weight / (tasks.astype(np.float64) + weight),
        log_evidence=log_evidence,
        evidence_gained=evidence_gained,
        objective=np.empty(0) if objective is None else objective,
        notes=tuple(notes),
    )


def limits(stats: Statistics) -> tuple[str, ...]:
    """Return in words what no method can learn from these statistics."""
    notes = []
    rewards = stats.count.sum(axis=1)
    for arm in range(stats.n_arms):
        tasks = int((stats.count[arm] > 0).sum())
        if rewards[arm] == 0:
            notes.append(f"arm {arm} has no rewards")
        elif tasks < 2:
            notes.append(f"arm {arm} was seen in one task only: how tasks differ cannot be learned from it")
        elif (stats.count[arm] <= 1).all():
            notes.append(f"arm {arm} has one reward per task: noise and differences between tasks cannot be told apart")
    if not (stats.sum_of_squares > 0).any():
        notes.append("no reward differs from 0: there is no scale to learn")
    total = stats.gram.sum(axis=(0, 1))
    silent = np.flatnonzero(np.diagonal(total) == 0)
    if rewards.sum() > 0 and silent.size:
        notes.append(f"features {', '.join(map(str, silent))} were always 0: nothing is known about their coefficients")
    heard = np.flatnonzero(np.diagonal(total) > 0)
    if heard.size:
        size = np.sqrt(np.diagonal(total)[heard])
        correlation = total[np.ix_(heard, heard)] / np.outer(size, size)
        if np.linalg.eigvalsh(correlation)[0] < 1e-10:
            notes.append("features are collinear in the data: some directions of the coefficients were never seen")
    return tuple(notes)


def _lift(covariance: Array, feature_square: Array, size: float) -> None:
    """Raise a start by a millionth of its level, or of the data's, in place: the steps need its inverse."""
    d = covariance.shape[1]
    level = np.maximum(np.einsum("kii,i->k", covariance, feature_square) / d, size / d)
    covariance += 1e-6 * level[:, None, None] * np.diag(1 / feature_square)


def _climb(belief: Belief, evidence: kernels.Evidence, buffers: Buffers, iterations: int) -> tuple[Array, bool]:
    """Step until nothing moves; return what each step added to the objective, and whether it came to rest.

    The objective is the log evidence less the penalties; the arms' centres and their common shape, which follow the
    arms, are held within a step. A step that would lower it is shortened until it does not. (Task weights of a robust
    population are expectations, not parameters: with them it is not compared.)
    """
    gained: list[float] = []
    plain = evidence.robust == 0.0
    log_evidence = kernels.log_evidence_of(belief, evidence, buffers)
    for _ in range(iterations):
        old = (belief.covariance.copy(), belief.noise_variance.copy(), evidence.shared_scale.copy())
        move = kernels.step(belief, evidence, buffers)
        new = (belief.covariance.copy(), belief.noise_variance.copy(), evidence.shared_scale.copy())
        before = log_evidence - _penalty(*old, evidence)
        share = 1.0
        for halving in range(HALVINGS + 1):
            kernels.rebuild_all(belief, evidence, buffers)
            log_evidence = kernels.log_evidence_of(belief, evidence, buffers)
            gain = log_evidence - _penalty(*_parameters(belief, evidence), evidence) - before
            if not plain or gain >= 0 or halving == HALVINGS:
                break
            share /= 2
            _blend(belief, evidence, old, new, share)
        if plain and gain < 0:
            # Not even a thousandth of the step helps: the rest is rounding.
            _blend(belief, evidence, old, new, 0.0)
            kernels.rebuild_all(belief, evidence, buffers)
            return np.asarray(gained), move < STUCK or _flat(gained, log_evidence, FLAT)
        gained.append(gain)
        if (share == 1.0 and move < SETTLED) or (plain and len(gained) > 3 and _flat(gained, log_evidence, RESTING)):
            return np.asarray(gained), True
    return np.asarray(gained), False


def _flat(gained: list[float], log_evidence: float, share: float) -> bool:
    """Whether the last steps gained next to nothing."""
    return bool(gained) and max(gained[-3:]) < share * (1.0 + abs(log_evidence))


def _parameters(belief: Belief, evidence: kernels.Evidence) -> tuple[Array, Array, Array]:
    return belief.covariance, belief.noise_variance, evidence.shared_scale


def _blend(
    belief: Belief, evidence: kernels.Evidence, old: tuple[Array, ...], new: tuple[Array, ...], share: float
) -> None:
    """Set the prior to a point between two others: arithmetic for matrices, geometric for scales."""
    belief.covariance[:] = (1 - share) * old[0] + share * new[0]
    belief.noise_variance[:] = old[1] ** (1 - share) * new[1] ** share
    evidence.shared_scale[:] = old[2] ** (1 - share) * new[2] ** share


def _penalty(covariance: Array, noise: Array, shared_scale: Array, evidence: kernels.Evidence) -> float:
    """Return what the regularisation takes from the log evidence, given the arms' centres and common shape."""
    d = covariance.shape[1]
    level = np.einsum("kii,i->k", covariance, evidence.feature_square) / d
    shape = covariance / level[:, None, None]
    shapes = np.linalg.slogdet(shape)[1] + np.einsum("ij,kji->k", evidence.target, np.linalg.inv(shape))
    total = 0.5 * float(evidence.target_weight[0]) * float(shapes.sum())
    at_noise = np.log(noise) - evidence.centre[levels.NOISE]
    at_level = np.log(level) - evidence.centre[levels.LEVEL]
    share = levels.LEVEL_PULL * d / levels.NOISE_PULL
    total += 0.5 * levels.NOISE_PULL * float(np.log1p(at_noise**2 + share * at_level**2).sum())
    start = levels.MEAN_SHARE * float(evidence.reward_scatter[0]) / d
    return total + float(np.log(shared_scale[0] * start)) ** 2 / (2 * levels.LOG_SD**2)
