"""What every policy is: decide, learn, and play a whole stream at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from posse.checks import label, labels, number, real_array, whole_number
from posse.errors import NotFinite, ShapeError, UnknownArm, UnknownTask
from posse.kernels.linalg import LARGEST, moderate
from posse.kernels.select import Exploration
from posse.kernels.stretch import Stretch

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike, IntArray


class DecisionMaker(Protocol):
    """The least that the simulator asks of a policy."""

    def choose(self, task: int, context: Array, step: int, rng: np.random.Generator) -> int:
        """Return an arm; change nothing."""

    def update(self, task: int, arm: int, context: Array, reward: float) -> None:
        """Learn one reward."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What a policy believes about every arm's expected reward.

    Parameters
    ----------
    mean, sd : ndarray of shape (n_arms,)
    """

    mean: Array
    sd: Array


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """The arms of a stretch of steps.

    Parameters
    ----------
    arms : ndarray of shape (n_steps,)
    everywhere : ndarray of shape (n_steps, n_tasks), or (0, n_tasks) if it was not asked for
        The arm that every task would have got at each step.
    """

    arms: IntArray
    everywhere: IntArray


class Policy(ABC):
    """Base of the policies.

    ``choose`` changes nothing: time (``step``, from 1) and randomness are arguments. ``update`` names all that it
    touches, so rewards may come late. A decision draws one standard normal per arm from ``rng``, in every policy.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    """

    label: ClassVar[str]
    """How tables and figures call this policy."""

    def __init__(self, *, n_tasks: int, n_arms: int, n_features: int) -> None:
        self.n_tasks = whole_number(n_tasks, "n_tasks", at_least=1)
        self.n_arms = whole_number(n_arms, "n_arms", at_least=1)
        self.n_features = whole_number(n_features, "n_features", at_least=1)

    def choose(self, task: int, context: ArrayLike, step: int, rng: np.random.Generator) -> int:
        """Return the arm to pull.

        Parameters
        ----------
        task : int
        context : array of shape (n_features,)
        step : int
            The number of this decision, from 1.
        rng : numpy.random.Generator
            One standard normal per arm is drawn from it.
        """
        task = self._checked_task(task)
        x = self._checked_context(context)
        step = whole_number(step, "step", at_least=1)
        return int(self._choose(task, x, step, rng.standard_normal(self.n_arms)))

    def update(self, task: int, arm: int, context: ArrayLike, reward: float) -> None:
        """Learn the reward of one arm in one task. Nothing changes if anything is wrong with the input."""
        task = self._checked_task(task)
        arm = label(arm, "arm", below=self.n_arms, error=UnknownArm)
        x = self._checked_context(context)
        reward = number(reward, "reward")
        if abs(reward) > LARGEST:
            raise NotFinite(f"reward {reward:g} is too large: sums of squares would overflow; rescale the rewards")
        self._learn(task, arm, x, reward)

    def play(
        self,
        tasks: IntArray,
        contexts: Array,
        rewards: Array,
        rng: np.random.Generator,
        *,
        first_step: int = 1,
        everywhere: bool = False,
    ) -> Played:
        """Decide and learn step after step, as ``choose`` and ``update`` would, in compiled code.

        Parameters
        ----------
        tasks : ndarray of shape (n_steps,)
        contexts : ndarray of shape (n_steps, n_features)
        rewards : ndarray of shape (n_steps, n_arms)
            What each arm would pay; only the entry of the chosen arm is learned from.
        rng : numpy.random.Generator
        first_step : int
        everywhere : bool
            Also ask at every step what each task would do with this context.
        """
        tasks, contexts, rewards = self._checked_stretch(tasks, contexts, rewards)
        first_step = whole_number(first_step, "first_step", at_least=1)
        n_steps = tasks.shape[0]
        arms = np.empty(n_steps, dtype=np.int64)
        elsewhere = np.empty((n_steps if everywhere else 0, self.n_tasks), dtype=np.int64)
        draws = rng.standard_normal((n_steps, self.n_arms))
        self._play(Stretch(tasks, contexts, rewards, draws, first_step, arms, elsewhere))
        return Played(arms, elsewhere)

    @abstractmethod
    def describe(self) -> str:
        """Return the settings that matter, in a few words for a table."""

    @abstractmethod
    def _choose(self, task: int, x: Array, step: int, draws: Array) -> int:
        """Return the arm; arguments are checked."""

    @abstractmethod
    def _learn(self, task: int, arm: int, x: Array, reward: float) -> None:
        """Learn; arguments are checked."""

    @abstractmethod
    def _play(self, stretch: Stretch) -> None:
        """Fill ``stretch.arms`` and, if it has rows, ``stretch.everywhere``."""

    def _checked_stretch(
        self, tasks: ArrayLike, contexts: ArrayLike, rewards: ArrayLike
    ) -> tuple[IntArray, Array, Array]:
        labelled = labels(tasks, "task", below=self.n_tasks, error=UnknownTask)
        X, y = real_array(contexts, "contexts"), real_array(rewards, "rewards")
        for name, array, width in (("contexts", X, self.n_features), ("rewards", y, self.n_arms)):
            if array.shape != (labelled.size, width):
                raise ShapeError(f"{name} must have shape {(labelled.size, width)}, but its shape is {array.shape}")
            if not moderate(array.reshape(-1)):
                raise NotFinite(f"{name} are too large: sums of squares would overflow; keep them below {LARGEST:g}")
        return labelled, X, y

    def _checked_task(self, task: Any) -> int:
        return label(task, "task", below=self.n_tasks, error=UnknownTask)

    def _checked_context(self, context: ArrayLike) -> Array:
        # The path that every decision takes; anything out of the ordinary goes the long way and finds its error there.
        if (
            type(context) is np.ndarray
            and context.dtype == np.float64
            and context.shape == (self.n_features,)
            and context.flags.c_contiguous
            and moderate(context)
        ):
            return context
        x = real_array(context, "context")
        if x.shape != (self.n_features,):
            came = f"{x.shape[0]} features" if x.ndim == 1 else f"shape {x.shape}"
            raise ShapeError(f"context has {came}, but these bandits were created with n_features={self.n_features}")
        if not moderate(x):
            raise NotFinite(f"context is too large: sums of squares would overflow; keep |x| below {LARGEST:g}")
        return x


def exploration_words(exploration: Exploration) -> str:
    """Return an exploration scale for a table."""
    return f"exploration {exploration.scale:g}" + (" √log t" if exploration.growing else ", constant")
