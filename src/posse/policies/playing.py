"""Steps of a stream, one after another; the functions that decide and learn come as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from posse.core.compiler import made
from posse.types import Array, IntArray


class StepBatch(NamedTuple):
    """One row per step. ``rewards`` holds what each arm would pay; a policy learns only from the arm it chose.

    ``arms`` is filled, and so is ``everywhere`` (the arm of every task at every step) if it has rows. Where steps are
    decided and not played, ``rewards`` has no rows.
    """

    tasks: IntArray  # (n,)
    contexts: Array  # (n, d)
    rewards: Array  # (n, K)
    draws: Array  # (n, K) standard normals
    first_step: int
    arms: IntArray  # (n,)
    everywhere: IntArray  # (n, N) or (0, N)

    def part(self, first: int, last: int) -> StepBatch:
        """Return the steps from ``first`` to ``last``, the same arrays."""
        own = slice(first, last)
        return StepBatch(
            self.tasks[own], self.contexts[own], self.rewards[own], self.draws[own], self.first_step + first,
            self.arms[own], self.everywhere[own],
        )  # fmt: skip


class RewardBatch(NamedTuple):
    """One row per reward, in the order in which they are learned."""

    tasks: IntArray  # (n,)
    arms: IntArray  # (n,)
    contexts: Array  # (n, d)
    rewards: Array  # (n,)


def player(choose: Callable[..., int], learn: Callable[..., Any]) -> Callable[..., None]:
    """Return the compiled function of a model and a batch that decides and learns step after step.

    It is made of ``choose(model, task, x, step, draws)`` and ``learn(model, task, arm, x, reward)``.
    """

    @made
    def play_steps(model: Any, batch: StepBatch) -> None:
        n_asked = batch.everywhere.shape[1] if batch.everywhere.shape[0] > 0 else 0
        for t in range(batch.tasks.shape[0]):
            step, x, draws, arm = batch.first_step + t, batch.contexts[t], batch.draws[t], 0
            for place in range(n_asked + 1):  # every task that is asked, and last the one that is here
                task = place if place < n_asked else batch.tasks[t]
                arm = choose(model, task, x, step, draws)
                if place < n_asked:
                    batch.everywhere[t, place] = arm
            batch.arms[t] = arm
            learn(model, batch.tasks[t], arm, x, batch.rewards[t, arm])

    return play_steps
