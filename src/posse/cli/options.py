"""Turning what was typed into worlds and policies."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from posse.errors import InvalidValue, ResultFileError
from posse.policies.registry import check_settings, policy_factory
from posse.simulation.factories import Factory
from posse.types import Array

EngineOption = Annotated[
    str,
    typer.Option("--engine", help="Where seeds run: `processes` of this machine, or `ray`, a cluster (needs Ray)."),
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


def make_folder(path: Path) -> None:
    """Make a folder for results, or say why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultFileError(f"cannot make the folder {path}: {error.strerror or error}; choose another") from None


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


def policy_options(choices: Sequence[str]) -> dict[str, Factory]:
    """Return named factories of policies written as ``key`` or ``key:setting=value,setting=value``."""
    factories: dict[str, Factory] = {}
    for choice in choices:
        key, _, rest = choice.partition(":")
        factory = policy_factory(key.strip())
        settings: dict[str, Any] = {}
        for part in filter(None, (piece.strip() for piece in rest.split(","))):
            name, equals, value = part.partition("=")
            if not equals:
                raise InvalidValue(
                    f"write a policy as key:setting=value,setting=value; in {choice!r}, {part!r} has no ="
                )
            settings[name.strip().replace("-", "_")] = _value(value.strip())
        check_settings(factory, settings, key)
        label = getattr(factory.func if isinstance(factory, partial) else factory, "label", key)
        shown = ", ".join(f"{name}={value}" for name, value in settings.items())
        base = f"{label} pooled" if key.endswith("-pooled") else label
        full = f"{base} ({shown})" if shown else base
        if full in factories:
            raise InvalidValue(f"the policy {choice!r} is asked for twice")
        factories[full] = partial(factory, **settings) if settings else factory
    return factories


def _value(text: str) -> Any:
    """Return a number or truth value if the text is one, else the text."""
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float) else text
