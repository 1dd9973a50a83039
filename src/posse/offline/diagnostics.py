"""Diagnose whether a log can answer: how far the target is from what was logged, and reasons to refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from posse.offline.data import LoggedBandit
from posse.offline.estimators import Contributions
from posse.offline.intervals import effective_size, jackknife
from posse.types import Array

CURVE = tuple(float(share) for share in np.geomspace(1e-3, 1.0, 31))
"""Shares of the rows, heaviest first, at which the concentration of the weights is measured."""

NEVER = 1e-9  # mass that rounding may leave on arms that cannot be chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When an evaluation is refused.

    Parameters
    ----------
    min_effective_rows : float
        Smallest effective sample size.
    min_effective_rewards : float
        Smallest effective number of rewards that differ from the usual one: of clicks, where clicks are rare.
    max_weight_share : float
        Most that one row may carry of all weight.
    max_unsupported : float
        Most of the target's decisions that may fall on arms which the log could not have chosen.
    mean_weight_chance, mean_weight_tolerance : float
        The mean weight must be 1; refused if it is off by more than the tolerance and chance would do that less often
        than this.
    max_missing : float
        Largest share of rows without reward, and of rows without propensity.
    min_tasks : int
        Fewest tasks for an interval about tasks like these; below, it is about these very tasks.
    min_effective_tasks : float
        The same for tasks of unequal size: ``(sum of rows)^2 / sum of rows^2``.
    min_task_rows : float
        Smallest effective sample size of one task, for a value of its own.
    max_groups : int
        Most groups that a column may divide the rows into.
    floor : float
        Logged probability below which overlap counts as thin; shown, no reason to refuse.
    min_steps : int
        Fewest steps of a replay.
    """

    min_effective_rows: float = 50.0
    min_effective_rewards: float = 10.0
    max_weight_share: float = 0.1
    max_unsupported: float = 0.0
    mean_weight_chance: float = 1e-3
    mean_weight_tolerance: float = 0.02
    max_missing: float = 0.1
    min_tasks: int = 10
    min_effective_tasks: float = 5.0
    min_task_rows: float = 30.0
    max_groups: int = 100
    floor: float = 0.01
    min_steps: int = 100


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no number.

    Parameters
    ----------
    code : str
        For programs.
    reason : str
        What was found.
    remedy : str
        What would help.
    """

    code: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}. What helps: {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Overlap of a log and a target, and the weights of its rows.

    Parameters
    ----------
    rows, tasks : int
    effective_rows : float
        ``(sum of weights)^2 / sum of weights^2``: this number of rows logged by the target itself would say as much.
    largest_weight : float
    largest_share : float
        Of all weight, carried by the row with the largest.
    mean_weight, mean_weight_se : float
        About 1 where propensities are right and the log could have chosen whatever the target does.
    supported : float
        Share of the target's decisions on arms that the log could have chosen; of those eligible, where the log does
        not have all probabilities.
    above_floor : float
        The same for arms with a logged probability of at least ``floor``; NaN where the log does not have them.
    floor : float
    clipped : float
        Share of all weight that clipping took away.
    concentration : tuple of float
        Share of all weight carried by the heaviest rows, at the shares of rows in :data:`CURVE`.
    effective_rewards : float
        Effective number of rewards that differ from the usual one; NaN where it was not saved.
    """

    rows: int
    tasks: int
    effective_rows: float
    largest_weight: float
    largest_share: float
    mean_weight: float
    mean_weight_se: float
    supported: float
    above_floor: float
    floor: float
    clipped: float = 0.0
    concentration: tuple[float, ...] = field(default=())
    effective_rewards: float = float("nan")

    @property
    def is_log_itself(self) -> bool:
        """True if every weight is 1: the target is what made the log."""
        return self.largest_weight == 1 and self.effective_rows == self.rows


def diagnose(
    data: LoggedBandit, probabilities: Array, weights: Array, *, floor: float, unclipped: Array | None = None
) -> Diagnostics:
    """Return how well the log speaks about a target with these probabilities and weights.

    In rankings, probabilities are those of a place times the weight of the places above.
    """
    full = weights if unclipped is None else unclipped
    mean = Contributions(full, np.ones(data.n_rows))
    total = float(weights.sum())
    heaviest = np.cumsum(np.sort(weights)[::-1]) / total if total > 0 else np.zeros(data.n_rows)
    places = np.clip(np.ceil(np.array(CURVE) * data.n_rows).astype(np.int64) - 1, 0, data.n_rows - 1)
    thick = np.nan
    size = data.n_rows if data.rankings is None else max(float(probabilities.sum()), np.finfo(float).tiny)
    if data.probabilities is not None:
        thick = float((probabilities * (data.probabilities >= floor)).sum() / size)
    return Diagnostics(
        rows=data.n_rows,
        tasks=int(np.unique(data.tasks).size),
        effective_rows=effective_size(weights),
        largest_weight=float(weights.max()),
        largest_share=float(weights.max()) / total if total > 0 else 0.0,
        mean_weight=mean.value,
        mean_weight_se=jackknife(data.tasks, [mean]),
        supported=float((probabilities * data.supported).sum() / size),
        above_floor=thick,
        floor=floor,
        clipped=1 - total / float(full.sum()) if full.sum() > 0 else 0.0,
        concentration=tuple(heaviest[places].tolist()),
        effective_rewards=data.effective_rewards(weights),
    )


