"""Options that several commands of the laboratory share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from posse.errors import InvalidValue
from posse.types import Array

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


def numbers(text: str, name: str) -> list[float]:
    """Return the numbers of a comma-separated list."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidValue(f"expected {name} to be numbers separated by commas, got {text!r}") from None


def number_or_numbers(text: str, name: str) -> float | list[float]:
    """Return one number, or a list if there are commas."""
    values = numbers(text, name)
    return values if "," in text else values[0]


def covariance_option(text: str) -> Array:
    """Return a covariance: a text file with the matrix, or its diagonal as numbers separated by commas."""
    path = Path(text)
    if not path.is_file():
        if not any(character.isdigit() for character in text) or path.suffix in (".csv", ".txt"):
            raise InvalidValue(
                f"no covariance file {text!r}; pass a text file with the matrix or the diagonal 1,0.3,0.1"
            )
        return np.diag(numbers(text, "--covariance"))
    try:
        rows = np.loadtxt(path, delimiter="," if "," in path.read_text() else None, ndmin=2)
        width = rows.shape[1]
        # Matrices below each other are one per arm.
        return rows.reshape(-1, width, width) if rows.shape[0] > width and rows.shape[0] % width == 0 else rows
    except (ValueError, UnicodeDecodeError) as error:
        raise InvalidValue(f"cannot read {text} as rows of numbers: {error}") from None
