"""Folders, policies and rules of one's own, as options name them."""

from __future__ import annotations

import ast
import re
import runpy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue, MissingFile, ResultFileError
from posse.policies.base import Policy
from posse.policies.registry import check_settings, policy_factory

if TYPE_CHECKING:
    from posse.offline import Rule


def make_folder(path: Path) -> None:
    """Make a folder for results, or say why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultFileError(f"cannot make the folder {path}: {error.strerror or error}; choose another") from None


def policy_option(choice: str) -> partial[Policy]:
    """Return the factory of a policy written as ``key`` or ``key:setting=value,setting=value``."""
    key, _, rest = choice.partition(":")
    factory = policy_factory(key.strip())
    settings: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in rest.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidValue(f"write a policy as key:setting=value,setting=value; in {choice!r}, {part!r} has no =")
        settings[name.strip().replace("-", "_")] = _value(value.strip())
    check_settings(factory, settings, key)
    return partial(factory, **settings)


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


RULE = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)")


def is_rule(text: str) -> bool:
    """Whether a text names a function in a file."""
    return RULE.fullmatch(text) is not None


def load_rule(text: str) -> Rule:
    """Return the rule that ``FILE.py:NAME`` names; the file is run."""
    from posse.offline import Rule

    found = RULE.fullmatch(text)
    if found is None:
        raise InvalidValue(f"expected a rule as FILE.py:NAME, got {text!r}; NAME is a function(task, context)")
    path = Path(found["file"])
    if not path.is_file():
        raise MissingFile(f"no file {path}; check the path")
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        raise InvalidValue(f"{path} could not be run: {type(error).__name__}: {error}") from error
    function = names.get(found["name"])
    if not callable(function):
        own = sorted(name for name, value in names.items() if callable(value) and not name.startswith("_"))
        raise InvalidValue(f"{path} has no function {found['name']!r}; it has {', '.join(own) or 'none'}")
    return Rule(function)
