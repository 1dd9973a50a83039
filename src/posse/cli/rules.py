"""``FILE.py:NAME``: a function of one's own on the command line."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

from posse.errors import InvalidValue, MissingFile

if TYPE_CHECKING:
    from posse.offline import Rule

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