def refusals(found: Diagnostics, data: LoggedBandit, probabilities: Array, limits: Limits) -> Iterator[Refusal]:
    """Yield why a log cannot speak about a target; nothing if it can."""
    explore = (
        "log with an evaluation budget, so that every eligible arm is chosen now and then, or ask for a target nearer "
        "to the log"
    )
    if 1 - found.supported > limits.max_unsupported + NEVER:
        lost = probabilities * ~data.supported
        row = int(lost.max(axis=1).argmax())
        # Arms of a catalogue are other ones in every row.
        worst = data.label(row, int((lost.sum(axis=0) if data.menus is None else lost[row]).argmax()))
        yield Refusal(
            "no-overlap",
            f"{_percent(1 - found.supported)} of the target's decisions are arms that the log could never have "
            f"chosen there, above all {worst!r}",
            explore,
        )
    never = _never_taken(data, probabilities)
    if never is not None:
        yield Refusal(
            "arm-never-taken",
            f"the target takes {never[0]!r} in {_percent(never[1])} of its decisions, but the log never took it",
            explore,
        )
    if found.effective_rows < limits.min_effective_rows:
        yield Refusal(
            "few-effective-rows",
            f"{found.rows} rows are worth {found.effective_rows:.1f} rows of the target, less than "
            f"{limits.min_effective_rows:g}",
            f"a longer log; or {explore}",
        )
    else:
        yield from few_rewards(data, found.effective_rewards, limits)
    if found.largest_share > limits.max_weight_share:
        yield Refusal(
            "one-heavy-row",
            f"one row carries {_percent(found.largest_share)} of all weight (weight {found.largest_weight:.3g}), "
            f"more than {_percent(limits.max_weight_share)}",
            f"{explore}; clip weights if a bias is acceptable",
        )
    off = found.mean_weight - 1
    if found.tasks > 1 and abs(off) > limits.mean_weight_tolerance:
        quantile = float(stdtrit(found.tasks - 1, 1 - limits.mean_weight_chance / 2))
        # Not `>=`: without any spread, a mean that is off is off for sure.
        if not abs(off) <= quantile * found.mean_weight_se:
            yield Refusal(
                "mean-weight",
                f"the mean weight is {found.mean_weight:.3f} with standard error {found.mean_weight_se:.2g}, but "
                "it must be 1: propensities are not the probabilities with which arms were drawn, or the log could "
                "not have chosen what the target does",
                "find out how propensities were computed; posse log check may say where they are wrong",
            )


def few_rewards(data: LoggedBandit, effective: float, limits: Limits) -> list[Refusal]:
    """Return why so few rewards that differ from the usual one say nothing; nothing if they are enough."""
    if effective >= limits.min_effective_rewards:
        return []
    different = int((data.rewards != data.usual_reward).sum())
    if not different:
        reason = f"all {data.n_rows} rewards are equal ({data.usual_reward:g})"
    else:
        reason = f"the log has {different} rewards other than {data.usual_reward:g}"
        reason += f", worth about {effective:.3g} for judging this policy" if effective < different else ""
    return [
        Refusal(
            "few-rewards",
            f"{reason}; an interval takes {limits.min_effective_rewards:g}",
            f"a log about {limits.min_effective_rewards / effective:.2g} times as long, or a target nearer to it"
            if effective
            else "a longer log",
        )
    ]


def refusals_of_log(data: LoggedBandit, limits: Limits) -> list[Refusal]:
    """Return why no target at all can be evaluated: what the log lacks, and too few rewards."""
    reasons = []
    for what, count, remedy in (
        ("reward", data.rows_without_reward,
         "wait until rewards are in, or leave out recent decisions; if no reward means 0: --absent-reward 0"),
        ("propensity", data.rows_without_propensity,
         "log the probability of the arm taken with every decision"),
        ("place-above", data.rows_without_place_above,
         "keep all places of a ranking in the log, also those without a reward"),
    ):  # fmt: skip
        share = count / (data.n_rows + data.rows_left_out)
        if share > limits.max_missing:
            reason = (
                f"{_percent(share)} of the rows have no {what.replace('-', ' ')}, more than "
                f"{_percent(limits.max_missing)}: those that have one may not be like the others"
            )
            reasons.append(Refusal(f"missing-{what}", reason, remedy))
    return reasons or few_rewards(data, data.effective_rewards(np.ones(data.n_rows)), limits)


def _never_taken(data: LoggedBandit, probabilities: Array) -> tuple[object, float] | None:
    """Return an arm that the target takes and the log never took, if it could have been expected to."""
    if data.probabilities is not None:  # which say more than what chance made of them
        return None
    lost = np.where(np.bincount(data.arms, minlength=data.n_arms) > 0, 0.0, probabilities.mean(axis=0))
    arm = int(lost.argmax())
    return (data.arm_labels[arm], float(lost[arm])) if lost[arm] > NEVER else None


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
