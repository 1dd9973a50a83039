"""Contexts as the log keeps them: one type for every feature, whoever sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.features.categories import OneHot
from posse.features.quantities import Numeric
from posse.fleet.labels import LARGEST_NUMBER
from posse.service.logged_contexts import contexts_of, numbers_of

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
