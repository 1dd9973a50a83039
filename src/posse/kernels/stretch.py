"""A stretch of steps to play: what comes in, and room for the arms that come out."""

from __future__ import annotations

from typing import NamedTuple

from posse.types import Array, IntArray


class Stretch(NamedTuple):
    """One row per step. ``rewards`` holds what each arm would pay; a policy learns only from the arm it chose.

    ``arms`` is filled, and so is ``everywhere`` (the arm of every task at every step) if it has rows.
    """

    tasks: IntArray  # (n,)
    contexts: Array  # (n, d)
    rewards: Array  # (n, K)
    draws: Array  # (n, K) standard normals
    first_step: int
    arms: IntArray  # (n,)
    everywhere: IntArray  # (n, N) or (0, N)
