"""The last rows of every (arm, task) pair and their sites, made again when the population has moved.

A site is made under the belief of its time. Those of a pair's first rows come from an early and wide population, and a
population that is learned from them stays wrong. So the last rows are kept, and their sites are made again at every
refresh; by the time a row is dropped, its pair is well known and its site may stay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel
from posse.kernels.linalg import add_outer, dot
from posse.kernels.posterior import Belief, Buffers, predict_arm
from posse.kernels.sites import site_again
from posse.types import Array, IntArray


class KeptRows(NamedTuple):
    """Rows of all slots, those of a slot next to each other from ``first`` on.

    A slot has ``room`` places: when they are full, the oldest row makes way for the next. A table that is learned as a
    whole gives every slot as many places as it has rows.

    Where features say something about tasks and arms (:mod:`posse.engine.known`), sites are factors on the predictor
    less what they say of it: less the context times the ``offset`` of the slot. Else ``offset`` has no rows.
    """

    contexts: Array  # (n, d)
    rewards: Array  # (n,)
    precision: Array  # (n,) of the sites
    moment: Array  # (n,)
    weight: Array  # (n,) what is left of them in a world that changes, from 0 to 1
    first: IntArray  # (S,)
    room: IntArray  # (S,)
    kept: IntArray  # (S,) rows that are here
    seen: IntArray  # (S,) rows that came
    passes: IntArray  # (1,) how often sites were made again
    offset: Array  # (S, d), or (0, d) where nothing is known


def new_rows(n_slots: int, n_kept: int, n_features: int) -> KeptRows:
    """Room for ``n_kept`` rows of every slot."""
    n = n_slots * n_kept
    return KeptRows(
        contexts=np.empty((n, n_features)),
        rewards=np.empty(n),
        precision=np.empty(n),
        moment=np.empty(n),
        weight=np.ones(n),
        first=np.arange(n_slots, dtype=np.int64) * n_kept,
        room=np.full(n_slots, n_kept, dtype=np.int64),
        kept=np.zeros(n_slots, dtype=np.int64),
        seen=np.zeros(n_slots, dtype=np.int64),
        passes=np.zeros(1, dtype=np.int64),
        offset=np.zeros((0, n_features)),
    )


@inlined_kernel
def offset_at(rows: KeptRows, slot: int, x: Array) -> float:
    """Return what features of task and arm say of a predictor."""
    if rows.offset.shape[0] == 0:
        return 0.0
    return dot(x, rows.offset[slot])


@inlined_kernel
def keep_row(rows: KeptRows, slot: int, x: Array, reward: float, precision: float, moment: float) -> None:
    """Keep a row and its site, in place of the oldest if there is no room left."""
    place = rows.first[slot] + rows.seen[slot] % rows.room[slot]
    for i in range(x.shape[0]):
        rows.contexts[place, i] = x[i]
    rows.rewards[place] = reward
    rows.precision[place], rows.moment[place], rows.weight[place] = precision, moment, 1.0
    rows.seen[slot] += 1
    rows.kept[slot] = min(rows.kept[slot] + 1, rows.room[slot])


@inlined_kernel
def change_site(belief: Belief, arm: int, slot: int, x: Array, precision: float, moment: float, vectors: Array) -> None:
    """Add to the site of one row, or take from it: exact, O(d^2), as if the row had come with the new one.

    ``vectors`` are as :func:`posse.kernels.posterior.predict_arm` left them for this row: Ct x, H'x and Phi H'x. The
    noise variance must be 1.
    """
    v, leaning, p = vectors[0], vectors[1], vectors[2]
    local_mean, shared_mean = belief.local_mean[slot], belief.shared_mean[arm]
    gain = 1.0 / (1.0 + precision * max(dot(x, v), 0.0))
    surprise = gain * (moment - precision * dot(x, local_mean))
    weight = gain * precision
    known = max(dot(leaning, p), 0.0)
    shared_weight = weight / (1.0 + weight * known)
    # Phi' = Phi - c p p' and r' = r + s H'x give m0' = m0 + p (s - c (x'H m0 + s x'H Phi H'x)).
    shared_surprise = surprise - shared_weight * (dot(leaning, shared_mean) + surprise * known)
    add_outer(-weight, v, belief.local_covariance[slot])
    add_outer(-shared_weight, p, belief.shared_covariance[arm])
    add_outer(precision, x, belief.sums.gram[slot])
    for i in range(x.shape[0]):
        local_mean[i] += surprise * v[i]
        belief.shared_moment[arm, i] += surprise * leaning[i]
        shared_mean[i] += shared_surprise * p[i]
        belief.sums.moment[slot, i] += moment * x[i]


@kernel
def make_sites_again(belief: Belief, rows: KeptRows, arm: int, family: int, turns: int, buffers: Buffers) -> float:
    """Make the sites of an arm's kept rows again, one after another; return the largest move of a predictor.

    Pairs take turns: one in ``turns`` of them is looked at in a pass. Every site is the best one given all others of
    the arm, the shared mean included, so none of the steps takes the belief further from the truth, and passes converge
    from any start. A move is in standard deviations of what was believed. Steps gather rounding: rebuild the arm now
    and then.
    """
    vectors = buffers.vectors
    farthest = 0.0
    for position in range(belief.n_seen[arm]):
        # By the order of their first rewards, which a file keeps, and not by slots, which it does not.
        if (position + rows.passes[0]) % turns != 0:
            continue
        slot = belief.seen[arm, position]
        task = belief.task_of[slot]
        first = rows.first[slot]
        for place in range(first, first + rows.kept[slot]):
            x = rows.contexts[place]
            e, sd = predict_arm(belief, task, arm, x, vectors)
            q = sd * sd
            if not q > 0.0:
                continue
            old_w, old_h = rows.precision[place], rows.moment[place]
            offset = offset_at(rows, slot, x)
            w, h = site_again(family, rows.rewards[place], rows.weight[place], e, q, old_w, old_h, offset)
            more_w, more_h = w - old_w, h - old_h
            # A site that loses nearly all of its precision leaves nothing to divide by.
            if not 1.0 + more_w * q > 1e-9:
                continue
            farthest = max(farthest, abs(more_h - more_w * e) / (1.0 + more_w * q) * sd)
            change_site(belief, arm, slot, x, more_w, more_h, vectors)
            belief.sums.sum_of_squares[slot] += h * h / w - old_h * old_h / old_w
            rows.precision[place], rows.moment[place] = w, h
    return farthest
