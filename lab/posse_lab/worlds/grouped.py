"""Worlds of real rows in real groups: with rewards from models fitted to them, or with those that were recorded."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posse.checks import real_array
from posse.environments.base import NOISE, Draw, stream
from posse.environments.drawing import expected_rewards
from posse.errors import ShapeError
from posse.model.estimation import estimate_prior
from posse.model.prior import Prior
from posse.model.statistics import Statistics
from posse.types import Array, BoolArray, IntArray, Settings
from posse_lab.worlds.tables import TableWorld, checked_noise_sd, checked_table, checked_tasks

FITTED_OFFLINE = "evidence, fitted offline to the training rows"


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedWorld(TableWorld):
    """Rows that bring their own task along, so tasks arrive as often as they have rows."""

    tasks: IntArray
    prior: Prior | None = None

    @abstractmethod
    def _rewards(self, rows: IntArray, seed: int) -> dict[str, Any]:
        """Return expected and drawn rewards of rows, and the coefficients if there are any."""

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        rows = self.rows_to_meet(seed, horizon)
        return Draw(
            tasks=self.tasks[rows],
            contexts=self.contexts[rows],
            prior=self.prior,
            arrival_probabilities=np.bincount(self.tasks) / self.n_rows,
            **self._rewards(rows, seed),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedWorld(GroupedWorld):
    r"""Real rows in real groups; rewards :math:`y = x^\top \beta_{kj} + \mathcal N(0, s_k^2)` from fixed coefficients.

    The seed decides the order of the rows and the noise.

    Parameters
    ----------
    name : str
        What the data set is called in result files.
    contexts : array of shape (n_rows, n_features)
        The rows to meet; a run meets each at most once.
    tasks : array of shape (n_rows,)
        The task of every row, from 0; every task has one at least.
    coefficients : array of shape (n_arms, n_tasks, n_features)
        :math:`\beta_{kj}`.
    noise_sd : array of shape (n_arms,), or one number
        :math:`s_k`.
    prior : Prior, optional
        What is declared as the population of the coefficients.
    checksum : str, optional
        SHA-256 of the file the rows came from, for result files.
    details : dict, optional
        Plain values that say how rows and coefficients came about, for result files.

    Notes
    -----
    The linear model is right by construction.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(6, 1))
    >>> world = FittedWorld(
    ...     name="toy", contexts=rows, tasks=[0, 0, 0, 0, 1, 1], coefficients=[[[1.0], [2.0]]], noise_sd=0.1
    ... )
    >>> np.bincount(world.draw(seed=0, horizon=6).tasks)
    array([4, 2])
    """

    kind: ClassVar[str] = "fitted"
    made_of: ClassVar[tuple[str, ...]] = ("contexts", "tasks", "coefficients", "noise_sd")
    coefficients: Array
    noise_sd: Array

    def __post_init__(self) -> None:
        contexts, coefficients = checked_table(self.contexts, "contexts"), real_array(self.coefficients, "coefficients")
        if coefficients.ndim != 3 or coefficients.size == 0:
            raise ShapeError(
                f"expected coefficients to have axes (arm, task, feature), none empty, got shape {coefficients.shape}"
            )
        n_arms, n_tasks, d = coefficients.shape
        if contexts.shape[1] != d:
            raise ShapeError(f"contexts have {contexts.shape[1]} features, but the coefficients have {d}")
        if self.prior is not None:
            self.prior.require_shape(n_arms=n_arms, n_features=d)
        tasks, noise_sd = checked_tasks(self.tasks, len(contexts), n_tasks), checked_noise_sd(self.noise_sd, n_arms)
        self._set(contexts=contexts, tasks=tasks, coefficients=coefficients, noise_sd=noise_sd)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.coefficients.shape[1])

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.coefficients.shape[0])

    def _rewards(self, rows: IntArray, seed: int) -> dict[str, Any]:
        expected = expected_rewards(self.contexts[rows], self.coefficients[:, self.tasks[rows]])
        noise = stream(seed, NOISE).standard_normal(rows.size)[:, None]
        rewards = expected + noise * self.noise_sd
        return {"expected": expected, "rewards": rewards, "coefficients": self.coefficients}


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedWorld(GroupedWorld):
    """Real rows in real groups, and for each the reward that every arm really has: a linear model may be wrong.

    The seed decides the order of the rows and nothing else.

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

    kind: ClassVar[str] = "recorded"
    made_of: ClassVar[tuple[str, ...]] = ("contexts", "tasks", "rewards", "expected")
    rewards: Array
    expected: Array | None = None

    def __post_init__(self) -> None:
        contexts, rewards = checked_table(self.contexts, "contexts"), checked_table(self.rewards, "rewards")
        if len(contexts) != len(rewards):
            raise ShapeError(
                f"contexts and rewards must have equally many rows, but they have {len(contexts)} and {len(rewards)}"
            )
        expected = None if self.expected is None else checked_table(self.expected, "expected")
        if expected is not None and expected.shape != rewards.shape:
            raise ShapeError(
                f"expected expected to have the shape of the rewards, {rewards.shape}, got shape {expected.shape}"
            )
        if self.prior is not None:
            self.prior.require_shape(n_arms=rewards.shape[1], n_features=contexts.shape[1])
        tasks = checked_tasks(self.tasks, len(contexts))
        self._set(contexts=contexts, tasks=tasks, rewards=rewards, expected=expected)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.tasks.max()) + 1

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.rewards.shape[1])

    def _rewards(self, rows: IntArray, seed: int) -> dict[str, Any]:  # noqa: ARG002  # nothing is drawn
        rewards = self.rewards[rows]
        expected = rewards if self.expected is None else self.expected[rows]
        return {"expected": expected, "rewards": rewards, "coefficients": None}


def recorded_world(
    name: str, contexts: Array, tasks: IntArray, rewards: Array, *,
    fit: IntArray | BoolArray, met: IntArray | BoolArray, n_tasks: int, checksum: str, details: Settings,
    expected: Array | None = None,
) -> RecordedWorld:  # fmt: skip
    """Return the world of the rows ``met``, with a prior that is fitted offline to the rows ``fit``."""
    stats = full_information(contexts[fit], tasks[fit], rewards[fit], n_tasks)
    return RecordedWorld(
        name=name,
        contexts=contexts[met],
        tasks=tasks[met],
        rewards=rewards[met],
        expected=None if expected is None else expected[met],
        prior=estimate_prior(stats, method="evidence").prior,
        checksum=checksum,
        details={**details, "intercept": True, "prior": details.get("prior", FITTED_OFFLINE)},
    )


def full_information(contexts: Array, tasks: IntArray, rewards: Array, n_tasks: int) -> Statistics:
    """Sum up rows of which each tells the reward of every arm, as a log does not.

    Parameters
    ----------
    contexts : ndarray of shape (n_rows, n_features)
    tasks : ndarray of shape (n_rows,)
    rewards : ndarray of shape (n_rows, n_arms)
    n_tasks : int
    """
    n_rows, n_arms = rewards.shape
    return Statistics.from_data(
        task=np.tile(tasks, n_arms),
        arm=np.repeat(np.arange(n_arms), n_rows),
        context=np.tile(contexts, (n_arms, 1)),
        reward=rewards.T.reshape(-1),
        n_tasks=n_tasks,
        n_arms=n_arms,
    )
