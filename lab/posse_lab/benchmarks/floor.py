r"""How fast a step could be: its arithmetic over what this core was measured to do.

A step is one decision among ``K`` arms and the lesson of one reward, with ``d`` features, as in
:mod:`posse.kernels.posterior`. The floor is that of these formulas: what grows with ``d`` is counted and nothing else,
every symmetric matrix has :math:`s = d (d + 1) / 2` entries to read or write, every vector register is full, and no
number waits for another. So it is below what a program with these formulas can reach, not a forecast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.kernels.batches import StepBatch
from posse.types import Settings
from posse_lab.benchmarks.machine import Timing, seconds_per_call
from posse_lab.benchmarks.peak import Rate, peak_operations, read_bandwidth
from posse_lab.benchmarks.workload import Size, draw_rows, taught_policy

NUMBER = 8  # bytes of a number
STEPS = 2000  # of the stretch that is played to time the kernel
MAIN_MEMORY = 2**30  # bytes of an array that no cache holds


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a step.

    Parameters
    ----------
    what, arithmetic, traffic : str
        In words, and as formulas in K, d and s.
    operations : int
        Multiplications and additions.
    numbers : int
        Read or written.
    """

    what: str
    arithmetic: str
    traffic: str
    operations: int
    numbers: int


def parts_of_step(n_arms: int, n_features: int) -> tuple[Part, Part]:
    """Return what a decision and a lesson need.

    Examples
    --------
    >>> [(part.operations, part.numbers) for part in parts_of_step(5, 10)]
    [(3450, 925), (1300, 410)]
    """
    k, d = n_arms, n_features
    s = d * (d + 1) // 2
    return (
        # v = Ct x, A v, p = Phi w at 2 d^2 each; x'm, x'v, w'm0, w'p at 2 d each; w = x - A v.
        Part("decide", "K (6 d² + 9 d)", "K (3 s + 2 d)", k * (6 * d * d + 9 * d), k * (3 * s + 2 * d)),
        # Ct x, A v, Phi w and Phi r; three matrices plus a multiple of z z', each 2 s and d for the multiple of z; w at
        # 2 d; x'm, x'v and w'p; local mean, r and b plus a multiple of a vector. Three matrices and the vectors m, r,
        # m0 and b are read and written.
        Part("learn", "8 d² + 6 s + 17 d", "6 s + 8 d", 8 * d * d + 6 * s + 17 * d, 6 * s + 8 * d),
    )


def working_set(size: Size) -> int:
    """Return the bytes that steps over all tasks read again and again."""
    d = size.n_features
    s = d * (d + 1) // 2
    return NUMBER * size.n_arms * (size.n_tasks * (2 * s + 2 * d) + s + 2 * d)


def bytes_of_task(size: Size) -> int:
    """Return the bytes of a step that belong to its task alone: what a large fleet has in no cache."""
    d = size.n_features
    s = d * (d + 1) // 2
    return NUMBER * (size.n_arms * (2 * s + d) + 2 * s + 2 * d)


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time of a step, beside what the compiled step takes.

    Parameters
    ----------
    size : Size
    peak : Rate
        Operations per second.
    bandwidth : Rate
        Bytes per second from a working set as large as that of the step.
    kernel : Timing
        One decision and one lesson in compiled code, nothing else between them.
    """

    size: Size
    peak: Rate
    bandwidth: Rate
    kernel: Timing

    @property
    def operations(self) -> int:
        """Multiplications and additions of a step."""
        return sum(part.operations for part in self._parts)

    @property
    def bytes(self) -> int:
        """Bytes that a step reads and writes."""
        return NUMBER * sum(part.numbers for part in self._parts)

    @property
    def arithmetic_seconds(self) -> float:
        """Of the operations alone."""
        return self.operations / self.peak.best

    @property
    def traffic_seconds(self) -> float:
        """Of the bytes alone."""
        return self.bytes / self.bandwidth.best

    @property
    def seconds(self) -> float:
        """The floor: operations and bytes at the same time."""
        return max(self.arithmetic_seconds, self.traffic_seconds)

    @property
    def ratio(self) -> float:
        """The step over its floor."""
        return self.kernel.best / self.seconds

    @property
    def _parts(self) -> tuple[Part, Part]:
        return parts_of_step(self.size.n_arms, self.size.n_features)

    def to_dict(self) -> Settings:
        """Return everything as plain values, with the arithmetic."""
        return {
            **self.size._asdict(),
            "parts": [
                {
                    "what": part.what,
                    "arithmetic": part.arithmetic,
                    "operations": part.operations,
                    "traffic": part.traffic,
                    "bytes": NUMBER * part.numbers,
                }
                for part in self._parts
            ],
            "operations": self.operations,
            "bytes": self.bytes,
            "working_set_bytes": working_set(self.size),
            "peak_operations_per_second": self.peak.to_dict(),
            "bytes_per_second": self.bandwidth.to_dict(),
            "arithmetic_seconds": self.arithmetic_seconds,
            "traffic_seconds": self.traffic_seconds,
            "floor_seconds": self.seconds,
            "step_seconds": self.kernel.to_dict(),
            "ratio": self.ratio,
        }


def time_kernel(size: Size, *, rounds: int = 7, at_least: float = 0.05) -> Timing:
    """Return seconds per step of the compiled step: decide, learn, no refresh."""
    policy = taught_policy(size)
    rows = draw_rows(size, 0, STEPS, seed=1)
    rng = np.random.default_rng(2)
    stretch = StepBatch(
        tasks=rows.tasks,
        contexts=rows.contexts,
        rewards=rng.standard_normal((STEPS, size.n_arms)),
        draws=rng.standard_normal((STEPS, size.n_arms)),
        first_step=1000,
        arms=np.empty(STEPS, dtype=np.int64),
        everywhere=np.empty((0, size.n_tasks), dtype=np.int64),
    )

    def run(n: int) -> None:
        for _ in range(n):
            # Not play: its checks and draws are no part of the step.
            policy._play(stretch)

    timing = seconds_per_call(run, rounds=rounds, at_least=at_least)
    return Timing(timing.best / STEPS, timing.median / STEPS, timing.calls * STEPS)


def measure_floor(size: Size, *, rounds: int = 7, at_least: float = 0.05) -> Floor:
    """Measure peak, bandwidth and the compiled step, one right after the other."""
    peaks, bandwidths = [], []
    kernel = None
    # Peak and bandwidth twice: where neighbours come and go, the better is nearer to what the core can do.
    for _ in range(2):
        peaks.append(peak_operations(rounds=rounds, at_least=at_least))
        bandwidths.append(read_bandwidth(working_set(size), rounds=rounds, at_least=at_least))
        kernel = kernel or time_kernel(size, rounds=rounds, at_least=at_least)
    assert kernel is not None
    return Floor(size, max(peaks, key=_best), max(bandwidths, key=_best), kernel)


def _best(rate: Rate) -> float:
    return rate.best
