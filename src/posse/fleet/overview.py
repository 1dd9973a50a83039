"""What a fleet has learned, for people to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.families import family_of
from posse.fleet.names import Label
from posse.showing import Sheet, Table, brief_repr
from posse.types import Array

if TYPE_CHECKING:
    from datetime import datetime

MOST_SPREAD = 5  # coefficients and tasks that a printed overview lists
PAID = ("who buy", "they pay")  # what :meth:`ArmOverview.paid_words` are, in the place of noise


@dataclass(frozen=True, slots=True)
class NoticedChange:
    """A sudden change.

    Parameters
    ----------
    time : datetime
        When it was noticed, some rewards after it happened.
    task : str, int or None
        Of which task, or None if all of them changed.
    """

    time: datetime
    task: Label | None


class Coefficients(NamedTuple):
    """The posterior of every arm's coefficients in one task.

    Parameters
    ----------
    columns : tuple of str
        What the coefficients belong to.
    mean : dict
        Arrays of shape (n_features,) by arm.
    covariance : dict
        Arrays of shape (n_features, n_features) by arm.
    amounts : Coefficients or None
        Of revenue: those of the logarithm of an amount, as these are of the logit of a purchase. They have one column
        more, what is believed of that logit.
    """

    columns: tuple[str, ...]
    mean: dict[Label, Array]
    covariance: dict[Label, Array]
    amounts: Coefficients | None = None

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        tables = [Table("", ("", *map(str, self.mean)), self._rows())]
        if self.amounts is not None:
            tables = [
                tables[0]._replace(title="of the logit of a purchase"),
                Table("of the logarithm of an amount", ("", *map(str, self.mean)), self.amounts._rows()),
            ]
        return Sheet(f"Coefficients of {len(self.mean)} arms (mean ± sd)", tables)

    def _rows(self) -> list[tuple[str, ...]]:
        rows = []
        for place, column in enumerate(self.columns):
            known = [(mean[place], self.covariance[arm][place, place] ** 0.5) for arm, mean in self.mean.items()]
            rows.append((column, *(f"{mean:.3g} ± {sd:.2g}" for mean, sd in known)))
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class ArmOverview:
    """One arm's population.

    Parameters
    ----------
    arm : str or int
    retired : bool
    tasks, rewards : float
        Tasks with rewards of it, and rewards.
    noise_sd : float
        Of rewards; of clicks and counts at their average.
    mean : ndarray of shape (n_features,)
        Mean of the population.
    mean_sd : ndarray of shape (n_features,)
        How well it is known.
    covariance : ndarray of shape (n_features, n_features)
        How tasks differ.
    buys, pays : float or None
        Of revenue: the share of rewards above 0, and the mean of these amounts (NaN if there are none).
    """

    arm: Label
    retired: bool
    tasks: int
    rewards: float
    noise_sd: float
    mean: Array
    mean_sd: Array
    covariance: Array
    buys: float | None = None
    pays: float | None = None

    __repr__ = brief_repr

    def paid_words(self) -> tuple[str, str]:
        """Return how many buy and how much they pay as words, of revenue."""
        assert self.buys is not None
        assert self.pays is not None
        return f"{self.buys:.2%}", "" if np.isnan(self.pays) else f"{self.pays:.4g}"


@dataclass(frozen=True, slots=True, eq=False)
class TaskOverview:
    """One task.

    Parameters
    ----------
    task : str or int
    rewards : float
    own_share : float
        Weight of own data, averaged over arms: 0 if all is borrowed and 1 if nothing is.
    """

    task: Label
    rewards: float
    own_share: float


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """What a fleet has learned.

    Parameters
    ----------
    policy, prior : str
    rewards : {"number", "binary", "count", "revenue"}
        What rewards are. Means and covariances of arms are those of coefficients of the reward itself, of the logit of
        a probability (of a purchase where rewards are revenue), or of the logarithm of a rate.
    columns : tuple of str
        What the entries of means and covariances belong to.
    arms : list of ArmOverview
    tasks : list of TaskOverview
        Those with the most rewards.
    n_tasks, n_decisions, n_pending : int
    n_rewards : float
        Rewards learned; those that pending decisions count as are among them.
    pending_reward : float or None
        What every pending decision counts as; None if it does not count.
    findings : list of str
        What could not be learned, and what looks unusual.
    drift : dict or None
        Of a fleet with drift: ``learned`` (whether its half-life is), ``half_life_days`` (None is for ever) and the
        ``changes`` that were noticed.
    effects : dict or None
        Of a fleet with features of tasks or arms: how much each says, as :meth:`posse.Posse.effects` returns it.
    """

    policy: str
    prior: str
    columns: tuple[str, ...]
    arms: list[ArmOverview]
    tasks: list[TaskOverview]
    n_tasks: int
    n_decisions: int
    n_pending: int
    n_rewards: float
    findings: list[str]
    pending_reward: float | None = None
    rewards: str = "number"
    drift: dict[str, Any] | None = None
    effects: dict[str, dict[str, float]] | None = None

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        heads: tuple[str, ...] = ("arm", "rewards", "tasks", "noise sd")
        arms: list[Any] = [
            (str(arm.arm) + " (retired)" * arm.retired, arm.rewards, arm.tasks, arm.noise_sd) for arm in self.arms
        ]
        if self.rewards == "revenue":
            heads = (*heads[:3], *PAID)
            arms = [(*row[:3], *arm.paid_words()) for row, arm in zip(arms, self.arms, strict=True)]
        spread = sorted(
            (
                (-float(np.sqrt(arm.covariance[place, place])), str(arm.arm), column, float(arm.mean[place]))
                for arm in self.arms
                for place, column in enumerate(self.columns)
            ),
            key=lambda entry: entry[0],
        )
        tables = [
            Table("arms", heads, arms),
            Table(
                "where tasks differ most" + (f" (coefficients{of})" if (of := self.scale_words()) else ""),
                ("arm", "coefficient", "mean", "sd between tasks"),
                [(arm, column, mean, -sd) for sd, arm, column, mean in spread[:MOST_SPREAD]],
                len(spread),
            ),
        ]
        if self.effects is not None:
            tables.append(Table("what is known", ("of", "feature", "sd of its effects"), self.effect_rows()))
        if self.tasks:
            rows = [(str(task.task), task.rewards, f"{task.own_share:.0%}") for task in self.tasks[:MOST_SPREAD]]
            tables.append(
                Table("tasks with the most rewards", ("task", "rewards", "weight of own data"), rows, len(self.tasks))
            )
        return Sheet(
            f"{self.policy}, {self.prior} prior{self.drift_words()}{self.family_words()}: {self.n_tasks:,} tasks, "
            f"{self.n_decisions:,} decisions, "
            f"{self.n_rewards:,.0f} rewards, {self.n_pending:,} pending",
            tables,
            self.findings,
        )

    def drift_words(self) -> str:
        """Return how old rewards fade, to be put behind a name; nothing if they do not."""
        if self.drift is None:
            return ""
        days = self.drift["half_life_days"]
        words = "no drift" if days is None else f"half-life {days:.3g} days"
        return f", {words}{' (learned)' if self.drift['learned'] else ''}"

    def family_words(self) -> str:
        """Return what rewards are, to be put behind a name; nothing if they are numbers."""
        return "" if self.rewards == "number" else f", {self.rewards} rewards"

    def scale_words(self) -> str:
        """Return what coefficients are of, to be put behind the word; nothing if it is the reward itself."""
        predictor = "logit of a purchase" if self.rewards == "revenue" else family_of(self.rewards).predictor
        return f" of the {predictor}" if predictor else ""

    def effect_rows(self) -> list[tuple[str, str, float]]:
        """Return how much every feature of tasks and arms says, a row each."""
        return [(side, name, sd) for side, found in (self.effects or {}).items() for name, sd in found.items()]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        some = {"drift": self.drift, "effects": self.effects}
        return {name: value for name, value in some.items() if value is not None} | {
            "policy": self.policy,
            "prior": self.prior,
            "rewards": self.rewards,
            "n_tasks": self.n_tasks,
            "n_decisions": self.n_decisions,
            "n_rewards": self.n_rewards,
            "n_pending": self.n_pending,
            "pending_reward": self.pending_reward,
            "findings": list(self.findings),
            "columns": list(self.columns),
            "arms": [
                {
                    "arm": arm.arm,
                    "retired": arm.retired,
                    "tasks": arm.tasks,
                    "rewards": arm.rewards,
                    "noise_sd": arm.noise_sd,
                    "mean": arm.mean.tolist(),
                    "mean_sd": arm.mean_sd.tolist(),
                    "covariance": arm.covariance.tolist(),
                    **({} if arm.buys is None else {"buys": arm.buys, "pays": _number_or_none(arm.pays)}),
                }
                for arm in self.arms
            ],
            "tasks": [{"task": task.task, "rewards": task.rewards, "own_share": task.own_share} for task in self.tasks],
        }


def _number_or_none(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else value
