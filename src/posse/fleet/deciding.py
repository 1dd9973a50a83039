"""Deciding for many rows at once, or only saying what would be decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine import decide as engine_decide
from posse.engine.commit import commit
from posse.engine.learn import prepare_rows
from posse.fleet.checking import require_beliefs
from posse.fleet.decision import Decisions
from posse.tables import library_of

if TYPE_CHECKING:
    from posse.fleet.labels import Label
    from posse.fleet.posse import Posse
    from posse.types import Array, IntArray

    Eligible = Iterable[Iterable[Label] | None] | None


def decide_rows(
    fleet: Posse, labels: list[Label], codes: IntArray, X: Array, eligible: Eligible, explore: bool, contexts: Any
) -> Decisions:
    """Choose an arm for every row; see :meth:`posse.Posse.decide_many`.

    Parameters
    ----------
    fleet : Posse
    labels : list of str or int
        Distinct tasks.
    codes : ndarray of shape (n_rows,)
        The task of every row, by its position in ``labels``.
    X : ndarray of shape (n_rows, n_columns)
        Encoded contexts.
    eligible, explore
    contexts
        As they came.
    """
    engine, n = fleet._engine, len(codes)
    with fleet._lock:
        mask = fleet._arms.mask(eligible, n)
        known = fleet._tasks.known(labels)
        now = fleet._clock()
        fleet._expire(now)
        if engine.fading is not None:
            engine.fading.advance(now)
        engine.ensure_fresh()
        ledger = fleet._ledger
        ledger.reserve(n)
        numbers, new = fleet._tasks.numbered(engine.store, labels, known)
        tasks = numbers[codes]
        # Drawn from a stream of its own, so that one that fails has drawn nothing.
        rng = fleet._stream(fleet._decided)
        # A task that is not there yet has no rewards: it decides as one never seen.
        chosen, decisions = _decided(fleet, labels, codes, known, X, mask, explore, rng.random(n), library_of(contexts))
        ledger.write_many(tasks, chosen, now, X)
        update = None
        if fleet._counts_pending and n:
            absent = np.full(n, fleet._late.absent_reward)
            update = prepare_rows(engine, tasks, chosen, X, absent, provisional=True)
        steps = [
            *fleet._tasks.taking(engine.store, new),
            partial(fleet.__dict__.update, _decided=fleet._decided + n, _rng=rng),
            partial(ledger.__dict__.update, size=ledger.size + n),
            *(update.steps if update is not None else ()),
        ]
        commit(steps, fleet._noting(decisions, contexts, X, now))
        if update is not None:
            engine.estimate_after(update)
        return decisions


def preview_rows(
    fleet: Posse,
    labels: list[Label],
    codes: IntArray,
    X: Array,
    eligible: Eligible,
    explore: bool,
    library: str = "polars",
) -> Decisions:
    """Return the decisions that a fleet would make next, with empty ids; it stays as it is.

    Parameters are those of :func:`decide_rows`; ``library`` is that of the table in which they are returned.
    """
    n = len(codes)
    with fleet._lock:
        fleet._tasks.require_loaded(labels)
        mask = fleet._arms.mask(eligible, n)
        fleet._engine.ensure_fresh()
        # The numbers that the next decisions would draw, from a stream of its own.
        uniforms, X = fleet._stream(fleet._decided).random(n), np.ascontiguousarray(X)
        found = _decided(fleet, labels, codes, fleet._tasks.known(labels), X, mask, explore, uniforms, library)[1]
    return replace(found, prefix="", first=0)


def _decided(
    fleet: Posse, labels: list[Label], codes: IntArray, known: IntArray, X: Array, mask: Any, explore: bool,
    uniforms: Array, library: str,
) -> tuple[IntArray, Decisions]:  # fmt: skip
    """Return the arm of every row, and all rows as decisions that are the next of a fleet."""
    chosen, *parts = engine_decide.decide_rows(
        fleet._engine, known[codes], X, mask, fleet._steps(), explore, uniforms
    )  # fmt: skip
    require_beliefs(chosen, codes, labels)
    active = fleet._arms.active
    if active.size < mask.shape[1]:
        parts = [np.ascontiguousarray(columns[:, active]) for columns in parts]
    probabilities, mean, sd = parts
    engine_decide.expected_rewards(fleet._engine, mean, sd)
    position = np.full(mask.shape[1], -1)
    position[active] = np.arange(active.size)
    places = position[chosen]
    return chosen, Decisions(
        prefix=fleet._prefix,
        first=fleet._ledger.next,
        tasks=[labels[code] for code in codes.tolist()],
        arms=fleet._arms.active_names,
        chosen=places,
        propensity=probabilities[np.arange(len(codes)), places],
        probabilities=probabilities,
        mean=mean,
        sd=sd,
        library=library,
    )
