"""Rows of a stream as the kernels take them: steps to play or to decide, and rewards to learn."""

from __future__ import annotations

from typing import NamedTuple

from posse.kernels.llvm.handle import Layout, floats, ints
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


class RewardBatch(NamedTuple):
    """One row per reward, in the order in which they are learned."""

    tasks: IntArray  # (n,)
    arms: IntArray  # (n,)
    contexts: Array  # (n, d)
    rewards: Array  # (n,)


STEP_BATCH = Layout(StepBatch(ints(1), floats(2), floats(2), floats(2), 0, ints(1), ints(2)))
REWARD_BATCH = Layout(RewardBatch(ints(1), ints(1), floats(2), floats(1)))
open_step_batch, open_reward_batch = STEP_BATCH.open, REWARD_BATCH.open
