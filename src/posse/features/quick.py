"""The short way from raw values to a context, for values that need no second look."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from posse.core.size import moderate
from posse.features.categories import Hashed, OneHot
from posse.features.parts import Feature
from posse.features.quantities import Numeric
from posse.features.values import LARGEST_WHOLE, SMALLEST_WHOLE
from posse.types import Array

PLAIN = frozenset((float, int, bool, np.float64))


class Quick:
    """Encodes the common case of one context and answers None to anything odd.

    Odd are missing values, unknown categories, values too large, and types that need a look. The long way, which knows
    all rules, then either encodes or says what is wrong; it must give the same numbers.
    """

    __slots__ = ("_center", "_hashed", "_head", "_one_hot", "_pack", "_pick", "_scaled", "_spread", "_width")

    def __init__(self, features: Sequence[Feature], *, intercept: bool) -> None:
        layout = "="
        scaled: list[tuple[int, float, float]] = []
        numbers: list[int] = []
        self._one_hot: list[tuple[int, int, OneHot]] = []
        self._hashed: list[tuple[int, int, Hashed]] = []
        self._head = (1.0,) if intercept else ()
        if intercept:
            layout += "d"
        self._width = len(self._head)
        for position, feature in enumerate(features):
            first, self._width = self._width, self._width + feature.width
            blank = feature.width
            if isinstance(feature, Numeric):
                numbers.append(position)
                layout += "d"
                blank -= 1
                if feature.center is not None and feature.spread is not None:
                    scaled.append((first, feature.center, feature.spread))
            elif isinstance(feature, OneHot):
                self._one_hot.append((position, first, feature))
            elif isinstance(feature, Hashed):
                self._hashed.append((position, first, feature))
            # Pad bytes are written as zeros, and eight zero bytes are the float 0.
            layout += f"{8 * blank}x"
        self._pack: Any = struct.Struct(layout).pack_into
        self._pick = _picker(numbers) if len(numbers) < len(features) else None
        # (x - 0) / 1 is x to the last bit, so all columns can be scaled at once.
        self._scaled = bool(scaled)
        self._center, self._spread = np.zeros(self._width), np.ones(self._width)
        for column, center, spread in scaled:
            self._center[column], self._spread[column] = center, spread

    def encode(self, values: Sequence[Any], plain: bool) -> Array | None:
        """Return the context, or None; ``plain`` promises that all values are Python's numbers."""
        numbers = values if self._pick is None else self._pick(values)
        if not plain and not PLAIN.issuperset(map(type, numbers)):
            return None
        out = np.empty(self._width)
        try:
            self._pack(out, 0, *self._head, *numbers)
        except struct.error:  # a whole number too large for a float
            return None
        if not moderate(out):
            return None
        if self._scaled:
            np.subtract(out, self._center, out)
            np.divide(out, self._spread, out)
            if not moderate(out):
                return None
        for position, first, one_hot in self._one_hot:
            value: Any = values[position]
            if type(value) is not one_hot.kind or (place := one_hot.places.get(value)) is None:
                return None
            out[first + place] = 1.0
        for position, first, hashed in self._hashed:
            value = values[position]
            if type(value) is not str and (type(value) is not int or not SMALLEST_WHOLE <= value <= LARGEST_WHOLE):
                return None
            out[first + hashed.bucket(value)] = 1.0
        return out

    def encode_matrix(self, values: np.ndarray[Any, Any]) -> Array | None:
        """Return many contexts of numbers only, one column each, or None."""
        offset = len(self._head)
        if self._one_hot or self._hashed or values.shape[1] + offset != self._width:
            return None
        out = np.empty((len(values), self._width))
        out[:, :offset] = 1.0
        out[:, offset:] = values
        if not moderate(out.reshape(-1)):
            return None
        if self._scaled:
            out -= self._center
            out /= self._spread
            if not moderate(out.reshape(-1)):
                return None
        return out


def _picker(positions: list[int]) -> Any:
    """Return a function that takes these values out of all, as a tuple."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)
