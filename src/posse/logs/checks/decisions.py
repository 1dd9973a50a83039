"""Checks of single rows: ids, eligible arms, probabilities and propensities; and what exploring cost."""

from __future__ import annotations

import numpy as np

from posse.logs.checks.view import SUM_TOLERANCE, View
from posse.logs.schema import PRICES

TOLERANCE = 1e-6  # between a propensity and the probability it repeats; 32-bit floats differ by less


def check_ids(view: View) -> None:
    """Find decisions that occur twice, and rows without an id."""
    import polars as pl

    ids = view.frame["decision_id"]
    missing = ids.is_null()
    view.add("decision-id-missing", "note", "rows without a decision_id: decisions that occur twice cannot be found",
             missing, "record an id with every decision")  # fmt: skip
    repeated = ids.is_duplicated() & ids.is_not_null()
    if not repeated.any():
        return
    rewards = (
        view.frame.select("decision_id", "reward")
        .filter(repeated)
        .group_by("decision_id")
        .agg(different=pl.col("reward").drop_nulls().n_unique() > 1)
    )
    conflicting = ids.is_in(rewards.filter("different")["decision_id"].implode()) & repeated
    view.add("conflicting-rewards", "error", "rows of the same decision_id with different rewards", conflicting,
             "find out which reward is right and keep one row per decision")  # fmt: skip
    plain = repeated & ~conflicting
    view.add("duplicate-decision-id", "error", "rows with the same decision_id, whose rewards count several times",
             plain, "keep one row per decision")  # fmt: skip


def check_propensities(view: View) -> None:
    """Find rows whose propensity is missing, impossible or not that of the arm taken."""
    rows, recorded = view.measures.rows, view.frame["propensity"]
    missing = view.propensity.is_null()
    view.add("propensity-missing", "error", "rows without a propensity, or probabilities to take it from", missing,
             "log the probability of the arm taken; without it only models of the reward can be compared")  # fmt: skip
    derived = recorded.is_null() & ~missing
    view.add("propensity-not-recorded", "note",
             "rows with probabilities but no propensity; that of the arm taken is used", derived,
             "nothing, or fill propensity with the probability of the arm taken")  # fmt: skip
    impossible = (~view.usable & ~missing).fill_null(False)
    view.add("propensity-out-of-range", "error", "propensities that are not above 0 and at most 1", impossible,
             "log the probability with which the arm was drawn, before it was drawn")  # fmt: skip
    gap = (recorded - rows["stated"]).abs().set(~view.usable, None)
    differs = (gap > TOLERANCE + 1e-4 * rows["stated"].abs()).fill_null(False)
    if differs.any():
        most = np.max(gap.drop_nulls().to_numpy())
        view.add("propensity-differs", "error",
                 f"propensities that are not what probabilities say of the arm taken (by up to {most:.3g})", differs,
                 "find out which of the two is the probability with which the arm was drawn")  # fmt: skip


def check_probabilities(view: View) -> None:
    """Find probabilities that are none."""
    rows, given = view.measures.rows, view.frame["probabilities"]
    length = given.is_not_null() & ~rows["aligned"]
    view.add("probabilities-length", "error", "rows with another number of probabilities than of eligible arms",
             length, "log one probability per eligible arm, in the same order")  # fmt: skip
    within = (rows["least"] >= 0) & (rows["most"] <= 1 + SUM_TOLERANCE) & rows["finite"]
    outside = (~within & (given.list.len() > 0)).fill_null(False)
    view.add("probabilities-negative", "error", "probabilities below 0, above 1 or not finite", outside,
             "log probabilities, not scores")  # fmt: skip
    total = ((rows["total"] - 1).abs() > SUM_TOLERANCE).fill_null(False) & ~outside & ~length
    if total.any():
        worst = rows["total"].filter(total).to_numpy()
        view.add("probabilities-sum", "error",
                 f"probabilities that do not sum to 1 (but from {worst.min():.4g} to {worst.max():.4g})", total,
                 "divide by the sum, if that is how arms were drawn; else log what they were drawn with")  # fmt: skip


def check_eligible(view: View) -> None:
    """Find rows whose eligible arms cannot be."""
    rows = view.measures.rows
    empty = rows["n_eligible"] == 0
    view.add("eligible-empty", "error", "rows without an eligible arm", empty,
             "log the arms that could be taken; null means all of them")  # fmt: skip
    twice = rows["n_different"] < rows["n_eligible"]
    view.add("eligible-duplicated", "error", "rows with an eligible arm twice", twice,
             "list every arm once, with all of its probability")  # fmt: skip
    if view.log.arm_features:
        given = view.frame["arm_features"].struct
        lengths = rows["n_eligible"] < 0
        for name in view.log.arm_features:
            lengths |= (given.field(name).list.len() != rows["n_eligible"]).fill_null(value=True)
        view.add("arm-features-length", "error",
                 "rows with another number of values of an arm feature than of eligible arms", lengths,
                 "log one value per eligible arm, in the same order, with every decision")  # fmt: skip
    outside = (rows["n_chosen"] == 0) & ~empty
    view.add("arm-not-eligible", "error", "rows that took an arm that was not eligible", outside,
             "log the eligible arms as they were when the decision was made")  # fmt: skip


def check_cost(view: View) -> None:
    """Say what the log's exploration cost per decision, where it has probabilities and expected rewards.

    The cost of a decision is the best expected reward less what the probabilities made of all of them. It is set
    against what playing at random would have lost, which is how an evaluation budget is counted.
    """
    import polars as pl

    frame, rows = view.frame, view.measures.rows
    given, expected = frame["probabilities"], frame["expected_rewards"]
    prices = [frame[name] for name in PRICES if name in frame.columns]
    known = rows["sound"] & (rows["n_eligible"] > 1) & (expected.list.len() == rows["n_eligible"])
    known &= expected.list.eval(pl.element().is_finite()).list.all()
    for values in prices:
        known &= values.list.len() == rows["n_eligible"]
    known = known.fill_null(False)
    if not known.any():
        return
    sizes = rows["n_eligible"].filter(known).to_numpy()
    starts = np.cumsum(sizes) - sizes
    p, mean = (values.filter(known).explode().to_numpy() for values in (given, expected))
    for values in prices:
        price = values.filter(known).explode().to_numpy()
        mean = price * mean if values.name == "values" else mean - price
    gap = np.repeat(np.maximum.reduceat(mean, starts), sizes) - mean
    cost = np.add.reduceat(p * gap, starts).mean()
    at_random = (np.add.reduceat(gap, starts) / sizes).mean()
    if at_random > 0:
        view.add(
            "exploration-cost",
            "note",
            f"by what the policy expected, exploring cost {cost:.3g} per decision, {cost / at_random:.2%} of the "
            f"{at_random:.3g} that playing at random would have cost",
            known,
            "a smaller evaluation_budget or floor costs less, a larger one makes a log that answers more",
        )
