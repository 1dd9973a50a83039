"""The values of a report, before they become a page."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posse.errors import ResultFileError

if TYPE_CHECKING:
    import os

    import polars as pl

    from posse.fleet import Overview
    from posse.fleet.names import Label
    from posse.logs import Names
    from posse.logs.findings import Finding
    from posse.report.best import Best, Unusual
    from posse.report.gains import Gains
    from posse.report.stopping import Stopping
    from posse.types import Array, IntArray


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Report:
    """Everything that the page says, as values.

    Parameters
    ----------
    title : str
    made : datetime
    names : Names
        The words for task, arm and reward.
    unit : str
        Of rewards, behind their numbers; may be empty.
    overview : Overview
    best : Best
    stopping : Stopping
    gains : Gains or None
        None without a log.
    unusual : list of Unusual
    findings : list of str
        Of the fleet.
    log_findings : list of Finding
        Of the log's check.
    retired : tuple
        Arms that are no longer chosen.
    listed : ndarray of int
        Positions of the tasks that the page lists, in its order.
    own_share : ndarray
        Weight of own data of these tasks: 0 if all is borrowed and 1 if nothing is, averaged over arms.
    varies : bool
        Whether rewards differ at all; otherwise no arm is better than another.
    from_log : bool
        Whether there was no fleet and one was learned from the log.
    values, costs : dict or None
        What rewards of the arms are worth, and what arms cost: all earnings are then money. None: they are rewards.
    table : polars.DataFrame
        What :meth:`posse.fleet.Posse.expected_many` says, of all tasks; of more than 10,000, of those examined. In
        money, where the other numbers are.
    """

    title: str
    made: datetime.datetime
    names: Names
    unit: str
    overview: Overview
    best: Best
    stopping: Stopping
    gains: Gains | None
    unusual: list[Unusual]
    findings: list[str]
    log_findings: list[Finding]
    retired: tuple[Label, ...]
    listed: IntArray
    own_share: Array
    varies: bool
    from_log: bool
    table: pl.DataFrame
    values: dict[Label, float] | None = None
    costs: dict[Label, float] | None = None

    @property
    def earned(self) -> str:
        """What is earned: "money", or what rewards are."""
        return self.overview.rewards if self.costs is None else "money"

    def __repr__(self) -> str:
        log = "without a log" if self.gains is None else f"a log of {self.gains.rows_in_log:,} decisions"
        return f"<Report {self.title!r}: {len(self.best.tasks):,} tasks, {len(self.best.arms)} arms, {log}>"

    def __str__(self) -> str:
        """Return the sentence that the page opens with."""
        from posse.report.lead import lead_of

        return lead_of(self).headline

    def html(self) -> str:
        """Return the page: one HTML document that needs nothing else."""
        from posse.report.page import render

        return render(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : path

        Raises
        ------
        ResultFileError
            If the file cannot be written.
        """
        _write(path, self.html())

    def save_table(self, path: str | os.PathLike[str]) -> None:
        """Write task, arm, mean, low, high and the probability of being best of all tasks as CSV.

        Parameters
        ----------
        path : path

        Raises
        ------
        ResultFileError
            If the file cannot be written.
        """
        _write(path, self.table.drop("row").write_csv())


def _write(path: str | os.PathLike[str], text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultFileError(f"cannot write {path}: {error.strerror or error}; choose another place") from None
