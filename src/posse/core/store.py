"""The arrays of a core: tasks, arms, and slots (pairs of task and arm that may have rewards), by number.

Symbols, for arm k and task j: A = gram and b = moment are sums of sites over the rewards of the pair, as they came;
Q = Sigma^-1 is the precision of the population of tasks and s2 the noise variance; z = known features of the task, of
which the first is 1; W the coefficients that all tasks share, D = (1 + p) d of them, with posterior N(m, Phi).
"""

from __future__ import annotations

from typing import NamedTuple

from posse.core.compiler import compiled
from posse.types import Array, IntArray

# Columns of what is counted of a pair, behind its sums.
COUNT, SQUARES, INFORMATION, TIME, DECAY = range(5)  # rewards, their squares, site precisions; last aged, log of decay
N_TOTALS = 5

REWARD, PRECISION, MOMENT, DECAY_AT = range(4)  # of row_values: a reward, its site per unit of weight, DECAY back then
NEXT, OPEN, SERIAL = range(3)  # of row_links
FIRST, LAST, CLOSED = range(3)  # of row_ends: the list of a slot, and how many of its rows are closed


class Store(NamedTuple):
    """All that compiled code works on: K arms, N tasks, S slots, R rows, d features, p features of tasks.

    One row of ``pairs`` has all that is learned about a pair, so that a decision reads one place in memory. Its columns,
    with T = d (d + 1) / 2:

    ======================= =======================================================================================
    0 to T                  upper triangle of A, row after row
    T to T + d              b
    T + d to T + d + 5      totals: COUNT, SQUARES, INFORMATION, TIME, DECAY
    T + d + 5               stamp: the generation of the prior under which the factor was made, -1 for none
    T + d + 6 to 2T + d + 6 factor U of P = A + s2 w Q = U'U, packed like A, with reciprocals on the diagonal
    ======================= =======================================================================================
    """

    family: int
    slot: IntArray  # (N, K), -1 for none
    owner: IntArray  # (S, 2) task and arm, -1 for a free slot
    pairs: Array  # (S, 2T + d + 6)
    known: Array  # (N, 1 + p) features of tasks, the first is 1
    weight: Array  # (N,) how closely a task is drawn to the population, w; 1 unless outlier tasks are let go
    # The prior of arms, and the posterior of what tasks share, which follows from it and the sums.
    generation: Array  # (1,) counts changes of the prior
    noise: Array  # (K,) s2
    prior: Array  # (K, d + 1, d) Q, and squared pivots of Q: P has none below s2 w times these
    shared: Array  # (K, D + 1, D) Phi, and m
    told: Array  # (K, D + 1, D) precision and moment of the shared coefficients: prior plus all messages
    # Rows of clicks and counts whose sites may be made again, a list for each slot; numbers have none.
    row_context: Array  # (R, d)
    row_values: Array  # (R, 4)
    row_links: IntArray  # (R, 3)
    row_ends: IntArray  # (S, 3)
    free_rows: IntArray  # (1 + R,) how many rows are free, then which


@compiled
def n_triangle(d: int) -> int:
    """Return how many entries the upper triangle of a matrix has."""
    return d * (d + 1) // 2


@compiled
def moment_at(d: int) -> int:
    """Return the column of a pair at which its moment begins."""
    return d * (d + 1) // 2


@compiled
def totals_at(d: int) -> int:
    """Return the column of a pair at which its totals begin."""
    return d * (d + 1) // 2 + d


@compiled
def stamp_at(d: int) -> int:
    """Return the column of a pair that says under which prior its factor was made."""
    return d * (d + 1) // 2 + d + N_TOTALS


@compiled
def factor_at(d: int) -> int:
    """Return the column of a pair at which its factor begins."""
    return d * (d + 1) // 2 + d + N_TOTALS + 1


@compiled
def pair_width(d: int) -> int:
    """Return how many columns a pair has."""
    return d * (d + 1) + d + N_TOTALS + 1
