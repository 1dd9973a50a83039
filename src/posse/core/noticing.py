r"""What a reward says about changes, whatever its family: how probable it was under what is believed, and otherwise.

A family of rewards brings *alternatives* to what is believed, each for one task and for all of them: of numbers, that
the task is a new one, and that all predictions are :data:`WIDER` times as uncertain. The spread of clicks and counts
follows from their mean, so nothing can be less certain than a click is: their alternatives are that predictors are
lower by :data:`TASK_SHIFT` or :data:`WORLD_SHIFT`, and that they are higher. Sums of these fall as long as predictions
are off by less than half of that. A task of which nothing is known yet cannot have changed, so its shift is the smaller
the less is known.

:class:`Detectors` add up the logarithms of likelihood ratios of every alternative, from where they were lowest (Page's
CUSUM). By Wald's inequality such a sum exceeds h with a probability of e^-h at most. So bounds grow with the logarithm
of the rewards so far: many tasks have no more false alarms than a few.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.families.links import Predicted, predicted
from posse.types import Array

if TYPE_CHECKING:
    from posse.families import LinkedFamily

# The constants were chosen on seeds 3000 to 3199, see docs/drift.md.
TASK_ALARM, WORLD_ALARM = 2.0, 4.0  # nats beyond the logarithm of the rewards so far, and of a thousand more
START = 1000
QUIET = 100  # rewards, from the first or from a change of all tasks, after which the population is known well enough
WIDER = 3.0  # times the variance of a prediction, if everything has changed
TASK_SHIFT, WORLD_SHIFT = 1.5, 1.0  # of the predictors of clicks or counts, if a task or everything has changed
LARGEST_STEP = 2.0  # nats that one reward may add: outliers are no change
LARGEST_SHARE = 3.0  # nats that one task may add to the sum over all tasks
LARGEST_SURPRISE = 25.0  # squared error over its variance that one reward may count for
KEPT = 1000  # changes that are remembered

ALL_TASKS = -1


class Change(NamedTuple):
    """A change that was noticed."""

    time: float
    task: int  # or ALL_TASKS


class Believed(NamedTuple):
    """What is believed before a reward: about its predictor, and about one of a task like this that is new."""

    mean: float
    sd: float
    new_mean: float
    new_sd: float
    centre: Array  # (d,) mean of the coefficients of a new task
    covariance: Array  # (d, d) of the population
    noise: float
    dispersion: float = 0.0  # of counts
    offset: float = 0.0  # mean and variance of what else adds to the predictor
    spread: float = 0.0


class OfNumbers:
    """How probable numbers are: normal around what is expected."""

    n_alternatives = 1
    learns_noise = True

    def surprises(self, reward: float, before: Believed) -> list[tuple[float, float]]:
        """Return log likelihood ratios of a task that is new, and of predictions that are all less certain."""
        variance = before.sd**2 + before.noise
        own = log_density(reward, before.mean, variance)
        fresh = log_density(reward, before.new_mean, before.new_sd**2 + before.noise)
        return [(fresh - own, log_density(reward, before.mean, WIDER * variance) - own)]

    def predicted(self, reward: float, mean: Array, variance: Array, before: Believed) -> Predicted:
        """Return log densities under several beliefs, and the number itself, as it is learned."""
        variance, error = variance + before.noise, reward - mean
        gain = -0.5 * (np.minimum(error * error / variance, LARGEST_SURPRISE) + np.log(variance))
        return Predicted(gain, np.ones(mean.size), np.full(mean.size, reward))


class OfFamily:
    """How probable clicks, counts and the like are, under what is believed about their predictor."""

    n_alternatives = 2
    learns_noise = False

    def __init__(self, family: LinkedFamily) -> None:
        self._family = family

    def surprises(self, reward: float, before: Believed) -> list[tuple[float, float]]:
        """Return log likelihood ratios of predictors of the task, and of all, that are lower, and that are higher."""
        known = 1.0 - (before.sd / before.new_sd) ** 2 if before.new_sd > 0.0 else 0.0
        shift = TASK_SHIFT * math.sqrt(max(known, 0.0))
        mean = before.mean + np.array([0.0, -shift, -WORLD_SHIFT, shift, WORLD_SHIFT])
        with np.errstate(all="ignore"):
            likelihood = predicted(
                self._family, reward, mean, np.full(mean.size, before.sd**2), before.dispersion
            ).log_likelihood
        below, all_below, above, all_above = (likelihood[1:] - likelihood[0]).tolist()
        return [(below, all_below), (above, all_above)]

    def predicted(self, reward: float, mean: Array, variance: Array, before: Believed) -> Predicted:
        """Return log likelihoods, none too far below the best of them, and the sites that the reward is learned as."""
        found = predicted(self._family, reward, mean, variance, before.dispersion)
        gain = found.log_likelihood
        return found._replace(log_likelihood=np.maximum(gain, gain.max() - 0.5 * LARGEST_SURPRISE))


class Detectors:
    """Sums of what speaks for every alternative: of every task, and over all tasks.

    Attributes
    ----------
    noted, since : int
        Rewards so far, and since all tasks changed.
    task_sums : list of dict
        By task, where it is above 0.
    world_sums : ndarray of shape (n_alternatives,)
    world_shares : list of dict
        What every task has added to the sum over all tasks since that was 0.
    """

    def __init__(self, n_alternatives: int) -> None:
        self.noted = self.since = 0
        self.task_sums: list[dict[int, float]] = [{} for _ in range(n_alternatives)]
        self.world_sums = np.zeros(n_alternatives)
        self.world_shares: list[dict[int, float]] = [{} for _ in range(n_alternatives)]

    def note(self, task: int, surprises: list[tuple[float, float]]) -> int | None:
        """Add what a reward says of every alternative; return the task that has changed, ALL_TASKS, or None."""
        self.noted += 1
        self.since += 1
        bound, changed = math.log(START + self.noted), None
        for n, (of_task, of_world) in enumerate(surprises):
            sums, shares = self.task_sums[n], self.world_shares[n]
            total, share = max(0.0, sums.pop(task, 0.0) + bounded(of_task)), shares.get(task, 0.0)
            step = min(bounded(of_world), LARGEST_SHARE - share) if self.since > QUIET else 0.0
            self.world_sums[n] = max(0.0, self.world_sums[n] + step)
            if self.world_sums[n] > 0.0:
                shares[task] = share + step
            else:
                shares.clear()
            if total > 0.0:
                sums[task] = total
            if self.world_sums[n] > bound + WORLD_ALARM:
                changed = ALL_TASKS
            elif total > bound + TASK_ALARM and changed is None:
                changed = task
        if changed is not None:
            self.clear(changed)
        return changed

    def clear(self, task: int, *, shares: bool = False) -> None:
        """Begin again with one task, with ``shares`` also as one of all, or with all."""
        for sums, added in zip(self.task_sums, self.world_shares, strict=True):
            if task == ALL_TASKS:
                sums.clear()
                added.clear()
            else:
                sums.pop(task, None)
                if shares:
                    added.pop(task, None)
        if task == ALL_TASKS:
            self.world_sums[:], self.since = 0.0, 0

    def state(self) -> dict[str, Array]:
        """Return all sums."""
        found: dict[str, Array] = {"noted": np.array([self.noted, self.since]), "world_sums": self.world_sums.copy()}
        for n, both in enumerate(zip(self.task_sums, self.world_shares, strict=True)):
            for name, sums in zip(("task_sums", "world_shares"), both, strict=True):
                found[f"{name}_{n}"] = np.array(list(sums.items()), dtype=np.float64).reshape(-1, 2)
        return found

    def restore(self, saved: dict[str, Array]) -> None:
        """Continue where a state was taken."""
        (self.noted, self.since), self.world_sums = saved["noted"].tolist(), saved["world_sums"].copy()
        for name, dicts in (("task_sums", self.task_sums), ("world_shares", self.world_shares)):
            for n in range(len(dicts)):
                dicts[n] = {int(task): value for task, value in saved[f"{name}_{n}"].tolist()}


def bounded(step: float) -> float:
    """Return what one reward adds to a sum."""
    return max(-LARGEST_STEP, min(LARGEST_STEP, step))


def log_density(value: float, mean: float, variance: float) -> float:
    """Return the logarithm of a normal density, less a constant."""
    error = value - mean
    return -0.5 * (error * error / variance + math.log(variance))
