"""The process that makes an insight, from a folder with a copy of a fleet and rows of its log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from posse.service.worker_process import do

FLEET, LOG, WORK, ANSWER, REPORT = "fleet", "log.jsonl", "work.json", "answer.json", "report.html"
"""Names of the files."""


def make(work: dict[str, Any]) -> None:
    """Read the fleet, the log and the counts of a folder, and write the answer and the report there.

    Parameters
    ----------
    work : dict
        Its ``folder``.
    """
    from posse.fleet.replica import Replica
    from posse.logs import read_log
    from posse.report import make_report
    from posse.service.report_json import report_as_json

    place = Path(work["folder"])
    about = json.loads((place / WORK).read_text("utf-8"))
    fleet, log = Replica.load(place / FLEET), read_log(place / LOG)
    report = make_report(fleet, log, title=f"What the bandits of {about['fleet']} have learned")
    answer = report_as_json(fleet, log, report, {task: tuple(both) for task, both in about["counts"].items()})
    (place / REPORT).write_text(report.html(), "utf-8")
    (place / ANSWER).write_text(json.dumps({"state": "ready", **answer}), "utf-8")


if __name__ == "__main__":
    from posse.shared_cache import share_cache

    share_cache()
    do(make)
