"""What the timing benchmarks feed to policies and fleets: rows of any number, drawn without keeping a world."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import whole_number
from posse.features import FeatureSpec
from posse.fleet import Posse
from posse.policies import EbmTS, EbmUCB
from posse.types import Array, IntArray

if TYPE_CHECKING:
    import polars as pl

NEVER = 1e12  # as refresh_growth: rewards do not grow by this much, so the prior is not estimated again

FIRST_PIECE, PIECE = 1_000, 1_000_000  # rows of the tables that fleets are taught from


class Size(NamedTuple):
    """How large a problem is."""

    n_tasks: int
    n_arms: int
    n_features: int

    @property
    def words(self) -> str:
        """The size as tables show it."""
        return f"N={self.n_tasks:,} K={self.n_arms} d={self.n_features}"


class Rows(NamedTuple):
    """Rewards to learn."""

    tasks: IntArray  # (n,)
    arms: IntArray  # (n,)
    contexts: Array  # (n, d)
    rewards: Array  # (n,)


def draw_rows(size: Size, first: int, last: int, *, seed: int = 0) -> Rows:
    """Return rows ``first`` to ``last`` of an endless table, in random order.

    Tasks take turns, and so do the arms of a task: any ``n_tasks * n_arms`` rows in a row have one of every pair.
    Coefficients vary between tasks with standard deviation 0.3 around means that do so too; they are computed where
    they are needed, so that a million tasks take no memory.
    """
    whole_number(last - first, "the number of rows", at_least=0)
    n_tasks, n_arms, n_features = size
    rng = np.random.default_rng([seed, first])
    numbers = rng.permutation(np.arange(first, last))
    tasks = numbers % n_tasks
    arms = (tasks + numbers // n_tasks) % n_arms
    contexts = rng.standard_normal((last - first, n_features))
    rewards = rng.standard_normal(last - first)
    population = np.random.default_rng(seed)
    mean = 0.3 * population.standard_normal((n_arms, n_features))
    phase, pace = population.uniform(0.0, 2 * np.pi, (2, n_arms, n_features))
    for i in range(n_features):
        # A sine at the task's number is as good as a draw, and the same whenever the task comes again.
        own = 0.3 * np.sqrt(2.0) * np.sin(phase[arms, i] + (1.0 + pace[arms, i]) * tasks)
        rewards += contexts[:, i] * (mean[arms, i] + own)
    return Rows(tasks, arms, contexts, rewards)


def arm_names(n_arms: int) -> list[str]:
    """Return the arms of a fleet."""
    return [f"arm-{arm}" for arm in range(n_arms)]


def feature_names(n_features: int) -> list[str]:
    """Return the features of a fleet."""
    return [f"x{i}" for i in range(n_features)]


def table_of(rows: Rows, n_arms: int) -> pl.DataFrame:
    """Return rows as the table that a fleet learns from."""
    import polars as pl

    columns: dict[str, Any] = {
        "task": rows.tasks,
        "arm": pl.Series(arm_names(n_arms))[rows.arms],
    }
    columns |= dict(zip(feature_names(rows.contexts.shape[1]), rows.contexts.T, strict=True))
    return pl.DataFrame(columns | {"reward": rows.rewards})


def new_fleet(size: Size, **settings: Any) -> Posse:
    """Return a fleet that has seen nothing."""
    features = FeatureSpec(feature_names(size.n_features), intercept=False)
    return Posse(arms=arm_names(size.n_arms), features=features, seed=1, **settings)


def tables(size: Size, n_rows: int, *, seed: int = 0) -> Iterator[pl.DataFrame]:
    """Yield the first rows of the endless table in pieces, a small one first.

    A fleet estimates its prior from the first piece, whatever ``refresh_growth`` says, and with `NEVER` not again.
    """
    cuts = [0, *range(min(FIRST_PIECE, n_rows), n_rows, PIECE), n_rows]
    for first, last in pairwise(cuts):
        yield table_of(draw_rows(size, first, last, seed=seed), size.n_arms)


def taught_fleet(size: Size, **settings: Any) -> Posse:
    """Return a fleet that has four rewards of every pair; its prior is from the first of them."""
    fleet = new_fleet(size, refresh_growth=NEVER, **settings)
    for table in tables(size, 4 * size.n_tasks * size.n_arms):
        fleet.learn_many(table)
    return fleet


def taught_policy(size: Size, *, sampling: bool = True) -> EbmTS | EbmUCB:
    """Return a policy with the evidence prior that has seen every pair, and does not estimate its prior again."""
    policy = (EbmTS if sampling else EbmUCB)(**size._asdict(), prior="evidence", refresh_growth=NEVER)
    for task, arm, x, reward in each(draw_rows(size, 0, size.n_tasks * size.n_arms)):
        policy.update(task, arm, x, reward)
    return policy


def each(rows: Rows) -> list[tuple[int, int, Array, float]]:
    """Return rows one by one, as plain numbers and contexts."""
    return list(zip(rows.tasks.tolist(), rows.arms.tolist(), list(rows.contexts), rows.rewards.tolist(), strict=True))


class Around:
    """Give the next n of some things each time, beginning again at the end."""

    def __init__(self, things: list[Any]) -> None:
        self._things = cycle(things)

    def take(self, n: int) -> Iterator[Any]:
        """Return the next n."""
        return islice(self._things, n)
