"""Situations that a practitioner meets with a fleet, under the default policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.fleet import Posse
from posse.types import Array

INSIDE = 1.645  # standard deviations around the mean that hold 90 %

CLICK_CELLS = (
    (80, 0.004, 10_000),
    (34, 0.0046, 10_000),
    (20, 0.02, 2_000),
    (10, 0.05, 500),
    (5, 0.004, 1_000),
    (5, 0.06, 5_000),
)  # arms, click rate, rows

OFFSETS = (0.0, -100.0, 10.0, 100.0, 10_000.0)  # in standard deviations of the noise

EQUAL_KINDS = ("clicks", "amounts")
DIG_WORTH = (20.0, 5.0)
EQUAL_ROWS = (3, 10, 100)

UNKNOWABLE = ("one task", "one arm", "one reward", "constant features")


def click_key(n_arms: int, rate: float, rows: int) -> str:
    """Return what the numbers of one cell of rare clicks begin with."""
    return f"{n_arms} {rate:g} {rows}"


def meet_rare_clicks(seed: int) -> dict[str, float]:
    """Return average belief, observed rate and the share of arms whose interval holds the truth, in every cell."""
    found = {}
    for n_arms, rate, n_rows in CLICK_CELLS:
        rng = np.random.default_rng(seed)
        arms, clicks = rng.integers(0, n_arms, n_rows), (rng.random(n_rows) < rate) * 1.0
        fleet = _taught(
            n_arms, seed, task=rng.integers(0, 40, n_rows), arm=arms, reward=clicks, x=rng.normal(size=n_rows)
        )
        mean, sd = _belief(fleet, -1, [0.0])
        key = click_key(n_arms, rate, n_rows)
        found[f"{key} believed"] = float(mean.mean())
        found[f"{key} observed"] = float(clicks.mean())
        found[f"{key} held"] = float((abs(mean - rate) <= INSIDE * sd).mean())
    return found


def meet_offsets(seed: int, n_tasks: int = 20, n_arms: int = 6, n_rows: int = 2000) -> dict[str, float]:
    """Return where a new arm starts, from the others' average and in standard deviations between them."""
    found = {}
    for offset in OFFSETS:
        rng = np.random.default_rng(seed)
        coefficients = rng.normal(0.0, 0.5, (n_arms, 1, 3)) + rng.normal(0.0, 0.4, (n_arms, n_tasks, 3))
        tasks, arms = rng.integers(0, n_tasks, n_rows), rng.integers(0, n_arms, n_rows)
        X = np.column_stack([np.ones(n_rows), rng.normal(size=(n_rows, 2))])
        rewards = np.einsum("ni,ni->n", X, coefficients[arms, tasks]) + offset + rng.normal(size=n_rows)
        fleet = _taught(n_arms, seed, task=tasks, arm=arms, reward=rewards, x=X[:, 1], z=X[:, 2])
        fleet.add_arm(n_arms)
        mean, sd = _belief(fleet, -1, [0.0, 0.0])
        between = mean[:-1].std(ddof=1)
        found[f"{offset:g} distance"] = float(abs(mean[-1] - mean[:-1].mean()) / between)
        found[f"{offset:g} sd"] = float(sd[-1] / between)
    return found


def meet_late_zeros(seed: int, days: int = 30, per_day: int = 500, n_before: int = 20_000) -> dict[str, float]:
    """Return belief in and traffic of a new offer that is worse, while its zeros are still to come."""
    day_seconds, now, rng = 86_400.0, [0.0], np.random.default_rng(seed)
    fleet = Posse(
        arms=["old", "new"],
        features=["x"],
        seed=seed,
        floor=0.02,
        time_to_live=14 * day_seconds,
        absent_reward=0.0,
        clock=lambda: now[0],
    )
    fleet.learn_many(
        {
            "task": rng.integers(0, 50, n_before),
            "arm": ["old"] * n_before,
            "reward": (rng.random(n_before) < 0.04) * 1.0,
            "x": rng.normal(size=n_before),
        }
    )
    beliefs, shares = [], []
    for day in range(days):
        now[0] = day * day_seconds
        decisions = fleet.decide_many(rng.integers(0, 50, per_day), rng.normal(size=(per_day, 1)))
        new = np.array(decisions.arm) == "new"
        bought = np.flatnonzero(rng.random(per_day) < np.where(new, 0.02, 0.04))
        ids = decisions.ids
        fleet.reward_many([ids[row] for row in bought], [1.0] * bought.size)
        if day >= 6:
            beliefs.append(fleet.expected(1, [0.0]).mean["new"])
            shares.append(new.mean())
    return {
        "belief": float(np.mean(beliefs)),
        "share": float(np.mean(shares)),
        "worst belief": float(np.max(beliefs)),
        "worst share": float(np.max(shares)),
    }


