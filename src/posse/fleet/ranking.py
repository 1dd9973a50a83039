"""Rankings: several distinct arms for one request, best place first.

A ranking is drawn place by place: each place is a decision among the arms that the places above have left, by the rule
of the fleet. So the propensity of a place is exact given the places above it, a row of the log is a decision like any
other, and its reward is learned like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import whole_number
from posse.engine.commit import commit
from posse.engine.decide import choose
from posse.engine.learn import prepare_rows
from posse.errors import InvalidValue
from posse.fleet.checking import no_belief
from posse.fleet.decision import Ranking, decision_among

if TYPE_CHECKING:
    from posse.fleet.labels import Label
    from posse.fleet.posse import Posse


def rank_arms(
    fleet: Posse, task: Label, context: Any, eligible: Iterable[Label] | None, k: int, explore: bool, record: bool
) -> Ranking:
    """Choose ``k`` distinct arms, as so many decisions each among the arms that are left; see ``Posse.decide``."""
    x = fleet._features.encode(context)
    whole_number(k, "k", at_least=1)
    with fleet._lock:
        arms, names = fleet._arms.active, fleet._arms.active_names
        if eligible is not None:
            arms, names = fleet._arms.eligible(eligible)
        if k > len(names):
            raise InvalidValue(f"expected k to be at most the {len(names)} eligible arms, got {k}; ask for fewer")
        number = fleet._tasks.get(task)
        if number is None:
            fleet._tasks.require_loaded([task])
        label = fleet._tasks.checked(task)
        now = fleet._clock()
        if record:
            fleet._expire(now)
        ledger = fleet._ledger
        ledger.reserve(k)
        new = [] if number is not None or not record else [(label, fleet._engine.store.reserve_tasks(1)[0])]
        fleet._engine.ensure_fresh()
        rng = fleet._stream(fleet._decided)  # its own, so that a ranking that fails has drawn nothing
        chosen = np.empty(k, dtype=np.int64)
        places = []
        by_decisions, by_rewards = fleet._steps()
        for place, uniform in enumerate(rng.random(k).tolist()):
            out = np.empty((3, len(names)))
            step = max(by_decisions + place, by_rewards)
            position = choose(fleet._engine, -1 if number is None else number, x, arms, step, explore, uniform, out)
            if position < 0:
                raise no_belief(label)
            decision_id = f"{fleet._prefix}-{ledger.next + place}" if record else ""
            places.append(decision_among(decision_id, label, names, position, out.tolist()))
            chosen[place] = arms[position]
            arms, names = np.delete(arms, position), (*names[:position], *names[position + 1 :])
        ranking = Ranking(places)
        if not record:
            return ranking
        tasks, X = np.full(k, number if number is not None else new[0][1], dtype=np.int64), np.tile(x, (k, 1))
        ledger.write_many(tasks, chosen, now, X)
        update = None
        if fleet._counts_pending:
            update = prepare_rows(
                fleet._engine, tasks, chosen, X, np.full(k, fleet._late.absent_reward), provisional=True
            )
        steps = [
            *fleet._tasks.taking(fleet._engine.store, new),
            partial(fleet.__dict__.update, _decided=fleet._decided + k, _rng=rng),
            partial(ledger.__dict__.update, size=ledger.size + k),
            *(update.steps if update is not None else ()),
        ]
        note = None
        if fleet._log is not None:
            note = partial(fleet._note, places, [context] * k, now, ranking=True)
        commit(steps, note)
        if update is not None:
            fleet._engine.estimate_after(update)
        return ranking
