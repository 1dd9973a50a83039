"""Clicks and counts of a fleet: rewards are learned as their sites, and the last rows of every pair are kept.

As :mod:`posse.kernels.fleet`, for rewards of a family. A reward that is kept no more cannot be taken back or replaced:
its site was made where the pair was believed to be, and stays there. What may be replaced waits apart, see
:mod:`posse.kernels.waiting_sites`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel
from posse.kernels.decision_arrays import DecisionArrays, open_decision_arrays, settle
from posse.kernels.kept_rows import KeptRows, keep_row, new_rows, offset_at
from posse.kernels.llvm.handle import Layout, floats
from posse.kernels.posterior import observe, predict_arm
from posse.kernels.sites import CLOSE, FAINTEST, expectations, site, spread
from posse.types import Array, IntArray


class Sites(NamedTuple):
    """What a fleet of clicks or counts keeps beside its sums, which are sums over sites."""

    rows: KeptRows
    contexts: Array  # (S, d) sums of the contexts of all rewards
    squares: Array  # (S, d) sums of their squares
    total: Array  # (S,) sums of rewards
    scaled: Array  # (d,) room for a scaled context
    family: int


SITES: Layout[Sites] = Layout(
    Sites(rows=new_rows(1, 1, 1), contexts=floats(2), squares=floats(2), total=floats(1), scaled=floats(1), family=0)
)
open_sites = SITES.open


def new_sites(family: int, n_slots: int, n_kept: int, n_features: int) -> Sites:
    """Return room for so many slots, with ``n_kept`` rows of each; untouched room costs no memory."""
    rows = new_rows(n_slots, n_kept, n_features)
    return Sites(
        rows=rows._replace(
            contexts=np.zeros(rows.contexts.shape),
            rewards=np.zeros(rows.rewards.shape),
            precision=np.zeros(rows.precision.shape),
            moment=np.zeros(rows.moment.shape),
            weight=np.zeros(rows.weight.shape),
        ),
        contexts=np.zeros((n_slots, n_features)),
        squares=np.zeros((n_slots, n_features)),
        total=np.zeros(n_slots),
        scaled=np.zeros(n_features),
        family=family,
    )


@inlined_kernel
def add_site(ground: DecisionArrays, sites: Sites, arm: int, task: int, x: Array, reward: float) -> tuple[float, float]:
    """Learn one reward of a pair that has a slot, and return its site under the belief of now: w and h.

    The site is about the predictor less what features say of it, as beliefs and sums are.
    """
    ground.one[0] = arm
    settle(ground, task, ground.one, 0, 1, ground.lanes)
    belief = ground.belief
    slot = belief.slot[task, arm]
    mean, sd = predict_arm(belief, task, arm, x, ground.vectors)
    w, h = FAINTEST, 0.0  # of a context of zeros, which says nothing
    if sd > 0.0:
        offset = offset_at(sites.rows, slot, x)
        mean += offset
        w, h = site(sites.family, reward, 1.0, mean, sd * sd, mean, sd * sd, CLOSE)
        h -= w * offset
    root = math.sqrt(w)
    scaled = sites.scaled
    for i in range(x.shape[0]):
        scaled[i] = root * x[i]
        sites.contexts[slot, i] += x[i]
        sites.squares[slot, i] += x[i] * x[i]
    sites.total[slot] += reward
    observe(belief, arm, task, scaled, h / root, ground)
    ground.settled[slot] = ground.generation[0]
    return w, h


@inlined_kernel
def learn_site(ground: DecisionArrays, sites: Sites, arm: int, task: int, x: Array, reward: float) -> None:
    """Learn one reward of a pair that has a slot, and keep its row."""
    w, h = add_site(ground, sites, arm, task, x, reward)
    keep_row(sites.rows, ground.belief.slot[task, arm], x, reward, w, h)


@kernel
def learn_one_site(ground: int, sites: int, arm: int, task: int, x: Array, reward: float) -> None:
    """Learn one reward; takes the addresses of a :class:`DecisionArrays` and of :class:`Sites`."""
    learn_site(open_decision_arrays(ground), open_sites(sites), arm, task, x, reward)


@kernel
def learn_sites(ground: int, sites: int, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
    """Learn rows one after another; every pair must have a slot."""
    belief_of, kept = open_decision_arrays(ground), open_sites(sites)
    for row in range(tasks.shape[0]):
        learn_site(belief_of, kept, arms[row], tasks[row], contexts[row], rewards[row])


@kernel
def show_rewards(family: int, mean: Array, sd: Array) -> None:
    """Turn mean and standard deviation of linear predictors into those of expected rewards, in place."""
    for place in range(mean.shape[0]):
        e, s = mean[place], sd[place]
        if not math.isnan(e):
            mean[place], sd[place] = expectations(family, e, s * s)[0], spread(family, e, s)
