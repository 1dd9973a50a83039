"""One reward in the place of another: what a decision counted as until its reward came.

The context stays, so the Gram matrix, the count and every covariance stay. With the symbols of
:mod:`posse.kernels.posterior` and D the new reward less the old one::

    b += D x,   q += new^2 - old^2,   m += D Ct x,   r += D (x - A Ct x) / s2,   m0 = Phi r

which is exact: the posterior is the one that the new reward alone would have given.
"""

from __future__ import annotations

from posse.kernels.compiler import inlined_kernel, kernel, woven_kernel
from posse.kernels.decision_arrays import DecisionArrays, open_decision_arrays, settle
from posse.kernels.linalg import multiply_symmetric
from posse.kernels.sums import Sums
from posse.types import Array, IntArray

SLACK = 1e-9  # of a bound that holds exactly but for rounding


@inlined_kernel
def exchange(sums: Sums, row: int, x: Array, old: float, new: float) -> None:
    """Put a reward in the place of an old one in the sums of a slot, whose Gram matrix is an upper triangle."""
    moment, gram = sums.moment[row], sums.gram[row]
    d = x.shape[0]
    change = new - old
    squares = sums.sum_of_squares[row] + (new * new - old * old)
    place = 0
    for i in range(d):
        moment[i] += x[i] * change
        # Taking away leaves rounding behind: squares must stay as large as Cauchy and Schwarz say.
        if gram[place] > 0.0:
            least = moment[i] * moment[i] / gram[place]
            if squares < (1.0 - SLACK) * least:
                squares = least
        place += d - i
    sums.sum_of_squares[row] = max(squares, 0.0)


@woven_kernel
def replace_reward(ground: DecisionArrays, arm: int, task: int, x: Array, old: float, new: float) -> None:
    """Let a reward that was learned be another one: exact, O(d^2), whatever the number of tasks."""
    ground.one[0] = arm
    settle(ground, task, ground.one, 0, 1, ground.lanes)
    belief = ground.belief
    v, w = ground.vectors[0], ground.vectors[1]
    row = belief.slot[task, arm]
    s2 = belief.noise_variance[arm]
    change = new - old
    multiply_symmetric(belief.local_covariance[row], x, v)
    multiply_symmetric(belief.sums.gram[row], v, w)
    local_mean, shared_moment = belief.local_mean[row], belief.shared_moment[arm]
    for i in range(x.shape[0]):
        local_mean[i] += change * v[i]
        shared_moment[i] += change * ((x[i] - w[i]) / s2)
    multiply_symmetric(belief.shared_covariance[arm], shared_moment, belief.shared_mean[arm])
    exchange(belief.sums, row, x, old, new)


@kernel
def replace_rows(address: int, tasks: IntArray, arms: IntArray, contexts: Array, old: Array, new: Array) -> None:
    """Replace rewards one after another, each exactly; every pair must have learned the old one."""
    ground = open_decision_arrays(address)
    for row in range(tasks.shape[0]):
        replace_reward(ground, arms[row], tasks[row], contexts[row], old[row], new[row])


@kernel
def exchange_rows(sums: Sums, settled: IntArray, slots: IntArray, contexts: Array, old: Array, new: Array) -> None:
    """Replace rewards in the sums of their slots only; beliefs are marked as not settled."""
    for row in range(slots.shape[0]):
        exchange(sums, slots[row], contexts[row], old[row], new[row])
        settled[slots[row]] = -1
