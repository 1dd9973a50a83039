"""Capacity for a fleet's arrays: they grow without being copied again and again.

Memory that was asked for and never touched costs nothing. So when the arrays over slots, which are all but a few
percent, have outgrown their first small rooms, they move once, to address ranges as large as all the memory of the
machine, and fill up in place. What is kept per task doubles.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.kernels.changed_sums import new_sums
from posse.kernels.posterior import Belief
from posse.kernels.sums import Sums

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.types import Array, IntArray

SMALL = 4 << 20  # bytes up to which an array doubles


class Capacity(NamedTuple):
    """The arrays of a fleet with all the room that they have."""

    belief: Belief
    root: Array  # (K, d, d)
    triangle: Array  # (K, d (d + 1) / 2)
    silent: Array  # (K,)
    settled: IntArray  # (S,)
    generation: IntArray  # (1,)


@cache
def memory() -> int:
    """Return how many bytes of memory this machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 8 << 30


def new_capacity(n_arms: int, n_tasks: int, n_slots: int, d: int) -> Capacity:
    """Return room for so many arms, tasks and slots."""
    triangle = d * (d + 1) // 2
    belief = Belief(
        sums=new_sums(n_slots, d),
        slot=np.full((n_tasks, n_arms), -1, dtype=np.int64),
        task_of=np.zeros(n_slots, dtype=np.int64),
        seen=np.zeros((n_arms, n_tasks), dtype=np.int64),
        n_seen=np.zeros(n_arms, dtype=np.int64),
        rewards=np.zeros(n_arms),
        covariance=np.zeros((n_arms, d, d)),
        noise_variance=np.ones(n_arms),
        shared_precision=np.zeros((n_arms, d, d)),
        shared_location=np.zeros((n_arms, d)),
        task_weight=np.ones(n_tasks),
        local_covariance=np.zeros((n_slots, triangle)),
        local_mean=np.zeros((n_slots, d)),
        shared_covariance=np.zeros((n_arms, d, d)),
        shared_moment=np.zeros((n_arms, d)),
        shared_mean=np.zeros((n_arms, d)),
    )
    return Capacity(
        belief=belief,
        root=np.zeros((n_arms, d, d)),
        triangle=np.zeros((n_arms, triangle)),
        silent=np.zeros(n_arms),
        settled=np.zeros(n_slots, dtype=np.int64),
        generation=np.zeros(1, dtype=np.int64),
    )


def copied(value: Any) -> Any:
    """Return a copy of arrays in tuples, however deep."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return type(value)(*map(copied, value)) if isinstance(value, tuple) else value


def first_rows(array: npt.NDArray[Any], used: int, size: int) -> npt.NDArray[Any]:
    """Return a copy of the rows in use, with room for ``size``."""
    return longer(array[:used], max(used, size))


def copy_of_capacity(capacity: Capacity, n_slots: int) -> Capacity:
    """Return a copy with room for twice the slots that are in use: what was asked for and never touched is left."""
    belief, size = capacity.belief, 2 * n_slots + 1
    by_slot = ("task_of", "local_covariance", "local_mean")
    small = {name: copied(getattr(belief, name)) for name in Belief._fields if name not in (*by_slot, "sums")}
    large = {name: first_rows(getattr(belief, name), n_slots, size) for name in by_slot}
    sums = Sums(*(first_rows(field, n_slots, size) for field in belief.sums))
    return Capacity(
        belief=Belief(sums=sums, **small, **large),
        root=capacity.root.copy(),
        triangle=capacity.triangle.copy(),
        silent=capacity.silent.copy(),
        settled=first_rows(capacity.settled, n_slots, size),
        generation=capacity.generation.copy(),
    )


def longer(array: npt.NDArray[Any], size: int, fill: float = 0) -> npt.NDArray[Any]:
    """Return the array with room for ``size`` rows, the new ones filled."""
    # Untouched zeros cost no memory.
    shape = (size, *array.shape[1:])
    result = np.zeros(shape, array.dtype) if fill == 0 else np.full(shape, fill, array.dtype)
    result[: len(array)] = array
    return result


def with_more_slots(capacity: Capacity, at_least: int) -> Capacity:
    """Return the capacity with room for more slots; the largest arrays move once at most."""
    belief = capacity.belief
    size = max(at_least, 2 * capacity.settled.size)
    widest = belief.sums.gram.itemsize * belief.sums.gram.shape[1]
    if size * widest > SMALL:
        sizes = [max(size, memory() // (widest * part)) for part in (2, 4, 8, 16, 32)]
        for most in [*sizes, size]:
            try:
                return _with_slots(capacity, most)
            except MemoryError:  # the system does not give away what it has not
                continue
    return _with_slots(capacity, size)


def _with_slots(capacity: Capacity, size: int) -> Capacity:
    belief = capacity.belief
    return capacity._replace(
        belief=belief._replace(
            sums=Sums(*(longer(field, size) for field in belief.sums)),
            task_of=longer(belief.task_of, size),
            local_covariance=longer(belief.local_covariance, size),
            local_mean=longer(belief.local_mean, size),
        ),
        settled=longer(capacity.settled, size),
    )


def with_more_tasks(capacity: Capacity, at_least: int) -> Capacity:
    """Return the capacity with room for more tasks."""
    belief = capacity.belief
    size = max(at_least, 2 * belief.task_weight.size)
    seen = np.zeros((belief.seen.shape[0], size), dtype=np.int64)
    seen[:, : belief.seen.shape[1]] = belief.seen
    return capacity._replace(
        belief=belief._replace(
            slot=longer(belief.slot, size, -1), task_weight=longer(belief.task_weight, size, 1), seen=seen
        )
    )


def with_more_arms(capacity: Capacity, at_least: int) -> Capacity:
    """Return the capacity with room for more arms."""
    belief = capacity.belief
    size = max(at_least, 2 * belief.n_seen.size)
    slot = np.full((belief.slot.shape[0], size), -1, dtype=np.int64)
    slot[:, : belief.slot.shape[1]] = belief.slot
    names = (
        "seen", "n_seen", "rewards", "covariance", "noise_variance", "shared_precision", "shared_location",
        "shared_covariance", "shared_moment", "shared_mean",
    )  # fmt: skip
    more: dict[str, Any] = {name: longer(getattr(belief, name), size) for name in names}
    return capacity._replace(
        belief=belief._replace(slot=slot, **more),
        root=longer(capacity.root, size),
        triangle=longer(capacity.triangle, size),
        silent=longer(capacity.silent, size),
    )
