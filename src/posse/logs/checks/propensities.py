"""Checks of eligible arms, probabilities and propensities, row by row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posse.logs.checks.measures import SUM_TOLERANCE
from posse.logs.checks.view import View
from posse.logs.findings import Finding

TOLERANCE = 1e-6  # between a propensity and the probability it repeats; 32-bit floats differ by less


def check_propensities(view: View) -> Iterator[Finding]:
    """Find rows whose propensity is missing, impossible or not that of the arm taken."""
    rows, recorded = view.measures.rows, view.frame["propensity"]
    missing = view.propensity.is_null()
    if missing.any():
        yield view.finding(
            "propensity-missing",
            "error",
            "rows without a propensity, or probabilities to take it from",
            missing,
            "log the probability of the arm taken; without it only models of the reward can be compared",
        )
    derived = recorded.is_null() & ~missing
    if derived.any():
        yield view.finding(
            "propensity-not-recorded",
            "note",
            "rows with probabilities but no propensity; that of the arm taken is used",
            derived,
            "nothing, or fill propensity with the probability of the arm taken",
        )
    impossible = (~view.usable & ~missing).fill_null(False)
    if impossible.any():
        yield view.finding(
            "propensity-out-of-range",
            "error",
            "propensities that are not above 0 and at most 1",
            impossible,
            "log the probability with which the arm was drawn, before it was drawn",
        )
    gap = (recorded - rows["stated"]).abs().set(~view.usable, None)
    differs = (gap > TOLERANCE + 1e-4 * rows["stated"].abs()).fill_null(False)
    if differs.any():
        most = np.max(gap.drop_nulls().to_numpy())
        yield view.finding(
            "propensity-differs",
            "error",
            f"propensities that are not what probabilities say of the arm taken (by up to {most:.3g})",
            differs,
            "find out which of the two is the probability with which the arm was drawn",
        )


def check_probabilities(view: View) -> Iterator[Finding]:
    """Find probabilities that are none."""
    rows, given = view.measures.rows, view.frame["probabilities"]
    length = given.is_not_null() & ~rows["aligned"]
    if length.any():
        yield view.finding(
            "probabilities-length",
            "error",
            "rows with another number of probabilities than of eligible arms",
            length,
            "log one probability per eligible arm, in the same order",
        )
    within = (rows["least"] >= 0) & (rows["most"] <= 1 + SUM_TOLERANCE) & rows["finite"]
    outside = (~within & (given.list.len() > 0)).fill_null(False)
    if outside.any():
        yield view.finding(
            "probabilities-negative",
            "error",
            "probabilities below 0, above 1 or not finite",
            outside,
            "log probabilities, not scores",
        )
    total = ((rows["total"] - 1).abs() > SUM_TOLERANCE).fill_null(False) & ~outside & ~length
    if total.any():
        worst = rows["total"].filter(total).to_numpy()
        yield view.finding(
            "probabilities-sum",
            "error",
            f"probabilities that do not sum to 1 (but from {worst.min():.4g} to {worst.max():.4g})",
            total,
            "divide by the sum, if that is how arms were drawn; else log what they were drawn with",
        )


def check_eligible(view: View) -> Iterator[Finding]:
    """Find rows whose eligible arms cannot be."""
    rows = view.measures.rows
    empty = rows["n_eligible"] == 0
    if empty.any():
        yield view.finding(
            "eligible-empty",
            "error",
            "rows without an eligible arm",
            empty,
            "log the arms that could be taken; null means all of them",
        )
    twice = rows["n_different"] < rows["n_eligible"]
    if twice.any():
        yield view.finding(
            "eligible-duplicated",
            "error",
            "rows with an eligible arm twice",
            twice,
            "list every arm once, with all of its probability",
        )
    if view.log.arm_features:
        given = view.frame["arm_features"].struct
        lengths = rows["n_eligible"] < 0
        for name in view.log.arm_features:
            lengths |= (given.field(name).list.len() != rows["n_eligible"]).fill_null(value=True)
        if lengths.any():
            yield view.finding(
                "arm-features-length",
                "error",
                "rows with another number of values of an arm feature than of eligible arms",
                lengths,
                "log one value per eligible arm, in the same order, with every decision",
            )
    outside = (rows["n_chosen"] == 0) & ~empty
    if outside.any():
        yield view.finding(
            "arm-not-eligible",
            "error",
            "rows that took an arm that was not eligible",
            outside,
            "log the eligible arms as they were when the decision was made",
        )
