"""Worlds: something that turns a seed into a stream of tasks, contexts and rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from posse.families import Rewards
from posse.model.prior import Prior
from posse.showing import brief_repr
from posse.types import Array, IntArray, Settings


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One world, drawn: everything that a run needs except the policy.

    Parameters
    ----------
    tasks : ndarray of shape (horizon,)
        The task that arrives at each step.
    contexts : ndarray of shape (horizon, n_features)
    expected : ndarray of shape (horizon, n_arms)
        Expected reward of each arm in the task that arrived.
    rewards : ndarray of shape (horizon, n_arms)
        The reward each arm would pay.
    coefficients : ndarray of shape (n_arms, n_tasks, n_features), or None if the world is not linear or changes
    prior : Prior or None
        The population that the coefficients came from, or its closest Gaussian.
    arrival_probabilities : ndarray of shape (n_tasks,)
    rewards_are : {"number", "binary", "count", "revenue"}, default "number"
        The family of the rewards. Coefficients are those of its linear predictor.
    """

    tasks: IntArray
    contexts: Array
    expected: Array
    rewards: Array
    coefficients: Array | None
    prior: Prior | None
    arrival_probabilities: Array
    rewards_are: Rewards = "number"

    __repr__ = brief_repr


class World(Protocol):
    """A law of worlds. The same seed gives the same draw; a longer horizon only adds steps at its end."""

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""

    @property
    def n_arms(self) -> int:
        """Number of arms."""

    @property
    def n_features(self) -> int:
        """Number of features of a context."""

    def draw(self, seed: int, horizon: int) -> Draw:
        """Return the world of this seed."""

    def settings(self) -> Settings:
        """Return plain values that say which law this is."""


def stream(seed: int, purpose: int) -> np.random.Generator:
    """Return the generator of one purpose of one seed; purposes do not disturb each other."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose,))))


TRUTH, ARRIVALS, CONTEXTS, SIGNS, NOISE, POLICY, DRIFT, CHANGES = range(8)
"""The purposes that a seed's randomness is divided into."""
