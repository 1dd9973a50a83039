"""The arrays of a core: tasks, arms, and slots (pairs of task and arm that may have rewards), by number.

The last row of every array over tasks stands for a task that was never seen, so that -1 is its number: it has no slots,
weight 1, and what is known of tasks on average.

Symbols, for arm k and task j: A = gram and b = moment are sums of sites over the rewards of the pair, as they came;
Q = Sigma^-1 is the precision of the population of tasks and s2 the noise variance; z = known features of the task, of
which the first is 1; W the coefficients that all tasks share, D = (1 + p) d of them, with posterior N(m, Phi).
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from posse.core.compiler import inlined
from posse.types import Array, BoolArray, IntArray

# Columns of what is counted of a pair, behind its sums.
# Rewards, squares, site precisions; age at last, log of decay; rewards that are 0, that have a fraction, and below 0.
COUNT, SQUARES, INFORMATION, TIME, DECAY, ZEROS, FRACTIONS, NEGATIVES = range(8)
N_TOTALS = 8

# Of row_values: a reward, its site per unit of weight, DECAY back then, and mean and variance of what else adds to its
# predictor.
REWARD, PRECISION, MOMENT, DECAY_AT, OFFSET, SPREAD = range(6)
N_VALUES = 6  # behind them come notes that go with a row wherever it goes, if its owner has any
NEXT, OPEN, SERIAL = range(3)  # of row_links
FIRST, LAST, CLOSED = range(3)  # of row_ends: the list of a slot, and how many of its rows are closed

# Columns of what an estimate sums up of every arm, (K, 7).
TASKS, REWARDS, RESIDUAL, LEVERAGE, SQUARED_LEVERAGE, SCATTER, GAUSSIAN_SCATTER = range(7)
N_SUMMARIES = 7  # the last is negative if the rewards of the arm were all the same so far


class Store(NamedTuple):
    """All that compiled code works on: K arms, N tasks, S slots, R rows, d features, p features of tasks.

    A row of ``pairs`` has all that is learned about a pair. Its columns, with T = d (d + 1) / 2:

    ================== ====================================================
    0 to T             upper triangle of A, row after row
    T to T + d         b
    T + d to T + d + 8 totals: COUNT, SQUARES, ..., NEGATIVES
    ================== ====================================================

    A row of ``factors`` follows from it: the generation of the prior under which the factor was made, -1 if sums have
    changed since, and U of P = A + s2 w Q = U'U, packed like A, with reciprocals on the diagonal.
    """

    family: int
    # What a decision reads, see Beliefs.
    ageing: Array  # (4,) the clock of what fades, see posse.core.forgetting; the first is the half-life, inf for none
    slot: IntArray  # (N + 1, at least K), -1 for none
    pairs: Array  # (S, T + d + 8)
    factors: Array  # (S, 1 + T)
    known: Array  # (N + 1, 1 + p) features of tasks, the first is 1; the average where nothing is known
    given: BoolArray  # (N + 1,) whether something is known about the task
    weight: Array  # (N + 1,) how closely a task is drawn to the population, w; 1 unless outlier tasks are let go
    generation: Array  # (K,) which prior of an arm this is; no two priors of a process have the same
    noise: Array  # (K,) s2
    prior: Array  # (K, 2d + 1, d) Q, squared pivots of Q (P has none below s2 w times these), and Sigma
    shared: Array  # (K, D + 1, D) Phi, and m
    apart: Array  # (K, d, d) by which covariance tasks differ more about which nothing is known
    dispersion: Array  # (K,) of counts: their variance is m + dispersion m^2; 0 is Poisson
    # What changes with rewards, beside pairs and the posterior of what tasks share.
    told: Array  # (K, D + 1, D) precision and moment of the shared coefficients: prior plus all messages
    summed_at: Array  # (1,) when messages were last summed: those of older pairs are as of then
    owner: IntArray  # (S, 2) task and arm, -1 for a free slot
    plain: Array  # (S, 2d + 2) of clicks and counts: sums of contexts, their squares and rewards, and their number
    # Rows of clicks and counts whose sites may be made again, a list for each slot; numbers have none.
    row_context: Array  # (R, d)
    row_values: Array  # (R, N_VALUES and notes)
    row_links: IntArray  # (R, 3)
    row_ends: IntArray  # (S, 3)
    free_rows: IntArray  # (2 + R,) how many rows were given back, the first that was never used, then which came back


class Beliefs(NamedTuple):
    """What a decision reads of a store; a call with some arrays is cheaper than one with a tuple of more."""

    ageing: Array
    slot: IntArray
    pairs: Array
    factors: Array
    known: Array
    given: BoolArray
    weight: Array
    generation: Array
    noise: Array
    prior: Array
    shared: Array
    apart: Array


def beliefs_of(store: Store) -> Beliefs:
    """Return what a decision reads of a store."""
    parts: Any = store[1 : 1 + len(Beliefs._fields)]
    return Beliefs(*parts)


GENERATIONS = count(1)
"""Numbers of priors: a factor that was made under one prior is never taken for that of another."""


@inlined
def n_triangle(d: int) -> int:
    """Return how many entries the upper triangle of a matrix has."""
    return d * (d + 1) // 2


@inlined
def moment_at(d: int) -> int:
    """Return the column of a pair at which its moment begins."""
    return d * (d + 1) // 2


@inlined
def totals_at(d: int) -> int:
    """Return the column of a pair at which its totals begin."""
    return d * (d + 1) // 2 + d


@inlined
def pair_width(d: int) -> int:
    """Return how many columns a pair has."""
    return d * (d + 1) // 2 + d + N_TOTALS
