"""Decisions of clicks and counts that count as an absent reward while they wait for their own.

Their rows are kept apart, every one with its site, until the reward or the deadline comes: then the site is made again
for what came, and the row is kept as others are. What many absent rewards said was said where they pulled the belief
to, so a reward that differs has the pair's other sites made again as well.
"""

from __future__ import annotations

from posse.kernels.compiler import kernel
from posse.kernels.decision_arrays import open_decision_arrays, settle
from posse.kernels.fleet_sites import add_site, open_sites
from posse.kernels.kept_rows import change_site, keep_row, offset_at
from posse.kernels.posterior import predict_arm
from posse.kernels.sites import CLOSE, site, site_again
from posse.types import Array, IntArray

LEAST_SHARE = 1e-9  # of its precision that a belief must have from others than one site


@kernel
def learn_waiting(
    ground: int, sites: int, arm: int, task: int, x: Array, reward: float, precision: Array, moment: Array, place: int
) -> None:
    """Learn what a decision counts as; write precision and moment of the site to a place."""
    precision[place], moment[place] = add_site(open_decision_arrays(ground), open_sites(sites), arm, task, x, reward)


@kernel
def end_waiting(
    ground: int,
    sites: int,
    arm: int,
    task: int,
    x: Array,
    old: float,
    reward: float,
    precision: Array,
    moment: Array,
    place: int,
) -> None:
    """Put a reward in the place of what its decision counted as, whose site is at a place, and keep the row."""
    at, kept = open_decision_arrays(ground), open_sites(sites)
    old_w, old_h = precision[place], moment[place]
    at.one[0] = arm
    settle(at, task, at.one, 0, 1, at.lanes)
    belief = at.belief
    slot = belief.slot[task, arm]
    e, sd = predict_arm(belief, task, arm, x, at.vectors)
    q = sd * sd
    share = 1.0 - q * old_w
    w, h = old_w, old_h
    if q > 0.0 and share > LEAST_SHARE:
        offset = offset_at(kept.rows, slot, x)
        m, v = (e - q * old_h) / share + offset, q / share
        w, h = site(kept.family, reward, 1.0, m, v, m, v, CLOSE)
        h -= w * offset
        if 1.0 + (w - old_w) * q > LEAST_SHARE:
            change_site(belief, arm, slot, x, w - old_w, h - old_h, at.vectors)
            belief.sums.sum_of_squares[slot] += h * h / w - old_h * old_h / old_w
        else:
            w, h = old_w, old_h
    kept.total[slot] += reward - old
    keep_row(kept.rows, slot, x, reward, w, h)


@kernel
def make_pair_again(
    ground: int,
    sites: int,
    arm: int,
    task: int,
    contexts: Array,
    rewards: Array,
    precision: Array,
    moment: Array,
    places: IntArray,
) -> None:
    """Make the sites of some rows of one pair again, one after another, each given all others."""
    at, kept = open_decision_arrays(ground), open_sites(sites)
    belief = at.belief
    slot = belief.slot[task, arm]
    for place in places:
        x = contexts[place]
        e, sd = predict_arm(belief, task, arm, x, at.vectors)
        q = sd * sd
        if not q > 0.0:
            continue
        old_w, old_h = precision[place], moment[place]
        w, h = site_again(kept.family, rewards[place], 1.0, e, q, old_w, old_h, offset_at(kept.rows, slot, x))
        if not 1.0 + (w - old_w) * q > LEAST_SHARE:
            continue
        change_site(belief, arm, slot, x, w - old_w, h - old_h, at.vectors)
        belief.sums.sum_of_squares[slot] += h * h / w - old_h * old_h / old_w
        precision[place], moment[place] = w, h
