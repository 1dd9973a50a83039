"""Rewards as they come, by decision or by id: which are news, and which cannot be learned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from posse.checks import one_of
from posse.engine.commit import commit
from posse.engine.learn import prepare_rows
from posse.errors import InvalidValue, PosseError, ShapeError
from posse.fleet.decision import Decision, Decisions
from posse.fleet.ledger import REWARDED
from posse.fleet.rows import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posse.fleet.posse import Posse


class Skipped(NamedTuple):
    """A reward that was not learned.

    Parameters
    ----------
    row : int
        Its place among those that came, from 0.
    decision_id : str
    reason : str
    """

    row: int
    decision_id: Any
    reason: str


class Rewarded(int):
    """How many rewards were news; what was left out is in ``skipped``."""

    skipped: tuple[Skipped, ...]

    def __new__(cls, news: int, skipped: Sequence[Skipped] = ()) -> Self:
        """Return the number with what was left out."""
        result = super().__new__(cls, news)
        result.skipped = tuple(skipped)
        return result


def id_of(decision: Any) -> Any:
    """Return the id of a decision, or what came if it is none."""
    if not isinstance(decision, Decision):
        return decision
    if not decision.id:
        raise InvalidValue(
            "this decision was made with record=False, so there is nothing to reward; decide without record=False"
        )
    return decision.id


def listed_rewards(decisions: Any, values: Any) -> tuple[list[Any], list[Any]]:
    """Return decisions, or their ids, and as many values."""
    if isinstance(decisions, str | Decision):
        raise InvalidValue("reward_many takes a sequence of decisions or ids, but one came; pass it to reward")
    ids = decisions.ids if isinstance(decisions, Decisions) else listed(
        decisions, "decision_ids must be a sequence of ids"
    )  # fmt: skip
    amounts = listed(values, "values must be a sequence of rewards")
    if len(ids) != len(amounts):
        raise ShapeError(f"as many values as decisions are needed, but {len(ids)} ids and {len(amounts)} values came")
    return ids, amounts


def news_among(
    fleet: Posse, decisions: list[Any], values: list[Any], now: float, *, skip: bool
) -> tuple[dict[str, float], list[Skipped]]:
    """Return the rewards that are news by decision, and those that cannot be learned; the lock must be held.

    Raises
    ------
    PosseError
        For the first that cannot be learned, unless ``skip``.
    """
    new: dict[str, float] = {}
    skipped = []
    for row, (decision, given) in enumerate(zip(decisions, values, strict=True)):
        try:
            decision_id, value = id_of(decision), fleet._checked_reward(given)
            ledger, place = fleet._find(decision_id, now)
            if decision_id in new:
                fleet._require_same(decision_id, new[decision_id], value)
            elif ledger.status[place] == REWARDED:
                fleet._require_same(decision_id, float(ledger.reward[place]), value)
            else:
                new[decision_id] = value
        except PosseError as error:
            if not skip:
                raise
            shown = decision.id if isinstance(decision, Decision) else decision
            skipped.append(Skipped(row, shown, f"{type(error).__name__}: {error}"))
    return new, skipped


def reward_rows(fleet: Posse, decisions: Any, values: Any, errors: str) -> Rewarded:
    """Learn many rewards; see :meth:`posse.Posse.reward_many`."""
    one_of(errors, "errors", ("raise", "skip"))
    ids, amounts = listed_rewards(decisions, values)
    with fleet._lock:
        fleet._require_whole()
        now = fleet._clock()
        new, skipped = news_among(fleet, ids, amounts, now, skip=errors == "skip")
        fleet._expire(now)
        if not new:
            return Rewarded(0, skipped)
        where = [(*fleet._find(decision_id, now), value) for decision_id, value in new.items()]
        update = None
        if fleet._late.count_pending:
            entries = [ledger.entry(row) for ledger, row, _ in where]
            update = prepare_rows(
                fleet._engine,
                np.array([entry.task for entry in entries]),
                np.array([entry.arm for entry in entries]),
                np.array([entry.context for entry in entries]),
                np.array([value for _, _, value in where]),
                old=np.full(len(where), fleet._late.absent_reward) if fleet._counts_pending else None,
                times=fleet._times(now, len(where)),
            )
        steps = [] if update is None else update.steps
        for ledger in {id(ledger): ledger for ledger, _, _ in where}.values():
            mine = [(row, value) for of, row, value in where if of is ledger]
            steps += ledger.rewarding(np.array([row for row, _ in mine]), np.array([value for _, value in mine]))
        commit(steps, partial(fleet._note_rewards, list(new), list(new.values()), now))
        if update is not None:
            fleet._engine.estimate_after(update)
        return Rewarded(len(where), skipped)
