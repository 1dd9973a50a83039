"""All that a fleet keeps about one task, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.fleet.core import Core
from posse.fleet.labels import Label
from posse.fleet.ledger import REWARDED
from posse.fleet.products import squares_of
from posse.kernels.packing import whole_matrix
from posse.model.borrowing import borrowing_of


def export_task(fleet: Core, task: Label) -> dict[str, Any]:
    """Return all that is kept about a task; see :meth:`posse.fleet.Posse.export`."""
    squares = squares_of(fleet)
    with fleet._lock:
        number = fleet._task_number(task)
        fleet._expire(fleet._clock())
        fleet._look()
        fleet._store.settle([number])
        belief = fleet._store.belief
        borrowing = borrowing_of(belief, number, squares)
        arms = {}
        for label, arm in fleet._arms.numbers.items():
            row = int(belief.slot[number, arm])
            seen = row >= 0 and belief.sums.counts[row] > 0
            entry: dict[str, Any] = {"count": float(belief.sums.counts[row]) if seen else 0.0}
            if seen:
                entry["sum_of_squares"] = float(belief.sums.sum_of_squares[row])
                entry["moment"] = belief.sums.moment[row].tolist()
                entry["gram"] = whole_matrix(belief.sums.gram[row]).tolist()
            entry["own_share"] = float(borrowing.own_share[arm])
            entry["borrowed"] = float(borrowing.borrowed[arm])
            arms[str(label)] = entry
        decisions = []
        for ledger in fleet._ledgers():
            for row in np.flatnonzero(ledger.task == number).tolist():
                rewarded = ledger.status[row] == REWARDED
                decisions.append(
                    {
                        "id": f"{ledger.prefix}-{ledger.first + row}",
                        "arm": fleet._arms.label(int(ledger.arm[row])),
                        "time": float(ledger.time[row]),
                        "context": ledger.context[row].tolist(),
                        "reward": float(ledger.reward[row]) if rewarded else None,
                    }
                )
        return {
            "task": fleet._tasks.label(number),
            "columns": list(fleet._features.columns),
            "arms": arms,
            "decisions": decisions,
        }
