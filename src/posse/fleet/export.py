"""All that a fleet keeps about one task, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.fleet.fleet import Fleet
from posse.fleet.labels import Label
from posse.fleet.ledger import REWARDED
from posse.fleet.products import squares_of
from posse.kernels.packing import whole_matrix
from posse.kernels.sums import Sums
from posse.model.belief import borrowing_of


def export_task(fleet: Fleet, task: Label) -> dict[str, Any]:
    """Return all that is kept about a task; see :meth:`posse.fleet.Posse.export`."""
    squares = squares_of(fleet)
    with fleet._lock:
        number = fleet._tasks.number(task)
        fleet._expire(fleet._clock())
        fleet._engine.ensure_fresh()
        fleet._engine.store.settle([number])
        belief = fleet._engine.store.belief
        borrowing = borrowing_of(belief, number, squares)
        arms = {}
        for label, arm in fleet._arms.numbers.items():
            row = int(belief.slot[number, arm])
            seen = row >= 0 and belief.sums.counts[row] > 0
            entry: dict[str, Any] = {"count": float(belief.sums.counts[row]) if seen else 0.0}
            if seen:
                sums = Sums(*(field[[row]] for field in belief.sums))
                sums = sums._replace(gram=whole_matrix(sums.gram[0])[None])
                if fleet._engine.known is not None:
                    sums = fleet._engine.known.raw_sums(np.array([number]), np.array([arm]), sums)
                entry["sum_of_squares"] = float(sums.sum_of_squares[0])
                entry["moment"] = sums.moment[0].tolist()
                entry["gram"] = sums.gram[0].tolist()
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
        about: dict[str, Any] = {}
        known = fleet._engine.known
        if known is not None and known.tasks.spec is not None:
            raw = known.tasks.raw.get(number)
            about["features"] = None if raw is None else dict(zip(known.task_names, raw, strict=True))
        return {
            "task": fleet._tasks.label(number),
            **about,
            "columns": list(fleet._features.columns),
            "arms": arms,
            "decisions": decisions,
        }
