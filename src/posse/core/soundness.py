"""Whether the numbers of a snapshot can belong together: what one array says is checked by what others say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.compiler import compiled
from posse.core.size import LARGEST
from posse.core.state import CLOCK, N_SLOTS, N_TASKS
from posse.core.store import CLOSED, COUNT, FIRST, INFORMATION, LAST, NEXT, OPEN, SQUARES, n_triangle, totals_at
from posse.families.sites import NUMBER
from posse.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Mapping

SLACK = 1e-6  # of a bound that holds exactly but for rounding
MOST = 2.0**53  # rewards


@compiled
def first_unsound(pairs: Array, d: int, sites: bool) -> int:
    """Return the first pair whose sums cannot be sums over rewards, -1 if there is none.

    Sums of products obey Cauchy and Schwarz. Squares of ``sites`` that were made again are what large differences left,
    and nothing follows from them.
    """
    at = totals_at(d)
    for slot in range(pairs.shape[0]):
        count, squares = pairs[slot, at + COUNT], pairs[slot, at + SQUARES]
        sound = 0.0 <= count <= MOST and pairs[slot, at + INFORMATION] >= 0.0
        sound = sound and (sites or 0.0 <= squares <= count * LARGEST * LARGEST)
        first = 0
        for i in range(d):
            square = pairs[slot, first]
            sound = sound and square >= 0.0 and (sites or square <= count * LARGEST * LARGEST)
            other = first + d - i
            for j in range(1, d - i):
                bound = math.sqrt(square) * math.sqrt(max(pairs[slot, other], 0.0))
                sound = sound and abs(pairs[slot, first + j]) <= (1.0 + SLACK) * bound
                other += d - i - j
            bound = (1.0 + SLACK) * math.sqrt(square) * math.sqrt(max(squares, 0.0))
            sound = sound and (sites or abs(pairs[slot, n_triangle(d) + i]) <= bound)
            first += d - i
        if not sound:
            return slot
    return -1


@compiled
def lists_are_sound(row_ends: IntArray, links: IntArray, free: IntArray, used: BoolArray, taken: BoolArray) -> bool:
    """Return whether every row is in one list, of a slot that is taken or of those that are free, and counts agree."""
    n_rows = links.shape[0]
    for slot in range(row_ends.shape[0]):
        row, last, closed = row_ends[slot, FIRST], -1, 0
        if not taken[slot]:
            continue
        while row >= 0:
            if row >= n_rows or used[row] or links[row, OPEN] < 0 or links[row, OPEN] > 1:
                return False
            used[row] = True
            closed += 1 - links[row, OPEN]
            last, row = row, links[row, NEXT]
        if row != -1 or (last != row_ends[slot, LAST] and last >= 0) or closed != row_ends[slot, CLOSED]:
            return False
    for place in range(free.shape[0]):
        row = free[place]
        if row < 0 or row >= n_rows or used[row]:
            return False
        used[row] = True
    return bool(used.all())


def require(is_sound: Any, what: str, remedy: str = "take another snapshot") -> None:
    """Raise ValueError unless something holds."""
    if not bool(is_sound):
        raise ValueError(
            f"expected {what} in a snapshot, got something else: it is damaged or not of such a core; {remedy}"
        )


def is_positive_definite(matrices: Array) -> bool:
    """Return whether matrices are symmetric and positive definite; infinite diagonal entries are."""
    n, infinite = matrices.shape[-1], np.isinf(np.diagonal(matrices, axis1=-2, axis2=-1))
    matrices = matrices.copy()
    one, two = np.nonzero(infinite)
    matrices[one, two, :], matrices[one, :, two] = 0.0, 0.0
    matrices[one, two, two] = 1.0
    size = np.sqrt(np.abs(np.diagonal(matrices, axis1=-2, axis2=-1)))
    scaled = matrices / np.where(size > 0, size, 1.0)[:, :, None] / np.where(size > 0, size, 1.0)[:, None, :]
    if not np.isfinite(scaled).all() or np.abs(scaled - np.swapaxes(scaled, -1, -2)).max(initial=0.0) > SLACK:
        return False
    return bool((np.linalg.eigvalsh(scaled + 1e-9 * np.eye(n)) > 0).all())


def check_snapshot(saved: Mapping[str, Any], like: Mapping[str, Any], family: int) -> None:
    """Raise ValueError unless arrays are those of a snapshot, and can belong together.

    Parameters
    ----------
    saved : mapping of str to ndarray
    like : mapping of str to ndarray
        A snapshot of a core of the same settings, with as many arms.
    family : int
    """
    for name in like:
        require(name in saved or name.startswith("forgetting."), f"an array {name}")
    owner, sums = saved["store.owner"], saved["store.sums"]
    n_slots, n_tasks, n_rows = len(owner), len(saved["store.weight"]) - 1, len(saved["store.row_links"])
    lengths = dict.fromkeys(("store.owner", "store.sums"), n_slots)
    lengths |= dict.fromkeys(("store.known", "store.given", "store.weight"), n_tasks + 1)
    lengths |= dict.fromkeys(("store.row_context", "store.row_values", "store.row_links"), n_rows)
    if family != NUMBER:
        lengths |= dict.fromkeys(("store.plain", "store.row_ends"), n_slots)
    for name, array in like.items():
        there: Any = saved.get(name)
        free = name in ("store.free_rows", "free_slots", "free_tasks") or name.startswith("forgetting.")
        is_like = there is not None and there.dtype == array.dtype and there.ndim == array.ndim
        rows = lengths.get(name, len(array) if array.ndim else 0)
        fits = is_like and (free or there.ndim == 0 or there.shape == (rows, *array.shape[1:]))
        require(fits, f"an array {name} of type {array.dtype} and shape {(rows, *array.shape[1:])}")
    for name in ("store.sums", "store.known", "store.weight", "store.plain", "store.row_context", "store.row_values"):
        require(np.isfinite(saved[name]).all(), f"finite numbers in {name}")
    require((saved["store.weight"] > 0).all(), "positive weights of tasks")
    n_arms, d = len(saved["store.noise"]), saved["store.prior"].shape[2]
    taken = owner[:, 0] >= 0
    tasks, arms = owner[taken].T
    require(
        (tasks < n_tasks).all() and (arms >= 0).all() and (arms < n_arms).all(), "pairs of tasks and arms there are"
    )
    require(np.unique(tasks * n_arms + arms).size == tasks.size, "one slot for every pair of task and arm")
    require(first_unsound(np.ascontiguousarray(sums), d, family != NUMBER) < 0, "sums that can be sums over rewards")
    require((saved["store.noise"] > 0).all() and np.isfinite(saved["store.noise"]).all(), "positive noise variances")
    require((saved["store.dispersion"] >= 0).all() and np.isfinite(saved["store.dispersion"]).all(), "dispersions")
    scale = saved["population.scale"]
    require((scale > 0).all() and np.isfinite(scale).all(), "a positive precision of shared means")
    require(is_positive_definite(saved["store.prior"][:, :d]), "positive definite precisions of the population")
    _check_numbers(saved["numbers"], n_slots, n_tasks, int(tasks.max(initial=-1)))
    for name, n in (("free_slots", n_slots), ("free_tasks", n_tasks)):
        free = saved[name]
        require((free >= 0).all() and (free < n).all() and np.unique(free).size == free.size, f"numbers in {name}")
    require(not taken[saved["free_slots"]].any(), "free slots without a pair")
    n_shared = saved["store.told"].shape[2]
    require(is_positive_definite(saved["store.told"][:, :n_shared]), "positive definite precisions of shared means")
    require(np.isfinite(saved["store.shared"]).all(), "finite shared means")
    if family == NUMBER:
        require(len(saved["store.free_rows"]) == 2, "no rows of numbers")
    else:
        free, links = saved["store.free_rows"], saved["store.row_links"]
        counts = len(free) >= 2 and free[0] == len(free) - 2 and free[1] == n_rows
        used = np.zeros(n_rows, dtype=np.bool_)
        sound = counts and lists_are_sound(
            np.ascontiguousarray(saved["store.row_ends"]), np.ascontiguousarray(links), free[2:], used, taken
        )
        require(sound, "every kept row in one list")


def _check_numbers(numbers: Array, n_slots: int, n_tasks: int, last: int) -> None:
    """Raise ValueError unless counts agree with arrays; ``last`` is the last task that has a pair."""
    require(numbers[N_SLOTS] == n_slots, "as many slots as there are")
    require(max(numbers[N_TASKS], last + 1) == n_tasks and numbers[N_TASKS] >= 0, "as many tasks as there are")
    counts = np.delete(numbers, CLOCK)
    require(np.isfinite(numbers).all() and (counts >= 0).all() and (counts <= MOST).all(), "counts of rewards")
