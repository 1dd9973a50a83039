"""What this core can do at best: operations on numbers in registers, and bytes read from memory.

The loops are compiled as the step is: double precision, and no fused multiply-add, since contracting two roundings into
one would make results differ between machines. So the peak is that of separate multiplications and additions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from posse.kernels.compiler import kernel
from posse.types import Array, IntArray, Settings
from posse_lab.benchmarks.machine import seconds_per_call

DEEP = 4  # multiplications and additions of a number between two visits to memory
LENGTH = 128  # of two rows of numbers: they fit the smallest cache, and are long enough for any vector


@kernel  # type: ignore[untyped-decorator]
def multiply_and_add(numbers: Array, factor: float, summand: float, times: int) -> None:
    """Multiply and add, again and again, two numbers side by side."""
    for _ in range(times):
        for i in range(numbers.shape[1]):
            a, b = numbers[0, i], numbers[1, i]
            for _ in range(DEEP):
                a, b = a * factor + summand, b * factor + summand
            numbers[0, i], numbers[1, i] = a, b


@kernel  # type: ignore[untyped-decorator]
def read_all(words: IntArray, times: int) -> int:
    """Add up whole numbers: they may be added in any order, so this is as fast as reading them."""
    total = 0
    for _ in range(times):
        for i in range(words.shape[0]):
            total += words[i]
        total ^= 1  # so that the passes cannot be made one
    return total


@dataclass(frozen=True, slots=True)
class Rate:
    """Operations or bytes per second.

    Parameters
    ----------
    best, median : float
        Of the rounds.
    """

    best: float
    median: float

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self)


def peak_operations(*, rounds: int = 7, at_least: float = 0.05) -> Rate:
    """Return floating-point operations per second of one core, multiplications and additions apart."""
    numbers = np.ones((2, LENGTH))
    operations = 2 * DEEP * numbers.size
    # With these factors the numbers stay 1: none becomes so small that it would be slow.
    timing = seconds_per_call(lambda n: multiply_and_add(numbers, 0.5, 0.5, n), rounds=rounds, at_least=at_least)
    return Rate(operations / timing.best, operations / timing.median)


def read_bandwidth(n_bytes: int, *, rounds: int = 7, at_least: float = 0.05) -> Rate:
    """Return bytes per second that one core reads, again and again, from a working set of so many bytes."""
    words = np.ones(max(n_bytes // 8, 1), dtype=np.int64)
    timing = seconds_per_call(lambda n: read_all(words, n), rounds=rounds, at_least=at_least)
    return Rate(words.nbytes / timing.best, words.nbytes / timing.median)