def meet_equal_rewards(seed: int, n_tasks: int = 20, n_rows: int = 1500) -> dict[str, float]:
    """Return the average probability, over tasks, of an arm whose rewards were all the same so far.

    Clicks: none yet where the others get 2 %. Amounts: always what the others pay on average, where tasks differ by
    0.3 and the noise is 1.
    """
    found = {}
    for kind in EQUAL_KINDS:
        for equal in EQUAL_ROWS:
            rng = np.random.default_rng(seed)
            tasks, arms = rng.integers(0, n_tasks, n_rows + equal), rng.integers(1, 4, n_rows + equal)
            if kind == "clicks":
                rewards = (rng.random(n_rows + equal) < 0.02) * 1.0
                same = 0.0
            else:
                levels = rng.normal(0.0, 0.3, (4, 1)) + rng.normal(0.0, 0.3, (4, n_tasks))
                rewards = levels[arms, tasks] + rng.normal(size=n_rows + equal)
                same = float(levels[1:].mean())
            late = rng.permutation(n_rows + equal)[:equal]
            arms[late], rewards[late] = 0, same
            fleet = _taught(4, seed, task=tasks, arm=arms, reward=rewards, x=rng.normal(size=n_rows + equal))
            probability = float(fleet.probabilities(np.arange(n_tasks), np.zeros((n_tasks, 1)))[:, 0].mean())
            found[f"{kind} {equal} probability"] = probability
            found[f"{kind} {equal} above"] = float(probability > 0.01)
    return found


def meet_digging(seed: int, n_tasks: int = 20, n_rows: int = 2000) -> dict[str, float]:
    """Return the share of what could be earned by digging where it pays that a fleet earns.

    To do nothing pays 0, always; to dig costs 1 and finds something worth 20 or 5, mostly where a feature is large.
    The first digs find nothing, so neither arm has shown any noise.
    """
    found = {}
    for worth in DIG_WORTH:
        rng = np.random.default_rng(seed)
        fleet = Posse(["nothing", "dig"], ["x"], seed=seed)
        x, tasks = rng.normal(size=n_rows), rng.integers(n_tasks, size=n_rows)
        chance = 1.0 / (1.0 + np.exp(3.0 - 1.5 * x))
        there, earned = rng.random(n_rows) < chance, 0.0
        for row in range(n_rows):
            decision = fleet.decide(int(tasks[row]), [x[row]])
            reward = 0.0 if decision.arm == "nothing" else worth * float(there[row]) - 1.0
            fleet.reward(decision, reward)
            earned += reward
        share = earned / np.maximum(worth * chance - 1.0, 0.0).sum()
        found[f"{worth:g} earned"] = float(share)
        found[f"{worth:g} given up"] = float(share < 0.1)
    return found


def meet_cannot_know(seed: int) -> dict[str, float]:
    """Return whether 90 % intervals hold the truth, and how wide they are, where the data leave it open.

    Rewards around 10, noise 1, tasks that differ by 0.5 in a level and a slope. *One task*: another task is asked for.
    *One arm*: of twenty tasks, another one is asked for. *One reward*: its own task is asked for. *Constant features*:
    the feature was 1 in every row, and 0 is asked for.
    """
    found = {}
    for kind in UNKNOWABLE:
        rng = np.random.default_rng(seed)
        n_tasks, n_arms, n_rows = {
            "one task": (1, 3, 60),
            "one arm": (20, 1, 200),
            "one reward": (1, 1, 1),
            "constant features": (20, 3, 600),
        }[kind]
        shared = np.array([10.0, 0.0]) + rng.normal(0.0, 0.5, (n_arms, 1, 2))
        coefficients = shared + rng.normal(0.0, 0.5, (n_arms, n_tasks + 1, 2))
        tasks, arms = rng.integers(0, n_tasks, n_rows), rng.integers(0, n_arms, n_rows)
        x = np.ones(n_rows) if kind == "constant features" else rng.normal(size=n_rows)
        rewards = coefficients[arms, tasks, 0] + coefficients[arms, tasks, 1] * x + rng.normal(size=n_rows)
        fleet = _taught(n_arms, seed, task=tasks, arm=arms, reward=rewards, x=x)
        asked = n_tasks if kind in ("one task", "one arm") else 0
        mean, sd = _belief(fleet, asked, [0.0])
        truth = coefficients[:, asked, 0]
        found[f"{kind} held"] = float((abs(mean - truth) <= INSIDE * sd).mean())
        found[f"{kind} width"] = float((2 * INSIDE * sd / truth).mean())
    return found


def _taught(n_arms: int, seed: int, **columns: Any) -> Posse:
    """Return a fleet that learned a table; what is neither task, arm nor reward is a feature."""
    features = [name for name in columns if name not in ("task", "arm", "reward")]
    fleet = Posse(arms=range(n_arms), features=features, seed=seed)
    fleet.learn_many(columns)
    return fleet


def _belief(fleet: Posse, task: int, context: list[float]) -> tuple[Array, Array]:
    believed = fleet.expected(task, context)
    return np.array(list(believed.mean.values())), np.array(list(believed.sd.values()))
