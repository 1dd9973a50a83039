r"""Checks of what other policies the log can speak about, and of propensities against what happened.

If the logged probabilities are those that arms were drawn with, the number of decisions in favour of an arm differs
from the sum of its probabilities by chance only: by a martingale whose variance is the sum of :math:`p (1 - p)`,
however the policy learned meanwhile. Freedman's inequality bounds the chance of a difference of at least :math:`t` at
variance :math:`v` by :math:`2 \exp(-z^2 / 2)` with :math:`z^2 = t^2 / (v + t / 3)`, for small numbers as well.
"""

from __future__ import annotations

import math

from posse.logs.checks.view import EDGES, View, share

HEAVY = 0.1  # share of all weight that one row should not have
NOTABLE = 0.01  # share of rows
LIMIT = 5.0  # standard errors; 7e-6 by chance for a comparison
FEWEST = 100  # rows for a mean of weights


def check_overlap(view: View) -> None:
    """Find arms and rows of which the log cannot say what else would have happened."""
    import polars as pl

    rows, arms = view.measures.rows, view.measures.arms
    choice = rows["n_eligible"] > 1
    if not choice.any():
        view.add("no-choice", "error",
                 "no decision had more than one eligible arm, so no policy could have done otherwise", ~choice,
                 "log the arms that could have been taken")  # fmt: skip
        return
    certain = (view.propensity == 1).fill_null(False) & choice
    if (certain | ~choice).all():
        view.add(
            "deterministic-logging",
            "error",
            "every decision was made with probability 1, so nothing is known about what was not taken",
            certain,
            "explore: let every eligible arm keep some probability, as Posse's evaluation_budget does",
        )
        return
    closed = ((rows["n_zero"] > 0) & rows["aligned"]).fill_null(False) | certain
    view.add(
        "zero-probabilities",
        "warning" if closed.sum() > NOTABLE * closed.len() else "note",
        f"rows in which an eligible arm could not be taken ({share(int(closed.sum()), closed.len())})",
        closed,
        "policies that take it there cannot be evaluated; let every eligible arm keep some probability, as Posse's "
        "evaluation_budget does",
    )
    never = (pl.col("stated") == pl.col("eligible")) & (pl.col("positive") == 0) & (pl.col("eligible") > 0)
    rare = (pl.col("eligible") < 2) & ~never
    leave_out, or_wait = "leave these arms out", ", or wait for more decisions"
    for which, code, what, what_to_do in (
        (never, "arm-no-overlap", "arms with probability 0 wherever they are eligible",
         f"{leave_out}, or log decisions that explore them"),
        (rare, "arm-rarely-eligible", "arms that are eligible in less than two rows", leave_out + or_wait),
        ((pl.col("taken") == 0) & ~never & ~rare, "arm-never-taken", "arms that were never taken",
         f"nothing is known about these arms; {leave_out}{or_wait}"),
    ):  # fmt: skip
        labels = arms.filter(which)["label"]
        names = ", ".join(map(repr, labels[:5].to_list())) + (", ..." if labels.len() > 5 else "")
        concerned = view.log.eligible.list.set_intersection(labels.implode()).list.len() > 0
        concerned |= view.frame["arm"].is_in(labels.implode())
        view.add(code, "warning", f"{what}: {names}", concerned, what_to_do)


def check_weight(view: View) -> None:
    """Find single rows that would decide an evaluation."""
    weight = (1 / view.propensity).set(~view.usable, None)
    used = weight.drop_nulls().to_numpy()
    if used.size >= 2 / HEAVY and (most := float(used.max())) > HEAVY * used.sum():
        view.add(
            "tiny-propensities",
            "warning",
            f"one row (propensity {1 / most:.2g}) has {most / used.sum():.0%} of the weight of all {used.size}",
            (weight == most).fill_null(False),
            "use estimators that limit weights (SNIPS, SWITCH-DR), or let rare arms keep more probability",
        )


def distance(hits: float, expected: float, variance: float) -> float:
    """Return how many standard errors a count is from what was expected.

    Examples
    --------
    >>> round(distance(hits=130, expected=100, variance=90), 2)
    3.0
    """
    difference = abs(hits - expected)
    return difference / math.sqrt(variance + difference / 3) if difference else 0.0


def check_calibration(view: View) -> None:
    """Find probabilities that are not those that arms were drawn with."""
    arms, levels = view.measures.arms, view.measures.levels
    names = {f"arm {row['label']!r}": row for row in arms.iter_rows(named=True)}
    starts, ends = (0.0, *EDGES), (*EDGES, 1.0)
    for row in levels.iter_rows(named=True):
        names[f"arms with probabilities from {starts[row['level']]:g} to {ends[row['level']]:g}"] = row
    off = {
        name: z for name, row in names.items() if (z := distance(row["hits"], row["expected"], row["variance"])) > LIMIT
    }
    if off:
        worst = max(off, key=off.__getitem__)
        counts = names[worst]
        others = f"; {len(off) - 1} more like it" if len(off) > 1 else ""
        view.add(
            "propensity-calibration",
            "error",
            f"{worst}: taken {counts['hits']} times, but the probabilities add up to {counts['expected']:.1f} "
            f"({off[worst]:.1f} standard errors apart{others})",
            view.measures.rows["sound"],
            "the logged probabilities are not those that arms were drawn with; find out what drew them",
        )


def check_weights(view: View) -> None:
    """Find propensities whose inverses do not have the mean they should have: the number of eligible arms."""
    import polars as pl

    used = pl.DataFrame({"p": view.propensity, "n": view.measures.rows["n_eligible"]}).filter(view.usable)
    if used.height < FEWEST:
        return
    excess = (1 / used["p"] - used["n"]).to_numpy()
    expected = float(used["n"].to_numpy().mean())
    mean = float(excess.mean()) + expected
    error = float(excess.std(ddof=1)) / math.sqrt(used.height)
    if excess.mean() > max(LIMIT * error, 1e-9):
        view.add(
            "weights-mean-high",
            "error",
            f"the mean of 1 / propensity is {mean:.3g}, but it cannot be more than the {expected:.3g} eligible arms "
            f"(standard error {error:.2g})",
            view.usable,
            "propensities are too small: log the probability of the arm taken, not of something rarer",
        )
    elif mean < expected / 2 and not view.measures.rows["sound"].all():
        # With all probabilities known, the arms' own sums say more.
        view.add(
            "weights-mean-low",
            "warning",
            f"the mean of 1 / propensity is {mean:.3g}, but {expected:.3g} arms were eligible on average",
            view.usable,
            "propensities are too large, or some arms are hardly ever drawn; log probabilities to tell which",
        )
