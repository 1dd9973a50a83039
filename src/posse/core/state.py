"""State of a core, and receipts of rewards."""

from __future__ import annotations

from typing import Any, NamedTuple

from posse.core.population import Population
from posse.core.store import Store
from posse.types import Array, IntArray

# Entries of State.numbers: tasks and slots that were ever in use; rewards and replacements since the last estimate,
# serial of the last reward, latest time, and rewards in all (not those that were aged away until the last estimate);
# rewards at the last estimate; news before which a failed estimate is not tried again, and how often it failed;
# whether sums are ahead of messages; rewards that wait for others in their place.
N_TASKS, N_SLOTS, NEWS, SERIALS, CLOCK, TOTAL, AT_LAST, RETRY_AT, FAILURES, BEHIND, WAITING = range(11)
N_NUMBERS = 11


class State(NamedTuple):
    """All that a core has learned; a change that replaces arrays replaces this at once."""

    store: Store
    population: Population
    arm_features: Array  # (K, q), NaN where nothing is known about an arm
    silent: Array  # (K,) the least probability of arms whose rewards were all the same so far, see posse.core.rule
    numbers: Array


class Elsewhere(NamedTuple):
    """What the tasks of other cores say: constants of what this one believes."""

    told: Array  # (K, D + 1, D) sums of their messages, moments in the last row
    average: Array  # (1 + p,) known features of the tasks of all, the first is 1
    scatter: Array  # (p, p) by which they differ from it


class Receipt(NamedTuple):
    """All that a ledger or a log needs in order to replace a reward."""

    task: int
    arm: int
    context: Array
    reward: float
    decay: float  # log of what the pair's first reward counted for
    row: int  # where it is kept, -1 for numbers
    serial: int


class Receipts(NamedTuple):
    """Receipts of many rows, without the rows."""

    decay: Array
    row: IntArray
    serial: IntArray


class ReadyRows(NamedTuple):
    """Rows for which all is there that learning them takes."""

    columns: Any  # tasks, arms, contexts, rewards and times
    receipts: Receipts  # to be written
    is_open: bool
    estimate: bool
