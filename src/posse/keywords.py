"""A misspelt keyword of a class is answered with the name of the class that was called, and the likely word."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any, Self


class KnownKeywords:
    """Base of classes whose ``__init__`` may be inherited, so that Python would name a class nobody called."""

    def __new__(cls, *_: Any, **keywords: Any) -> Self:
        """Refuse a keyword that ``__init__`` does not take."""
        if keywords:
            require_keywords(cls, keywords)
        return super().__new__(cls)


def require_keywords(kind: type, keywords: Iterable[str]) -> None:
    """Raise TypeError for the first keyword that ``kind`` does not take."""
    known = _keywords(kind)
    if known is None:
        return
    for word in keywords:
        if word not in known:
            near = get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"{kind.__name__} has no argument {word!r}; {hint}")


@cache
def _keywords(kind: type) -> tuple[str, ...] | None:
    """Return what ``kind`` takes by keyword, None if anything."""
    found = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in found):
        return None
    return tuple(parameter.name for parameter in found if parameter.kind is not parameter.VAR_POSITIONAL)
