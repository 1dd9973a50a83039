"""Situations in which the belief of a policy with the evidence prior is read."""

from __future__ import annotations

import numpy as np

from posse.policies import EbmTS
from posse.types import Array

INSIDE = 1.645  # standard deviations around the mean that hold 90 %

UNLIKE_KINDS = {"always 0": 0.0, "noise 0.01": 0.01}  # the noise sd of the arm that is unlike the others
UNLIKE_TASKS = (20, 200)
UNLIKE_ROWS = 5000

FEW_ROWS = ((4, 15), (15, 15), (15, 5), (10, 3))  # features, and rows per arm and task
OWN_ROWS = (0, 2, 10)  # of the new task, per arm


def meet_unlike_arm(seed: int) -> dict[str, float]:
    """Return what is believed about two ordinary arms beside one that is unlike them, over what is true."""
    found = {}
    for kind, noise_sd in UNLIKE_KINDS.items():
        for n_tasks in UNLIKE_TASKS:
            noise, variance = _beside_unlike_arm(seed, noise_sd, n_tasks)
            within = (abs(noise - 1) <= 0.1) & (abs(variance - 1) <= 0.4)
            found[f"{kind} {n_tasks} noise"] = float(noise.mean())
            found[f"{kind} {n_tasks} variance"] = float(variance.mean())
            found[f"{kind} {n_tasks} within"] = float(within.mean())
    return found


def _beside_unlike_arm(seed: int, noise_sd: float, n_tasks: int) -> tuple[Array, Array]:
    """Return noise sd and mean variance of the ordinary arms, over the truth (1 and 0.49)."""
    n_arms, d, rng = 3, 3, np.random.default_rng(seed)
    coefficients = rng.normal(0.0, 0.5, (n_arms, 1, d)) + rng.normal(0.0, 0.7, (n_arms, n_tasks, d))
    X = np.column_stack([np.ones(UNLIKE_ROWS), rng.normal(size=(UNLIKE_ROWS, d - 1))])
    tasks, arms = rng.integers(0, n_tasks, UNLIKE_ROWS), rng.integers(0, n_arms, UNLIKE_ROWS)
    noise = rng.normal(size=UNLIKE_ROWS)
    if noise_sd == 0:
        coefficients[0] = 0.0
    noise[arms == 0] *= noise_sd
    rewards = np.einsum("ni,ni->n", X, coefficients[arms, tasks]) + noise
    policy = EbmTS(n_tasks=n_tasks, n_arms=n_arms, n_features=d, prior="evidence")
    policy.update_many(tasks, arms, X, rewards)
    prior = policy.prior
    return np.sqrt(prior.noise_variance[1:]), np.trace(prior.covariance[1:], axis1=1, axis2=2) / d / 0.49


def meet_few_rows(seed: int) -> dict[str, float]:
    """Return the share of 90 % intervals of a new task's expected rewards that hold the truth, in every cell."""
    return {f"{d} {rows} {own}": _few_rows(seed, d, rows, own) for d, rows in FEW_ROWS for own in OWN_ROWS}


def _few_rows(seed: int, d: int, rows: int, own: int, n_tasks: int = 30, n_arms: int = 3, asked: int = 40) -> float:
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(0.0, 0.7, (n_arms, 1, d)) + 0.6 * rng.normal(size=(n_arms, n_tasks + 1, d))
    tasks = np.r_[np.repeat(np.arange(n_tasks), rows * n_arms), np.full(own * n_arms, n_tasks)]
    arms = np.r_[np.tile(np.repeat(np.arange(n_arms), rows), n_tasks), np.repeat(np.arange(n_arms), own)]
    X = np.column_stack([np.ones(tasks.size), rng.normal(size=(tasks.size, d - 1))])
    rewards = np.einsum("ni,ni->n", X, coefficients[arms, tasks]) + rng.normal(size=tasks.size)
    order = rng.permutation(tasks.size)
    policy = EbmTS(n_tasks=n_tasks + 1, n_arms=n_arms, n_features=d, prior="evidence")
    policy.update_many(tasks[order], arms[order], X[order], rewards[order])
    held = []
    for x in np.column_stack([np.ones(asked), rng.normal(size=(asked, d - 1))]):
        believed = policy.predict(n_tasks, x)
        held.append(abs(believed.mean - coefficients[:, n_tasks] @ x) <= INSIDE * believed.sd)
    return float(np.mean(held))
