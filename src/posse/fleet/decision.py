"""What a fleet answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posse.fleet.names import Label
from posse.showing import MOST_ROWS, Sheet, Table
from posse.tables import in_library
from posse.types import Array, IntArray


class Decision(NamedTuple):
    """One decision, and all that a log needs to know about it.

    Parameters
    ----------
    id : str
        What a reward names it by; empty if it was not recorded.
    task : str or int
    arm : str or int
        The arm to pull.
    propensity : float
        The probability that this arm had.
    probabilities : dict
        The probability of each eligible arm; they add up to 1.
    mean, sd : dict
        What is believed about the expected reward of each eligible arm, in the unit of rewards.
    worth : dict, optional
        Where rewards have values or arms have costs: value x mean - cost of each eligible arm, which arms were compared
        by.
    values, costs : dict, optional
        The values and costs of it, by eligible arm.
    """

    id: str
    task: Label
    arm: Label
    propensity: float
    probabilities: dict[Label, float]
    mean: dict[Label, float]
    sd: dict[Label, float]
    worth: dict[Label, float] | None = None
    values: dict[Label, float] | None = None
    costs: dict[Label, float] | None = None

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        best_first = sorted(self.probabilities, key=lambda arm: -self.probabilities[arm])
        columns = [part for part in (self.probabilities, self.mean, self.sd, self.worth) if part is not None]
        rows = [(str(arm), *(part[arm] for part in columns)) for arm in best_first]
        name = f"Decision {self.id}" if self.id else "Decision that was not recorded"
        return Sheet(
            f"{name}: arm {self.arm!r} for task {self.task!r}, propensity {self.propensity:.3g}",
            [Table("", ("arm", "probability", "mean", "sd", "worth")[: 1 + len(columns)], rows)],
        )


def decision_among(
    decision_id: str, task: Label, arms: Sequence[Label], position: int, beliefs: Sequence[Sequence[float]]
) -> Decision:
    """Return the decision for the arm at a position, given probabilities, means and standard deviations of all."""
    probabilities, mean, sd = beliefs
    return Decision(
        decision_id,
        task,
        arms[position],
        probabilities[position],
        # They have one length; to make sure takes as long again as all else.
        dict(zip(arms, probabilities)),  # noqa: B905
        dict(zip(arms, mean)),  # noqa: B905
        dict(zip(arms, sd)),  # noqa: B905
    )


def with_worth(decision: Decision, arms: Sequence[Label], worth: Array) -> Decision:
    """Return a decision with the value and cost of its eligible arms, and the expected money."""
    values, costs = (dict(zip(arms, part, strict=True)) for part in worth.tolist())
    money = {arm: values[arm] * mean - costs[arm] for arm, mean in decision.mean.items()}
    return decision._replace(worth=money, values=values, costs=costs)


class Ranking(tuple[Decision, ...]):
    """Distinct arms for one request, best place first: a tuple with the decision of every place.

    ``ranking[0]`` is the decision of the first place. The propensity of a place is that of its arm among the arms that
    the places above have left, given those places; the product of all is the probability of the ranking.
    """

    __slots__ = ()

    @property
    def ids(self) -> list[str]:
        """What rewards name the places by."""
        return [place.id for place in self]

    @property
    def arms(self) -> list[Label]:
        """The arms, best place first."""
        return [place.arm for place in self]

    @property
    def propensities(self) -> list[float]:
        """The probability of every place's arm, given the places above it."""
        return [place.propensity for place in self]

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        rows = [
            (str(place + 1), str(one.arm), one.propensity, one.mean[one.arm], one.sd[one.arm])
            for place, one in enumerate(self)
        ]
        title = f"Ranking of {len(self)} arms for task {self[0].task!r}" if self else "Ranking of no arms"
        return Sheet(title, [Table("", ("place", "arm", "propensity", "mean", "sd"), rows)])


class MeanAndSd(NamedTuple):
    """Two numbers by arm."""

    mean: dict[Label, float]
    sd: dict[Label, float]


