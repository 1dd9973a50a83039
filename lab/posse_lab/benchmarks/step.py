"""How long decisions, rewards and refreshes take, against tasks, arms and features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from posse.types import Settings
from posse_lab.benchmarks import calls
from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.calls import Row
from posse_lab.benchmarks.workload import Size

BASE = Size(1_000, 5, 10)


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
        return 2 * len(self.sizes) + 2


QUICK = Plan(
    base=Size(20, 5, 10),
    tasks=(20, 60),
    arms=(2, 5),
    features=(3, 10),
    amortised=(20, 400),
    batch=(40, 5_000),
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
    """

    base: Size
    rows: list[Row]

    def row(self, what: str) -> Row:
        """Return a measurement at the base size, or at the only size it was made."""
        found = [row for row in self.rows if row.what == what]
        return next((row for row in found if row.size == self.base), found[0])

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
        return [
            Bar(what=words, measured=self.row(what).best * 1e6, unit="µs", at_most=bar) for what, words, bar in promised
        ]

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "base": self.base._asdict(),
            "rows": [row.to_dict() for row in self.rows],
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
    return StepReport(plan.base, rows)
