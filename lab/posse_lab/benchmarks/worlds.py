"""Worlds of everyday rewards: an arm that always pays the same, rewards far from zero, rare clicks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from posse.checks import number, whole_number
from posse.environments.base import CONTEXTS, NOISE, TRUTH, Draw, stream
from posse.environments.drawing import arriving_tasks
from posse.environments.synthetic import SyntheticWorld
from posse.errors import InvalidValue
from posse.types import Array, Settings


@dataclass(frozen=True, kw_only=True, eq=False)
class AlteredWorld:
    """A synthetic world with an intercept, whose rewards are shifted or whose first arm always pays the same.

    Tasks, contexts and noise are those of the world as it was, so that regret can be compared seed by seed.

    Parameters
    ----------
    world : SyntheticWorld
        With ``contexts="intercept"``, so that the altered world is linear as well.
    offset : float
        Added to every reward.
    constant : float, optional
        What the first arm always pays, the offset included. Default: what it paid before.

    Examples
    --------
    >>> plain = SyntheticWorld(contexts="intercept")
    >>> draw = AlteredWorld(world=plain, offset=100.0, constant=99.0).draw(seed=0, horizon=5)
    >>> draw.rewards[:, 0].tolist()
    [99.0, 99.0, 99.0, 99.0, 99.0]
    >>> bool(np.allclose(draw.rewards[:, 1:], plain.draw(seed=0, horizon=5).rewards[:, 1:] + 100.0))
    True
    """

    world: SyntheticWorld
    offset: float = 0.0
    constant: float | None = None

    def __post_init__(self) -> None:
        if self.world.contexts != "intercept":
            raise InvalidValue(f"expected a world with contexts='intercept', got {self.world.contexts!r}")
        number(self.offset, "offset")
        if self.constant is not None:
            number(self.constant, "constant")

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.world.n_tasks

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.world.n_arms

    @property
    def n_features(self) -> int:
        """Number of features of a context, the intercept included."""
        return self.world.n_features

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        draw = self.world.draw(seed, horizon)
        assert draw.coefficients is not None
        coefficients, expected, rewards = draw.coefficients.copy(), draw.expected + self.offset, draw.rewards
        coefficients[:, :, 0] += self.offset
        rewards = rewards + self.offset
        if self.constant is not None:
            coefficients[0], coefficients[0, :, 0] = 0.0, self.constant
            expected[:, 0] = rewards[:, 0] = self.constant
        # The population is not around zero any more, which is all that a Prior can say.
        return replace(draw, expected=expected, rewards=rewards, coefficients=coefficients, prior=None)

    def settings(self) -> Settings:
        """Return every setting as a plain value."""
        return {"world": "altered", "offset": self.offset, "constant": self.constant, "of": self.world.settings()}


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickWorld:
    r"""Rewards of 0 and 1, mostly 0: click rates differ between arms, less between tasks, a little with the context.

    .. math:: p = r \exp(a_k + b_{kj} + x^\top w_k), \quad
        a_k \sim N(0, s_a^2), \; b_{kj} \sim N(0, s_t^2), \; w_k \sim N(0, s_x^2 I), \; x \sim N(0, I)

    Parameters
    ----------
    n_tasks, n_arms : int
    n_features : int
        The intercept and standard normal features.
    rate : float
        :math:`r`, the rate of an ordinary arm. Rates above 1 are cut to 1.
    arm_sd, task_sd, feature_sd : float
        :math:`s_a, s_t, s_x`, on the log scale.

    Examples
    --------
    >>> draw = ClickWorld(rate=0.02).draw(seed=0, horizon=1000)
    >>> np.unique(draw.rewards).tolist(), bool(0.005 < draw.expected.mean() < 0.05)
    ([0.0, 1.0], True)
    """

    n_tasks: int = 20
    n_arms: int = 5
    n_features: int = 3
    rate: float = 0.01
    arm_sd: float = 0.4
    task_sd: float = 0.2
    feature_sd: float = 0.1

    def __post_init__(self) -> None:
        for name in ("n_tasks", "n_arms", "n_features"):
            whole_number(getattr(self, name), name, at_least=1)
        if number(self.rate, "rate", above=0) > 1:
            raise InvalidValue(f"expected a rate of at most 1, got {self.rate:g}")
        for name in ("arm_sd", "task_sd", "feature_sd"):
            number(getattr(self, name), name, at_least=0)

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed, with ``horizon`` steps."""
        seed = whole_number(seed, "seed", at_least=0)
        horizon = whole_number(horizon, "horizon", at_least=1)
        truth = stream(seed, TRUTH)
        levels = self.arm_sd * truth.standard_normal((self.n_arms, 1))
        slopes = self.feature_sd * truth.standard_normal((self.n_arms, self.n_features - 1))
        levels = levels + self.task_sd * truth.standard_normal((self.n_arms, self.n_tasks))
        probabilities = np.full(self.n_tasks, 1.0 / self.n_tasks)
        tasks = arriving_tasks(probabilities, seed, horizon)
        features = stream(seed, CONTEXTS).standard_normal((horizon, self.n_features - 1))
        powers = levels[:, tasks].T
        for i in range(self.n_features - 1):  # summed in a fixed order, never through BLAS
            powers = powers + features[:, i, None] * slopes[:, i]
        expected: Array = np.minimum(self.rate * np.exp(powers), 1.0)
        clicks = stream(seed, NOISE).random((horizon, self.n_arms)) < expected
        return Draw(
            tasks=tasks,
            contexts=np.column_stack([np.ones(horizon), features]),
            expected=expected,
            rewards=clicks.astype(np.float64),
            coefficients=None,
            prior=None,
            arrival_probabilities=probabilities,
        )

    def settings(self) -> Settings:
        """Return every setting as a plain value."""
        return {"world": "clicks", **{name: getattr(self, name) for name in self.__dataclass_fields__}}
