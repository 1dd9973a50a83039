"""What a fleet answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.fleet.labels import Label
from posse.types import Array, IntArray

if TYPE_CHECKING:
    import polars as pl


class Decision(NamedTuple):
    """One decision, and all that a log needs to know about it.

    Parameters
    ----------
    id : str
        What a reward names it by.
    task : str or int
    arm : str or int
        The arm to pull.
    propensity : float
        How likely this arm was.
    probabilities : dict
        How likely each eligible arm was.
    mean, sd : dict
        What is believed about the expected reward of each eligible arm.
    """

    id: str
    task: Label
    arm: Label
    propensity: float
    probabilities: dict[Label, float]
    mean: dict[Label, float]
    sd: dict[Label, float]


class Expectation(NamedTuple):
    """What is believed about the expected reward of every active arm, exploration apart.

    Parameters
    ----------
    mean, sd : dict
    """

    mean: dict[Label, float]
    sd: dict[Label, float]


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Many decisions at once, as columns.

    Parameters
    ----------
    prefix : str
    first : int
        The id of row i is ``f"{prefix}-{first + i}"``.
    tasks : list
    arms : tuple
        The names of the columns of ``probabilities``, ``mean`` and ``sd``.
    chosen : ndarray of shape (n_rows,)
        Positions in ``arms``.
    propensity : ndarray of shape (n_rows,)
    probabilities : ndarray of shape (n_rows, n_arms)
        0 for arms that were not eligible.
    mean, sd : ndarray of shape (n_rows, n_arms)
        NaN for arms that were not eligible.
    """

    prefix: str
    first: int
    tasks: list[Label]
    arms: tuple[Label, ...]
    chosen: IntArray
    propensity: Array
    probabilities: Array
    mean: Array
    sd: Array

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def ids(self) -> list[str]:
        """What rewards name the decisions by."""
        prefix = self.prefix
        return [f"{prefix}-{number}" for number in range(self.first, self.first + len(self))]

    @property
    def arm(self) -> list[Label]:
        """The arms to pull."""
        arms = self.arms
        return [arms[position] for position in self.chosen.tolist()]

    def __iter__(self) -> Iterator[Decision]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, row: int) -> Decision:
        row = range(len(self))[row]
        there = np.flatnonzero(~np.isnan(self.mean[row])).tolist()
        return Decision(
            f"{self.prefix}-{self.first + row}",
            self.tasks[row],
            self.arms[self.chosen[row]],
            float(self.propensity[row]),
            *(
                {self.arms[i]: float(values[row, i]) for i in there}
                for values in (self.probabilities, self.mean, self.sd)
            ),
        )

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars table: decision_id, task, arm, propensity, and lists over ``arms``."""
        import polars as pl

        return pl.DataFrame(
            {
                "decision_id": self.ids,
                "task": self.tasks,
                "arm": self.arm,
                "propensity": self.propensity,
                "probabilities": pl.Series(self.probabilities, dtype=pl.List(pl.Float64)),
                "mean": pl.Series(self.mean, dtype=pl.List(pl.Float64)),
                "sd": pl.Series(self.sd, dtype=pl.List(pl.Float64)),
            }
        )
