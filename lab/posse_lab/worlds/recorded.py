"""Worlds whose rewards are recorded, not simulated: a linear model may be wrong in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posse.checks import whole_number
from posse.environments.base import Draw
from posse.errors import ShapeError
from posse.model.prior import Prior
from posse.types import Array, IntArray, Settings
from posse_lab.worlds.rows import rows_to_meet
from posse_lab.worlds.tables import checked_table, checked_tasks, fingerprint


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedWorld:
    """Real rows in real groups, and for each the reward that every arm really has.

    The seed decides the order of the rows and nothing else. A row brings its own task along, so tasks arrive as often
    as they have rows.

    Parameters
    ----------
    name : str
        What the data set is called in result files.
    contexts : array of shape (n_rows, n_features)
        The rows to meet; a run meets each at most once.
    tasks : array of shape (n_rows,)
        The task of every row, from 0; every task has one at least.
    rewards : array of shape (n_rows, n_arms)
        What a policy gets.
    expected : array of shape (n_rows, n_arms), optional
        What regret is measured with. Default: the rewards.
    prior : Prior, optional
        A population that was fitted offline, on rows that are not met: for policies that are given one. It is an
        estimate within the linear model, not the truth.
    checksum : str, optional
        SHA-256 of the file the rows came from, for result files.
    details : dict, optional
        Plain values that say how the rows came about, for result files.

    Notes
    -----
    A draw has no coefficients, so there is no oracle and no appendix regret.

    Examples
    --------
    >>> world = RecordedWorld(
    ...     name="toy", contexts=[[1.0], [2.0], [3.0]], tasks=[0, 1, 0], rewards=[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    ... )
    >>> draw = world.draw(seed=4, horizon=3)
    >>> draw.contexts[:, 0], draw.tasks, draw.rewards[:, 0]
    (array([3., 1., 2.]), array([0, 0, 1]), array([1., 1., 0.]))
    """

    name: str
    contexts: Array
    tasks: IntArray
    rewards: Array
    expected: Array | None = None
    prior: Prior | None = None
    checksum: str | None = None
    details: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        contexts, rewards = checked_table(self.contexts, "contexts"), checked_table(self.rewards, "rewards")
        if len(contexts) != len(rewards):
            raise ShapeError(
                f"contexts and rewards must have equally many rows, but they have {len(contexts)} and {len(rewards)}"
            )
        if self.expected is not None:
            expected = checked_table(self.expected, "expected")
            if expected.shape != rewards.shape:
                raise ShapeError(
                    f"expected expected to have the shape of the rewards, {rewards.shape}, got shape {expected.shape}"
                )
            object.__setattr__(self, "expected", expected)
        if self.prior is not None:
            self.prior.require_shape(n_arms=rewards.shape[1], n_features=contexts.shape[1])
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "tasks", checked_tasks(self.tasks, len(contexts)))
        object.__setattr__(self, "rewards", rewards)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.tasks.max()) + 1

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.rewards.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(self.contexts.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows to meet, the longest horizon."""
        return int(self.contexts.shape[0])

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        seed = whole_number(seed, "seed", at_least=0)
        horizon = whole_number(horizon, "horizon", at_least=1)
        rows = rows_to_meet(self.name, self.n_rows, seed, horizon)
        rewards = self.rewards[rows]
        return Draw(
            tasks=self.tasks[rows],
            contexts=self.contexts[rows],
            expected=rewards if self.expected is None else self.expected[rows],
            rewards=rewards,
            coefficients=None,
            prior=self.prior,
            arrival_probabilities=np.bincount(self.tasks) / self.n_rows,
        )

    def settings(self) -> Settings:
        """Return every setting as a plain value; the data by name, size and checksum."""
        return {
            "world": "recorded",
            "data": self.name,
            "sha256": self.checksum or fingerprint(self.contexts, self.tasks, self.rewards, self.expected),
            "n_rows": self.n_rows,
            "n_tasks": self.n_tasks,
            "n_arms": self.n_arms,
            "n_features": self.n_features,
            **self.details,
        }
