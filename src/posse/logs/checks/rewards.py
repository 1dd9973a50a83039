"""Checks of rewards and times: whether they can be, and whether those that are missing are missing by chance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posse.logs.checks.view import View, share

if TYPE_CHECKING:
    import polars as pl

MANY_MISSING = 0.1  # share of rows
BY_CHANCE = 1e-5  # probability of a difference between arms that chance alone would make
NOTABLE = 0.02  # difference of shares that matters
RECENT = 0.1  # share of rows at the log's end that are compared with those before
FEWEST = 100  # rows for such comparisons
LIMIT = 5.0  # standard errors
MANY_BACK = 0.01  # share of rows that are older than one before them


def check_rewards(view: View) -> None:
    """Find rewards that are missing, no numbers, or all the same."""
    reward = view.frame["reward"]
    missing = reward.is_null()
    if missing.all():
        view.add("no-rewards", "error", "no reward is known", missing, "join the rewards to their decisions")
        return
    view.add("reward-missing", "warning" if missing.sum() > MANY_MISSING * missing.len() else "note",
             f"rewards that are not known ({share(int(missing.sum()), missing.len())})", missing,
             "evaluate log.with_rewards() if they are missing by chance; if no reward means 0, "
             "log.with_rewards(absent_reward=0)")  # fmt: skip
    wrong = (~reward.is_finite()).fill_null(False)
    view.add("reward-not-finite", "error", "rewards that are NaN or infinite", wrong,
             "write null where a reward is not known (in Polars: fill_nan(None))")  # fmt: skip
    other = _of_another_family(reward, view.log.rewards) & ~wrong
    if other.any():
        from posse.families import family_of

        view.add(
            "reward-not-of-family",
            "error",
            f"rewards that are not {family_of(view.log.rewards).words}, though the log says that they are "
            f"({view.log.rewards})",
            other,
            'find out what they mean; if they are numbers, pass rewards="number"',
        )
    known = reward.drop_nulls()
    if known.len() > 1 and known.n_unique() == 1:
        view.add("reward-constant", "warning", f"every reward is {known[0]:g}, so no policy is better than another",
                 reward.is_not_null(), "check how rewards were joined; perhaps only successes were")  # fmt: skip


def _of_another_family(reward: pl.Series, family: str) -> pl.Series:
    """Return where a reward is known and none of its family."""
    import polars as pl

    if family == "number":
        return pl.repeat(False, reward.len(), eager=True)
    from posse.families import family_of  # with Numba, which a log of numbers need not wait for

    taken = family_of(family).takes(reward.cast(pl.Float64).fill_null(0.0).to_numpy())
    return pl.Series(reward.name, ~taken) & reward.is_not_null()


def check_missing_by_arm(view: View) -> None:
    """Find rewards that are missing for some arms more than for others (chi-square test)."""
    import polars as pl
    from scipy.special import chdtrc

    counts = view.frame.group_by("arm").agg(n=pl.len(), missing=pl.col("reward").is_null().sum()).sort("arm")
    overall = int(counts["missing"].sum()) / view.frame.height
    # The test needs some expected rewards of each kind per arm.
    counts = counts.filter(pl.col("n") * min(overall, 1 - overall) >= 5)
    if counts.height < 2:
        return
    pooled = int(counts["missing"].sum()) / int(counts["n"].sum())
    if not 0 < pooled < 1:
        return
    statistic = float(((counts["missing"] - counts["n"] * pooled) ** 2 / (counts["n"] * pooled * (1 - pooled))).sum())
    chance = float(chdtrc(counts.height - 1, statistic))
    counts = counts.with_columns(part=pl.col("missing") / pl.col("n")).sort("part", maintain_order=True)
    least, most = counts.row(0, named=True), counts.row(-1, named=True)
    if chance < BY_CHANCE and most["part"] - least["part"] > NOTABLE:
        view.add("reward-missing-by-arm", "warning",
                 f"rewards are missing for {share(most['missing'], most['n'])} of arm {most['arm']!r}, but for "
                 f"{share(least['missing'], least['n'])} of arm {least['arm']!r}",
                 view.frame["reward"].is_null() & (view.frame["arm"] == most["arm"]),
                 "they are not missing by chance (some arms report later, or never): wait, or say what no reward means "
                 "(absent_reward)")  # fmt: skip


def check_censoring(view: View) -> None:
    """Find recent decisions that still wait for their rewards."""
    import polars as pl

    known = view.frame.select("time", missing=pl.col("reward").is_null()).with_row_index("row").drop_nulls("time")
    if known.height < FEWEST or not known["missing"].any() or known["missing"].all():
        return
    known = known.sort("time", maintain_order=True)
    cut = known.height - int(RECENT * known.height)
    before, recent = known["missing"][:cut], known["missing"][cut:]
    pooled = float(known["missing"].mean())  # type: ignore[arg-type]
    error = math.sqrt(pooled * (1 - pooled) * (1 / before.len() + 1 / recent.len()))
    difference = float(recent.mean()) - float(before.mean())  # type: ignore[arg-type]
    if difference > max(LIMIT * error, NOTABLE):
        mask = pl.Series([False] * view.frame.height).scatter(known["row"][cut:].filter(recent), True)
        view.add("reward-censored", "warning",
                 f"{share(int(recent.sum()), recent.len())} of the last decisions have no reward yet, but "
                 f"{share(int(before.sum()), before.len())} of those before: rewards come late", mask,
                 "leave out decisions that are younger than the longest delay of a reward")  # fmt: skip


def check_delays(view: View) -> None:
    """Find rewards that came before their decisions, or long after."""
    delay = (view.frame["reward_time"] - view.frame["time"]).dt.total_microseconds()
    early = (delay < 0).fill_null(False)
    view.add("reward-before-decision", "error", "rewards that are older than their decisions", early,
             "rewards were joined to the wrong decisions, or clocks differ")  # fmt: skip
    orphan = view.frame["reward_time"].is_not_null() & view.frame["reward"].is_null()
    view.add("reward-time-without-reward", "note", "rows with a reward_time but no reward", orphan,
             "find out whether a reward was lost")  # fmt: skip
    late = delay.filter(delay >= 0)
    span = _span(view.frame["time"])
    if late.len() >= FEWEST and span > 0:
        long = float(np.quantile(late.to_numpy(), 0.99))
        if long > RECENT * span:
            view.add("reward-late", "note",
                     f"one reward in a hundred comes more than {_duration(long)} after its decision, in a log of "
                     f"{_duration(span)}", (delay >= long).fill_null(False),
                     "decisions younger than that are not yet complete")  # fmt: skip


def _span(times: pl.Series) -> float:
    known = times.drop_nulls().dt.epoch("us").to_numpy()
    return float(known.max() - known.min()) if known.size else 0.0


def _duration(microseconds: float) -> str:
    """Return a time span in words.

    Examples
    --------
    >>> _duration(90e6), _duration(3.6e9 * 30)
    ('1.5 minutes', '1.2 days')
    """
    seconds = microseconds / 1e6
    for size, word in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {word}"
    return f"{seconds:.3g} seconds"


def check_times(view: View) -> None:
    """Find times that are missing or out of order."""
    times = view.frame["time"]
    missing = times.is_null()
    view.add("time-missing", "note" if missing.all() else "warning", "no row has a time; rows are taken to be in order"
             if missing.all()
             else f"rows without a time ({share(int(missing.sum()), missing.len())}) are taken to be in order",
             missing, "log the time of the decision, so that recent ones differ from old ones")  # fmt: skip
    # Each known time against the latest before it.
    back = (times < times.cum_max().fill_null(strategy="forward").shift(1)).fill_null(False)
    view.add("time-not-ordered", "warning" if back.sum() > MANY_BACK * back.len() else "note",
             f"rows that are older than a row before them ({share(int(back.sum()), back.len())})", back,
             "sort the log by time before a learning policy is replayed on it")  # fmt: skip
