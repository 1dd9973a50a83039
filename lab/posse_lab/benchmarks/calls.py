"""Timing the calls that users make: of policies, and of fleets."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.fleet import Posse
from posse.policies import EbmTS
from posse.types import Settings
from posse_lab.benchmarks.machine import Timing, seconds_per_call
from posse_lab.benchmarks.workload import (
    Around,
    Size,
    draw_rows,
    each,
    feature_names,
    new_fleet,
    table_of,
    task_name,
    taught_fleet,
    taught_policy,
)

CHOOSE_TS, CHOOSE_UCB, UPDATE, AMORTISED = "choose, ebmTS", "choose, ebmUCB", "update", "update with refreshes"
DECIDE, DECIDE_NAMED, REWARD, REFRESH = "Posse.decide", "Posse.decide, names", "Posse.reward", "Posse.refresh"
DECIDE_FIRST = "Posse.decide, first"
DECIDE_MANY, DECIDE_TABLE, LEARN_MANY = "decide_many, array", "decide_many, table", "learn_many, table"

N_CALLS = 4096  # different tasks and contexts that calls go around
N_REWARDS = 500  # decisions that are rewarded in a round


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    Parameters
    ----------
    what : str
    size : Size
    best, median : float
        Seconds per call, or per row of a batch: over the rounds.
    calls : int
        Calls, or rows, of a round.
    """

    what: str
    size: Size
    best: float
    median: float
    calls: int

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {"what": self.what, **self.size._asdict(), "best": self.best, "median": self.median, "calls": self.calls}


def policy_calls(size: Size, *, rounds: int, at_least: float) -> Iterator[Row]:
    """Time ``choose`` of both policies, and ``update`` without a refresh: the rank-one part alone."""
    around = Around(each(draw_rows(size, 0, N_CALLS, seed=1)))
    rng = np.random.default_rng(2)
    for what, sampling in ((CHOOSE_UCB, False), (CHOOSE_TS, True)):
        policy = taught_policy(size, sampling=sampling)

        def choose(n: int, choose: Callable[..., Any] = policy.choose) -> None:
            for task, _, x, _ in around.take(n):
                choose(task, x, 1000, rng)

        yield _row(what, size, seconds_per_call(choose, rounds=rounds, at_least=at_least))

    def update(n: int) -> None:
        learn = policy.update
        for task, arm, x, reward in around.take(n):
            learn(task, arm, x, reward)

    yield _row(UPDATE, size, seconds_per_call(update, rounds=rounds, at_least=at_least))


def amortised_update(size: Size, n_rewards: int, *, rounds: int) -> Row:
    """Time ``update`` from the first reward on, with the refreshes that fall due when rewards grow by a tenth."""
    rows = each(draw_rows(size, 0, n_rewards, seed=1))

    def fresh() -> Callable[..., Any]:
        return EbmTS(**size._asdict(), prior="evidence", refresh_growth=0.1).update

    def learn_all(learn: Callable[..., Any]) -> None:
        for task, arm, x, reward in rows:
            learn(task, arm, x, reward)

    # Refreshes are compiled first.
    small = fresh()
    for task, arm, x, reward in rows[:200]:
        small(task, arm, x, reward)
    return _timed(AMORTISED, size, fresh, learn_all, n_rewards, rounds)


def fleet_calls(size: Size, *, rounds: int, at_least: float) -> Iterator[Row]:
    """Time ``refresh`` of all arms, ``decide`` (later and first since a refresh) and ``reward``."""
    taught_fleet(size._replace(n_tasks=min(size.n_tasks, 20))).refresh()  # compiles
    # A large fleet is taught once: that takes longer than the refresh.
    fleets = [taught_fleet(size) for _ in range(1 if size.n_tasks > 10_000 else min(rounds, 3))]
    yield _timed(REFRESH, size, iter(fleets).__next__, Posse.refresh, 1, len(fleets))
    fleet = fleets.pop()
    fleets.clear()
    rng = np.random.default_rng(3)
    contexts = rng.standard_normal((N_CALLS, size.n_features))
    tasks = [task_name(task) for task in rng.integers(size.n_tasks, size=N_CALLS).tolist()]
    names = feature_names(size.n_features)
    by_name = [dict(zip(names, context, strict=True)) for context in contexts.tolist()]
    for what, some in ((DECIDE, list(contexts)), (DECIDE_NAMED, by_name)):
        around = Around(list(zip(tasks, some, strict=True)))

        def decide(n: int, around: Around = around) -> None:
            choose = fleet.decide
            for task, context in around.take(n):
                choose(task, context)

        yield _row(what, size, seconds_per_call(decide, rounds=rounds, at_least=at_least))
    yield _first(fleet, size, list(contexts), min(rounds, 3))
    yield _reward(fleet, size, tasks, list(contexts), rounds)


def _first(fleet: Posse, size: Size, contexts: Sequence[Any], rounds: int) -> Row:
    """Time a task's first decision since a refresh: it brings what is believed about the task up to date."""
    n = min(size.n_tasks, len(contexts))
    some = [task_name(task) for task in np.random.default_rng(4).permutation(size.n_tasks)[:n].tolist()]

    def decide_all(_: None) -> None:
        decide = fleet.decide
        for task, context in zip(some, contexts, strict=False):
            decide(task, context)

    return _timed(DECIDE_FIRST, size, fleet.refresh, decide_all, n, rounds)


def _reward(fleet: Posse, size: Size, tasks: Sequence[int], contexts: Sequence[Any], rounds: int) -> Row:
    around = Around(list(zip(tasks, contexts, strict=True)))

    def decide_all() -> list[str]:
        return [fleet.decide(task, context).id for task, context in around.take(N_REWARDS)]

    def reward_all(ids: list[str]) -> None:
        reward = fleet.reward
        for decision in ids:
            reward(decision, 0.5)

    reward_all(decide_all())
    return _timed(REWARD, size, decide_all, reward_all, N_REWARDS, rounds)


def batches(size: Size, n_rows: int, *, rounds: int) -> Iterator[Row]:
    """Time many rows at once: decisions from an array and from a table, and learning, the population estimated."""
    table = table_of(draw_rows(size, 0, n_rows), size.n_arms)
    new_fleet(size).learn_many(table[:1000])  # compiles
    yield _timed(LEARN_MANY, size, lambda: new_fleet(size), lambda fleet: fleet.learn_many(table), n_rows, rounds)
    fleet = taught_fleet(size)
    tasks = table["task"]
    frame = table.drop("arm", "reward")
    contexts = np.ascontiguousarray(frame.drop("task").to_numpy())
    fleet.decide_many(tasks[:10], contexts[:10])
    both: tuple[tuple[str, Callable[[None], object]], ...] = (
        (DECIDE_MANY, lambda _: fleet.decide_many(tasks, contexts)),
        (DECIDE_TABLE, lambda _: fleet.decide_many("task", frame)),
    )
    for what, decide in both:
        yield _timed(what, size, lambda: None, decide, n_rows, rounds)


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
    return Row(what, size, min(took), statistics.median(took), calls)


def _row(what: str, size: Size, timing: Timing) -> Row:
    return Row(what, size, timing.best, timing.median, timing.calls)
