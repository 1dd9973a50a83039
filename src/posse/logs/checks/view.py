"""What a check looks at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from posse.logs.checks.measures import Measures, measure
from posse.logs.findings import Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from posse.logs.log import Log


class View:
    """A log, what was measured about it, and the way to report.

    Parameters
    ----------
    log : Log
        The log.
    features : sequence of str, optional
        The features that matter. Default: all of the log.
    """

    def __init__(self, log: Log, features: Sequence[str] | None = None) -> None:
        self.log = log
        self.frame = log.frame
        self.features = list(log.features if features is None else dict.fromkeys(features))

    @cached_property
    def measures(self) -> Measures:
        """Numbers that take a pass over all eligible arms."""
        return measure(self.log)

    @cached_property
    def propensity(self) -> pl.Series:
        """The propensity of every row; where it was not recorded, what the probabilities say."""
        return self.frame["propensity"].fill_null(self.measures.rows["stated"])

    @cached_property
    def usable(self) -> pl.Series:
        """Whether the propensity of a row can be divided by."""
        return (self.propensity.is_finite() & (self.propensity > 0) & (self.propensity <= 1)).fill_null(False)

    def finding(self, code: str, severity: Severity, message: str, mask: pl.Series, what_to_do: str) -> Finding:
        """Return a finding about the rows of a mask."""
        where = mask.fill_null(False)
        row = where.arg_max() if where.any() else None
        return Finding(code, severity, message, int(where.sum()), self.place(row), what_to_do)

    def place(self, row: int | None) -> str | None:
        """Return where a row is, in words."""
        if row is None:
            return None
        decision = self.frame["decision_id"][row]
        return f"row {row}" if decision is None else f"row {row}, decision {decision!r}"


def share(part: int, whole: int) -> str:
    """Return a share in percent, never rounded to none or all.

    Examples
    --------
    >>> share(1, 100_000), share(1, 3), share(99_999, 100_000)
    ('<0.1%', '33.3%', '>99.9%')
    """
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.1:
        return "<0.1%"
    return ">99.9%" if 99.9 < percent < 100 else f"{percent:.1f}%"
