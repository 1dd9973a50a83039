r"""Checks of propensities against what happened.

If the logged probabilities are those that arms were drawn with, the number of decisions in favour of an arm differs
from the sum of its probabilities by chance only: by a martingale whose variance is the sum of :math:`p (1 - p)`,
however the policy learned meanwhile. Freedman's inequality bounds the chance of a difference of at least :math:`t` at
variance :math:`v` by :math:`2 \exp(-z^2 / 2)` with :math:`z^2 = t^2 / (v + t / 3)`, for small numbers as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from posse.logs.checks.measures import EDGES
from posse.logs.checks.view import View
from posse.logs.findings import Finding

LIMIT = 5.0  # standard errors; 7e-6 by chance for a comparison
FEWEST = 100  # rows for a mean of weights


def distance(hits: float, expected: float, variance: float) -> float:
    """Return how many standard errors a count is from what was expected.

    Examples
    --------
    >>> round(distance(hits=130, expected=100, variance=90), 2)
    3.0
    """
    difference = abs(hits - expected)
    return difference / math.sqrt(variance + difference / 3) if difference else 0.0


def check_calibration(view: View) -> Iterator[Finding]:
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
        yield view.finding(
            "propensity-calibration",
            "error",
            f"{worst}: taken {counts['hits']} times, but the probabilities add up to {counts['expected']:.1f} "
            f"({off[worst]:.1f} standard errors apart{others})",
            view.measures.rows["sound"],
            "the logged probabilities are not those that arms were drawn with; find out what drew them",
        )


def check_weights(view: View) -> Iterator[Finding]:
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
        yield view.finding(
            "weights-mean-high",
            "error",
            f"the mean of 1 / propensity is {mean:.3g}, but it cannot be more than the {expected:.3g} eligible arms "
            f"(standard error {error:.2g})",
            view.usable,
            "propensities are too small: log the probability of the arm taken, not of something rarer",
        )
    elif mean < expected / 2 and not view.measures.rows["sound"].all():
        # With all probabilities known, the arms' own sums say more.
        yield view.finding(
            "weights-mean-low",
            "warning",
            f"the mean of 1 / propensity is {mean:.3g}, but {expected:.3g} arms were eligible on average",
            view.usable,
            "propensities are too large, or some arms are hardly ever drawn; log probabilities to tell which",
        )
