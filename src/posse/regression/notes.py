"""What a regression could not learn, in the words of someone who has groups, features and a target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posse.model import PriorEstimate, PriorReport
from posse.model.findings import Names, Seen, data_findings, one_task, unusual_findings
from posse.regression.sums import Standardised
from posse.types import BoolArray

WORDS = Names(arm=None, task="group", reward="row", always="y is always", fitted="y is")
ONE_GROUP = one_task(WORDS)


def looks_unusual(report: PriorReport) -> list[str]:
    """Return what is worth a note but no warning: the model is made for few rows per group."""
    # That a search did not come to rest is part of the warning, with its number of iterations.
    return [] if report.unusual is None else unusual_findings(report.unusual._replace(settled=True), WORDS)


def unlearned(data: Standardised, estimate: PriorEstimate, fixed: BoolArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return in words what the estimate could not learn from these statistics, and what looks unusual.

    ``fixed`` marks coefficients that are the same in all groups, the intercept's place first if there is one.
    """
    stats, report, p = data.stats, estimate.report, data.stats.n_features
    words = WORDS._replace(feature=lambda column: names[column - int(data.intercept)])
    products = np.empty((p + 1, p + 1))
    products[:p, :p] = stats.gram[0].sum(axis=0)
    products[:p, p] = products[p, :p] = stats.moment[0].sum(axis=0)
    products[p, p] = stats.sum_of_squares.sum()
    seen = Seen(
        tasks=(stats.count > 0).sum(axis=1),
        rewards=stats.count.sum(axis=1),
        n_tasks=int((stats.count > 0).sum()),
        products=products,
        intercept=0 if data.intercept else None,
    )
    notes = data_findings(seen, words)
    notes += looks_unusual(report)
    if report.method == "reml":
        if report.covariance_at_start[0]:
            notes.append(
                f"restricted likelihood needs more than {p} rows, features that are not collinear and a y that they do "
                "not fit exactly: start values stand"
            )
        else:
            covariance = estimate.prior.covariance[0][np.ix_(~fixed, ~fixed)]
            rank = int(np.linalg.matrix_rank(covariance, tol=1e-12 * np.trace(covariance), hermitian=True))
            if rank < len(covariance):
                notes.append(f"the covariance is at the boundary: its rank is {rank} of {len(covariance)}")
    return tuple(notes)
