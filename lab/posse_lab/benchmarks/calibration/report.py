"""Situations met with many seeds, and what came out beside what was promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from posse._version import __version__
from posse.checks import whole_number
from posse.simulation.comparison import compare_paired
from posse.simulation.run import over_seeds
from posse.types import Array, Settings
from posse_lab.benchmarks.bars import Bar, quantity
from posse_lab.benchmarks.calibration.situations import Quantity, Situation
from posse_lab.benchmarks.markdown import table, verdict

NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table.

    Parameters
    ----------
    situation : str
        Its name.
    bar : Bar
        What was measured, beside the promise if there is one.
    interval : tuple of two floats, or None
        95 %: by bootstrap over seeds, or Wilson's where every seed gives 0 or 1. None if there is none.
    seeds : int
    """

    situation: str
    bar: Bar
    interval: tuple[float, float] | None
    seeds: int

    @property
    def met(self) -> bool | None:
        """Whether the promise is kept; None if nothing was promised or measured."""
        promised = self.bar.at_least is not None or self.bar.at_most is not None
        return self.bar.met if promised else None

    @property
    def interval_words(self) -> str:
        """The interval, with as many digits as the number has."""
        return "" if self.interval is None else f"{quantity(self.interval[0])} to {quantity(self.interval[1])}"


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """Every line of every situation.

    Parameters
    ----------
    findings : tuple of Finding
    titles : dict from the name of a situation to its title
    first_seed, seeds : int
    """

    findings: tuple[Finding, ...]
    titles: dict[str, str]
    first_seed: int
    seeds: int

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "version": __version__,
            "first_seed": self.first_seed,
            "seeds": self.seeds,
            "findings": [
                {
                    "situation": finding.situation,
                    **finding.bar.to_dict(),
                    "met": finding.met,
                    "interval": None if finding.interval is None else list(finding.interval),
                }
                for finding in self.findings
            ],
        }


def measure_calibration(
    situations: Sequence[Situation],
    *,
    seeds: int = 100,
    first_seed: int = 0,
    workers: int = 1,
    begin: Callable[[str], None] | None = None,
    advance: Callable[[int], None] | None = None,
) -> CalibrationReport:
    """Meet every situation once per seed.

    Parameters
    ----------
    situations : sequence of Situation
    seeds : int, default 100
        How many.
    first_seed : int, default 0
        The first of them; the others follow.
    workers : int, default 1
        Processes.
    begin : callable, optional
        Told the name of a situation before it is met.
    advance : callable, optional
        Told how many seeds are newly done.

    Returns
    -------
    CalibrationReport
    """
    seeds = whole_number(seeds, "seeds", at_least=1)
    first_seed = whole_number(first_seed, "first_seed", at_least=0)
    workers = whole_number(workers, "workers", at_least=1)
    findings: list[Finding] = []
    for situation in situations:
        if begin is not None:
            begin(situation.name)
        by_seed: dict[int, dict[str, float]] = {}
        for seed, numbers in over_seeds(_Meeting(situation), range(first_seed, first_seed + seeds), workers):
            by_seed[seed] = numbers
            if advance is not None:
                advance(1)
        in_order = [by_seed[seed] for seed in sorted(by_seed)]
        columns = {name: np.array([numbers[name] for numbers in in_order]) for name in in_order[0]}
        findings += [finding_of(situation.name, line, columns) for line in situation.quantities]
    titles = {situation.name: situation.title for situation in situations}
    return CalibrationReport(tuple(findings), titles, first_seed, seeds)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A situation as a function of the seed that also says which seed it was: workers finish in any order."""

    situation: Situation

    def __call__(self, seed: int) -> tuple[int, dict[str, float]]:
        return seed, self.situation.meet(seed)


def finding_of(situation: str, line: Quantity, columns: dict[str, Array]) -> Finding:
    """Return the line of the table that numbers per seed give."""
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
    bar = Bar(what=line.what, measured=measured, unit="", at_least=line.at_least, at_most=line.at_most, note=note)
    return Finding(situation, bar, interval, values.size)


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


def calibration_markdown(report: CalibrationReport) -> str:
    """Return one table per situation."""
    parts = []
    for name, title in report.titles.items():
        rows = [
            [
                finding.bar.what,
                finding.bar.measured_words,
                finding.interval_words,
                finding.bar.bar_words,
                verdict(finding.met),
            ]
            for finding in report.findings
            if finding.situation == name
        ]
        parts.append(f"{title} (`{name}`):\n\n" + table(["what", "measured", "95 %", "bar", "met"], rows))
    return "\n\n".join(parts) + "\n"
