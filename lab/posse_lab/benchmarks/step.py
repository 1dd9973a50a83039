"""How long decisions, lessons and refreshes take, against tasks, arms and features, and how far from the floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from posse.types import Settings
from posse_lab.benchmarks import calls
from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.calls import Row
from posse_lab.benchmarks.floor import MAIN_MEMORY, Floor, bytes_of_task, measure_floor
from posse_lab.benchmarks.peak import Rate, read_bandwidth
from posse_lab.benchmarks.workload import Size

BASE = Size(1_000, 5, 10)
FLOOR_BARS = {10: 4.0, 32: 3.0}  # features, and how often the compiled step may take its floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to measure.

    Parameters
    ----------
    base : Size
        Around which one of the following is varied at a time.
    tasks, arms, features : tuple of int
    amortised : tuple of (tasks, rewards)
        Of the stream that is learned from nothing with refreshes.
    batch : tuple of (tasks, rows)
        Of the tables for many at once.
    floors : tuple of (tasks, features)
        Where the compiled step is compared with its floor.
    main_memory : int
        Bytes to read when main memory is timed.
    rounds : int
    at_least : float
        Seconds of a round: short, so that some rounds are left alone by whoever else uses the machine.
    """

    base: Size = BASE
    tasks: tuple[int, ...] = (100, 1_000, 100_000)
    arms: tuple[int, ...] = (2, 5, 26)
    features: tuple[int, ...] = (3, 10, 32)
    amortised: tuple[int, int] = (1_000, 100_000)
    batch: tuple[int, int] = (10_000, 1_000_000)
    floors: tuple[tuple[int, int], ...] = ((10, 10), (10, 32), (1_000, 10), (1_000, 32))
    main_memory: int = MAIN_MEMORY
    rounds: int = 25
    at_least: float = 0.01

    @property
    def sizes(self) -> list[Size]:
        """Every size at which single calls are timed, each once."""
        sizes = [self.base]
        sizes += [self.base._replace(n_tasks=n) for n in self.tasks]
        sizes += [self.base._replace(n_arms=n) for n in self.arms]
        sizes += [self.base._replace(n_features=n) for n in self.features]
        return list(dict.fromkeys(sizes))

    @property
    def n_stages(self) -> int:
        """How many stages `measure_step` goes through."""
        return 2 * len(self.sizes) + len(self.floors) + 3


QUICK = Plan(
    base=Size(20, 5, 10),
    tasks=(20, 60),
    arms=(2, 5),
    features=(3, 10),
    amortised=(20, 400),
    batch=(40, 5_000),
    floors=((10, 10), (10, 32)),
    main_memory=2**22,
    rounds=2,
    at_least=1e-3,
)
"""Enough to see that everything runs; the numbers mean little."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """Everything that was measured.

    Parameters
    ----------
    base : Size
        Where everything was measured that is measured once.
    rows : list of Row
    floors : list of Floor
    memory : Rate
        Bytes per second from main memory.
    """

    base: Size
    rows: list[Row]
    floors: list[Floor]
    memory: Rate

    def row(self, what: str) -> Row:
        """Return a measurement at the base size, or at the only size it was made."""
        found = [row for row in self.rows if row.what == what]
        return next((row for row in found if row.size == self.base), found[0])

    @property
    def memory_floor(self) -> float:
        """Seconds to fetch what belongs to one task from main memory, at the base size."""
        return bytes_of_task(self.base) / self.memory.best

    @property
    def bars(self) -> list[Bar]:
        """The promises about single steps."""
        promised = [
            (calls.CHOOSE_TS, "policy: choose, ebmTS", 3.0),
            (calls.CHOOSE_UCB, "policy: choose, ebmUCB", 3.0),
            (calls.UPDATE, "policy: update, rank-one part", 2.0),
            (calls.AMORTISED, "policy: update with refreshes", 25.0),
            (calls.DECIDE, "Posse.decide", 20.0),
            (calls.DECIDE_NAMED, "Posse.decide, context by name", 20.0),
        ]
        bars = [
            Bar(what=words, measured=self.row(what).best * 1e6, unit="µs", at_most=bar) for what, words, bar in promised
        ]
        bars += [
            Bar(
                what=f"step over its floor, d={floor.size.n_features}, {floor.size.n_tasks:,} tasks",
                measured=floor.ratio,
                unit="times",
                at_most=FLOOR_BARS[floor.size.n_features],
            )
            for floor in self.floors
            if floor.size.n_features in FLOOR_BARS
        ]
        return bars

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "base": self.base._asdict(),
            "rows": [row.to_dict() for row in self.rows],
            "floors": [floor.to_dict() for floor in self.floors],
            "memory_bytes_per_second": self.memory.to_dict(),
            "bytes_of_task": bytes_of_task(self.base),
            "memory_floor_seconds": self.memory_floor,
            "bars": [bar.to_dict() for bar in self.bars],
        }


def measure_step(plan: Plan, begin: Callable[[str], None] = lambda _name: None) -> StepReport:
    """Measure everything; ``begin`` is told the name of each stage before it starts."""
    rounds, at_least = plan.rounds, plan.at_least
    few = min(rounds, 3)
    rows: list[Row] = []
    for size in plan.sizes:
        begin(f"policies, {size.words}")
        rows += calls.policy_calls(size, rounds=rounds, at_least=at_least)
        begin(f"fleet, {size.words}")
        rows += calls.fleet_calls(size, rounds=rounds, at_least=at_least)
    n_tasks, n_rewards = plan.amortised
    begin(f"{n_rewards:,} updates with refreshes")
    rows.append(calls.amortised_update(plan.base._replace(n_tasks=n_tasks), n_rewards, rounds=few))
    n_tasks, n_rows = plan.batch
    begin(f"{n_rows:,} rows at once")
    rows += calls.batches(plan.base._replace(n_tasks=n_tasks), n_rows, rounds=few)
    floors = []
    for n_tasks, n_features in plan.floors:
        size = plan.base._replace(n_tasks=n_tasks, n_features=n_features)
        begin(f"step and floor, {size.words}")
        floors.append(measure_floor(size, rounds=rounds, at_least=at_least))
    begin("main memory")
    return StepReport(plan.base, rows, floors, read_bandwidth(plan.main_memory, rounds=rounds, at_least=at_least))
