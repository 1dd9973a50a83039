"""Checks of times: their order is the order in which a learning policy is replayed."""

from __future__ import annotations

from collections.abc import Iterator

from posse.logs.checks.view import View, share
from posse.logs.findings import Finding

NOTABLE = 0.01  # share of rows


def check_times(view: View) -> Iterator[Finding]:
    """Find times that are missing or out of order."""
    times = view.frame["time"]
    missing = times.is_null()
    if missing.any():
        yield view.finding(
            "time-missing",
            "note" if missing.all() else "warning",
            "no row has a time; rows are taken to be in order"
            if missing.all()
            else f"rows without a time ({share(int(missing.sum()), missing.len())}) are taken to be in order",
            missing,
            "log the time of the decision, so that recent ones can be told from old ones",
        )
    # Each known time against the latest before it.
    back = (times < times.cum_max().fill_null(strategy="forward").shift(1)).fill_null(False)
    if back.any():
        often = back.sum() > NOTABLE * back.len()
        yield view.finding(
            "time-not-ordered",
            "warning" if often else "note",
            f"rows that are older than a row before them ({share(int(back.sum()), back.len())})",
            back,
            "sort the log by time before a learning policy is replayed on it",
        )
