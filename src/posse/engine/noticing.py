r"""What a reward says about changes, whatever its family: how probable it was under what is believed, and otherwise.

A family of rewards brings *alternatives* to what is believed, each for one task and for all of them: of numbers, that
the task is a new one, and that all predictions are :data:`WIDER` times as uncertain. The spread of clicks and counts
follows from their mean, so nothing can be less certain than a click is: their alternatives are that predictors are
lower by :data:`TASK_SHIFT` or :data:`WORLD_SHIFT`, and that they are higher. Sums of these fall as long as predictions
are off by less than half of that. A task of which nothing is known yet cannot have changed, so its shift is the smaller
the less is known. A :class:`Detector` adds up the logarithms of likelihood ratios of one alternative, from where they
were lowest (Page's CUSUM).
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from posse.families.links import Predicted, predicted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posse.engine.commit import Steps
    from posse.families import LinkedFamily, RewardFamily
    from posse.types import Array

# The constants were chosen on seeds 3000 to 3199, see docs/drift.md.
TASK_ALARM, WORLD_ALARM = 2.0, 4.0  # nats beyond the logarithm of the rewards so far, and of a thousand more
START = 1000
WIDER = 3.0  # times the variance of a prediction, if everything has changed
TASK_SHIFT, WORLD_SHIFT = 1.5, 1.0  # of the predictors of clicks or counts, if a task or everything has changed
LARGEST_STEP = 2.0  # nats that one reward may add: outliers are no change
LARGEST_SHARE = 3.0  # nats that one task may add to the sum over all tasks
LARGEST_SURPRISE = 25.0  # squared error over its variance that one reward may count for

NOTHING, TASK, WORLD = 0, 1, 2  # what a reward shows


class Belief(NamedTuple):
    """What is believed about one linear predictor: as one of its task, and as one of a task never seen."""

    mean: float
    sd: float
    new_mean: float
    new_sd: float


class Surprise(NamedTuple):
    """What one reward adds to the sums of one alternative: logarithms of likelihood ratios."""

    of_task: float
    of_world: float


class Likelihoods(Protocol):
    """How probable rewards of a family are."""

    alternatives: tuple[str, ...]
    """What is compared with what is believed, by name."""

    def surprises(self, reward: float, belief: Belief, noise: float) -> Iterable[Surprise]:
        """Return what a reward says for every alternative; ``noise`` is its variance around what is expected."""

    def predicted(self, reward: float, mean: Array, variance: Array, noise: float) -> Predicted:
        """Return how probable a reward was under several beliefs, up to a constant, and what it is learned as there."""


class OfNumbers:
    """Numbers: normal around what is expected."""

    alternatives: tuple[str, ...] = ("other",)

    def surprises(self, reward: float, belief: Belief, noise: float) -> list[Surprise]:
        """Compare with a task that is new, and with predictions that are all less certain."""
        own = log_density(reward, belief.mean, belief.sd**2 + noise)
        fresh = log_density(reward, belief.new_mean, belief.new_sd**2 + noise)
        other = log_density(reward, belief.mean, WIDER * (belief.sd**2 + noise))
        return [Surprise(fresh - own, other - own)]

    def predicted(self, reward: float, mean: Array, variance: Array, noise: float) -> Predicted:
        """Return log densities, and the number itself, as it is learned."""
        variance = variance + noise
        error = reward - mean
        with np.errstate(all="ignore"):
            gain = -0.5 * (np.minimum(error * error / variance, LARGEST_SURPRISE) + np.log(variance))
        return Predicted(gain, np.ones(mean.size), np.full(mean.size, reward))


class OfFamily:
    """Clicks, counts and the like, under what is believed about their predictor."""

    alternatives: tuple[str, ...] = ("lower", "higher")

    def __init__(self, family: LinkedFamily) -> None:
        self._family = family

    def surprises(self, reward: float, belief: Belief, noise: float) -> list[Surprise]:  # noqa: ARG002
        """Compare with predictors that are lower, and with higher ones."""
        known = 1.0 - (belief.sd / belief.new_sd) ** 2 if belief.new_sd > 0.0 else 0.0
        shift = TASK_SHIFT * math.sqrt(max(known, 0.0))
        mean = belief.mean + np.array([0.0, -shift, -WORLD_SHIFT, shift, WORLD_SHIFT])
        with np.errstate(all="ignore"):
            likelihood = predicted(self._family, reward, mean, np.full(mean.size, belief.sd**2)).log_likelihood
        below, all_below, above, all_above = (likelihood[1:] - likelihood[0]).tolist()
        return [Surprise(below, all_below), Surprise(above, all_above)]

    def predicted(self, reward: float, mean: Array, variance: Array, noise: float) -> Predicted:  # noqa: ARG002
        """Return log likelihoods, none too far below the best of them, and the sites that the reward is learned as."""
        with np.errstate(all="ignore"):
            found = predicted(self._family, reward, mean, variance)
        gain = found.log_likelihood
        return found._replace(log_likelihood=np.maximum(gain, gain.max() - 0.5 * LARGEST_SURPRISE))


def likelihoods_of(family: RewardFamily | None) -> Likelihoods:
    """Return those of a family; None are numbers."""
    from posse.families import LINKED

    return OfNumbers() if family is None or family.name not in LINKED else OfFamily(LINKED[family.name])


class Detector:
    """Sums of what speaks for one alternative: of every task, and over all tasks.

    Attributes
    ----------
    task_sums : dict
        By task, where it is above 0.
    world_sum : float
    world_shares : dict
        What every task has added to the sum over all tasks since that was 0.
    """

    def __init__(self) -> None:
        self.task_sums: dict[int, float] = {}
        self.world_sum = 0.0
        self.world_shares: dict[int, float] = {}

    def note(self, task: int, surprise: Surprise, bound: float) -> int:
        """Add what a reward says; return which change that shows, if any."""
        total = max(0.0, self.task_sums.pop(task, 0.0) + bounded(surprise.of_task))
        share = self.world_shares.get(task, 0.0)
        step = min(bounded(surprise.of_world), LARGEST_SHARE - share)
        self.world_sum = max(0.0, self.world_sum + step)
        if self.world_sum > 0.0:
            self.world_shares[task] = share + step
        else:
            self.world_shares.clear()
        if self.world_sum > bound + WORLD_ALARM:
            return WORLD
        if total > bound + TASK_ALARM:
            return TASK
        if total > 0.0:
            self.task_sums[task] = total
        return NOTHING

    def clear(self, task: int | None = None) -> None:
        """Begin again, with one task or with all."""
        if task is not None:
            self.task_sums.pop(task, None)
            return
        self.task_sums.clear()
        self.world_shares.clear()
        self.world_sum = 0.0

    def forgetting(self, task: int) -> Steps:
        """Forget all about a task."""
        return [partial(self.task_sums.pop, task, None), partial(self.world_shares.pop, task, None)]


def bounded(step: float) -> float:
    """Return what one reward adds to a sum."""
    return max(-LARGEST_STEP, min(LARGEST_STEP, step))


def log_density(value: float, mean: float, variance: float) -> float:
    """Return the logarithm of a normal density, less a constant."""
    error = value - mean
    return -0.5 * (error * error / variance + math.log(variance))
