"""Sparse covariance by thresholding, with the threshold chosen by cross-validation (Bickel and Levina, 2008)."""

from __future__ import annotations

import math

import numpy as np

from posse.core.compiler import compiled
from posse.model.dense import mirror_upper
from posse.types import Array, IntArray

SPLITS = 10
GRID = 20
FEWEST_VECTORS = 6  # below that one half of a split has no covariance worth comparing with


@compiled
def sample_covariance(rows: Array, order: IntArray, first: int, last: int, mean: Array, out: Array) -> None:
    """Write the covariance (divisor count - 1) of the rows that ``order[first:last]`` names."""
    d = rows.shape[1]
    count = last - first
    for i in range(d):
        mean[i] = 0.0
        for j in range(d):
            out[i, j] = 0.0
    for position in range(first, last):
        for i in range(d):
            mean[i] += rows[order[position], i]
    for i in range(d):
        mean[i] /= count
    for position in range(first, last):
        row = rows[order[position]]
        for i in range(d):
            weight = (row[i] - mean[i]) / (count - 1)
            for j in range(i, d):
                out[i, j] += weight * (row[j] - mean[j])
    mirror_upper(out)


@compiled
def mix(state: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of splitmix64): whole-number arithmetic, so equal on every machine."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def shuffle(order: IntArray, count: int, split: int) -> None:
    """Write a permutation of ``range(count)`` that depends only on ``count`` and ``split``."""
    for i in range(count):
        order[i] = i
    state = mix(np.uint64(count) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(split))
    for i in range(count - 1, 0, -1):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        j = np.int64(mix(state) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]


@compiled
def largest_off_diagonal(matrix: Array) -> float:
    """Return max |s_ij| over i != j."""
    largest = 0.0
    for i in range(matrix.shape[0]):
        for j in range(i + 1, matrix.shape[0]):
            largest = max(largest, abs(matrix[i, j]))
    return largest


@compiled
def grid_point(position: int, top: float) -> float:
    """Return the threshold at a position of the grid; the last is the top itself, to the last bit."""
    return top if position == GRID - 1 else top * position / (GRID - 1)


@compiled
def choose_threshold(
    rows: Array,
    count: int,
    covariance: Array,
    order: IntArray,
    losses: Array,
    mean: Array,
    fit: Array,
    held: Array,
) -> float:
    """Return the off-diagonal threshold whose half-sample estimate is closest to the other half's covariance.

    ``covariance`` is that of all ``count`` rows; the grid runs from 0 (keep everything) to its largest off-diagonal
    entry. The other arguments are buffers.
    """
    d = rows.shape[1]
    top = largest_off_diagonal(covariance)
    if count < FEWEST_VECTORS or d == 1 or top == 0.0:
        return 0.0
    n_fit = round(count * (1.0 - 1.0 / math.log(count)))
    for g in range(GRID):
        losses[g] = 0.0
    for split in range(SPLITS):
        shuffle(order, count, split)
        sample_covariance(rows, order, 0, n_fit, mean, fit)
        sample_covariance(rows, order, n_fit, count, mean, held)
        for i in range(d):
            for j in range(i + 1, d):
                kept = (fit[i, j] - held[i, j]) ** 2
                dropped = held[i, j] ** 2
                size = abs(fit[i, j])
                for g in range(GRID):
                    losses[g] += kept if size >= grid_point(g, top) else dropped
    best = 0
    for g in range(1, GRID):
        if losses[g] < losses[best]:
            best = g
    return grid_point(best, top)


@compiled
def apply_threshold(matrix: Array, threshold: float, keep_diagonal: bool) -> None:
    """Set entries smaller than the threshold to zero, in place."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            if abs(matrix[i, j]) < threshold and not (keep_diagonal and i == j):
                matrix[i, j] = 0.0
