r"""What arms are worth beyond their features.

The reward of arm a in task j is :math:`\phi^\top \theta_j + r_a + \varepsilon` with :math:`r_a \sim N(0, \tau^2)`,
the same in all tasks. A reward says about :math:`r_a` what is left of it after the features, with the variance of that:
noise and coefficients together. These messages add, so they are kept per pair of task and arm, and a task can be
forgotten.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.engine.commit import Steps

if TYPE_CHECKING:
    from posse.types import Array, BoolArray, IntArray

START = 0.1  # of the noise variance: how far arms are believed to be from their features before any reward
PSEUDO_ARMS = 4.0  # that START counts as
GRID = np.logspace(-4, 3, 113)  # of the variance, over the noise variance
FIRST_ROOM = 64


class Residuals:
    r"""Residuals of all arms, by number.

    :attr:`variance` is :math:`\tau^2`. Nothing is checked here, and nothing locked.
    """

    def __init__(self) -> None:
        self.variance = START
        self.n_pairs = 0
        self._row: dict[tuple[int, int], int] = {}
        self._task, self._arm = (np.zeros(FIRST_ROOM, dtype=np.int64) for _ in range(2))
        self._sums: Array = np.zeros((2, FIRST_ROOM))  # information and moment of every pair
        self._of_arm: Array = np.zeros((2, FIRST_ROOM))  # the same of every arm

    @property
    def pairs(self) -> tuple[IntArray, IntArray, Array]:
        """Tasks, arms, and information and moment of every pair with rewards."""
        n = self.n_pairs
        return self._task[:n], self._arm[:n], self._sums[:, :n]

    def of(self, arms: IntArray) -> tuple[Array, Array]:
        """Return mean and variance of the residuals of some arms; a negative number is an arm without rewards."""
        information, moment = np.where(arms >= 0, self._of_arm[:, np.maximum(arms, 0)], 0.0)
        variance = 1.0 / (information + 1.0 / self.variance)
        return variance * moment, variance

    def reserve_arms(self, count: int) -> None:
        """Make room for so many arms."""
        if count > self._of_arm.shape[1]:
            room = np.zeros((2, 2 * count))
            room[:, : self._of_arm.shape[1]] = self._of_arm
            self._of_arm = room

    def adding(self, task: int, arm: int, information: float, moment: float) -> Steps:
        """Add what one reward says; there must be room for the arm."""
        row = self._row.get((task, arm), self.n_pairs)
        if row == self._task.size:
            grown = {"_task": np.zeros(2 * row, dtype=np.int64), "_arm": np.zeros(2 * row, dtype=np.int64)}
            sums = np.zeros((2, 2 * row))
            grown["_task"][:row], grown["_arm"][:row], sums[:, :row] = self._task, self._arm, self._sums
            self.__dict__.update(grown, _sums=sums)
        news = np.array([information, moment])
        steps: Steps = [
            partial(self._sums.__setitem__, (slice(None), row), self._sums[:, row] + news),
            partial(self._of_arm.__setitem__, (slice(None), arm), self._of_arm[:, arm] + news),
        ]
        if row == self.n_pairs:
            steps += [
                partial(self._task.__setitem__, row, task),
                partial(self._arm.__setitem__, row, arm),
                partial(self._row.__setitem__, (task, arm), row),
                partial(self.__dict__.update, n_pairs=row + 1),
            ]
        return steps

    def keeping(self, kept: BoolArray, numbers: IntArray | None = None) -> Steps:
        """Keep some pairs only; ``numbers`` says which number every arm has from now on."""
        task, arm, sums = self.pairs
        arm = arm if numbers is None else numbers[arm]
        others = Residuals()
        others._of_arm = np.zeros_like(self._of_arm)  # as much room as there is
        others.replace(task[kept].copy(), arm[kept].copy(), sums[:, kept].copy())
        return [partial(self.__dict__.update, others.__dict__, variance=self.variance)]

    def joining(self, task: IntArray, arm: IntArray, sums: Array) -> Steps:
        """Add what pairs elsewhere say, none of them twice; there must be room for the arms."""
        places = [self._row.get(pair, -1) for pair in zip(task.tolist(), arm.tolist(), strict=True)]
        row = np.array(places, dtype=np.int64)
        there = row >= 0
        tasks, arms, mine = self.pairs
        together = mine.copy()
        together[:, row[there]] += sums[:, there]
        totals = self._of_arm.copy()
        for whole, part in zip(totals, sums, strict=True):
            whole += np.bincount(arm, weights=part, minlength=whole.size)
        others = Residuals()
        others._of_arm = np.zeros_like(self._of_arm)
        others.replace(
            np.concatenate([tasks, task[~there]]),
            np.concatenate([arms, arm[~there]]),
            np.concatenate([together, sums[:, ~there]], axis=1),
            totals,
        )
        return [partial(self.__dict__.update, others.__dict__, variance=self.variance)]

    def totals(self, n_arms: int) -> Array:
        """Return information and moment of so many arms."""
        return self._of_arm[:, :n_arms]

    def replace(self, task: IntArray, arm: IntArray, sums: Array, totals: Array | None = None) -> bool:
        """Have these pairs in place of all others; ``totals`` are their sums by arm, to the last digit if known.

        Returns whether the totals are those of the pairs.
        """
        n_arms = max(int(arm.max()) + 1 if arm.size else 0, self._of_arm.shape[1])
        of_arm = np.stack([np.bincount(arm, weights=part, minlength=n_arms) for part in sums])
        same = True
        if totals is not None:
            added = of_arm[:, : totals.shape[1]]
            same = bool(np.allclose(added, totals, rtol=1e-6, atol=1e-9 * float(np.abs(sums).sum())))
            added[...] = totals
        row = {pair: place for place, pair in enumerate(zip(task.tolist(), arm.tolist(), strict=True))}
        room = max(FIRST_ROOM, task.size)
        pad = (0, room - task.size)
        self.__dict__.update(
            _task=np.pad(task, pad), _arm=np.pad(arm, pad), _sums=np.pad(sums, ((0, 0), pad)),
            _of_arm=of_arm, _row=row, n_pairs=task.size,
        )  # fmt: skip
        return same

    def estimate(self, noise_variance: float) -> None:
        """Learn how far arms are from their features: the most likely variance, given what is left of all rewards."""
        there = self._of_arm[0] > 0
        own = 1.0 / self._of_arm[0, there]
        square = (own * self._of_arm[1, there]) ** 2
        grid = noise_variance * GRID
        # A few arms of the start keep it from running away while there is nothing to tell it from noise.
        loss = PSEUDO_ARMS * (np.log(grid) + START * noise_variance / grid)
        for place, variance in enumerate(grid):
            total = variance + own
            loss[place] += float((np.log(total) + square / total).sum())
        self.variance = float(grid[int(np.argmin(loss))])
