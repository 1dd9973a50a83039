"""The process that reads a long log: it exports it, or finds out what a policy is worth by it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from posse.service.export import json_lines, rows_of, write_parquet
from posse.service.worker_process import do
from posse.storage import open_storage

LOG_PROCESS = "posse.service.log_process"
JSON_LINES, PARQUET, VALUE = "jsonl", "parquet", "value"
"""What it can do."""


def read(work: dict[str, Any]) -> None:
    """Read a log and write what is made of it.

    Parameters
    ----------
    work : dict
        What is to be made (``job``), of which ``fleet`` in which ``database``. JSON Lines go to standard output and a
        Parquet file to its ``path``, with what ``rewards`` are. A value is JSON, of so many ``rows`` and a
        ``baseline``.
    """
    storage = open_storage(work["database"], migrate=False)
    fleet = work["fleet"]
    if work["job"] == JSON_LINES:
        for piece in json_lines(rows_of(storage, fleet), work["rewards"]):
            sys.stdout.buffer.write(piece)
    elif work["job"] == PARQUET:
        write_parquet(rows_of(storage, fleet), Path(work["path"]), work["rewards"])
    else:
        from posse.service.value import value_in_log

        print(json.dumps(value_in_log(storage, fleet, work["baseline"], work["rows"])))
    storage.close()


if __name__ == "__main__":
    do(read)
