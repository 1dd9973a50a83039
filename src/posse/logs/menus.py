"""The eligible arms of a catalogue's decisions with their features, out of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.logs.schema import ARM_FEATURES

if TYPE_CHECKING:
    import polars as pl

    from posse.types import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Menus:
    """The arms that each decision chose among, one after the other.

    Parameters
    ----------
    labels : list
        Of the arms of all decisions.
    features : polars.DataFrame
        Their raw features, as many rows.
    starts : int ndarray of shape (n_rows + 1,)
        Where the arms of a decision begin.
    """

    labels: list[Any]
    features: pl.DataFrame
    starts: IntArray

    @property
    def n_arms(self) -> int:
        """Number of different arms."""
        return len(set(self.labels))

    def arms(self, row: int) -> list[Any]:
        """Return the arms of a decision, in the order of the log."""
        return self.labels[self.starts[row] : self.starts[row + 1]]

    def by_arm(self, row: int) -> dict[Any, dict[str, Any]]:
        """Return the arms of a decision with their raw features by name, as ``Catalogue.decide`` takes them."""
        here = self.features[int(self.starts[row]) : int(self.starts[row + 1])]
        return dict(zip(self.arms(row), here.iter_rows(named=True), strict=True))

    def take(self, rows: IntArray) -> Menus:
        """Return the arms of some decisions."""
        sizes = np.diff(self.starts)[rows]
        ends = np.cumsum(sizes)
        places = np.repeat(self.starts[rows] - (ends - sizes), sizes) + np.arange(sizes.sum())
        return Menus([self.labels[place] for place in places], self.features[places], np.concatenate([[0], ends]))


def menus_of(frame: pl.DataFrame) -> Menus | None:
    """Return what the decisions of a log chose among; None if arms have no features there.

    Raises
    ------
    InvalidValue
        If some rows lack the features, or have another number of values than of eligible arms.
    """
    import polars as pl

    if ARM_FEATURES not in frame.columns:
        return None
    sizes, columns = frame["eligible"].list.len(), []
    for name in frame[ARM_FEATURES].struct.fields:
        values = frame[ARM_FEATURES].struct.field(name)
        wrong = (values.list.len() != sizes).fill_null(value=True) | (sizes == 0).fill_null(value=True)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            given = "none" if values[row] is None else str(len(values[row]))
            raise InvalidValue(
                f"expected one {name!r} in {ARM_FEATURES} for every eligible arm, got {given} for {sizes[row]} arms "
                f"in row {row}; log the features of all eligible arms with every decision, or leave such rows out"
            )
        columns.append(values.explode().alias(name))
    starts = np.concatenate([[0], np.cumsum(sizes.to_numpy().astype(np.int64))])
    return Menus(frame["eligible"].explode().to_list(), pl.DataFrame(columns), starts)


def taken_features(frame: pl.DataFrame, arms: list[Any]) -> pl.DataFrame | None:
    """Return the features of the arm that each decision took; None if arms have no features there."""
    menus = menus_of(frame) if "eligible" in frame.columns else None
    if menus is None:
        return None
    places = np.empty(frame.height, dtype=np.int64)
    for row, arm in enumerate(arms):
        eligible = menus.arms(row)
        if arm not in eligible:
            raise InvalidValue(f"expected an eligible arm to be taken in row {row}, got {arm!r}; mend the log")
        places[row] = menus.starts[row] + eligible.index(arm)
    return menus.features[places]
