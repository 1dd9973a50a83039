"""Count how often each arm was taken over time, and what was earned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from posse.fleet.expecting import CONFIDENCE
from posse.logs.schema import PRICES

if TYPE_CHECKING:
    import polars as pl

    from posse.fleet.names import Label
    from posse.logs import Log
    from posse.types import Array, BoolArray

MOST_BINS = 40
HOUR, DAY = 3600, 86_400
BIN_SECONDS = (60, 300, 900, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY, 28 * DAY, 91 * DAY, 364 * DAY)
FEWEST = 10  # rewards from which on an interval is given
REACH = float(ndtri((1 + CONFIDENCE) / 2))  # standard errors to either side


@dataclass(frozen=True, slots=True, eq=False)
class OverTime:
    """A log in bins of time; NaN where there is too little to tell.

    Parameters
    ----------
    bin_seconds : int
        Seconds of each.
    start : ndarray of shape (n,)
        When each begins, in seconds since the epoch; bins without decisions are left out.
    arms : list
    decisions, rewards : ndarray of shape (n, n_arms)
        How often each arm was taken, and how many of these have a reward.
    mean : ndarray of shape (n, n_arms)
        Mean reward of each arm.
    earned, low, high : ndarray of shape (n,)
        Mean reward of all decisions, with its interval.
    """

    bin_seconds: int
    start: Array
    arms: list[Label]
    decisions: Array
    rewards: Array
    mean: Array
    earned: Array
    low: Array
    high: Array


def over_time(log: Log, arms: list[Label]) -> OverTime:
    """Return how a log went, in at most 40 bins of a round length.

    Where all rows have values and costs, rewards are what they were worth.

    Parameters
    ----------
    log : Log
        Rows without a time are left out.
    arms : list
        In the order of the answer; others are left out.
    """
    import polars as pl

    frame = log.frame.filter(pl.col("time").is_not_null())
    time: Array = frame["time"].dt.epoch("us").to_numpy() / 1e6
    n_arms = len(arms)
    if not time.size:
        none, nothing = np.empty(0), np.empty((0, n_arms))
        return OverTime(BIN_SECONDS[0], none, arms, nothing, nothing, nothing, none, none, none)
    span = time.max() - time.min()
    bin_seconds = next((one for one in BIN_SECONDS if span / one <= MOST_BINS - 1), BIN_SECONDS[-1])
    numbers, place = np.unique(np.floor(time / bin_seconds).astype(np.int64), return_inverse=True)
    n = numbers.size
    position = {arm: k for k, arm in enumerate(arms)}
    arm = np.array([position.get(one, -1) for one in frame["arm"].to_list()], dtype=np.int64)
    reward = _earned(frame)
    known = np.isfinite(reward)
    pair = place * n_arms + arm

    def table(rows: BoolArray, weights: Array | None = None) -> Array:
        found = np.bincount(pair[rows], None if weights is None else weights[rows], minlength=n * n_arms)
        return np.asarray(found, dtype=np.float64).reshape(n, n_arms)

    def column(rows: BoolArray, weights: Array | None = None) -> Array:
        return np.asarray(np.bincount(place[rows], None if weights is None else weights[rows], minlength=n), float)

    named = arm >= 0
    rewards = table(named & known)
    count = column(known)
    earned = _ratio(column(known, reward), count)
    variance = _ratio(column(known, (reward - earned[place]) ** 2), count - 1)
    reach = np.where(count >= FEWEST, REACH * np.sqrt(_ratio(variance, count)), np.nan)
    return OverTime(
        bin_seconds=bin_seconds,
        start=np.asarray(numbers * float(bin_seconds), dtype=np.float64),
        arms=arms,
        decisions=table(named),
        rewards=rewards,
        mean=_ratio(table(named & known, reward), rewards),
        earned=earned,
        low=earned - reach,
        high=earned + reach,
    )


def _earned(frame: pl.DataFrame) -> Array:
    """Return the reward of every row, or what it was worth where all rows have prices; NaN where none came."""
    import polars as pl

    reward: Array = frame["reward"].to_numpy().astype(np.float64)
    if not set(PRICES) <= set(frame.columns) or any(frame[name].null_count() for name in PRICES):
        return reward
    rows = frame.with_row_index("_row").explode("eligible", *PRICES).filter(pl.col("arm") == pl.col("eligible"))
    if rows.height != frame.height:
        return reward
    values, costs = (rows.sort("_row")[name].to_numpy() for name in PRICES)
    return np.asarray(values * reward - costs)


def _ratio(above: Array, below: Array) -> Array:
    """Return a ratio, NaN where there is nothing to divide by."""
    result: Array = np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0)
    return result
