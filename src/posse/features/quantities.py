"""Numbers: as they are, or centred and scaled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.checks import number
from posse.core.size import LARGEST
from posse.errors import InvalidValue, NotFinite
from posse.features.columns import Column
from posse.features.parts import Declared, Dense
from posse.features.values import checked_name, feature, quantity, shown, too_large
from posse.types import Array

SMALLEST_SPREAD = 1e-50  # with LARGEST, the largest numerator, no division overflows
CONSTANT = 1e-12  # a standard deviation below this part of the largest value is rounding


@dataclass(frozen=True, slots=True, repr=False)
class Numeric(Declared):
    """A number; make it with :func:`numeric`."""

    kind_name = "numeric"

    name: str
    scale: str | None = None
    center: float | None = None
    spread: float | None = None
    missing: str | float = "error"

    def __post_init__(self) -> None:
        name = checked_name(self.name)
        center, spread = self.center, self.spread
        if self.scale is None:
            if center is not None or spread is not None:  # one alone: nothing is moved, or nothing is stretched
                center = 0.0 if center is None else center
                spread = 1.0 if spread is None else spread
        elif self.scale != "standard":
            raise InvalidValue(f'expected scale of feature "{name}" to be None or "standard", got {shown(self.scale)}')
        elif (center is None) != (spread is None):
            raise InvalidValue(
                f'the standard scaling of feature "{name}" needs both center and spread, or neither to learn them'
            )
        if center is not None and spread is not None:
            center = _moderate(center, f'center of feature "{name}"')
            spread = _moderate(spread, f'spread of feature "{name}"', at_least=SMALLEST_SPREAD)
        missing = self.missing
        if isinstance(missing, str):
            if missing not in ("error", "mean", "indicator"):
                raise InvalidValue(
                    f'expected missing of feature "{name}" to be "error", "mean", "indicator" or a number, got '
                    f"{shown(missing)}"
                )
            if missing == "mean" and self.scale is None and center is None:
                raise InvalidValue(
                    f'feature "{name}" has no mean to put in place of a missing value; give it scale="standard" or a '
                    'center, or missing="indicator" or a number'
                )
        else:
            missing = _moderate(missing, f'missing of feature "{name}"')
        for field, value in (("name", name), ("center", center), ("spread", spread), ("missing", missing)):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        settings = {"scale": self.scale, "center": self.center, "spread": self.spread}
        words = [repr(self.name), *(f"{key}={value!r}" for key, value in settings.items() if value is not None)]
        if self.missing != "error":
            words.append(f"missing={self.missing!r}")
        return f"numeric({', '.join(words)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Its own name and, with missing="indicator", that name and a question mark."""
        return (self.name, f"{self.name}?") if self.missing == "indicator" else (self.name,)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.columns)

    @property
    def ready(self) -> bool:
        """False while a standard scaling has not been learned."""
        return self.scale is None or self.center is not None

    @property
    def filler(self) -> float:
        """The raw number that stands in for a missing one; NaN if none does."""
        if self.missing == "error":
            return math.nan
        return self.missing if isinstance(self.missing, float) else self.center or 0.0

    def plain(self, value: Any) -> int | float | None:
        """Return a raw value as JSON has it: one that encodes to the same number."""
        raw = quantity(value, self.name, None)
        if math.isnan(raw):
            return None
        if not abs(raw) <= LARGEST:
            raise too_large(value, self.name, None)
        return value if type(value) is int else raw

    def part(self, column: Column) -> Dense:
        """Return many encoded values."""
        raw = self.floats(column)
        flags: tuple[Array, ...] = ()
        if self.missing != "error":
            gaps = np.isnan(raw)
            if gaps.any():
                raw = np.where(gaps, self.filler, raw)
            if self.missing == "indicator":
                flags = (gaps.astype(np.float64),)
        if not _within(raw):
            raise self._refused(column, raw)
        if self.center is not None and self.spread is not None:
            raw = (raw - self.center) / self.spread
            if not _within(raw):
                raise self._refused(column, raw)
        return Dense((raw, *flags))

    def floats(self, column: Column) -> Array:
        """Return the raw numbers of a column, NaN where one is missing."""
        return column.floats(lambda value, row: quantity(value, self.name, row))

    def learned(self, column: Column) -> Numeric:
        """Return the feature with the centre and spread of a column's usable values."""
        values = self.floats(column)
        values = values[np.abs(values) <= LARGEST]  # NaN is not, either
        if not values.size:
            raise InvalidValue(
                f'feature "{self.name}" has no finite value to learn its scaling from; give center and spread instead'
            )
        center, spread = float(values.mean()), float(values.std())
        if spread < SMALLEST_SPREAD or spread <= CONSTANT * float(np.abs(values).max()):
            spread = 1.0  # a constant becomes 0, whatever its last digit
        return Numeric(self.name, self.scale, center, spread, self.missing)

    def _refused(self, column: Column, numbers: Array) -> InvalidValue:
        """Return what is wrong with the first value that cannot stand."""
        place = int(np.argmin(np.abs(numbers) <= LARGEST))
        value, row = column.value(place), column.row(place)
        raw = quantity(value, self.name, row)
        if math.isnan(raw) and self.missing == "error":
            found = f"is {shown(value)}" if isinstance(value, float | np.floating) else "is missing"
            return InvalidValue(
                f"{feature(self.name, row)} {found}; give a number, or declare what a missing one means: "
                f'numeric("{self.name}", missing=...)'
            )
        if abs(raw) > LARGEST:
            return too_large(value, self.name, row)
        return NotFinite(
            f"{feature(self.name, row)} is {shown(value)}, which scaling with center={self.center:g} and "
            f"spread={self.spread:g} makes {numbers[place]:g}: sums of squares would overflow; keep it below "
            f"{LARGEST:g}"
        )


def numeric(
    name: str,
    *,
    scale: str | None = None,
    center: float | None = None,
    spread: float | None = None,
    missing: str | float = "error",
) -> Numeric:
    """Declare a number: one column of the context, ``(value - center) / spread``.

    Parameters
    ----------
    name : str
    scale : None or "standard"
        "standard": the mean and standard deviation of a table, learned once by ``FeatureSpec.learn_scaling``.
    center, spread : float, optional
        Scaling that is known; one alone leaves the other at 0 or 1.
    missing : "error", "mean", "indicator" or float
        What None, NaN or an absent value means: refuse; take the centre, which is 0 after scaling; the same with a
        second column ``name?`` that is 1; or take this number, in the units of the raw value.

    Examples
    --------
    >>> numeric("income", center=50.0, spread=10.0, missing="mean")
    numeric('income', center=50.0, spread=10.0, missing='mean')
    """
    return Numeric(name, scale, center, spread, missing)


def _moderate(value: Any, name: str, *, at_least: float = -LARGEST) -> float:
    result = number(value, name, at_least=at_least)
    if result > LARGEST:
        raise InvalidValue(f"expected {name} to be at most {LARGEST:g}, got {result:g}")
    return result


def _within(values: Array) -> bool:
    """Whether every number is finite and moderate; NaN fails both comparisons."""
    return not values.size or bool(values.min() >= -LARGEST and values.max() <= LARGEST)
