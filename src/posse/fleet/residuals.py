r"""What arms are worth beyond their features, and a core that learns it together with the coefficients of tasks.

The predictor of a reward of arm a in task j is :math:`\phi^\top \theta_j + r_a` with :math:`r_a \sim N(0, \tau^2)`, the
same in all tasks. Each of the two is learned as if the other were more noise: under the belief N(m, v) about
:math:`\phi^\top \theta_j` a reward is a Gaussian factor on :math:`r_a`, its site, and the other way round. Sites add,
so they are kept per pair of task and arm, and a task can be forgotten.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.core import Core
from posse.core.forgetting import age_at, share_left, shares_left
from posse.core.rehearsal import rehearse
from posse.core.soundness import require
from posse.core.state import Receipt, Receipts
from posse.families.sites import NUMBER, expected_reward, site_of_part
from posse.interrupts import finish

if TYPE_CHECKING:
    from posse.types import Array, BoolArray, IntArray

START = 0.1  # of the noise variance: how far arms are believed to be from their features before any reward
PSEUDO_ARMS = 4.0  # that START counts as
GRID = np.logspace(-4, 3, 113)  # of the variance, over the noise variance
FIRST_SIZE = 64

# Columns of arms: sums of sites; the age as of which they are, and the log of what the first site counts for then; and
# when the arm was decided on last, in decisions.
INFORMATION, MOMENT, AGE, DECAYED, USED = range(5)

# Of a decision, behind its joint features: how the core was given the reward, as ``scale * (reward - shift)`` seen at
# ``scale * x``; by how much the moment of its site on the residual grows with the reward; and DECAYED of the arm then.
N_MORE = 4
DECAYED_AT = -1
ONLY = np.zeros(1, dtype=np.int64)  # the one arm that there are coefficients of

logger = logging.getLogger("posse")


class Residuals:
    r"""Residuals of all arms, by number; they age as pairs of a core do (:mod:`posse.core.forgetting`).

    :attr:`variance` is :math:`\tau^2`, and :attr:`noise` that of a reward, by which sites are measured when they age.
    Nothing is checked here, and nothing locked.
    """

    def __init__(self) -> None:
        self.variance, self.noise = START, 1.0
        self.n_arms = self.n_pairs = 0
        self._row: dict[tuple[int, int], int] = {}
        self._arms: Array = np.zeros((FIRST_SIZE, 5))
        self._owner: IntArray = np.zeros((FIRST_SIZE, 2), dtype=np.int64)  # task and arm of every pair with rewards
        self._sums: Array = np.zeros((FIRST_SIZE, 3))  # INFORMATION and MOMENT of it, and DECAYED of the arm back then

    def of(self, arms: IntArray, age: float) -> tuple[Array, Array]:
        """Return mean and variance of the residuals of some arms; a negative number is an arm without rewards."""
        there = self._arms[np.where((arms >= 0) & (arms < self.n_arms), arms, -1)]  # the last has no rewards
        share = self._shares(there, age)
        variance = 1.0 / (share * there[:, INFORMATION] + 1.0 / self.variance)
        return variance * share * there[:, MOMENT], variance

    def of_one(self, arm: int, age: float) -> tuple[float, float]:
        """Return mean and variance of the residual of an arm, for which there is capacity."""
        information, moment, _, decayed, _ = self._arms[arm].tolist()
        share = math.exp(self.decayed(arm, age) - decayed)
        variance = 1.0 / (share * information + 1.0 / self.variance)
        return variance * share * moment, variance

    def reserve(self, n_arms: int, n_pairs: int = 1) -> None:
        """Make capacity for this many arms, and for further pairs."""
        if n_arms >= len(self._arms):
            self._arms = _grown(self._arms, 2 * n_arms)
        if self.n_pairs + n_pairs > len(self._sums):
            size = 2 * (self.n_pairs + n_pairs)
            owner, sums = _grown(self._owner, size), _grown(self._sums, size)
            self._owner, self._sums = owner, sums

    def use(self, arms: IntArray, when: float) -> None:
        """Note that arms are decided on, new ones among them; there must be capacity."""
        self._arms[arms, USED] = when
        self.n_arms = max(self.n_arms, int(arms.max()) + 1)

    def add(self, task: int, arm: int, site: tuple[float, float], age: float, since: float | None = None) -> float:
        """Add the site of a reward and return DECAYED of the arm; there must be capacity.

        ``since`` is what that was when the site counted for as much as is said here. Default: now.
        """
        row, decayed = self._row.setdefault((task, arm), self.n_pairs), self.decayed(arm, age)
        there, pair = self._arms[arm].tolist(), self._sums[row].tolist() if row < self.n_pairs else [0.0, 0.0, decayed]
        share, left = math.exp(decayed - there[DECAYED]), math.exp(decayed - pair[2])
        weight = 1.0 if since is None else math.exp(decayed - since)
        information, moment = weight * site[0], weight * site[1]
        # From here on nothing can fail.
        self._owner[row, 0], self._owner[row, 1] = task, arm
        self._sums[row] = left * pair[0] + information, left * pair[1] + moment, decayed
        self._arms[arm, :USED] = (
            share * there[0] + information, share * there[1] + moment, max(age, there[AGE]), decayed,
        )  # fmt: skip
        self.n_pairs, self.n_arms = max(self.n_pairs, row + 1), max(self.n_arms, arm + 1)
        return decayed

    def decayed(self, arm: int, age: float) -> float:
        """Return DECAYED of an arm at some age."""
        information, _, since, decayed, _ = self._arms[arm].tolist()
        if not age > since:
            return float(decayed)
        return float(decayed + math.log(share_left(information * self.noise, age - since)))

    def _shares(self, arms: Array, age: float) -> Array:
        if not (arms[:, AGE] < age).any():
            return np.ones(len(arms))
        return shares_left(arms[:, INFORMATION] * self.noise, age - arms[:, AGE])

    @property
    def used(self) -> Array:
        """When each arm was decided on last."""
        return self._arms[: self.n_arms, USED]

    @property
    def owner(self) -> IntArray:
        """Task and arm of every pair with rewards."""
        return self._owner[: self.n_pairs]

    def without(self, stays: BoolArray, numbers: IntArray) -> Residuals:
        """Return what some pairs say; ``numbers`` has the number of every arm from now on, -1 for those that go."""
        result, arms = Residuals(), np.flatnonzero(numbers[: self.n_arms] >= 0)
        owner, sums = self._owner[: self.n_pairs][stays].copy(), self._sums[: self.n_pairs][stays].copy()
        there = self._arms[arms]
        if not stays.all():
            sums[:, :2] *= np.exp(self._arms[owner[:, 1], DECAYED] - sums[:, 2])[:, None]
            sums[:, 2] = self._arms[owner[:, 1], DECAYED]
            for column in (INFORMATION, MOMENT):
                there[:, column] = np.bincount(owner[:, 1], sums[:, column], minlength=self.n_arms)[arms]
        owner[:, 1] = numbers[owner[:, 1]]
        placed = np.zeros((arms.size, 5))
        placed[numbers[arms]] = there
        result._take(placed, owner, sums, self.variance)
        result.noise = self.noise
        return result

    def joined(
        self, other: Residuals, tasks: IntArray, arms: IntArray, ages: tuple[float, float]
    ) -> tuple[Residuals, Array]:
        """Return what is said here and by others, aged, and by how much DECAYED of each of their arms is more here.

        ``tasks`` and ``arms`` are the numbers here of the other's, whose decisions count as later.
        """
        result = self.without(np.ones(self.n_pairs, dtype=np.bool_), np.arange(self.n_arms))
        theirs = arms[: other.n_arms]
        result.reserve(int(theirs.max(initial=-1)) + 1, other.n_pairs)
        more, later = np.zeros(other.n_arms), self._arms[: self.n_arms, USED].max(initial=0.0)
        for arm, here in enumerate(theirs.tolist()):
            decayed = other.decayed(arm, ages[1])
            more[arm] = (result.decayed(here, ages[0]) if here < self.n_arms else 0.0) - decayed
            result.use(np.array([here]), later + other._arms[arm, USED])
        for (task, arm), (information, moment, decayed) in zip(
            other._owner[: other.n_pairs].tolist(), other._sums[: other.n_pairs].tolist(), strict=True
        ):
            result.add(int(tasks[task]), int(arms[arm]), (information, moment), ages[0], decayed + float(more[arm]))
        return result, more

    def estimate(self, noise: float, age: float) -> None:
        """Learn how far arms are from their features: the most likely variance, given what is left of all rewards."""
        arms = self._arms[: self.n_arms]
        arms = arms[arms[:, INFORMATION] > 0]
        share = self._shares(arms, age)
        own, square = 1.0 / (share * arms[:, INFORMATION]), (arms[:, MOMENT] / arms[:, INFORMATION]) ** 2
        grid = noise * GRID
        # A few arms of the start keep it from running away while there is nothing to tell it from noise.
        loss = PSEUDO_ARMS * (np.log(grid) + START * noise / grid)
        for place, variance in enumerate(grid):
            total = variance + own
            loss[place] += float((np.log(total) + square / total).sum())
        self.variance, self.noise = float(grid[int(np.argmin(loss))]), noise

    def arrays(self) -> dict[str, Any]:
        """Return copies of all that there is."""
        return {
            "residuals.variance": np.array([self.variance]),
            "residuals.arms": self._arms[: self.n_arms].copy(),
            "residuals.owner": self._owner[: self.n_pairs].copy(),
            "residuals.sums": self._sums[: self.n_pairs].copy(),
        }

    @classmethod
    def read(cls, saved: dict[str, Any]) -> Residuals:
        """Return what :meth:`arrays` gave, or raise ValueError."""
        arms, owner, sums, variance = (
            np.array(saved[f"residuals.{name}"]) for name in ("arms", "owner", "sums", "variance")
        )
        require(variance.shape == (1,) and variance[0] > 0.0, "a variance of residuals that is greater than 0")
        require(len(sums) == len(owner) and (owner >= 0).all(), "as many pairs as sums")
        require((owner[:, 1] < len(arms)).all(), "pairs of arms that there are")
        require(len(set(map(tuple, owner.tolist()))) == len(owner), "every pair of task and arm once")
        require((sums[:, 0] >= 0.0).all() and (arms[:, INFORMATION] >= 0.0).all(), "sites that say something")
        now = np.exp(np.minimum(arms[owner[:, 1], DECAYED] - sums[:, 2], 0.0))
        size = np.abs(sums[:, :2]).sum()
        for column in (INFORMATION, MOMENT):
            added = np.bincount(owner[:, 1], now * sums[:, column], minlength=len(arms))
            require(np.allclose(added, arms[:, column], 1e-6, 1e-9 * size), "sums of arms as of their pairs")
        result = cls()
        result._take(arms, owner, sums, float(variance[0]))
        return result

    def _take(self, arms: Array, owner: IntArray, sums: Array, variance: float) -> None:
        row = {pair: place for place, pair in enumerate(map(tuple, owner.tolist()))}
        self.__dict__.update(
            variance=variance, n_arms=len(arms), n_pairs=len(owner), _row=row,
            _arms=_grown(arms, len(arms) + FIRST_SIZE), _owner=_grown(owner, len(owner) + FIRST_SIZE),
            _sums=_grown(sums, len(owner) + FIRST_SIZE),
        )  # fmt: skip


def _grown(array: Any, size: int) -> Any:
    return np.pad(array, ((0, size - len(array)), (0, 0)))


class CatalogueCore(Core):
    """A core with coefficients for one arm, whose rewards are of many; each of these has a residual of its own.

    ``arm`` is the number of one of the many, also in receipts. Contexts are joint features; those of receipts have
    :data:`N_MORE` further columns, from which a reward can be replaced.
    """

    least_arm = -1  # a decision on an arm that was dropped since

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.residuals = Residuals()
        super().__init__(*args, **settings)
        rehearse(Core, self._kind._replace(divides=True))

    @property
    def n_choices(self) -> int:
        """How many arms decisions may be on."""
        return self.residuals.n_arms

    @property
    def context_width(self) -> int:
        """How many columns the context of a receipt has."""
        return self.n_features + N_MORE

    @property
    def noise(self) -> float:
        """The noise variance, 1 of clicks and counts."""
        return float(self.state.store.noise[0])

    def age(self, now: float) -> float:
        """Return how many half-lives have passed at some time, or at that of the latest reward if it is later."""
        return float(age_at(max(now, self.now), self.state.store.ageing))

    def prepare(self, tasks: IntArray, arms: IntArray, *, sums_only: bool = False) -> None:
        """Prepare for rewards of these tasks and arms."""
        self.residuals.reserve(int(arms.max(initial=-1)) + 1, arms.size)
        super().prepare(tasks, np.zeros_like(arms), sums_only=sums_only)

    def prepare_one(self, task: int, arm: int) -> None:
        """Prepare for one reward."""
        self.residuals.reserve(arm + 1)
        super().prepare_one(task, 0)

    def learn(  # type: ignore[override]
        self, task: int, arm: int, x: Array, reward: float, now: float, *, is_open: bool = False
    ) -> Receipt:
        """Learn a reward, in part as one of the task and in part as one of the arm."""
        self.prepare_one(task, arm)
        joint, code, out = x[: self.n_features], self.family.code, np.empty((2, 1))
        noise, dispersion, age = self.noise, float(self.state.store.dispersion[0]), self.age(now)
        self.predict(task, joint, max(now, self.now), ONLY, out)
        mean, variance = float(out[0, 0]), float(out[1, 0]) ** 2
        residual, own = self.residuals.of_one(arm, age)
        precision, moment = site_of_part(code, reward, 1.0, residual, own, mean, variance / noise, dispersion)
        site = precision / noise, moment / noise
        scale, shift, rest = 1.0, 0.0, {"offset": residual, "spread": own}
        if code == NUMBER:
            scale, shift, rest = math.sqrt(noise / (noise + own)), residual, {}
        gain = (1.0 - precision * variance / noise) / noise
        if dispersion > 0.0:  # of a count, whose likelihood then grows by less than its predictor
            place = (residual + own * moment) / (1.0 + own * precision)
            gain /= 1.0 + dispersion * expected_reward(code, mean + place, 0.0)
        context = np.concatenate([joint, [shift, scale, gain, 0.0]])
        learn = partial(super().learn, task, 0, scale * joint, scale * (reward - shift), now, is_open=is_open, **rest)
        receipts: list[Receipt] = []

        def add() -> None:
            context[-1] = self.residuals.add(task, arm, site, age)

        finish([lambda: receipts.append(learn()), add])
        return receipts[0]._replace(arm=arm, context=context, reward=reward)

    def _inner(self, receipt: Receipt) -> Receipt:
        """Return the receipt of what the task has learned."""
        x, (shift, scale, *_) = receipt.context[: self.n_features], receipt.context[self.n_features :].tolist()
        return receipt._replace(arm=0, context=scale * x, reward=scale * (receipt.reward - shift))

    def replaceable(self, receipt: Receipt) -> bool:
        """Return whether the reward of a receipt can still be replaced; not if the arm was dropped."""
        return receipt.arm >= 0 and super().replaceable(receipt._replace(arm=0))

    def replace(self, receipt: Receipt, reward: float, now: float) -> Receipt:
        """Put another reward in the place of one that was learned, for the task and the arm.

        Precision and place of the site on the residual stay: under these links its moment grows with the reward.
        """
        inner, age, replaced = self._inner(receipt), self.age(now), [receipt]
        shift, scale, gain, since = receipt.context[self.n_features :].tolist()

        def replace() -> None:
            replaced[0] = super(CatalogueCore, self).replace(inner, scale * (reward - shift), now)

        more = 0.0, gain * (reward - receipt.reward)
        finish([replace, partial(self.residuals.add, receipt.task, receipt.arm, more, age, since)])
        return replaced[0]._replace(arm=receipt.arm, context=receipt.context, reward=reward)

    def close(self, receipt: Receipt) -> None:
        """Note that no other reward will come in the place of this one."""
        super().close(self._inner(receipt))

    def forget(self, tasks: IntArray) -> None:
        """Forget tasks, and what they said about arms."""
        residuals = self.residuals.without(~np.isin(self.residuals.owner[:, 0], tasks), np.arange(self.n_choices))
        super().forget(tasks)
        self.residuals = residuals

    def install(self, state: Any) -> None:
        """Put an estimated state in place, and estimate how far arms are from their features under it."""
        super().install(state)
        try:
            self.residuals.estimate(self.noise, self.age(self.now))
        except Exception:
            logger.exception(
                "how far arms are from their features could not be estimated and stays as it is until more rewards "
                "have come; all rewards so far are learned"
            )

    def merge(
        self, other: Core, tasks: IntArray, arms: IntArray, now: float, receipts: Receipts | None = None,
        of_pairs: tuple[IntArray, IntArray] | None = None, contexts: Array | None = None,
    ) -> Receipts | None:  # fmt: skip
        """Add what another catalogue has learned; ``contexts`` of receipts are changed to be right here."""
        assert isinstance(other, CatalogueCore)
        joined, more = self.residuals.joined(other.residuals, tasks, arms, (self.age(now), other.age(now)))
        if contexts is not None and of_pairs is not None and more.size:
            contexts[:, DECAYED_AT] += np.where(of_pairs[1] >= 0, more[of_pairs[1]], 0.0)
        one = None if of_pairs is None else (of_pairs[0], np.zeros_like(of_pairs[1]))
        result = super().merge(other, tasks, ONLY, now, receipts, one)
        self.residuals = joined
        return result

    def snapshot(self) -> dict[str, Any]:
        """Return all that was learned as plain arrays."""
        return super().snapshot() | self.residuals.arrays()

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue where a snapshot was taken."""
        residuals = Residuals.read(saved)
        super().restore(saved)
        self.residuals = residuals
        residuals.noise = self.noise
