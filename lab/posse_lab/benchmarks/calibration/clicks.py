"""Situations that a practitioner meets with clicks, under the policies that know what a click is."""

from __future__ import annotations

import numpy as np

from posse.families import family_of
from posse.model import estimate_family_prior, posterior
from posse.policies import FamilyUCB
from posse_lab.benchmarks.calibration.fleets import CLICK_CELLS, click_key

RATES = (0.5, 0.1, 0.02)
OWN_ROWS = (0, 2, 10, 50)
ROWS = 40  # of every other task, per arm


def meet_click_rates(seed: int) -> dict[str, float]:
    """Return the share of 90 % intervals of a task's click rates that hold the truth, by rate and rows of its own."""
    return {f"{rate:g} {own}": _click_rates(seed, rate, own) for rate in RATES for own in OWN_ROWS}


def _click_rates(seed: int, rate: float, own: int, n_tasks: int = 30, n_arms: int = 4, asked: int = 30) -> float:
    rng, d = np.random.default_rng(seed), 3
    coefficients = rng.normal(0.0, 0.5, (n_arms, 1, d)) + 0.6 * rng.normal(size=(n_arms, n_tasks + 1, d))
    coefficients[:, :, 0] += np.log(rate / (1 - rate))
    tasks = np.r_[np.repeat(np.arange(n_tasks), ROWS * n_arms), np.full(own * n_arms, n_tasks)]
    arms = np.r_[np.tile(np.repeat(np.arange(n_arms), ROWS), n_tasks), np.repeat(np.arange(n_arms), own)]
    X = np.column_stack([np.ones(tasks.size), rng.normal(size=(tasks.size, d - 1))])
    family = family_of("binary")
    clicks = rng.random(tasks.size) < family.mean_of(np.einsum("ni,ni->n", X, coefficients[arms, tasks]))
    order = rng.permutation(tasks.size)
    policy = FamilyUCB(n_tasks=n_tasks + 1, n_arms=n_arms, n_features=d)
    policy.update_many(tasks[order], arms[order], X[order], clicks[order])
    held = []
    for x in np.column_stack([np.ones(asked), rng.normal(size=(asked, d - 1))]):
        low, high = policy.interval(n_tasks, x)
        truth = family.mean_of(coefficients[:, n_tasks] @ x)
        held.append((low <= truth) & (truth <= high))
    return float(np.mean(held))


def meet_rare_clicks(seed: int) -> dict[str, float]:
    """Return average belief, observed rate and the share of arms whose interval holds the truth, in every cell.

    The rows are those of the situation for numbers, learned as a table.
    """
    found, family = {}, family_of("binary")
    for n_arms, rate, n_rows in CLICK_CELLS:
        rng = np.random.default_rng(seed)
        arms, clicks = rng.integers(0, n_arms, n_rows), (rng.random(n_rows) < rate) * 1.0
        tasks, x = rng.integers(0, 40, n_rows), rng.normal(size=n_rows)
        estimate = estimate_family_prior(
            task=tasks,
            arm=arms,
            context=np.column_stack([np.ones(n_rows), x]),
            reward=clicks,
            n_tasks=41,
            n_arms=n_arms,
        )
        after = posterior(estimate.statistics, estimate.prior)
        mean, sd = after.mean[:, -1, 0], np.sqrt(after.covariance[:, -1, 0, 0])
        low, high = family.interval(mean, sd)
        key = click_key(n_arms, rate, n_rows)
        found[f"{key} believed"] = float(family.expected(mean, sd).mean())
        found[f"{key} observed"] = float(clicks.mean())
        found[f"{key} held"] = float(((low <= rate) & (rate <= high)).mean())
    return found
