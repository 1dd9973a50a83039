"""What every policy for clicks or counts shares: rewards are checked against their family before anything changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posse.families import LinkedFamily, linked_family_of
from posse.policies.base import Policy

if TYPE_CHECKING:
    from posse.types import Array, ArrayLike, IntArray


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

    def _checked_stretch(
        self, tasks: ArrayLike, contexts: ArrayLike, rewards: ArrayLike
    ) -> tuple[IntArray, Array, Array]:
        return super()._checked_stretch(tasks, contexts, self.family.check_many(rewards))
