"""How many steps a second every policy makes in the simulator, on one core."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from posse.environments.synthetic import SyntheticWorld
from posse.policies import EbmUCB
from posse.policies.base import Policy
from posse.policies.registry import POLICIES
from posse.simulation.factories import Factory
from posse.simulation.run import run_seed
from posse.types import Settings
from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.direct import DirectEbmUCB
from posse_lab.benchmarks.settings import EVIDENCE_TS, EVIDENCE_UCB, POOLED, ROBUST_UCB
from posse_lab.benchmarks.workload import Size

DIRECT = "ebmUCB, direct"
LAZY = "ebmUCB, refresh at +10 %"

FEW, GROWTH = 50, 4  # steps of the first trial of a policy, and how many times more the next one has


@dataclass(frozen=True, slots=True)
class Course:
    """A world to run through.

    Parameters
    ----------
    size : Size
    horizon : int
    bar : float, optional
        Microseconds that a step under the evidence prior may take.
    """

    size: Size
    horizon: int
    bar: float | None = None


COURSES = (
    Course(Size(10, 5, 3), 2_000, 4.0),
    Course(Size(30, 26, 16), 4_000, 120.0),
    Course(Size(1_000, 5, 10), 20_000),
)
QUICK = (Course(Size(10, 5, 3), 60, 4.0), Course(Size(5, 3, 2), 60))
"""Enough to see that everything runs."""


def all_policies() -> dict[str, Factory]:
    """Return every policy of the registry, the evidence prior, and a direct implementation beside them."""
    return {
        EVIDENCE_UCB: partial(POLICIES["ebm-ucb"], prior="evidence"),
        EVIDENCE_TS: partial(POLICIES["ebm-ts"], prior="evidence"),
        ROBUST_UCB: partial(POLICIES["ebm-ucb"], prior="evidence", robust=True),
        LAZY: partial(EbmUCB, refresh_growth=0.1),
        **{_label(factory): factory for factory in POLICIES.values()},
        DIRECT: DirectEbmUCB,
    }


def _label(factory: Factory) -> str:
    # The one that is no class of its own.
    return factory.label if isinstance(factory, type) and issubclass(factory, Policy) else POOLED


@dataclass(frozen=True, slots=True)
class Row:
    """A policy on a course.

    Parameters
    ----------
    size : Size
    policy : str
    steps : int
        Fewer than the course has if a policy is slow; steps of one that refreshes often are cheaper early on.
    best, median : float
        Seconds of processor time per step, drawing the world and its regret included.
    """

    size: Size
    policy: str
    steps: int
    best: float
    median: float

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self) | {"size": self.size._asdict()}


@dataclass(frozen=True, slots=True)
class SimulateReport:
    """Everything that was measured.

    Parameters
    ----------
    courses : sequence of Course
    rows : list of Row
    """

    courses: Sequence[Course]
    rows: list[Row]

    def row(self, size: Size, policy: str) -> Row:
        """Return one measurement."""
        return next(row for row in self.rows if (row.size, row.policy) == (size, policy))

    @property
    def bars(self) -> list[Bar]:
        """The promises about the evidence prior."""
        return [
            Bar(
                what=f"a step of {policy}, {course.size.words}",
                measured=self.row(course.size, policy).best * 1e6,
                unit="µs",
                at_most=course.bar,
            )
            for course in self.courses
            if course.bar is not None
            for policy in (EVIDENCE_UCB, EVIDENCE_TS)
        ]

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "courses": [asdict(course) | {"size": course.size._asdict()} for course in self.courses],
            "rows": [row.to_dict() for row in self.rows],
            "bars": [bar.to_dict() for bar in self.bars],
        }


def measure_simulate(
    courses: Sequence[Course] = COURSES,
    *,
    budget: float = 2.0,
    rounds: int = 7,
    begin: Callable[[str], None] = lambda _name: None,
) -> SimulateReport:
    """Time every policy on every course; ``begin`` is told the name of each run before it starts.

    Parameters
    ----------
    courses : sequence of Course
    budget : float
        Seconds for all rounds of a policy on a course; a slow one gets fewer rounds, then fewer steps.
    rounds : int
        At most.
    begin : callable
    """
    rows = []
    for course in courses:
        for name, factory in all_policies().items():
            begin(f"{name}, {course.size.words}")
            rows.append(_time(course, name, factory, budget, rounds))
    return SimulateReport(courses, rows)


def _time(course: Course, name: str, factory: Factory, budget: float, rounds: int) -> Row:
    world = SyntheticWorld(**course.size._asdict())
    once = np.array([1])

    def seconds(steps: int) -> float:
        started = time.process_time()
        run_seed(world, {name: factory}, steps, once, 0, False, 0)
        return time.process_time() - started

    steps = min(course.horizon, FEW)
    seconds(steps)  # compiles
    took, before = seconds(steps), None
    while steps < course.horizon:
        each = took / steps
        # Steps become dearer as tasks and arms get their first rewards; as much again is expected of the next ones.
        growth = each / before if before else 1.0
        more = min(course.horizon, GROWTH * steps)
        if each * max(growth, 1.0) * more > budget:
            break
        steps, before, took = more, each, seconds(more)
    rounds_took = [took]
    while len(rounds_took) < rounds and sum(rounds_took) + took < budget:
        rounds_took.append(seconds(steps))
    return Row(course.size, name, steps, min(rounds_took) / steps, statistics.median(rounds_took) / steps)
