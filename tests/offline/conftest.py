"""Logs whose truth is known."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest

from posse.logs import Log
from posse.offline import LoggedBandit

ARMS = ("blue", "green", "red")


def softmax(scores):
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@dataclass
class Made:
    """A log, as a table and as arrays, with the expected reward of every arm in every row."""

    n_tasks: int = 12
    rows: int = 40
    floor: float = 0.3
    seed: int = 0
    changes: dict = field(default_factory=dict)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        n, K = self.n_tasks * self.rows, len(ARMS)
        tasks = np.repeat(np.arange(self.n_tasks), self.rows)
        rng.shuffle(tasks)
        contexts = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
        centre = rng.standard_normal((K, 3))
        coefficients = centre + 0.5 * rng.standard_normal((self.n_tasks, K, 3))
        self.expected = np.einsum("nd,nkd->nk", contexts, coefficients[tasks])
        logged = (1 - self.floor) * softmax(contexts @ centre.T) + self.floor / K
        arms = (np.cumsum(logged, axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=K - 1)
        self.tasks, self.arms, self.contexts, self.logged = tasks, arms, contexts, logged
        self.rewards = self.expected[np.arange(n), arms] + rng.standard_normal(n)

    @property
    def data(self):
        rows = np.arange(self.tasks.size)
        return LoggedBandit(
            **{
                "tasks": self.tasks,
                "arms": self.arms,
                "contexts": self.contexts,
                "rewards": self.rewards,
                "propensities": self.logged[rows, self.arms],
                "probabilities": self.logged,
                "arm_labels": ARMS,
                **self.changes,
            }
        )

    @property
    def columns(self):
        rows = np.arange(self.tasks.size)
        frame = pl.DataFrame({"warmth": self.contexts[:, 1], "hour": self.contexts[:, 2]})
        frame = frame.with_columns(side=pl.when(pl.col("warmth") > 0).then(pl.lit("warm")).otherwise(pl.lit("cold")))
        return {
            "decision_id": [f"d{row}" for row in rows],
            "task": [f"store-{task}" for task in self.tasks],
            "arm": [ARMS[arm] for arm in self.arms],
            "eligible": [list(ARMS)] * rows.size,
            "probabilities": self.logged.tolist(),
            "propensity": self.logged[rows, self.arms].tolist(),
            "context": frame.to_struct("context"),
            "reward": self.rewards.tolist(),
            **self.changes,
        }

    @property
    def log(self):
        return Log(pl.DataFrame(self.columns))


@pytest.fixture
def make():
    """Make a log: ``make(n_tasks=12, rows=40, floor=0.3, seed=0, changes={...})``."""

    def made(**settings):
        return Made(**settings)

    return made
