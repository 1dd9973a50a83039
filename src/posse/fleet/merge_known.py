"""Features of tasks and arms when two fleets become one.

What this fleet knows stays; what only the other knows joins. Sums are those of rewards as they came, less what features
say of them, so both fleets' sums move to the offsets that follow from what is known together.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.engine.known import Known, Side
from posse.engine.site_offsets import moved_rows, moving_rows, setting_offsets
from posse.errors import InvalidValue
from posse.kernels.packing import whole_matrices
from posse.kernels.sums import Sums

if TYPE_CHECKING:
    from posse.engine.commit import Steps
    from posse.engine.site_store import SiteStore
    from posse.fleet.fleet import Fleet
    from posse.types import IntArray


class Rows(NamedTuple):
    """Sums of pairs, no pair twice."""

    tasks: IntArray
    arms: IntArray
    sums: Sums


def require_same_known(mine: Fleet, other: Fleet) -> None:
    """Raise unless both fleets declare the same features of tasks and arms, scaling included."""
    for what in ("tasks", "arms"):
        specs = [
            None if fleet._engine.known is None else getattr(fleet._engine.known, what).spec for fleet in (mine, other)
        ]
        if specs[0] != specs[1]:
            raise InvalidValue(
                f"expected a fleet with the {what[:-1]}_features of this one, scaling included, {specs[0]!r}, got "
                f"{specs[1]!r}; let one fleet learn the table or log of the other"
            )


def raw_rows(known: Known, tasks: IntArray, arms: IntArray, sums: Sums) -> Sums:
    """Return copied sums, Gram matrices as triangles, as they are of rewards as they came."""
    raw = known.raw_sums(tasks, arms, sums._replace(gram=whole_matrices(sums.gram)))
    return raw._replace(gram=sums.gram)


def join_known(mine: Fleet, other: Fleet, task_of: IntArray, arm_of: IntArray, rows: Rows) -> tuple[Rows, Steps, Known]:
    """Return what is to be added to the sums of ``mine``, the steps that let it know what ``other`` does, and that.

    Parameters
    ----------
    mine, other : Fleet
        Both with features.
    task_of, arm_of : ndarray
        The numbers in ``mine`` of tasks and arms of ``other``, negative for those that do not join.
    rows : Rows
        Of ``other``, by its numbers, Gram matrices as triangles, of rewards as they came.
    """
    known, theirs = mine._engine.known, other._engine.known
    assert known is not None
    assert theirs is not None
    after = Known.__new__(Known)
    after.__dict__.update(
        known.__dict__, tasks=_joined(known.tasks, theirs.tasks, task_of), arms=_joined(known.arms, theirs.arms, arm_of)
    )
    tasks, arms = task_of[rows.tasks], arm_of[rows.arms]
    whole = rows.sums._replace(gram=whole_matrices(rows.sums.gram))
    new = _lowered(after, tasks, arms, whole)._replace(gram=rows.sums.gram)
    steps: Steps = [
        partial(side.__dict__.update, {name: joined.__dict__[name] for name in ("rows", "given", "raw")})
        for side, joined in ((known.tasks, after.tasks), (known.arms, after.arms))
    ]
    return _together(Rows(tasks, arms, new), _moved(mine, known, after)), steps, after


def adding_known_sites(
    mine: SiteStore,
    other: SiteStore,
    known: tuple[Known, Known, Known],
    slots: IntArray,
    tasks: IntArray,
    arms: IntArray,
) -> Steps:
    """Add the rows of clicks or counts of another fleet, and move those of both to what is known together.

    Parameters
    ----------
    mine, other : SiteStore
    known : tuple of three Known
        Here, there, and together.
    slots, tasks, arms : ndarray
        Here, of the other's pairs, in the order of its own.
    """
    before, theirs, after = known
    more = after.offsets(tasks, arms) - theirs.offsets(*other.copy_of_sums()[:2])
    own, own_arms = before.pairs(mine)
    own_tasks = mine.belief.task_of[own]
    delta = after.offsets(own_tasks, own_arms) - before.offsets(own_tasks, own_arms)
    moment = mine.sites.parts.rows.moment.copy()
    places, moved = moved_rows(mine, own, delta)
    moment[places] = moved
    return [
        *moving_rows(mine, own, delta),
        *mine.adding_sites(slots, other, moved=(moment, more)),
        *setting_offsets(mine, after),
    ]


def _joined(mine: Side, theirs: Side, number_of: IntArray) -> Side:
    """Return one side with what only the other fleet knows about units."""
    units = np.flatnonzero(theirs.given[: number_of.size])
    units = units[number_of[units] >= 0]
    units = units[~mine.has(number_of[units])]
    joined = Side.__new__(Side)
    joined.__dict__.update(mine.__dict__, rows=mine.rows.copy(), given=mine.given.copy(), raw=dict(mine.raw))
    if units.size:
        targets = number_of[units]
        joined.reserve(int(targets.max()) + 1)
        joined.rows[targets], joined.given[targets] = theirs.rows[units], True
        joined.raw.update((int(number_of[unit]), theirs.raw[unit]) for unit in units.tolist())
    return joined


def _lowered(known: Known, tasks: IntArray, arms: IntArray, raw: Sums) -> Sums:
    """Return sums, Gram matrices whole, of rewards less what features say of them."""
    offsets = known.offsets(tasks, arms)
    moved = np.einsum("nij,nj->ni", raw.gram, offsets)
    squares = raw.sum_of_squares + np.einsum("ni,ni->n", offsets, moved - 2.0 * raw.moment)
    return raw._replace(moment=raw.moment - moved, sum_of_squares=np.maximum(squares, 0.0))


def _moved(mine: Fleet, known: Known, after: Known) -> Rows:
    """Return by how much sums of this fleet move because of what the other knew."""
    store = mine._engine.store
    slots, arms = known.pairs(store)
    tasks = store.belief.task_of[slots]
    changed = (after.offsets(tasks, arms) != known.offsets(tasks, arms)).any(axis=1)
    slots, arms, tasks = slots[changed], arms[changed], tasks[changed]
    sums = Sums(*(field[slots] for field in store.belief.sums))
    whole = sums._replace(gram=whole_matrices(sums.gram))
    moved = _lowered(after, tasks, arms, known.raw_sums(tasks, arms, whole))
    return Rows(
        tasks,
        arms,
        Sums(
            np.zeros_like(sums.gram),
            moved.moment - sums.moment,
            moved.sum_of_squares - sums.sum_of_squares,
            np.zeros_like(sums.counts),
        ),
    )


def _together(first: Rows, second: Rows) -> Rows:
    """Return both, with every pair once, in the order in which they come."""
    tasks, arms = np.concatenate([first.tasks, second.tasks]), np.concatenate([first.arms, second.arms])
    _, place, inverse = np.unique(np.stack([tasks, arms]), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(place, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    fields = []
    for one, other in zip(first.sums, second.sums, strict=True):
        total = np.zeros((place.size, *one.shape[1:]))
        np.add.at(total, rank[inverse.ravel()], np.concatenate([one, other]))
        fields.append(total)
    return Rows(tasks[place[order]], arms[place[order]], Sums(*fields))
