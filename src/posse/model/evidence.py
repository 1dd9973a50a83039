"""The evidence prior from statistics at hand: the policies' steps, taken to the end and watched."""

from __future__ import annotations

import numpy as np

from posse.kernels import estimators
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
    kernels.measure(belief, evidence)
    nothing = not evidence.reward_square[0] > 0
    done, settled, gained = 0, nothing, np.empty(0)
    first = last = float("nan")
    if not nothing:
        kernels.admit_features(belief, evidence)
        if start is None:
            kernels.start(belief, evidence, buffers)
        else:
            _lift(belief.covariance, evidence.feature_square, float(evidence.reward_square[0]))
            evidence.shared_scale[0] = float(np.mean(start.shared_precisions / evidence.feature_square))
            levels = np.einsum("kii,i->k", belief.covariance, evidence.feature_square) / d
            evidence.target_level[0] = float(levels.mean())
            kernels.rebuild_all(belief, evidence, buffers)
        first = _log_evidence(belief, buffers)
        gained, settled = _climb(belief, evidence, buffers, iterations)
        done = gained.size
        last = _log_evidence(belief, buffers)
    report = evidence_report(
        belief,
        stats,
        iterations=done,
        converged=settled,
        log_evidence=last,
        evidence_gained=last - first,
        # With task weights, which are expectations, the steps climb another objective than the one compared here.
        objective=gained if not robust else None,
    )
    return PriorEstimate(prior_of(belief), report, belief.task_weight.copy())


def evidence_report(
    belief: Belief,
    stats: Statistics,
    *,
    iterations: int,
    converged: bool,
    log_evidence: float = float("nan"),
    evidence_gained: float = float("nan"),
    objective: Array | None = None,
) -> PriorReport:
    """Return what an evidence prior rests on."""
    K = stats.n_arms
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
        target_weight=kernels.TARGET_WEIGHT / (tasks.astype(np.float64) + kernels.TARGET_WEIGHT),
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
    levels = np.einsum("kii,i->k", covariance, feature_square) / d
    levels = np.maximum(levels, size / d)
    covariance += 1e-6 * levels[:, None, None] * np.diag(1 / feature_square)


def _climb(belief: Belief, evidence: kernels.Evidence, buffers: Buffers, iterations: int) -> tuple[Array, bool]:
    """Step until nothing moves; return what each step added to the objective, and whether it came to rest.

    The objective is the log evidence less the penalties, target and common noise at their best; only the share of the
    identity in the target, which follows the data, is held within a step. A step that would lower it is shortened until
    it does not. (Task weights of a robust population are expectations, not parameters: with them it is not compared.)
    """
    gained: list[float] = []
    plain = evidence.robust == 0.0
    log_evidence = _log_evidence(belief, buffers)
    for _ in range(iterations):
        old = (belief.covariance.copy(), belief.noise_variance.copy(), evidence.shared_scale.copy())
        level = float(evidence.target_level[0])
        move = kernels.step(belief, evidence, buffers)
        new = (belief.covariance.copy(), belief.noise_variance.copy(), evidence.shared_scale.copy())
        before = log_evidence - _penalty(*old, evidence)
        share = 1.0
        for halving in range(HALVINGS + 1):
            kernels.rebuild_all(belief, evidence, buffers)
            log_evidence = _log_evidence(belief, buffers)
            gain = log_evidence - _penalty(*_parameters(belief, evidence), evidence) - before
            if not plain or gain >= 0 or halving == HALVINGS:
                break
            share /= 2
            _blend(belief, evidence, old, new, share)
        if plain and gain < 0:
            # Not even a thousandth of the step helps: the rest is rounding.
            _blend(belief, evidence, old, new, 0.0)
            evidence.target_level[0] = level
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
    """Return what the regularisation takes from the log evidence, target and common noise at their best."""
    K, d = noise.size, covariance.shape[1]
    size = float(evidence.reward_square[0])
    share = float(evidence.identity_share[0])
    inverse = np.linalg.inv(covariance)
    scale = np.einsum("kii,i->k", covariance, evidence.feature_square) / d
    target, level = _best_target(inverse.mean(axis=0), share, evidence.feature_square, float(scale.mean()))
    log_target = np.linalg.slogdet(target)[1]
    arms = np.linalg.slogdet(covariance)[1] - log_target + np.einsum("ij,kji->k", target, inverse)
    total = 0.5 * kernels.TARGET_WEIGHT * float(arms.sum())
    # The identity's pull on the target, at the weight that makes the best target the one above.
    to_identity = float(np.diagonal(target) @ evidence.feature_square) / level + d * np.log(level)
    total += 0.5 * kernels.TARGET_WEIGHT * K * share / (1 - share) * (to_identity - float(log_target))
    common = 1 / (1 / noise).mean()
    total += 0.5 * kernels.NOISE_WEIGHT * float((np.log(noise / common) + common / noise).sum())
    logs = (
        np.log(noise).mean() - np.log(kernels.NOISE_SHARE * size),
        np.log(scale).mean() - np.log(kernels.COVARIANCE_SHARE * size / d),
        -np.log(shared_scale[0]) - np.log(kernels.MEAN_SHARE * size / d),
    )
    held: float = sum(float(value) ** 2 for value in logs) / (2 * kernels.LOG_SD**2)
    return float(total) + held


def _best_target(precision: Array, share: float, feature_square: Array, level: float) -> tuple[Array, float]:
    """Return the target at which the penalties of arms and identity are least, and its level."""
    d = precision.shape[0]
    for _ in range(200):
        target: Array = np.asarray(
            np.linalg.inv((1 - share) * precision + share * np.diag(feature_square) / level), dtype=np.float64
        )
        new = float(np.diagonal(target) @ feature_square) / d
        if abs(new - level) <= 1e-13 * level:
            break
        level = new
    return target, level


def _log_evidence(belief: Belief, buffers: Buffers) -> float:
    return float(sum(kernels.log_evidence_of(belief, arm, buffers) for arm in range(belief.rewards.size)))
