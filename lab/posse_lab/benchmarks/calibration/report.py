"""Situations met with many seeds, and what came out beside what was promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from posse.checks import whole_number
from posse.simulation.results import compare_paired
from posse.simulation.run import over_seeds
from posse.types import Array
from posse_lab.benchmarks.calibration.situations import Quantity, Situation
from posse_lab.benchmarks.report import Bar, Report

NORMAL_95 = 1.959964


def measure_calibration(
    situations: Sequence[Situation],
    *,
    seeds: int = 100,
    first_seed: int = 0,
    workers: int = 1,
    begin: Callable[[str], None] = lambda _name: None,
    advance: Callable[[int], None] = lambda _seeds: None,
) -> Report:
    """Meet every situation once per seed.

    Parameters
    ----------
    situations : sequence of Situation
    seeds, first_seed : int
    workers : int
        Processes.
    begin, advance : callable
        Called with the name of every situation, and with 1 after every seed.
    """
    seeds = whole_number(seeds, "seeds", at_least=1)
    first_seed = whole_number(first_seed, "first_seed", at_least=0)
    workers = whole_number(workers, "workers", at_least=1)
    bars = []
    for situation in situations:
        begin(situation.name)
        by_seed: dict[int, dict[str, float]] = {}
        for seed, numbers in over_seeds(_Meeting(situation), range(first_seed, first_seed + seeds), workers):
            by_seed[seed] = numbers
            advance(1)
        in_order = [by_seed[seed] for seed in sorted(by_seed)]
        columns = {name: np.array([numbers[name] for numbers in in_order]) for name in in_order[0]}
        bars += [bar_of(situation.name, line, columns) for line in situation.quantities]
    data = {"first_seed": first_seed, "seeds": seeds}
    return Report(name="calibration", bars=bars, data=data, notes=[f"{one.name}: {one.title}" for one in situations])


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A situation as a function of the seed that also says which seed it was: workers finish in any order."""

    situation: Situation

    def __call__(self, seed: int) -> tuple[int, dict[str, float]]:
        return seed, self.situation.meet(seed)


def bar_of(situation: str, line: Quantity, columns: dict[str, Array]) -> Bar:
    """Return the line of the table that numbers per seed give.

    The interval is by bootstrap over seeds, or Wilson's where every seed gives 0 or 1.
    """
    values = columns[line.value]
    below = np.ones(values.size) if line.over is None else columns[line.over]
    measured: float | None
    interval: tuple[float, float] | None
    # Bootstrap samples of nothing but ones would claim certainty.
    if line.over is None and np.isin(values, (0.0, 1.0)).all():
        measured, interval = float(values.mean()), wilson(int(values.sum()), values.size)
    else:
        compared = compare_paired(line.value, line.over or "", values, below)
        measured, interval = compared.ratio, compared.ratio_interval
    note = ""
    if not math.isfinite(measured):
        measured, note = None, "the numbers of some seed are not finite, or there was nothing to divide by"
    if measured is None or not np.isfinite(interval).all():
        interval = None
    return Bar(
        what=f"{situation}: {line.what}", measured=measured, at_least=line.at_least, at_most=line.at_most,
        interval=interval, note=note,
    )  # fmt: skip


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(10, 10)]
    [0.722, 1.0]
    """
    share, z2 = successes / trials, NORMAL_95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = NORMAL_95 / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    return max(0.0, centre - half), min(1.0, centre + half)
