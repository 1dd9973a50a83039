"""Contexts of logged decisions, parsed many at a time; whoever only reads a log need not wait for compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
from pydantic_core import from_json

from posse.types import Array


def contexts_of(bodies: Sequence[str]) -> list[dict[str, Any]]:
    """Return the contexts of logged decisions; one call parses all of them, unless one is written otherwise.

    Examples
    --------
    >>> contexts_of(['{"context":{"hour":9.5},"eligible":["cake"]}', '{"context":{"hour":7.0},"eligible":["cake"]}'])
    [{'hour': 9.5}, {'hour': 7.0}]
    """
    begin, end = '{"context":', ',"eligible"'
    if all(map(methodcaller("startswith", begin), bodies)):
        heads = [body[len(begin) : body.find(end)] for body in bodies]
        with suppress(ValueError):
            # A context that has a feature of that name is cut within its braces, which no other closes.
            found: list[dict[str, Any]] = from_json(f"[{','.join(heads)}]")
            if len(found) == len(bodies):
                return found
    return [*map(context_of, bodies)]


def context_of(body: str) -> dict[str, Any]:
    """Return the context of a logged decision, which comes first in its body; what follows is not parsed.

    Examples
    --------
    >>> context_of('{"context":{"hour":9.5},"eligible":["cake"],"probabilities":[1.0]}')
    {'hour': 9.5}
    """
    head = body[: body.find('"eligible"')].rstrip(", ") + "}"
    try:
        context: dict[str, Any] = from_json(head)["context"]
    except (ValueError, KeyError):
        # The word was in the context itself, which leaves a brace open, or parts come in another order.
        context = from_json(body)["context"]
    return context


def numbers_of(contexts: list[dict[str, Any]], names: Sequence[str]) -> Array | None:
    """Return contexts of numbers only as a matrix, a column for each name; None if they are not that, or but one.

    Examples
    --------
    >>> numbers_of([{"hour": 9.5, "rain": 0}, {"hour": 7.0, "rain": 1}], ["hour", "rain"])
    array([[9.5, 0. ],
           [7. , 1. ]])
    """
    if len(contexts) > 1 and {*map(len, contexts)} == {len(names)}:
        pick = itemgetter(*names) if len(names) > 1 else lambda context: (context[names[0]],)
        with suppress(ValueError, TypeError, KeyError):  # row by row it is found out which one is wrong
            values = np.fromiter(chain.from_iterable(map(pick, contexts)), np.float64, len(contexts) * len(names))
            if not np.isnan(values).any():  # what is missing would be one
                return values.reshape(len(contexts), len(names))
    return None
