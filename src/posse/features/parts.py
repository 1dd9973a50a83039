"""Parts that kinds of features share, and the pieces that a matrix of encoded contexts is put together from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from posse.errors import InvalidValue
from posse.features.columns import Column
from posse.features.values import Category, category, feature
from posse.tables import is_missing
from posse.types import Array, IntArray

ROWS_AT_ONCE = 4096  # a block of the matrix stays in the cache while its columns are written


@dataclass(frozen=True, slots=True)
class Dense:
    """Encoded columns, each an array over the rows."""

    columns: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """Columns of zeros with a single 1 per row at most: where it stands, -1 for nowhere."""

    places: IntArray


class Feature(Protocol):
    """One declared feature: a raw value in, some columns of the context out."""

    @property
    def name(self) -> str:
        """Of the raw feature."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns."""

    @property
    def width(self) -> int:
        """Number of encoded columns."""

    @property
    def ready(self) -> bool:
        """Whether it can encode."""

    def plain(self, value: Any) -> bool | int | float | str | None:
        """Return a raw value as JSON has it: one that encodes to the same numbers."""

    def part(self, column: Column) -> Dense | Marks:
        """Return many encoded values."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values that the kind can be made from."""


class Declared:
    """A feature that is a dataclass of what it was declared with."""

    __slots__ = ()
    kind_name: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain values that it can be made from."""
        names = [field.name for field in fields(self) if field.init]  # type: ignore[arg-type]  # subclasses are
        values = {name: getattr(self, name) for name in names}
        return {"kind": self.kind_name} | {
            name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
        }


class Marking(Declared):
    """A feature that is 1 in one of its columns at most."""

    __slots__ = ()
    name: str
    missing: str

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """True: there is nothing to learn."""
        return True

    def find(self, value: Any, row: int | None) -> int:
        """Return which column is 1 for a value that is there, -1 for none."""
        raise NotImplementedError

    def place(self, value: Any, row: int | None = None) -> int:
        """Return which column is 1, -1 for none."""
        if not is_missing(value):
            return self.find(value, row)
        if self.missing == "error":
            raise InvalidValue(
                f"{feature(self.name, row)} is missing; give a category, or declare what a missing one means: "
                'missing="zeros" or "category"'
            )
        return -1 if self.missing == "zeros" else self.width - 1  # that of missing values is the last

    def plain(self, value: Any) -> Category | None:
        """Return a raw value as JSON has it: one that encodes to the same columns."""
        return None if is_missing(value) else category(value, self.name, None)

    def part(self, column: Column) -> Marks:
        """Return many encoded values."""
        return Marks(column.places(self.place))


def assemble(parts: Sequence[tuple[int, Dense | Marks]], n_rows: int, n_columns: int, *, intercept: bool) -> Array:
    """Return the matrix with each part from its column on, zeros where nothing stands."""
    result = np.empty((n_rows, n_columns))
    dense = [
        (first + k, values) for first, part in parts if isinstance(part, Dense) for k, values in enumerate(part.columns)
    ]
    marks = [
        (first, part.places, n_rows == 0 or part.places.min() >= 0) for first, part in parts if isinstance(part, Marks)
    ]
    rows = np.arange(min(n_rows, ROWS_AT_ONCE))
    for start in range(0, n_rows, ROWS_AT_ONCE):
        block = result[start : start + ROWS_AT_ONCE]
        stop = start + len(block)
        if marks:
            block[...] = 0.0
        if intercept:
            block[:, 0] = 1.0
        for column, values in dense:
            block[:, column] = values[start:stop]
        for first, places, everywhere in marks:
            here = places[start:stop]
            where = rows[: len(block)] if everywhere else np.flatnonzero(here >= 0)
            block[where, first + here[where]] = 1.0
    return result
