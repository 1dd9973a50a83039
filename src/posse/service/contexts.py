"""Contexts as the log keeps them: one type for every feature, whoever sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
from pydantic_core import from_json

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.features.categories import OneHot
from posse.features.quantities import Numeric
from posse.fleet.names import LARGEST_NUMBER
from posse.types import Array

WORDS = {str: "text", int: "a whole number", bool: "true or false"}


class Contexts:
    """Turns contexts that a fleet has encoded into what is logged.

    A table of the log has one type per column, so numbers are floats, and a category has the type of those that were
    declared; text, if none were.

    Parameters
    ----------
    features : FeatureSpec
    largest : float
        How large a number may be: one beyond all others would be all that its feature's scale is about.
    """

    def __init__(self, features: FeatureSpec, largest: float = 1e9) -> None:
        self._features, self._largest = features, largest
        self._numbers = all(isinstance(feature, Numeric) for feature in features.features)
        self._columns: list[tuple[str, Callable[[Any], Any]]] = [
            (
                feature.name,
                _number(feature.name, largest)
                if isinstance(feature, Numeric)
                else _category(feature.name, _kind(feature)),
            )
            for feature in features.features
        ]

    def plain(self, context: Any) -> dict[str, float | str | int | bool | None]:
        """Return the raw values by name."""
        if self._numbers and type(context) is dict and len(context) == len(self._columns):
            # Nearly always there is nothing to turn; whatever is not a plain number of a moderate size is looked at.
            found = {}
            for name, _ in self._columns:
                value = context.get(name)
                if (type(value) is not float and type(value) is not int) or not abs(value) <= self._largest:
                    break
                found[name] = float(value)
            else:
                return found  # type: ignore[return-value]
        values = self._features.raw(context)
        return {name: turn(value) for (name, turn), value in zip(self._columns, values, strict=True)}

    def of_bodies(self, bodies: Sequence[str]) -> Any:
        """Return the contexts of logged decisions, as :meth:`logged` does."""
        return self.logged(contexts_of(bodies))

    def logged(self, contexts: list[dict[str, Any]]) -> Any:
        """Return contexts of the log in the form that is encoded fastest: a matrix, if they are numbers throughout."""
        values = numbers_of(contexts, self._features.names) if self._numbers else None
        return contexts if values is None else values


def _kind(feature: Any) -> type:
    return feature.kind if isinstance(feature, OneHot) else str


def _number(name: str, largest: float) -> Callable[[Any], float | None]:
    def turn(value: Any) -> float | None:
        if value is None:
            return None
        if not abs(value) <= largest:
            raise InvalidValue(
                f"feature {name!r} is {value:g}, but this service takes numbers up to {largest:g} (limits.number); "
                "choose another unit"
            )
        return float(value)

    return turn


def _category(name: str, kind: type) -> Callable[[Any], Any]:
    def turn(value: Any) -> Any:
        if value is not None and type(value) is not kind:
            raise InvalidValue(
                f"expected feature {name!r} to be {WORDS[kind]}, got {value!r}; send it as {WORDS[kind]}"
            )
        if type(value) is int and abs(value) > LARGEST_NUMBER:
            raise InvalidValue(f"feature {name!r} must be a whole number below 2**63, which no table could hold")
        return value

    return turn


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
