"""Logs that a policy which explores might have written."""

import itertools
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from posse.logs import Log

START = datetime(2026, 1, 1, tzinfo=UTC)


def simulated(seed=0, n_rows=600, n_tasks=20, n_arms=4, missing=0.03, floor=0.05):
    """A log in which nothing is wrong: a policy that learns, draws arms by softmax, and logs what it did."""
    rng = np.random.default_rng(seed)
    arms = [f"arm-{number}" for number in range(n_arms)]
    worth = rng.normal(size=n_arms).tolist()
    totals, counts = [0.0] * n_arms, [1] * n_arms
    order = rng.uniform(size=(n_rows, n_arms)).argsort(axis=1)
    sizes = rng.integers(2, n_arms + 1, size=n_rows)
    age, noise = rng.normal(size=(2, n_rows)).tolist()
    draw, lost, member = rng.uniform(size=(3, n_rows)).tolist()
    pause, delay = (rng.exponential(size=(2, n_rows)) * [[60], [600]]).tolist()
    task, hour, city = (rng.integers(most, size=n_rows).tolist() for most in (n_tasks, 24, 3))
    rows, now = [], START
    for row in range(n_rows):
        now += timedelta(seconds=pause[row])
        eligible = sorted(order[row, : sizes[row]].tolist())
        scores = [math.exp(totals[arm] / counts[arm]) for arm in eligible]
        p = [floor + (1 - floor * len(eligible)) * score / sum(scores) for score in scores]
        place = min(sum(draw[row] > total for total in itertools.accumulate(p)), len(p) - 1)
        taken = eligible[place]
        reward = worth[taken] + 0.5 * age[row] + noise[row]
        totals[taken] += reward
        counts[taken] += 1
        known = lost[row] >= missing
        rows.append(
            {
                "decision_id": f"decision-{row}",
                "time": now,
                "task": f"store-{task[row]}",
                "arm": arms[taken],
                "eligible": [arms[arm] for arm in eligible],
                "probabilities": p,
                "propensity": p[place],
                "context": {
                    "age": age[row],
                    "hour": hour[row],
                    "city": ["Paris", "Rome", None][city[row]],
                    "member": member[row] < 0.5,
                },
                "reward": reward if known else None,
                "reward_time": now + timedelta(seconds=delay[row]) if known else None,
                "policy": "ebm-ts",
                "version": "0.1.0",
            }
        )
    return Log(rows)


@pytest.fixture
def make_log():
    """Make a clean log."""
    return simulated


@pytest.fixture
def spoiled():
    """Return a clean log with some columns changed."""

    def change(*expressions, seed=0, **settings):
        return Log(simulated(seed, **settings).frame.with_columns(*expressions))

    return change


@pytest.fixture
def at_rows():
    """Return an expression that has another value in some rows."""

    def change(column, rows, value):
        return pl.when(pl.int_range(pl.len()).is_in(rows)).then(value).otherwise(pl.col(column)).alias(column)

    return change