class Expectation(MeanAndSd):
    """What is believed about the expected reward of every active arm, without exploration.

    Parameters
    ----------
    mean, sd : dict
        By arm, in the unit of rewards: of the expected reward, not of a single reward.

    Attributes
    ----------
    worth : dict or None
        Where rewards have values or arms have costs: value x mean - cost of every arm.
    """

    worth: dict[Label, float] | None = None

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        compared = self.mean if self.worth is None else self.worth
        columns = [part for part in (self.mean, self.sd, self.worth) if part is not None]
        best_first = sorted(compared, key=lambda arm: -compared[arm])
        rows = [(str(arm), *(part[arm] for part in columns)) for arm in best_first]
        names = ("arm", "mean", "sd", "worth")[: 1 + len(columns)]
        return Sheet("Expected reward of every arm", [Table("", names, rows)])


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Many decisions at once, as columns; ``decisions[i]`` is one of them, and they can be iterated over.

    Parameters
    ----------
    prefix : str
        Empty if they were not recorded.
    first : int
        The id of row i is ``f"{prefix}-{first + i}"``.
    tasks : list
    arms : tuple
        The names of the columns of ``probabilities``, ``mean`` and ``sd``.
    chosen : ndarray of shape (n_rows,)
        Positions in ``arms``.
    propensity : ndarray of shape (n_rows,)
        The probability of the chosen arm.
    probabilities : ndarray of shape (n_rows, n_arms)
        0 for arms that were not eligible.
    mean, sd : ndarray of shape (n_rows, n_arms)
        Of the expected reward; NaN for arms that were not eligible.
    library : {"polars", "pandas", "pyarrow"}, default "polars"
        What :meth:`to_frame` returns a table of: that of the contexts.
    used : ndarray of shape (2, n_rows, n_arms), optional
        Values and costs, where rewards have values or arms have costs; NaN for arms that were not eligible.
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
    library: str = "polars"
    used: Array | None = None

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def worth(self) -> Array | None:
        """Value x mean - cost, shape (n_rows, n_arms), which arms were compared by; None without values and costs."""
        return None if self.used is None else self.used[0] * self.mean - self.used[1]

    @property
    def ids(self) -> list[str]:
        """What rewards name the decisions by; empty strings if they were not recorded."""
        prefix = self.prefix
        if not prefix:
            return [""] * len(self)
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
        made = Decision(
            f"{self.prefix}-{self.first + row}" if self.prefix else "",
            self.tasks[row],
            self.arms[self.chosen[row]],
            float(self.propensity[row]),
            *(
                {self.arms[i]: float(values[row, i]) for i in there}
                for values in (self.probabilities, self.mean, self.sd)
            ),
        )
        if self.used is None:
            return made
        return with_worth(made, [self.arms[i] for i in there], self.used[:, row, there])

    def to_frame(self) -> Any:
        """Return a table with one row per decision.

        Returns
        -------
        table
            Columns decision_id, task, arm, propensity and, for every arm, ``probability_ARM``, ``mean_ARM`` and
            ``sd_ARM``, with values or costs also ``worth_ARM``. It is a table of pandas or Arrow if the contexts were,
            else of Polars.
        """
        import polars as pl

        each = {
            f"{name}_{arm}": values[:, column]
            for name, values in (
                ("probability", self.probabilities), ("mean", self.mean), ("sd", self.sd), ("worth", self.worth),
            )
            if values is not None
            for column, arm in enumerate(self.arms)
        }  # fmt: skip
        frame = pl.DataFrame(
            {"decision_id": self.ids, "task": self.tasks, "arm": self.arm, "propensity": self.propensity, **each}
        )
        return in_library(frame, self.library)

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        rows = [
            (one.id, str(one.task), str(one.arm), one.propensity)
            for one in map(self.__getitem__, range(len(self))[:MOST_ROWS])
        ]
        return Sheet(
            f"{len(self):,} decisions among {len(self.arms)} arms",
            [Table("", ("decision_id", "task", "arm", "propensity"), rows, len(self))],
        )
