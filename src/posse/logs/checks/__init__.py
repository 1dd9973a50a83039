"""Find what would make an evaluation from a log wrong or weak."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posse.logs.checks.contexts import check_columns, check_contexts, check_sources, check_tasks
from posse.logs.checks.decisions import check_cost, check_eligible, check_ids, check_probabilities, check_propensities
from posse.logs.checks.family import check_family
from posse.logs.checks.overlap import check_calibration, check_overlap, check_weight, check_weights
from posse.logs.checks.rewards import check_censoring, check_delays, check_missing_by_arm, check_rewards, check_times
from posse.logs.checks.view import View
from posse.logs.findings import SEVERITIES, Finding
from posse.logs.log import Log

CHECKS: tuple[Callable[[View], None], ...] = (
    check_ids,
    check_eligible,
    check_probabilities,
    check_propensities,
    check_calibration,
    check_weights,
    check_overlap,
    check_weight,
    check_cost,
    check_rewards,
    check_family,
    check_missing_by_arm,
    check_censoring,
    check_delays,
    check_times,
    check_contexts,
    check_tasks,
    check_sources,
    check_columns,
)


def check_log(log: Log, *, features: Sequence[str] | None = None) -> list[Finding]:
    """Return what an evaluation from this log should know, the worst first.

    Parameters
    ----------
    log : Log
        The log.
    features : sequence of str, optional
        The features that the evaluation will use; others are not checked. Default: all of the log.

    Returns
    -------
    list of Finding
        Empty if there is nothing to say.

    Examples
    --------
    >>> propensity = [0.5, 0.0, 0.5]
    >>> log = Log({"task": [1, 1, 2], "arm": ["x", "y", "x"], "reward": [1.0, 0.0, None], "propensity": propensity})
    >>> for finding in check_log(log):
    ...     print(finding.severity, finding.code, finding.rows)
    error propensity-out-of-range 1
    warning reward-missing 1
    note decision-id-missing 3
    ...
    """
    if not log.n_rows:
        return [Finding("empty", "error", "the log has no rows", 0, None, "log decisions first")]
    view = View(log, features)
    for check in CHECKS:
        check(view)
    return sorted(view.findings, key=lambda finding: SEVERITIES.index(finding.severity))
