"""Notes on what a regression could not learn, in the words of someone who has groups, features and a target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posse.model import PriorEstimate, PriorReport
from posse.model.evidence import seen_in
from posse.model.findings import EXACT, Names, data_findings, one_task, unusual_findings
from posse.model.statistics import Statistics
from posse.regression.sums import Standardised
from posse.types import BoolArray

WORDS = Names(arm=None, task="group", reward="row", always="y is always", fitted="y is")
ONE_GROUP = one_task(WORDS)
NO_NOISE = (
    "there is hardly any noise: coefficients of their own fit the rows of all groups exactly, so that how large it is "
    "cannot be learned"
)

# The share of what rows say that goes into coefficients, from which on noise deserves a warning. In simulated data its
# variance was right within a factor of two at shares up to 0.73, and 10 times or more too large in most with a share
# above 0.85; in between it is one or the other.
CONFUSED = 0.85
AT_ONCE = 64  # groups that are looked at before the next ones are


def unusual_notes(report: PriorReport) -> list[str]:
    """Return what looks unusual, in words."""
    # That a search did not come to rest is part of the warning, with its number of iterations.
    return [] if report.unusual is None else unusual_findings(report.unusual._replace(converged=True), WORDS)


def notes_without_warning(report: PriorReport) -> list[str]:
    """Return what is worth a note but no warning: the model is made for few rows per group."""
    if report.unusual is None:
        return []
    share = report.unusual.coefficient_share
    noted = report.unusual._replace(converged=True, quiet=(), coefficient_share=0.0 if share > CONFUSED else share)
    return unusual_findings(noted, WORDS)


def fitted_exactly(stats: Statistics) -> bool:
    """Whether groups with more rows than coefficients are all fitted exactly, each by a regression of its own."""
    groups = np.flatnonzero(stats.count[0] > stats.n_features)
    total = float(stats.sum_of_squares[0][groups].sum())
    for start in range(0, groups.size, AT_ONCE):
        some = groups[start : start + AT_ONCE]
        moment = stats.moment[0][some]
        inverse = np.linalg.pinv(stats.gram[0][some], rcond=1e-10, hermitian=True)
        left = stats.sum_of_squares[0][some] - np.einsum("ja,jab,jb->j", moment, inverse, moment)
        if left.sum() > EXACT * total:
            return False
    return groups.size > 0 and total > 0


def unlearned(data: Standardised, estimate: PriorEstimate, fixed: BoolArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return in words what the estimate could not learn from these statistics, and what looks unusual.

    ``fixed`` marks coefficients that are the same in all groups, the intercept's place first if there is one.
    """
    stats, report, p = data.stats, estimate.report, data.stats.n_features
    words = WORDS._replace(feature=lambda column: names[column - int(data.intercept)])
    seen = seen_in(stats, intercept=0 if data.intercept else None)
    notes = data_findings(seen, words)
    if seen.n_tasks > 1 and not any("fitted exactly" in note for note in notes) and fitted_exactly(stats):
        notes.append(NO_NOISE)
    notes += unusual_notes(report)
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
