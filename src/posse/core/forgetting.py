r"""Forgetting: by what sums are multiplied when time passes, by what was learned, and what says that they should be.

Coefficients return to the population with a half-life h (Ornstein and Uhlenbeck). With :math:`r = 2^{-t/h}`, rewards
whose sites have the precision :math:`\ell`, in units of the population's, are worth after a time t

.. math:: \ell' = \frac{r^2 \ell}{1 + (1 - r^2)\,\ell}

and the sums of their pair are multiplied by :math:`\ell' / \ell`, with :math:`\ell` taken as :data:`WORTH` times the
precision of its sites, so that ageing depends on times and rewards alone, whatever population is in force. It
saturates: what many rewards say about now is bounded. Ageing by s and then by t is ageing by s + t, so it does not
matter when, or how often, a pair is looked at.

Pairs note the *age* at which they were last aged: how many half-lives have passed by then. So another half-life from
now on, or a change of all tasks, which is a jump of the age by :data:`ANEW` half-lives, touches no pair.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from posse.core.compiler import compiled
from posse.core.noticing import ALL_TASKS, KEPT, Believed, Change, Detectors, OfFamily, OfNumbers
from posse.core.store import INFORMATION, TIME
from posse.families import LINKED
from posse.types import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posse.families import RewardFamily
    from posse.types import IntArray

# The constants were chosen on seeds from 1000 on, see docs/drift.md.
WORTH = 0.25  # what a site of precision 1 tells about a pair, in units of what the population tells
ANEW = 5.0  # half-lives by which what was learned before a change is older: of any number of rewards 0.004 are left
LEAST = 1e-300  # of what is left: its logarithm is a number
WATCHED = 64  # tasks whose sums are computed under every half-life
WATCHED_BYTES = 32 << 20
RESISTANCE = 3.0  # nats by which another half-life must be better than the one in force
PREFERENCE = 3.0  # nats by which any half-life must be better than none
MEMORY = 2000  # rewards over which predictions are compared

HALF_LIFE, SINCE, AGE, FADES = range(4)  # of Store.ageing: the age at time SINCE, and whether anything ever fades


@compiled
def age_at(now: float, ageing: Array) -> float:
    """Return how many half-lives have passed at some time."""
    age: float = ageing[AGE]
    if not math.isinf(ageing[HALF_LIFE]):
        age += (now - ageing[SINCE]) / ageing[HALF_LIFE]
    return age


@compiled
def share_left(information: float, half_lives: float) -> float:
    """Return what sums whose sites have this precision are multiplied by after some half-lives."""
    if not half_lives > 0.0:
        return 1.0
    stays: float = max(2.0 ** (-2.0 * half_lives), LEAST)
    return stays / (1.0 + (1.0 - stays) * WORTH * information)


@compiled
def remaining(totals: Array, now: float, ageing: Array) -> float:
    """Return what the sums of a pair are multiplied by when it is looked at, given its totals."""
    share: float = share_left(totals[INFORMATION], age_at(now, ageing) - totals[TIME])
    return share


def shares_left(information: Array, half_lives: Array | float) -> Array:
    """Return what :func:`share_left` does, of arrays."""
    stays = np.maximum(np.exp2(-2.0 * np.maximum(half_lives, 0.0)), LEAST)
    return np.asarray(stays / (1.0 + (1.0 - stays) * WORTH * information))


def new_ageing(forgetting: Forgetting) -> Array:
    """Return ``Store.ageing`` before any reward."""
    return np.array([forgetting.half_life, 0.0, 0.0, float(forgetting.fades)])


def moved_on(ageing: Array, now: float, half_life: float, jump: float = 0.0) -> Array:
    """Return ``Store.ageing`` with another half-life from now on, and an age that jumps."""
    now = max(now, float(ageing[SINCE]))
    return np.array([half_life, now, age_at(now, ageing) + jump, ageing[FADES]])


class Event(NamedTuple):
    """What was noticed: that another half-life predicts better, or a change of a task, or of :data:`ALL_TASKS`.

    A half-life may be that of the amounts of revenue, which fade by their own.
    """

    time: float
    half_life: float | None = None
    task: int | None = None
    of_amounts: bool = False


class Forgetting(Protocol):
    """How what was learned fades; :class:`Never` has a default for all but the half-life.

    Attributes
    ----------
    half_life : float
        The one in force, in units of the clock; infinite if nothing fades by itself.
    fades : bool
        Whether anything may ever fade.
    watches : bool
        Whether every reward is to be compared with what was believed.
    changes : list of Change
    """

    half_life: float
    fades: bool
    watches: bool
    changes: list[Change]

    def watch(self, now: float, task: int, arm: int, x: Array, reward: float, before: Believed) -> Event | None:
        """Compare a reward that is about to be learned with what is believed; what is noticed counts once applied."""

    def apply(self, event: Event) -> int | None:
        """Let what was noticed, here or elsewhere, count; return the task that starts anew, if one does, or all."""

    def forget(self, tasks: IntArray) -> None:
        """Forget all about some tasks."""

    def state(self) -> dict[str, Array]:
        """Return all that was found out."""

    def restore(self, saved: dict[str, Array]) -> None:
        """Continue where a state was taken."""


class Never:
    """Nothing is forgotten."""

    half_life = math.inf
    fades = False
    watches = False

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def watch(self, now: float, task: int, arm: int, x: Array, reward: float, before: Believed) -> Event | None:  # noqa: ARG002
        """Return None: nothing is looked for."""
        return None

    def apply(self, event: Event) -> int | None:
        """Note what was noticed elsewhere."""
        if event.half_life is not None:
            self.half_life = event.half_life
            return None
        if event.task is not None:
            self.changes = [*self.changes[1 - KEPT :], Change(event.time, event.task)]
        return event.task

    def forget(self, tasks: IntArray) -> None:
        """Forget the changes of some tasks."""
        self.changes = [change for change in self.changes if change.task not in set(tasks.tolist())]

    def state(self) -> dict[str, Array]:
        """Return the half-life in force, 0 for none, and the changes."""
        half_life = 0.0 if math.isinf(self.half_life) else self.half_life
        return {"half_life": np.array([half_life]), "changes": np.array(self.changes, dtype=np.float64).reshape(-1, 2)}

    def restore(self, saved: dict[str, Array]) -> None:
        """Continue where a state was taken."""
        self.half_life = float(saved["half_life"][0]) or math.inf
        self.changes = [Change(time, int(task)) for time, task in saved["changes"].tolist()]


class HalfLife(Never):
    """A half-life that is given, in units of the clock."""

    fades = True

    def __init__(self, half_life: float) -> None:
        super().__init__()
        self.half_life = half_life


class Learned(Never):
    """The half-life under which rewards are predicted best, and a watch for sudden changes.

    Parameters
    ----------
    candidates : sequence of float
        Half-lives that are compared, in units of the clock; "none" is one more.
    n_arms, n_features : int
    family : RewardFamily
    """

    fades = True
    watches = True

    def __init__(self, candidates: Sequence[float], n_arms: int, n_features: int, family: RewardFamily) -> None:
        super().__init__()
        self.likelihoods = OfFamily(LINKED[family.name]) if family.name in LINKED else OfNumbers()
        self.half_lives = HalfLives((math.inf, *candidates), n_arms, n_features, self.likelihoods)
        self.detectors = Detectors(self.likelihoods.n_alternatives)

    def watch(self, now: float, task: int, arm: int, x: Array, reward: float, before: Believed) -> Event | None:
        """Compare a reward that is about to be learned with what is believed; what is noticed counts once applied."""
        changed = self.detectors.note(task, self.likelihoods.surprises(reward, before))
        if changed is not None:
            return Event(now, task=changed)
        self.half_lives.learn(now, task, arm, x, reward, before)
        best = self.half_lives.best(self.half_life)
        return None if best == self.half_life else Event(now, half_life=best)

    def apply(self, event: Event) -> int | None:
        """Let what was noticed, here or elsewhere, count; return the task that starts anew, if one does, or all."""
        task = super().apply(event)
        if task is not None:
            self.half_lives.restart(task)
        return task

    def forget(self, tasks: IntArray) -> None:
        """Forget all about some tasks."""
        super().forget(tasks)
        for task in tasks.tolist():
            self.detectors.clear(task, shares=True)
        self.half_lives.forget(set(tasks.tolist()))

    def state(self) -> dict[str, Array]:
        """Return all that was found out."""
        return super().state() | self.detectors.state() | self.half_lives.state()

    def restore(self, saved: dict[str, Array]) -> None:
        """Continue where a state was taken."""
        super().restore(saved)
        self.detectors.restore(saved)
        self.half_lives.restore(saved)


class HalfLives:
    """Sums of the pairs of some tasks under several half-lives, and how well each predicts.

    Parameters
    ----------
    candidates : sequence of float
        Half-lives; the first is infinite.
    n_arms, n_features : int
    likelihoods : OfNumbers or OfFamily
    """

    def __init__(
        self, candidates: Sequence[float], n_arms: int, n_features: int, likelihoods: OfNumbers | OfFamily
    ) -> None:
        self.candidates, self._likelihoods = np.array(candidates, dtype=np.float64), likelihoods
        h, d = self.candidates.size, n_features
        self.n_tasks = max(1, min(WATCHED, WATCHED_BYTES // (8 * n_arms * h * (d + 1) * (d + 1))))
        self.score = np.zeros(h)
        self.tasks: set[int] = set()
        self.pairs: dict[tuple[int, int], int] = {}
        self._free: list[int] = []  # places of pairs that were forgotten
        self._sums: dict[str, Array] = {
            "time": np.zeros(0),
            "information": np.zeros((0, h)),
            "moment": np.zeros((0, h, d)),
            "gram": np.zeros((0, h, d, d)),
        }

    def learn(self, now: float, task: int, arm: int, x: Array, reward: float, before: Believed) -> None:
        """Compare predictions of a reward under every half-life, then learn it; of a task that is watched."""
        if task not in self.tasks and len(self.tasks) >= self.n_tasks:
            return
        place = self._place(task, arm, now)
        time, information, moment, gram = (array[place : place + 1] for array in self._sums.values())
        self._scale(place, shares_left(information[0], (now - time[0]) / self.candidates))
        time[0] = max(now, time[0])
        with np.errstate(all="ignore"):
            mean, variance = predict_each(gram[0], moment[0], x, before)
            gain, precision, seen = self._likelihoods.predicted(
                reward, mean + before.offset, variance + before.spread, before
            )
            share = 1.0 / (1.0 + precision * before.spread)
            precision, seen = share * precision, share * (seen - precision * before.offset)
        if not np.isfinite(gain).all():
            return  # of a size beyond all others: it says nothing about half-lives
        self.score *= 1.0 - 1.0 / MEMORY
        self.score += gain
        gram[0] += precision[:, None, None] * np.outer(x, x)
        moment[0] += seen[:, None] * x
        information[0] += precision

    def best(self, present: float) -> float:
        """Return the half-life that predicts best, or the present one unless another is clearly better."""
        score = self.score.copy()
        score[0] += PREFERENCE
        score[self.candidates == present] += RESISTANCE
        if self._likelihoods.learns_noise and self.pairs:
            # Where few rewards of a pair are left, nothing tells noise from how much tasks differ.
            left = self._sums["information"][list(self.pairs.values())].mean(axis=0)
            score[left < min(self._sums["moment"].shape[2], 0.5 * left[0])] = -np.inf
        return float(self.candidates[score.argmax()])

    def restart(self, task: int) -> None:
        """Let all that was learned about a task, or about all, count for little."""
        places = [place for (owner, _), place in self.pairs.items() if task in (owner, ALL_TASKS)]
        self._scale(places, shares_left(self._sums["information"][places], ANEW))

    def forget(self, tasks: set[int]) -> None:
        """Watch some tasks no longer."""
        self.tasks -= tasks
        self._free += [self.pairs.pop(pair) for pair in list(self.pairs) if pair[0] in tasks]

    def state(self) -> dict[str, Any]:
        """Return sums and scores."""
        places = list(self.pairs.values())
        pairs: dict[str, Any] = {
            "score": self.score.copy(),
            "pairs": np.array(list(self.pairs), dtype=np.int64).reshape(-1, 2),
        }
        return pairs | {name: array[places] for name, array in self._sums.items()}

    def restore(self, saved: dict[str, Array]) -> None:
        """Continue where a state was taken."""
        pairs = [(int(task), int(arm)) for task, arm in saved["pairs"].tolist()]
        self.score, self._sums = saved["score"].copy(), {name: saved[name].copy() for name in self._sums}
        self.pairs, self.tasks, self._free = {pair: n for n, pair in enumerate(pairs)}, {task for task, _ in pairs}, []

    def _scale(self, places: int | list[int], share: Array) -> None:
        """Multiply the sums at a place, or at several."""
        for name in ("information", "moment", "gram"):
            array = self._sums[name]
            array[places] *= share.reshape(*share.shape, *[1] * (array.ndim - 2))

    def _place(self, task: int, arm: int, now: float) -> int:
        """Return where the sums of a pair are, which start now if it is new."""
        place = self.pairs.get((task, arm))
        if place is None:
            place = self._free.pop() if self._free else len(self.pairs)
            if place >= self._sums["time"].size:
                size = max(16, 2 * place)
                for name, array in self._sums.items():
                    self._sums[name] = np.zeros((size, *array.shape[1:]))
                    self._sums[name][: len(array)] = array
            self.tasks.add(task)
            self.pairs[task, arm] = place
            for name, array in self._sums.items():
                array[place] = now if name == "time" else 0.0
        return place


def predict_each(gram: Array, moment: Array, x: Array, before: Believed) -> tuple[Array, Array]:
    """Return mean and variance of the predictor under each of several sums of one pair."""
    # m = mu + Sigma (A Sigma + s2 I)^-1 (b - A mu), and x'Cx likewise: no inverse of Sigma, which may be singular.
    middle = before.covariance @ gram
    middle[:, np.arange(x.size), np.arange(x.size)] += before.noise
    right = np.broadcast_to(before.covariance @ x, moment.shape)[:, :, None]
    try:
        weights = np.linalg.solve(middle, right)[:, :, 0]
    except np.linalg.LinAlgError:
        weights = np.full(moment.shape, np.nan)
    mean = x @ before.centre + ((moment - gram @ before.centre) * weights).sum(axis=1)
    return mean, np.maximum(before.noise * (weights @ x), 0.0)
