"""Options that several commands of the laboratory share."""

from __future__ import annotations

import os
from typing import Annotated

import typer

EngineOption = Annotated[
    str,
    typer.Option("--engine", help="Where seeds run: `processes` of this machine, or `ray`, a cluster (posse[ray])."),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="Of the Ray cluster. Default: RAY_ADDRESS, or one on this machine."),
]


def available_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
