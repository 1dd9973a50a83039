"""Rewards as they come, by decision or by id: which are news, and which cannot be learned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from posse.checks import one_of
from posse.engine.commit import commit
from posse.engine.learn import prepare_rows
from posse.errors import ExpiredDecision, InvalidValue, PosseError, RewardConflict, ShapeError, UnknownDecision
from posse.fleet.decision import Decision, Decisions
from posse.fleet.ledger import FORGOTTEN, REWARDED, Entry, Ledger, parse_id
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
        raise InvalidValue("expected a sequence of decisions or ids, got one; pass it to reward")
    ids = decisions.ids if isinstance(decisions, Decisions) else listed(
        decisions, "decision_ids to be a sequence of ids"
    )  # fmt: skip
    amounts = listed(values, "values to be a sequence of rewards")
    if len(ids) != len(amounts):
        raise ShapeError(f"expected as many values as decisions, got {len(ids)} decisions and {len(amounts)} values")
    return ids, amounts


class Found(NamedTuple):
    """Where a decision stands that may get a reward, or has one."""

    ledger: Ledger
    row: int
    entry: Entry


def find_decision(fleet: Posse, decision_id: Any, now: float) -> Found:
    """Return where a decision stands, or raise if it is nobody's, too old, or of a task that was forgotten."""
    place = parse_id(decision_id)
    ledger = None
    if place is not None:
        ledger = fleet._ledger if place[0] == fleet._prefix else fleet._adopted.get(place[0])
    if place is None or ledger is None or place[1] >= ledger.first + ledger.size:
        if not isinstance(decision_id, str):
            raise UnknownDecision(f"expected a decision of this fleet or its id, got {type(decision_id).__name__}")
        raise UnknownDecision(f"no decision {decision_id!r} was made by this fleet; pass the id of a Decision")
    row, time_to_live = place[1] - ledger.first, fleet._late.time_to_live
    entry = ledger.entry(row) if row >= 0 else None
    if entry is None or (time_to_live is not None and entry.time < now - time_to_live):
        raise ExpiredDecision(
            f"decision {decision_id!r} is older than its time to live; "
            "make the fleet with a longer time_to_live if rewards come this late"
        )
    if entry.status == FORGOTTEN:
        raise UnknownDecision(f"decision {decision_id!r} belongs to a task that was forgotten")
    return Found(ledger, row, entry)


def require_same(decision_id: str, old: float, new: float) -> None:
    """Raise if a second reward of a decision is not the first one again."""
    if old != new:
        raise RewardConflict(
            f"expected the reward {old:g} that decision {decision_id!r} has already, got {new:g}; it is rewarded once"
        )


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
            entry = find_decision(fleet, decision_id, now).entry
            if decision_id in new:
                require_same(decision_id, new[decision_id], value)
            elif entry.status == REWARDED:
                require_same(decision_id, entry.reward, value)
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
        if fleet._engine.fading is not None and fleet._late.count_pending:
            # In a world that changes each is learned, and noted, by itself: what fades in between is not taken back.
            for decision_id, value in new.items():
                fleet._learn_reward(decision_id, value, now)
            return Rewarded(len(new), skipped)
        where = [(find_decision(fleet, decision_id, now), value) for decision_id, value in new.items()]
        update = None
        if fleet._late.count_pending:
            entries = [found.entry for found, _ in where]
            update = prepare_rows(
                fleet._engine,
                np.array([entry.task for entry in entries]),
                np.array([entry.arm for entry in entries]),
                np.array([entry.context for entry in entries]),
                np.array([value for _, value in where]),
                old=np.full(len(where), fleet._late.absent_reward) if fleet._counts_pending else None,
            )
        steps = [] if update is None else update.steps
        for ledger in {id(found.ledger): found.ledger for found, _ in where}.values():
            mine = [(found.row, value) for found, value in where if found.ledger is ledger]
            steps += ledger.rewarding(np.array([row for row, _ in mine]), np.array([value for _, value in mine]))
        commit(steps, partial(fleet._note_rewards, list(new), list(new.values()), now))
        if update is not None:
            fleet._engine.estimate_after(update)
        return Rewarded(len(where), skipped)
