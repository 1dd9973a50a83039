"""A service whose clock can be set from outside: what ``posse lab bench soak`` kills, starts and watches.

Run as a program with ``--database``, ``--port`` and ``--offset``, a file with the seconds by which the clock is wrong.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path

import uvicorn

from posse.service.clock import SteadyClock
from posse.service.http.app import create_app
from posse.service.http.server import LimitedProtocol
from posse.service.log_lines import write_log_lines
from posse.service.settings import Settings


def main(database: str, port: int, offset: Path) -> None:
    """Serve until a signal comes."""

    def wall() -> float:
        off = 0.0
        with suppress(OSError, ValueError):
            off = float(offset.read_text(encoding="ascii"))
        return time.time() + off

    write_log_lines(log_format="json")
    # Snapshots often, so that kills meet them.
    settings = Settings(database=database, port=port, snapshot_seconds=5.0)
    app = create_app(settings, SteadyClock(wall))
    uvicorn.run(app, host="127.0.0.1", port=port, log_config=None, access_log=False, http=LimitedProtocol)


if __name__ == "__main__":
    parser = ArgumentParser()
    for name, kind in (("database", str), ("offset", Path), ("port", int)):
        parser.add_argument(f"--{name}", type=kind)
    main(**vars(parser.parse_args()))
