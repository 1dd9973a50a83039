"""Read folders and policies from options."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from posse.errors import InvalidValue, ResultFileError
from posse.policies.registry import check_settings, policy_factory
from posse.simulation.factories import Factory


def make_folder(path: Path) -> None:
    """Make a folder for results, or say why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultFileError(f"cannot make the folder {path}: {error.strerror or error}; choose another") from None


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
