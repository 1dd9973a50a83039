"""What exploring cost, by the expectations of the policy that decided."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posse.logs.checks.view import View
from posse.logs.findings import Finding


def check_cost(view: View) -> Iterator[Finding]:
    """Say what the log's exploration cost per decision, where it has probabilities and expected rewards.

    The cost of a decision is the best expected reward less what the probabilities made of all of them. It is set
    against what playing at random would have lost, which is how an evaluation budget is counted.
    """
    import polars as pl

    frame, rows = view.frame, view.measures.rows
    given, expected = frame["probabilities"], frame["expected_rewards"]
    known = rows["sound"] & (rows["n_eligible"] > 1) & (expected.list.len() == rows["n_eligible"])
    known &= expected.list.eval(pl.element().is_finite()).list.all()
    known = known.fill_null(False)
    if not known.any():
        return
    sizes = rows["n_eligible"].filter(known).to_numpy()
    starts = np.cumsum(sizes) - sizes
    p, mean = (values.filter(known).explode().to_numpy() for values in (given, expected))
    gap = np.repeat(np.maximum.reduceat(mean, starts), sizes) - mean
    cost = np.add.reduceat(p * gap, starts).mean()
    at_random = (np.add.reduceat(gap, starts) / sizes).mean()
    if at_random > 0:
        yield view.finding(
            "exploration-cost",
            "note",
            f"by what the policy expected, exploring cost {cost:.3g} per decision, {cost / at_random:.2%} of the "
            f"{at_random:.3g} that playing at random would have cost",
            known,
            "a smaller evaluation_budget or floor costs less, a larger one makes a log that answers more",
        )
