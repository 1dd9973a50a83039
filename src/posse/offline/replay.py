"""Evaluate a policy that learns as it goes by rejection replay.

Rows of the log are offered to the policy one after the other. It sees task and context and chooses; if it chooses what
the log shows, the row is taken, the policy learns its reward, and that is a step of its life; else the row is passed
over. Of the rows that agree only a part is taken, in proportion to ``smallest propensity / propensity``, so that every
choice of the policy is taken equally often, as if arms had been logged uniformly. So the rows that are taken are a fair
sample of what the policy would have met.

References
----------
Li, Chu, Langford and Wang (2011), "Unbiased offline evaluation of contextual-bandit-based news article recommendation
algorithms", for uniform logging. Dudík, Erhan, Langford and Li (2014), section 3, for known propensities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posse.errors import InvalidValue
from posse.offline.data import LoggedBandit
from posse.offline.estimators import Contributions
from posse.policies.base import DecisionMaker
from posse.policies.registry import policy_factory
from posse.types import Array, BoolArray


class Replay:
    """A policy that starts with nothing and learns from the rows where it agrees with the log.

    Parameters
    ----------
    policy : str or callable
        A key of :func:`posse.policies.make_policy`, or what makes a policy from n_tasks, n_arms and n_features.
    label : str, optional
    **settings
        Of the policy.
    """

    def __init__(self, policy: str | Callable[..., DecisionMaker], label: str = "", **settings: object) -> None:
        self._factory: Callable[..., DecisionMaker] = policy_factory(policy) if isinstance(policy, str) else policy
        key = policy if isinstance(policy, str) else getattr(policy, "label", getattr(policy, "__name__", "policy"))
        shown = ", ".join(f"{name}={value}" for name, value in settings.items())
        self.name = label or f"replay of {key}" + (f" ({shown})" if shown else "")
        self._settings = settings

    def run(self, data: LoggedBandit, *, seed: int = 0) -> Replayed:
        """Replay the log, in the order of its rows.

        Parameters
        ----------
        data : LoggedBandit
            Every arm must be eligible in every row: policies choose among all of them.
        seed : int
            Of the policy's decisions and of which rows are taken.
        """
        if not data.eligible.all():
            raise InvalidValue(
                "replay needs logs in which every arm is always eligible: policies choose among all arms"
            )
        n = data.n_rows
        take_below = smallest_propensity(data) / data.propensities
        policy = self._factory(
            n_tasks=data.n_tasks, n_arms=data.n_arms, n_features=data.contexts.shape[1], **self._settings
        )
        decisions, thinning = (np.random.default_rng(part) for part in np.random.SeedSequence(seed).spawn(2))
        taken = thinning.random(n) < take_below
        accepted = np.zeros(n, dtype=np.bool_)
        step = 1
        for row in range(n):
            task, context = int(data.tasks[row]), data.contexts[row]
            # A decision that is passed over leaves no trace, but the next one has its own draws.
            arm = policy.choose(task, context, step, decisions)
            if taken[row] and arm == data.arms[row]:
                policy.update(task, arm, context, float(data.rewards[row]))
                accepted[row] = True
                step += 1
        return Replayed(accepted, data.money)


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """The steps of a replayed policy.

    Parameters
    ----------
    accepted : bool ndarray of shape (n_rows,)
    rewards : ndarray of shape (n_rows,)
        In money where the log has prices, which the policy does not know of.
    """

    accepted: BoolArray
    rewards: Array

    @property
    def steps(self) -> int:
        """Number of rows that were taken."""
        return int(self.accepted.sum())

    @property
    def contributions(self) -> Contributions:
        """The mean reward of the steps, as a ratio of sums over all rows."""
        weight = self.accepted.astype(np.float64)
        return Contributions(weight * self.rewards, weight)


def smallest_propensity(data: LoggedBandit) -> float:
    """Return the smallest probability that any arm had in any row, as far as the log says."""
    if data.probabilities is None:
        return float(data.propensities.min())
    return float(data.probabilities.min())
