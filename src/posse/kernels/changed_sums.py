"""Sums as they were when a refresh began, of the slots that have changed since."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inner_kernel, kernel
from posse.kernels.sums import Sums
from posse.types import Array, IntArray


class Block(NamedTuple):
    """Rows of sums that were copied out, so that they can be worked on while the fleet goes on learning."""

    sums: Sums
    weight: Array  # of their tasks
    rows: IntArray  # 0, 1, 2, ...


def new_sums(n_rows: int, n_features: int) -> Sums:
    """Return sums of so many slots, with Gram matrices as triangles."""
    triangle = n_features * (n_features + 1) // 2
    return Sums(np.zeros((n_rows, triangle)), np.zeros((n_rows, n_features)), np.zeros(n_rows), np.zeros(n_rows))


def new_block(n_rows: int, n_features: int) -> Block:
    """Return room for so many rows."""
    return Block(new_sums(n_rows, n_features), np.ones(n_rows), np.arange(n_rows))


@inner_kernel
def copy_row(source: Sums, row: int, target: Sums, place: int) -> None:
    """Copy the sums of one slot."""
    for i in range(source.gram.shape[1]):
        target.gram[place, i] = source.gram[row, i]
    for i in range(source.moment.shape[1]):
        target.moment[place, i] = source.moment[row, i]
    target.sum_of_squares[place] = source.sum_of_squares[row]
    target.counts[place] = source.counts[row]


@kernel
def keep_rows(
    sums: Sums, slots: IntArray, arms: IntArray, place: IntArray, kept: Sums, of: IntArray, count: int
) -> int:
    """Copy the sums of slots that were not copied before; return how many there are now.

    ``place`` has one more than where the copy of a slot stands, 0 for none; ``of`` gets slot and arm of every copy.
    """
    for position in range(slots.shape[0]):
        slot = slots[position]
        if slot < place.shape[0] and place[slot] == 0:
            copy_row(sums, slot, kept, count)
            of[0, count] = slot
            of[1, count] = arms[position]
            count += 1
            place[slot] = count
    return count


@kernel
def copy_rows(
    sums: Sums, rows: IntArray, place: IntArray, kept: Sums, task_of: IntArray, task_weight: Array, block: Block
) -> None:
    """Copy rows as they were when the copies began: the copy of those that have one, and else what is there now."""
    for position in range(rows.shape[0]):
        row = rows[position]
        if row < place.shape[0] and place[row] > 0:
            copy_row(kept, place[row] - 1, block.sums, position)
        else:
            copy_row(sums, row, block.sums, position)
        task = task_of[row]
        block.weight[position] = task_weight[task] if task < task_weight.shape[0] else 1.0
