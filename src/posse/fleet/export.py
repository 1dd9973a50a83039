"""All that a fleet stores about one task, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.fleet.late import expire
from posse.fleet.ledger import REWARDED
from posse.fleet.views import borrowing_in, whole_matrices

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label


def export_task(fleet: Fleet, task: Label) -> dict[str, Any]:
    """Return all that is stored about a task; see :meth:`posse.Posse.export`."""
    with fleet.lock:
        number = fleet.names.tasks.number(task)
        expire(fleet, fleet.clock())
        borrowing = borrowing_in(fleet, task)
        sums = fleet.core.sums(np.array([number]), fleet.now)
        rows = {arm: row for row, arm in enumerate(sums.arms.tolist())}
        grams = whole_matrices(sums.gram, fleet.features.n_features)
        arms = {}
        for label, arm in fleet.names.arms.numbers.items():
            entry: dict[str, Any] = {"count": 0.0}
            if arm in rows:
                row = rows[arm]
                entry["count"] = float(sums.counts[row])
                entry["sum_of_squares"] = float(sums.squares[row])
                entry["moment"] = sums.moment[row].tolist()
                entry["gram"] = grams[row].tolist()
            entry["own_share"] = float(borrowing.own_share[arm])
            entry["borrowed"] = float(borrowing.borrowed[arm])
            arms[str(label)] = entry
        decisions = [
            {
                "id": ledger.id_at(at),
                "arm": fleet.names.arms.label(int(ledger.arm[at])),
                "time": float(ledger.time[at]),
                "context": ledger.context[at].tolist(),
                "reward": float(ledger.reward[at]) if ledger.status[at] == REWARDED else None,
            }
            for ledger in fleet.ledgers
            for at in ledger.places(ledger.task[ledger.live] == number)
        ]
        side = fleet.known.tasks
        raw = side.about(number) if number in side.raw else None
        about: dict[str, Any] = {} if side.spec is None else {"features": raw}
        return {
            "task": fleet.names.tasks.label(number),
            **about,
            "columns": list(fleet.features.columns),
            "arms": arms,
            "decisions": decisions,
        }
