"""The process that makes an insight, from a folder with a copy of a fleet and rows of its log.

``python -m posse.service.insight_process FOLDER``; it ends with whoever started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from posse.errors import PosseError
from posse.service.helping import end_with_parent

FLEET, LOG, WORK, ANSWER, REPORT = "fleet", "log.jsonl", "work.json", "answer.json", "report.html"
"""Names of the files."""

REFUSED = 3  # its status if nothing can be said, for the reason that it writes to standard error
NICE = 10  # requests come first


def make(folder: str) -> None:
    """Read the fleet, the log and the counts of a folder, and write the answer and the report there.

    Parameters
    ----------
    folder : str
    """
    from posse.fleet.replica import Replica
    from posse.logs import read_log
    from posse.report import make_report
    from posse.service.telling import told

    place = Path(folder)
    work = json.loads((place / WORK).read_text("utf-8"))
    fleet, log = Replica.load(place / FLEET), read_log(place / LOG)
    report = make_report(fleet, log, title=f"What the bandits of {work['fleet']} have learned")
    answer = told(fleet, log, report, {task: tuple(both) for task, both in work["counts"].items()})
    (place / REPORT).write_text(report.html(), "utf-8")
    (place / ANSWER).write_text(json.dumps({"state": "ready", **answer}), "utf-8")


def main() -> int:
    """Make what the folder on the command line asks for; return the status."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.nice(NICE)
    try:
        make(sys.argv[1])
    except PosseError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    from posse.shared_cache import share_cache

    share_cache()
    # Not through the end of the interpreter: a thread still waits for the parent.
    status = main()
    sys.stderr.flush()
    os._exit(status)
