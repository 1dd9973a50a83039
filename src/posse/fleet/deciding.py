"""Making decisions: one way for one decision, a ranking, a preview and a replica, and one for many rows at once.

A ranking is drawn place by place: each place is a decision among the arms that the places above have left, by the rule
of the fleet. So the propensity of a place is exact given the places above it, a row of the log is a decision like any
other, and its reward is learned like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import whole_number
from posse.errors import InvalidValue, NotFinite
from posse.fleet.decision import Decision, Decisions, decision_among, with_worth
from posse.fleet.names import Active
from posse.fleet.worth import Prices, worth_of_rows
from posse.interrupts import defer_interrupts

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.names import Label
    from posse.types import Array, BoolArray, IntArray

    Eligible = Iterable[Iterable[Label] | None] | None


class Asked(NamedTuple):
    """Who asks for a decision, and among which arms."""

    task: int  # -1 if it was never seen
    label: Label
    active: Active


def no_belief(task: Label) -> NotFinite:
    """Return the error of a decision that has no probabilities."""
    return NotFinite(
        f"what this fleet believes about task {task!r} is not a number: values of too different size were learned "
        "(1e20 beside 1, say), or this context is one; find such rows, forget their tasks and learn them again without"
    )


def asked_of(fleet: Fleet, task: Any, eligible: Iterable[Label] | None, places: int = 1) -> Asked:
    """Return a task and the arms that it may choose, or raise; the lock must be held."""
    tasks, active = fleet.names.tasks, fleet.names.arms.active
    if eligible is not None:
        active = fleet.names.arms.eligible(eligible)
    if places > len(active.names):
        raise InvalidValue(
            f"expected k to be at most the {len(active.names)} eligible arms, got {places}; ask for fewer"
        )
    number = tasks.get(task)
    if number is None:
        tasks.require_loaded([task])
        return Asked(-1, tasks.checked(task), active)
    # The name as it came is as good as the one in use, and nearer.
    return Asked(number, task if type(task) in (str, int) else tasks.checked(task), active)


def draw(
    fleet: Fleet, asked: Asked, x: Array, now: float, explore: bool, uniforms: Sequence[float], ids: Sequence[str],
    worth: Array | None = None,
) -> tuple[list[int], list[Decision]]:  # fmt: skip
    """Return the arms of the places of a ranking, and a decision for each; nothing changes. The lock must be held.

    ``worth`` has value and cost of the eligible arms, where not their rewards alone count.
    """
    core, (arms, names) = fleet.core, asked.active
    chosen, decisions = [], []
    step, least = fleet.steps
    for place, uniform in enumerate(uniforms):
        out = np.empty((3, len(names)))
        position = core.decide(asked.task, x, now, arms, max(step + place, least), explore, uniform, out, worth)
        if position < 0:
            raise no_belief(asked.label)
        core.show(out[1], out[2])
        made = decision_among(ids[place], asked.label, names, position, out.tolist())
        decisions.append(made if worth is None else with_worth(made, names, worth))
        chosen.append(int(arms[position]))
        if place + 1 < len(uniforms):
            arms, names = np.delete(arms, position), (*names[:position], *names[position + 1 :])
            worth = None if worth is None else np.delete(worth, position, axis=1)
    return chosen, decisions


def record_all(
    fleet: Fleet, asked: Asked, X: Sequence[Array], arms: Sequence[int], decisions: list[Decision], contexts: list[Any],
    now: float, *, ranking: bool, then: Callable[[], object] = lambda: None,
) -> None:  # fmt: skip
    """Have the places of a ranking wait for their rewards, all of them or none; the lock must be held.

    ``X`` are their contexts as a core has them, ``contexts`` as they came; ``then`` is called together with the change.
    """
    core, ledger, tasks, n = fleet.core, fleet.ledgers.own, fleet.names.tasks, len(arms)
    new = asked.task < 0
    task = core.reserve_tasks(1)[0] if new else asked.task
    ledger.reserve(n)
    places = [ledger.write(task, arm, now, x, ahead) for ahead, (arm, x) in enumerate(zip(arms, X, strict=True))]
    absent = None if fleet.partial else fleet.settings.counted
    if absent is not None:
        core.prepare(np.full(n, task), np.array(arms))
    with defer_interrupts():
        if fleet.notes is not None:
            fleet.notes.decisions(fleet, decisions, contexts, X[0], now, ranking=ranking)
        # From here on nothing can fail.
        if new:
            core.take_tasks([task])
            tasks.take([asked.label], [task])
        then()
        if absent is not None:
            for at, arm, x in zip(places, arms, X, strict=True):
                ledger.keep(at, core.learn(task, arm, x, absent, now, is_open=True))
        ledger.size += n
        fleet.stream.decided += n
    if absent is not None:
        core.estimate_if_due(provisional=True)


def checked_places(k: Any) -> int:
    """Return how many decisions are asked for; ``k`` is the length of a ranking, or None for one decision."""
    return 1 if k is None else whole_number(k, "k", at_least=1)


class Drawn(NamedTuple):
    """Decisions of many rows: the numbers of their arms, and all that is shown of them."""

    arms: IntArray
    decisions: Decisions


def draw_rows(
    fleet: Fleet, labels: list[Label], codes: IntArray, X: Array, eligible: Eligible, explore: bool, library: str,
    prices: Prices = Prices(),  # noqa: B008 - frozen
) -> Drawn:  # fmt: skip
    """Return the next decisions of a fleet for many rows; it stays as it is. The lock must be held.

    Parameters
    ----------
    fleet : Fleet
    labels : list of str or int
        Distinct tasks.
    codes : ndarray of shape (n_rows,)
        The task of every row, by its position in ``labels``.
    X : ndarray of shape (n_rows, n_columns)
        Encoded contexts.
    eligible, explore
    library : str
        Of the table in which they are returned.
    prices : Prices
    """
    active = fleet.names.arms.active
    mask = fleet.names.arms.mask(eligible, len(codes))
    worth = worth_of_rows(fleet, mask, len(codes), *prices)
    chosen, probabilities, mean, sd = believe_rows(
        fleet, labels, codes, X, mask, explore, fleet.stream.draw(len(codes)), worth
    )
    fleet.core.show(mean, sd)
    used = None
    if worth is not None:
        each = np.broadcast_to(worth[:, :, active.arms], (2, *mean.shape))
        used = np.where(np.isnan(mean), np.nan, each)
    position = np.full(len(fleet.names.arms), -1)
    position[active.arms] = np.arange(active.arms.size)
    places = position[chosen]
    decisions = Decisions(
        prefix=fleet.ledgers.own.prefix,
        first=fleet.ledgers.own.next,
        tasks=[labels[code] for code in codes.tolist()],
        arms=active.names,
        chosen=places,
        propensity=probabilities[np.arange(len(codes)), places],
        probabilities=probabilities,
        mean=mean,
        sd=sd,
        library=library,
        used=used,
    )
    return Drawn(chosen, decisions)


def believe_rows(
    fleet: Fleet,
    labels: list[Label],
    codes: IntArray,
    X: Array,
    eligible: Eligible | BoolArray = None,
    explore: bool = True,
    uniforms: Array | None = None,
    worth: Array | None = None,
) -> tuple[IntArray, Array, Array, Array]:
    """Return chosen arms, and by active arm probabilities, and means and sds of predictors, row by row.

    Without ``uniforms`` every row is the next decision; ``worth`` is as :func:`posse.fleet.worth.worth_of_rows` returns
    it, by default the fleet's. Parameters are those of :func:`draw_rows`; the lock must be held.
    """
    fleet.names.tasks.require_loaded(labels)
    core, active = fleet.core, fleet.names.arms.active.arms
    mask = eligible if isinstance(eligible, np.ndarray) else fleet.names.arms.mask(eligible, len(codes))
    if worth is None:
        worth = worth_of_rows(fleet, mask, len(codes), *Prices())
    core.ensure_fresh()
    chosen, *parts = core.decide_rows(
        fleet.names.tasks.known(labels)[codes],
        np.ascontiguousarray(X),
        fleet.now,
        mask,
        fleet.steps,
        explore,
        np.zeros(len(codes)) if uniforms is None else uniforms,
        advance=uniforms is not None,
        worth=worth,
    )
    if (chosen < 0).any():
        raise no_belief(labels[codes[int(np.argmax(chosen < 0))]])
    probabilities, mean, sd = (np.ascontiguousarray(part[:, active]) for part in parts)
    return chosen, probabilities, mean, sd
