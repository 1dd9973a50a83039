"""How long decisions, rewards and refreshes take, against tasks, arms and features."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posse.fleet import Posse
from posse.policies import EbmTS
from posse_lab.benchmarks.machine import Timing, seconds_per_call
from posse_lab.benchmarks.report import Bar, Begin, Report, Table, quantity
from posse_lab.benchmarks.workload import (
    Around,
    Size,
    draw_rows,
    each,
    feature_names,
    new_fleet,
    table_of,
    taught_fleet,
    taught_policy,
)

CHOOSE_TS, CHOOSE_UCB, UPDATE, AMORTISED = "choose, ebmTS", "choose, ebmUCB", "update", "update with refreshes"
DECIDE, DECIDE_NAMED, REWARD, REFRESH = "Posse.decide", "Posse.decide, names", "Posse.reward", "Posse.refresh"
DECIDE_FIRST = "Posse.decide, first"
DECIDE_MANY, DECIDE_TABLE, LEARN_MANY = "decide_many, array", "decide_many, table", "learn_many, table"
HEADINGS = {
    CHOOSE_TS: "choose\nTS", CHOOSE_UCB: "choose\nUCB", UPDATE: "update", DECIDE: "Posse.\ndecide",
    DECIDE_NAMED: "by\nname", DECIDE_FIRST: "first\nafter", REWARD: "Posse.\nreward", REFRESH: "refresh\nms",
}  # fmt: skip
BARS = {CHOOSE_TS: 3.0, CHOOSE_UCB: 3.0, UPDATE: 2.0, AMORTISED: 25.0, DECIDE: 20.0, DECIDE_NAMED: 20.0}  # µs

BASE = Size(1_000, 5, 10)
N_CALLS = 4096  # different tasks and contexts that calls go around
N_REWARDS = 500  # decisions that are rewarded in a round


class Row(NamedTuple):
    """One measurement: seconds per call, or per row of a batch."""

    what: str
    size: Size
    timing: Timing


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
    base=Size(20, 5, 10), tasks=(20, 60), arms=(2, 5), features=(3, 10), amortised=(20, 400), batch=(40, 5_000),
    rounds=2, at_least=1e-3,
)  # fmt: skip
"""Enough to see that everything runs; the numbers mean little."""


def measure_step(plan: Plan, begin: Begin = lambda _name: None) -> Report:
    """Measure everything; ``begin`` is called with the name of each stage before it starts."""
    few = min(plan.rounds, 3)
    rows: list[Row] = []
    for size in plan.sizes:
        begin(f"policies, {size.words}")
        rows += policy_calls(size, plan)
        begin(f"fleet, {size.words}")
        rows += fleet_calls(size, plan)
    n_tasks, n_rewards = plan.amortised
    begin(f"{n_rewards:,} updates with refreshes")
    rows.append(amortised_update(plan.base._replace(n_tasks=n_tasks), n_rewards, few))
    n_tasks, n_rows = plan.batch
    begin(f"{n_rows:,} rows at once")
    rows += batches(plan.base._replace(n_tasks=n_tasks), n_rows, few)
    return report_of(rows, plan.base)


def report_of(rows: Sequence[Row], base: Size) -> Report:
    """Return the tables of some measurements, with the bars at the base size."""
    found = {(row.what, row.size): row.timing for row in rows}
    single = []
    for size in dict.fromkeys(row.size for row in rows if row.what == DECIDE):
        timings = [(found[what, size], 1e3 if what == REFRESH else 1e6) for what in HEADINGS]
        cells = [f"{quantity(one.best * unit)}\n{quantity(one.median * unit)}" for one, unit in timings]
        single.append([size.words, *cells])
    many = [
        [f"{row.what}, {row.size.words}", quantity(1 / row.timing.best), quantity(row.timing.best * 1e6)]
        for row in rows
        if row.what in (AMORTISED, LEARN_MANY, DECIDE_MANY, DECIDE_TABLE)
    ]
    at_base = {row.what: row.timing for row in rows if row.what not in HEADINGS or row.size == base}
    return Report(
        name="step",
        tables=[
            Table("µs per call: the best of the rounds, below it their median", ["", *HEADINGS.values()], single),
            Table("Many at once", ["", "rows a second", "µs a row"], many),
        ],
        bars=[Bar(what=what, measured=at_base[what].best * 1e6, unit="µs", at_most=bar) for what, bar in BARS.items()],
        data={
            "base": base._asdict(),
            "rows": [{"what": row.what, **row.size._asdict(), **row.timing._asdict()} for row in rows],
        },
        notes=["first after: of a task's first decision since a refresh"],
    )


def policy_calls(size: Size, plan: Plan) -> Iterator[Row]:
    """Time ``choose`` of both policies, and ``update`` without a refresh: the rank-one part alone."""
    around = Around(each(draw_rows(size, 0, N_CALLS, seed=1)))
    rng = np.random.default_rng(2)
    for what, sampling in ((CHOOSE_UCB, False), (CHOOSE_TS, True)):
        policy = taught_policy(size, sampling=sampling)

        def choose(n: int, choose: Callable[..., Any] = policy.choose) -> None:
            for task, _, x, _ in around.take(n):
                choose(task, x, 1000, rng)

        yield Row(what, size, seconds_per_call(choose, rounds=plan.rounds, at_least=plan.at_least))

    def update(n: int) -> None:
        learn = policy.update
        for task, arm, x, reward in around.take(n):
            learn(task, arm, x, reward)

    yield Row(UPDATE, size, seconds_per_call(update, rounds=plan.rounds, at_least=plan.at_least))


def amortised_update(size: Size, n_rewards: int, rounds: int) -> Row:
    """Time ``update`` from the first reward on, with the refreshes that fall due when rewards grow by a tenth."""
    rows = each(draw_rows(size, 0, n_rewards, seed=1))

    def learn_all(policy: EbmTS, some: Sequence[tuple[Any, ...]] = rows) -> None:
        for task, arm, x, reward in some:
            policy.update(task, arm, x, reward)

    def fresh() -> EbmTS:
        return EbmTS(**size._asdict(), prior="evidence", refresh_growth=0.1)

    learn_all(fresh(), rows[:200])  # refreshes are compiled first
    return _timed(AMORTISED, size, fresh, learn_all, n_rewards, rounds)


def fleet_calls(size: Size, plan: Plan) -> Iterator[Row]:
    """Time ``refresh`` of all arms, ``decide`` (later and first since a refresh) and ``reward``."""
    taught_fleet(size._replace(n_tasks=min(size.n_tasks, 20))).refresh()  # compiles
    # A large fleet is taught once: that takes longer than the refresh.
    fleets = [taught_fleet(size) for _ in range(1 if size.n_tasks > 10_000 else min(plan.rounds, 3))]
    yield _timed(REFRESH, size, iter(fleets).__next__, Posse.refresh, 1, len(fleets))
    fleet = fleets.pop()
    fleets.clear()
    rng = np.random.default_rng(3)
    contexts = list(rng.standard_normal((N_CALLS, size.n_features)))
    tasks = rng.integers(size.n_tasks, size=N_CALLS).tolist()
    names = feature_names(size.n_features)
    by_name = [dict(zip(names, context.tolist(), strict=True)) for context in contexts]
    for what, some in ((DECIDE, contexts), (DECIDE_NAMED, by_name)):
        around = Around(list(zip(tasks, some, strict=True)))

        def decide(n: int, around: Around = around) -> None:
            choose = fleet.decide
            for task, context in around.take(n):
                choose(task, context)

        yield Row(what, size, seconds_per_call(decide, rounds=plan.rounds, at_least=plan.at_least))
    first = list(zip(np.random.default_rng(4).permutation(size.n_tasks).tolist(), contexts, strict=False))
    few = min(plan.rounds, 3)
    yield _timed(DECIDE_FIRST, size, fleet.refresh, lambda _: [fleet.decide(*one) for one in first], len(first), few)
    around = Around(list(zip(tasks, contexts, strict=True)))

    def decide_all() -> list[str]:
        return [fleet.decide(*one).id for one in around.take(N_REWARDS)]

    def reward_all(ids: list[str]) -> None:
        for decision in ids:
            fleet.reward(decision, 0.5)

    reward_all(decide_all())
    yield _timed(REWARD, size, decide_all, reward_all, N_REWARDS, plan.rounds)


def batches(size: Size, n_rows: int, rounds: int) -> Iterator[Row]:
    """Time many rows at once: decisions from an array and from a table, and learning, the population estimated."""
    table = table_of(draw_rows(size, 0, n_rows), size.n_arms)
    new_fleet(size).learn_many(table[:1000])  # compiles
    yield _timed(LEARN_MANY, size, lambda: new_fleet(size), lambda fleet: fleet.learn_many(table), n_rows, rounds)
    fleet = taught_fleet(size)
    tasks, frame = table["task"], table.drop("arm", "reward")
    contexts = np.ascontiguousarray(frame.drop("task").to_numpy())
    fleet.decide_many(tasks[:10], contexts[:10])
    yield _timed(DECIDE_MANY, size, lambda: None, lambda _: fleet.decide_many(tasks, contexts), n_rows, rounds)
    yield _timed(DECIDE_TABLE, size, lambda: None, lambda _: fleet.decide_many("task", frame), n_rows, rounds)


def _timed(
    what: str, size: Size, prepare: Callable[[], Any], work: Callable[[Any], object], calls: int, rounds: int
) -> Row:
    """Time work on what is prepared anew for every round, outside the clock."""
    took = []
    for _ in range(rounds):
        ready = prepare()
        started = time.perf_counter()
        work(ready)
        took.append((time.perf_counter() - started) / calls)
    return Row(what, size, Timing(min(took), statistics.median(took), calls))
