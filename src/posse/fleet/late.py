"""Rewards of decisions: in time, late, never, corrected. Each is learned in one way.

All that can fail comes first, then the log, then what is learned and noted in the ledger, which cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from posse.checks import one_of
from posse.errors import InvalidValue, PosseError, RewardConflict, ShapeError
from posse.fleet.decision import Decision, Decisions
from posse.fleet.ledger import FORGOTTEN, NOT_LEARNED, PENDING, REWARDED, Ledger
from posse.fleet.names import listed
from posse.interrupts import defer_interrupts

if TYPE_CHECKING:
    from posse.core.state import Receipt
    from posse.fleet.fleet import Fleet


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
    """How many rewards were news; those that were left out are in ``skipped``."""

    skipped: tuple[Skipped, ...]

    def __new__(cls, news: int, skipped: Sequence[Skipped] = ()) -> Self:
        """Return the number with those that were left out."""
        result = super().__new__(cls, news)
        result.skipped = tuple(skipped)
        return result


class Lesson(NamedTuple):
    """A reward for the decision at a place of a ledger."""

    ledger: Ledger
    at: int
    value: float


def teach(
    fleet: Fleet,
    lessons: Sequence[Lesson],
    now: float,
    note: Callable[[], object] | None = None,
    *,
    over: bool = False,
    drops: Sequence[tuple[Ledger, int]] = (),
) -> None:
    """Learn rewards, whatever their decisions have counted as so far; the lock must be held.

    Parameters
    ----------
    fleet : Fleet
    lessons : sequence of Lesson
    now : float
    note : callable, optional
        Writes them to the log, before they count.
    over : bool
        Whether the time of these decisions is over, so that those learn now that were held until then.
    drops : sequence of (Ledger, int)
        How many of the oldest decisions leave their ledgers with it.
    """
    core, held = fleet.core, not fleet.settings.count_pending and not over
    receipts: list[Receipt | None] = []
    new: list[Receipt] = []
    for ledger, at, _ in lessons:
        receipt = None if held else ledger.receipt(at)
        if receipt is None:
            pass
        elif receipt.serial == NOT_LEARNED:
            new.append(receipt)
        elif not core.replaceable(receipt):
            raise InvalidValue(
                f"expected a reward that can still be replaced, got decision {ledger.id_at(at)!r}, whose "
                f"{fleet.rewards} reward is not among the last of its task and arm; forget the task and learn it again"
            )
        receipts.append(receipt)
    if len(new) == 1:
        core.prepare_one(new[0].task, new[0].arm)
    elif new:
        core.prepare(np.array([receipt.task for receipt in new]), np.array([receipt.arm for receipt in new]))
    with defer_interrupts():
        if note is not None:
            note()
        # From here on nothing can fail.
        for (ledger, at, value), receipt in zip(lessons, receipts, strict=True):
            if receipt is None:
                ledger.reward[at] = value
            elif receipt.serial == NOT_LEARNED:
                ledger.keep(at, core.learn(receipt.task, receipt.arm, receipt.context, value, now))
            else:
                if receipt.reward != value:
                    receipt = core.replace(receipt, value, now)
                    ledger.keep(at, receipt)
                if ledger.status[at] == PENDING:  # else it was closed before, and is corrected
                    core.close(receipt)
            ledger.status[at] = REWARDED
        for ledger, count in drops:
            ledger.drop(count)
    if lessons and not held:
        core.estimate_if_due()


def expire(fleet: Fleet, now: float) -> None:
    """Let decisions go that are past their time; those without a reward get the absent one, if there is one."""
    settings = fleet.settings
    if settings.time_to_live is None or not fleet.ledgers.has_late(now - settings.time_to_live):
        return
    drops = [(ledger, ledger.n_late(now - settings.time_to_live)) for ledger in fleet.ledgers]
    drops = [(ledger, count) for ledger, count in drops if count]
    if not drops:
        return
    lessons: list[Lesson] = []
    absent: list[str] = []
    if settings.absent_reward is not None and not fleet.partial:
        for ledger, count in drops:
            for at in range(ledger.head, ledger.head + count):
                if ledger.status[at] == PENDING:
                    absent.append(ledger.id_at(at))
                    lessons.append(Lesson(ledger, at, settings.absent_reward))
                elif not settings.count_pending and ledger.status[at] != FORGOTTEN:
                    lessons.append(Lesson(ledger, at, float(ledger.reward[at])))
    values = [settings.absent_reward or 0.0] * len(absent)
    note = partial(fleet.notes.rewards, fleet, absent, values, now) if absent and fleet.notes is not None else None
    teach(fleet, lessons, now, note, over=True, drops=drops)


def id_of(decision: Any) -> Any:
    """Return the id of a decision, or whatever came if it is none."""
    if not isinstance(decision, Decision):
        return decision
    if not decision.id:
        raise InvalidValue(
            "this decision was made with record=False, so there is nothing to reward; decide without record=False"
        )
    return decision.id


def require_same(decision_id: str, old: float, new: float) -> None:
    """Raise if a second reward of a decision is not the first one again."""
    if old != new:
        raise RewardConflict(
            f"expected the reward {old:g} that decision {decision_id!r} has already, got {new:g}; it is rewarded once"
        )


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


def news_among(
    fleet: Fleet, decisions: list[Any], values: list[Any], before: float, *, skip: bool
) -> tuple[dict[str, Lesson], list[Skipped]]:
    """Return the rewards that are news by decision, and those that cannot be learned; the lock must be held.

    Raises
    ------
    PosseError
        For the first that cannot be learned, unless ``skip``.
    """
    new: dict[str, Lesson] = {}
    skipped = []
    for row, (decision, given) in enumerate(zip(decisions, values, strict=True)):
        try:
            decision_id, value = id_of(decision), fleet.settings.checked_reward(given)
            ledger, at = fleet.ledgers.find(decision_id, before)
            if decision_id in new:
                require_same(decision_id, new[decision_id].value, value)
            elif ledger.status[at] == REWARDED:
                require_same(decision_id, float(ledger.reward[at]), value)
            else:
                new[decision_id] = Lesson(ledger, at, value)
        except PosseError as error:
            if not skip:
                raise
            shown = decision.id if isinstance(decision, Decision) else decision
            skipped.append(Skipped(row, shown, f"{type(error).__name__}: {error}"))
    return new, skipped


def reward_rows(fleet: Fleet, decisions: Any, values: Any, errors: str) -> Rewarded:
    """Learn many rewards; see :meth:`posse.Posse.reward_many`."""
    one_of(errors, "errors", ("raise", "skip"))
    ids, amounts = listed_rewards(decisions, values)
    with fleet.lock:
        fleet.require_whole()
        now = fleet.clock()
        new, skipped = news_among(fleet, ids, amounts, fleet.settings.oldest(now), skip=errors == "skip")
        expire(fleet, now)  # which moves no place
        if new:
            learned, log = [lesson.value for lesson in new.values()], fleet.notes
            note = None if log is None else partial(log.rewards, fleet, list(new), learned, now)
            teach(fleet, list(new.values()), now, note)
        return Rewarded(len(new), skipped)
