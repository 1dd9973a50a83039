r"""What arms are worth beyond their features.

The reward of arm a in task j is :math:`\phi^\top \theta_j + r_a + \varepsilon` with :math:`r_a \sim N(0, \tau^2)`,
the same in all tasks. A reward says about :math:`r_a` what is left of it after the features, with the variance of that:
noise and coefficients together. These messages add, so they are kept per pair of task and arm, and a task can be
forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from posse.types import Array, BoolArray, IntArray

START = 0.1  # of the noise variance: how far arms are believed to be from their features before any reward
PSEUDO_ARMS = 4.0  # that START counts as
GRID = np.logspace(-4, 3, 113)  # of the variance, over the noise variance
FIRST_SIZE = 64


class Residuals:
    r"""Residuals of all arms, by number.

    :attr:`variance` is :math:`\tau^2`. Nothing is checked here, and nothing locked.
    """

    def __init__(self) -> None:
        self.variance = START
        self.n_pairs = 0
        self._row: dict[tuple[int, int], int] = {}
        self._task, self._arm = (np.zeros(FIRST_SIZE, dtype=np.int64) for _ in range(2))
        self._sums: Array = np.zeros((2, FIRST_SIZE))  # information and moment of every pair
        self._of_arm: Array = np.zeros((2, FIRST_SIZE))  # the same of every arm

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

    def reserve(self, n_arms: int, n_pairs: int = 1) -> None:
        """Make capacity for this many arms, and for further pairs."""
        if n_arms > self._of_arm.shape[1]:
            of_arm = np.zeros((2, 2 * n_arms))
            of_arm[:, : self._of_arm.shape[1]] = self._of_arm
            self._of_arm = of_arm
        if self.n_pairs + n_pairs > self._task.size:
            pad = (0, 2 * (self.n_pairs + n_pairs) - self._task.size)
            grown = {"_task": np.pad(self._task, pad), "_arm": np.pad(self._arm, pad)}
            self.__dict__.update(grown, _sums=np.pad(self._sums, ((0, 0), pad)))

    def add(self, task: int, arm: int, information: float, moment: float) -> None:
        """Add the message of one reward; there must be capacity."""
        row = self._row.setdefault((task, arm), self.n_pairs)
        self._task[row], self._arm[row] = task, arm
        self.n_pairs = max(self.n_pairs, row + 1)
        for column, value in enumerate((information, moment)):
            self._sums[column, row] += value
            self._of_arm[column, arm] += value

    def without(self, kept: BoolArray, numbers: IntArray | None = None) -> Residuals:
        """Return what some pairs say; ``numbers`` has the number of every arm from now on."""
        task, arm, sums = self.pairs
        arm = arm if numbers is None else numbers[arm]
        return self._with(task[kept], arm[kept], sums[:, kept])

    def together(self, task: IntArray, arm: IntArray, sums: Array, n_arms: int) -> Residuals:
        """Return what the pairs here and others say, of which none comes twice."""
        row = np.array([self._row.get(pair, -1) for pair in zip(task.tolist(), arm.tolist(), strict=True)], dtype=int)
        there, (tasks, arms, mine) = row >= 0, self.pairs
        both = mine.copy()
        both[:, row[there]] += sums[:, there]
        more = np.concatenate([both, sums[:, ~there]], axis=1)
        return self._with(np.concatenate([tasks, task[~there]]), np.concatenate([arms, arm[~there]]), more, n_arms)

    def _with(self, task: IntArray, arm: IntArray, sums: Array, n_arms: int = 0) -> Residuals:
        others = Residuals()
        others.variance = self.variance
        others.reserve(max(n_arms, self._of_arm.shape[1]))
        others.replace(task.copy(), arm.copy(), sums.copy())
        return others

    def totals(self, n_arms: int) -> Array:
        """Return information and moment of the first arms."""
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
        pad = (0, max(FIRST_SIZE, task.size) - task.size)
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
