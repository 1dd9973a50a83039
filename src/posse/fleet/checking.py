"""What may be asked of a fleet: values that are refused with one clear error before anything changes."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number
from posse.engine.capacity import memory
from posse.errors import InvalidValue, NotFinite
from posse.kernels.linalg import LARGEST

if TYPE_CHECKING:
    from posse.fleet.labels import Label
    from posse.types import IntArray

CELL_BYTES = 110  # that a fleet takes for every entry of its arms' covariances, as measured


def require_room(n_arms: int, n_features: int) -> None:
    """Raise if what is believed about all tasks together would not fit in the memory of this machine."""
    needed = n_arms * n_features**2 * CELL_BYTES
    if needed > memory():
        raise InvalidValue(
            f"expected a fleet that fits in {memory() / 1e9:.3g} GB of memory, got {n_arms} arms x {n_features} "
            f"columns squared, which take {needed / 1e9:.3g} GB before the first task; declare fewer arms, or fewer or "
            "hashed features"
        )


def no_belief(task: Label) -> NotFinite:
    """Return the error of a decision that has no probabilities."""
    return NotFinite(
        f"what this fleet believes about task {task!r} is not a number: values of too different size were learned "
        "(1e20 beside 1, say), or this context is one; find such rows, forget their tasks and learn them again without"
    )


def require_beliefs(chosen: IntArray, codes: IntArray, labels: list[Label]) -> None:
    """Raise if some row has no arm because a belief is not a number."""
    if (chosen < 0).any():
        raise no_belief(labels[codes[int(np.argmax(chosen < 0))]])


def require_truth_value(value: Any, name: str = "explore") -> None:
    """Raise unless a value is True or False."""
    if type(value) is not bool and not isinstance(value, np.bool_):
        raise InvalidValue(f"expected {name} to be True or False, got {value!r}")


def checked_reward(value: Any) -> float:
    """Return a reward that is a number and can be learned."""
    if isinstance(value, bool | np.bool_):
        return float(value)  # whether there was a click
    if value is None or (isinstance(value, float) and value != value):
        raise NotFinite(f"expected reward to be a finite number, got {value}; where there is none, leave out the call")
    reward = number(value, "reward")
    if abs(reward) > LARGEST:
        raise NotFinite(f"reward {reward:g} is too large: sums of squares would overflow; rescale the rewards")
    return reward


def checked_seed(seed: Any) -> int:
    """Return the seed, or one from the operating system."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0 or seed >= 2**128:
        raise InvalidValue(f"expected seed to be a whole number from 0 to 2**128 - 1, got {seed!r}")
    return int(seed)
