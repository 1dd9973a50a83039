"""Policies: decide, learn, and play a whole stream at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy import ndarray

from posse.checks import KnownKeywords, label, labels, number, real_array, whole_number
from posse.core.select import Exploration
from posse.core.size import LARGEST, moderate
from posse.errors import InvalidValue, NotFinite, ShapeError, UnknownArm, UnknownTask
from posse.families import LinkedFamily, linked_family_of
from posse.policies.playing import RewardBatch, StepBatch
from posse.showing import brief_repr

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike, IntArray

LAST_STEP = 2**62  # far beyond any run, and still a whole number after a batch was added to it
FLOAT = np.dtype(np.float64)


class DecisionMaker(Protocol):
    """The least that the simulator asks of a policy."""

    def choose(self, task: int, context: Array, step: int, rng: np.random.Generator) -> int:
        """Return an arm; change nothing."""

    def update(self, task: int, arm: int, context: Array, reward: float) -> None:
        """Learn one reward."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Belief of a policy about every arm's expected reward.

    Parameters
    ----------
    mean, sd : ndarray of shape (n_arms,)
    """

    mean: Array
    sd: Array

    __repr__ = brief_repr


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """The arms of a batch of steps.

    Parameters
    ----------
    arms : ndarray of shape (n_steps,)
    everywhere : ndarray of shape (n_steps, n_tasks), or (0, n_tasks) if it was not asked for
        The arm that every task would have got at each step.
    """

    arms: IntArray
    everywhere: IntArray

    __repr__ = brief_repr


class Policy(KnownKeywords, ABC):
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
        self._context_shape = (self.n_features,)

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
        # The ordinary is told from the rest right here, as this is called for every decision; anything out of the
        # ordinary goes the long way and finds its error there. Nothing is drawn before all is well.
        if type(task) is not int or not 0 <= task < self.n_tasks:
            task = self._checked_task(task)
        if not (
            type(context) is ndarray
            and context.dtype is FLOAT
            and context.shape == self._context_shape
            and context.flags.carray
            and moderate(context)
        ):
            context = self._checked_context(context)
        if type(step) is not int or not 0 < step <= LAST_STEP:
            step = self._checked_step(step)
        return self._choose(task, context, step, rng.standard_normal(self.n_arms))

    def update(self, task: int, arm: int, context: ArrayLike, reward: float) -> None:
        """Learn the reward of one arm in one task. Nothing changes if anything is wrong with the input."""
        if type(task) is not int or not 0 <= task < self.n_tasks:
            task = self._checked_task(task)
        if type(arm) is not int or not 0 <= arm < self.n_arms:
            arm = label(arm, "arm", below=self.n_arms, error=UnknownArm)
        if not (
            type(context) is ndarray
            and context.dtype is FLOAT
            and context.shape == self._context_shape
            and context.flags.carray
            and moderate(context)
        ):
            context = self._checked_context(context)
        if type(reward) is not float or not -LARGEST <= reward <= LARGEST:
            reward = self._checked_reward(reward)
        self._learn(task, arm, context, reward)

    def choose_many(self, tasks: ArrayLike, contexts: ArrayLike, first_step: int, rng: np.random.Generator) -> IntArray:
        """Return the arm to pull in each row: what ``choose`` returns row after row, each a step of its own.

        Parameters
        ----------
        tasks : array of shape (n_rows,)
        contexts : array of shape (n_rows, n_features)
        first_step : int
            The number of the first decision; the others follow.
        rng : numpy.random.Generator
            One standard normal per row and arm is drawn from it.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        labelled = labels(tasks, "task", below=self.n_tasks, error=UnknownTask)
        X = self._checked_rows(contexts, "contexts", (labelled.size, self.n_features))
        first_step = self._checked_step(first_step, "first_step")
        arms = np.empty(labelled.size, dtype=np.int64)
        draws = rng.standard_normal((labelled.size, self.n_arms))
        nothing = np.empty((0, self.n_arms)), np.empty((0, self.n_tasks), dtype=np.int64)
        self._choose_many(StepBatch(labelled, X, nothing[0], draws, first_step, arms, nothing[1]))
        return arms

    def update_many(self, tasks: ArrayLike, arms: ArrayLike, contexts: ArrayLike, rewards: ArrayLike) -> None:
        """Learn rewards row after row, as ``update`` would. Nothing changes if anything is wrong with the input.

        Parameters
        ----------
        tasks, arms : array of shape (n_rows,)
        contexts : array of shape (n_rows, n_features)
        rewards : array of shape (n_rows,)
        """
        labelled = labels(tasks, "task", below=self.n_tasks, error=UnknownTask)
        pulled = labels(arms, "arm", below=self.n_arms, error=UnknownArm)
        if pulled.size != labelled.size:
            raise ShapeError(f"expected arms to have one entry per task, {labelled.size} in all, got {pulled.size}")
        X = self._checked_rows(contexts, "contexts", (labelled.size, self.n_features))
        y = self._checked_rows(rewards, "rewards", (labelled.size,))
        self._learn_many(RewardBatch(labelled, pulled, X, y))

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
        tasks, contexts, rewards = self._checked_batch(tasks, contexts, rewards)
        first_step = self._checked_step(first_step, "first_step")
        n_steps = tasks.shape[0]
        arms = np.empty(n_steps, dtype=np.int64)
        elsewhere = np.empty((n_steps if everywhere else 0, self.n_tasks), dtype=np.int64)
        draws = rng.standard_normal((n_steps, self.n_arms))
        self._play(StepBatch(tasks, contexts, rewards, draws, first_step, arms, elsewhere))
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

    def _play(self, batch: StepBatch) -> None:
        """Fill ``batch.arms`` and, if it has rows, ``batch.everywhere``; policies that must be fast compile it."""
        everywhere = batch.everywhere.shape[0] > 0
        rows = zip(batch.tasks.tolist(), batch.contexts, batch.rewards, batch.draws, strict=True)
        for row, (task, x, rewards, draws) in enumerate(rows):
            step = batch.first_step + row
            if everywhere:
                for other in range(self.n_tasks):
                    batch.everywhere[row, other] = self._choose(other, x, step, draws)
            arm = self._choose(task, x, step, draws)
            batch.arms[row] = arm
            self._learn(task, arm, x, float(rewards[arm]))

    def _choose_many(self, batch: StepBatch) -> None:
        """Fill ``batch.arms`` and change nothing else."""
        for row, (task, x, draws) in enumerate(zip(batch.tasks.tolist(), batch.contexts, batch.draws, strict=True)):
            batch.arms[row] = self._choose(task, x, batch.first_step + row, draws)

    def _learn_many(self, batch: RewardBatch) -> None:
        """Learn row after row; arguments are checked."""
        rows = zip(batch.tasks.tolist(), batch.arms.tolist(), batch.contexts, batch.rewards.tolist(), strict=True)
        for task, arm, x, reward in rows:
            self._learn(task, arm, x, reward)

    def _checked_batch(
        self, tasks: ArrayLike, contexts: ArrayLike, rewards: ArrayLike
    ) -> tuple[IntArray, Array, Array]:
        labelled = labels(tasks, "task", below=self.n_tasks, error=UnknownTask)
        X = self._checked_rows(contexts, "contexts", (labelled.size, self.n_features))
        y = self._checked_rows(rewards, "rewards", (labelled.size, self.n_arms))
        return labelled, X, y

    @staticmethod
    def _checked_rows(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
        array = writeable(real_array(value, name))
        if array.shape != shape:
            raise ShapeError(f"expected {name} to have shape {shape}, got shape {array.shape}")
        if not moderate(array.reshape(-1)):
            raise NotFinite(f"{name} are too large: sums of squares would overflow; keep them below {LARGEST:g}")
        return array

    def _checked_task(self, task: Any) -> int:
        return label(task, "task", below=self.n_tasks, error=UnknownTask)

    @staticmethod
    def _checked_step(step: Any, name: str = "step") -> int:
        checked = whole_number(step, name, at_least=1)
        if checked > LAST_STEP:
            raise InvalidValue(f"expected {name} to be at most {LAST_STEP}, got {checked}")
        return checked

    def _checked_context(self, context: ArrayLike) -> Array:
        x = writeable(real_array(context, "context"))
        if x.shape != self._context_shape:
            came = f"{x.shape[0]} features" if x.ndim == 1 else f"shape {x.shape}"
            raise ShapeError(f"context has {came}, but these bandits were created with n_features={self.n_features}")
        if not moderate(x):
            raise NotFinite(f"context is too large: sums of squares would overflow; keep |x| below {LARGEST:g}")
        return x

    @staticmethod
    def _checked_reward(reward: Any) -> float:
        checked = number(reward, "reward")
        if abs(checked) > LARGEST:
            raise NotFinite(f"reward {checked:g} is too large: sums of squares would overflow; rescale the rewards")
        return checked


def writeable(array: Array) -> Array:
    """Return the array, or a copy if functions would be compiled anew for it: if it is read-only or unaligned."""
    return array if array.flags.carray else np.array(array, dtype=np.float64, order="C")


def exploration_words(exploration: Exploration) -> str:
    """Return for a table how far from the mean is explored."""
    centre, spread = exploration.centre, exploration.spread
    # Where there is but one of them, the policy's name says which.
    size = f"{centre:g} ± {spread:g}" if centre and spread else f"{centre + spread:g}"
    return f"exploration {size}" + (" √log t" if exploration.growing else ", constant")


class FamilyPolicy(Policy):
    """A policy that learns the rewards of one family.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    rewards : {"binary", "count"}
    """

    def __init__(self, *, n_tasks: int, n_arms: int, n_features: int, rewards: str) -> None:
        super().__init__(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features)
        self.rewards = linked_family_of(rewards).name

    @property
    def family(self) -> LinkedFamily:
        """The family of the rewards."""
        return linked_family_of(self.rewards)

    def update(self, task: int, arm: int, context: ArrayLike, reward: float) -> None:
        """Learn the reward of one arm in one task. Nothing changes if anything is wrong with the input."""
        super().update(task, arm, context, self.family.check(reward))

    def update_many(self, tasks: ArrayLike, arms: ArrayLike, contexts: ArrayLike, rewards: ArrayLike) -> None:
        """Learn rewards row after row, as ``update`` would. Nothing changes if anything is wrong with the input."""
        super().update_many(tasks, arms, contexts, self.family.check_many(rewards))

    def _checked_batch(
        self, tasks: ArrayLike, contexts: ArrayLike, rewards: ArrayLike
    ) -> tuple[IntArray, Array, Array]:
        return super()._checked_batch(tasks, contexts, self.family.check_many(rewards))
