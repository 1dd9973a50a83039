"""Clicks and counts of a fleet: rewards are learned as their sites, and the last rows of every pair are kept.

As :mod:`posse.kernels.fleet` and :mod:`posse.kernels.replace`, for rewards of a family. A row that is kept may get
another reward later: its site is then made again. One that is kept no more has a site whose precision hardly depends on
the reward, and whose moment moves by as much as the reward does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.kernels.compiler import inlined_kernel, kernel
from posse.kernels.evidence import Evidence
from posse.kernels.family_evidence import improve_to_rest
from posse.kernels.ground import Ground, open_ground, settle
from posse.kernels.handle import Layout, floats
from posse.kernels.kept_rows import KeptRows, change_site, keep_row, new_rows
from posse.kernels.posterior import Belief, Buffers, observe, predict_arm
from posse.kernels.sites import BINARY, CLOSE, FAINTEST, expectations, site
from posse.kernels.sums import Sums
from posse.types import Array, IntArray

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


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
        ),
        contexts=np.zeros((n_slots, n_features)),
        squares=np.zeros((n_slots, n_features)),
        total=np.zeros(n_slots),
        scaled=np.zeros(n_features),
        family=family,
    )


@inlined_kernel
def learn_site(ground: Ground, sites: Sites, arm: int, task: int, x: Array, reward: float) -> None:
    """Learn one reward of a pair that has a slot: its site under the belief of now."""
    ground.one[0] = arm
    settle(ground, task, ground.one, 0, 1, ground.lanes)
    belief = ground.belief
    slot = belief.slot[task, arm]
    mean, sd = predict_arm(belief, task, arm, x, ground.vectors)
    w, h = FAINTEST, 0.0  # of a context of zeros, which says nothing
    if sd > 0.0:
        w, h = site(sites.family, reward, mean, sd * sd, mean, sd * sd, CLOSE)
    root = math.sqrt(w)
    scaled = sites.scaled
    for i in range(x.shape[0]):
        scaled[i] = root * x[i]
        sites.contexts[slot, i] += x[i]
        sites.squares[slot, i] += x[i] * x[i]
    sites.total[slot] += reward
    observe(belief, arm, task, scaled, h / root, ground)
    ground.settled[slot] = ground.generation[0]
    keep_row(sites.rows, slot, x, reward, w, h)


@inlined_kernel
def place_of(rows: KeptRows, slot: int, x: Array, reward: float) -> int:
    """Return where the last kept row with this context and reward stands, or -1."""
    first, kept, room = rows.first[slot], rows.kept[slot], rows.room[slot]
    for back in range(1, kept + 1):
        place = first + (rows.seen[slot] - back) % room
        if rows.rewards[place] != reward:
            continue
        same = True
        for i in range(x.shape[0]):
            same = same and rows.contexts[place, i] == x[i]
        if same:
            return place
    return -1


@inlined_kernel
def raise_squares(sums: Sums, row: int, d: int) -> None:
    """Let the sum of squares of a slot be as large as Cauchy and Schwarz say."""
    place = 0
    for i in range(d):
        if sums.gram[row, place] > 0.0:
            least = sums.moment[row, i] * sums.moment[row, i] / sums.gram[row, place]
            sums.sum_of_squares[row] = max(sums.sum_of_squares[row], least)
        place += d - i


@inlined_kernel
def replace_site(ground: Ground, sites: Sites, arm: int, task: int, x: Array, old: float, new: float) -> None:
    """Let a reward that was learned be another one."""
    ground.one[0] = arm
    settle(ground, task, ground.one, 0, 1, ground.lanes)
    belief, rows = ground.belief, sites.rows
    slot = belief.slot[task, arm]
    sites.total[slot] += new - old
    e, sd = predict_arm(belief, task, arm, x, ground.vectors)
    q = sd * sd
    place = place_of(rows, slot, x, old)
    if place < 0:
        if q > 0.0:
            change_site(belief, arm, slot, x, 0.0, new - old, ground.vectors)
        raise_squares(belief.sums, slot, x.shape[0])
        return
    rows.rewards[place] = new
    old_w, old_h = rows.precision[place], rows.moment[place]
    w, h = old_w, old_h + (new - old)
    share = 1.0 - q * old_w
    if q > 0.0 and share > 1e-9:
        w, h = site(sites.family, new, (e - q * old_h) / share, q / share, e, q, CLOSE)
        if not 1.0 + (w - old_w) * q > 1e-9:  # nothing would be left to divide by
            w, h = old_w, old_h + (new - old)
    if q > 0.0:
        change_site(belief, arm, slot, x, w - old_w, h - old_h, ground.vectors)
    belief.sums.sum_of_squares[slot] += h * h / w - old_h * old_h / old_w
    raise_squares(belief.sums, slot, x.shape[0])
    rows.precision[place], rows.moment[place] = w, h


@kernel
def learn_one_site(ground: int, sites: int, arm: int, task: int, x: Array, reward: float) -> None:
    """Learn one reward; takes the addresses of a :class:`Ground` and of :class:`Sites`."""
    learn_site(open_ground(ground), open_sites(sites), arm, task, x, reward)


@kernel
def learn_sites(ground: int, sites: int, tasks: IntArray, arms: IntArray, contexts: Array, rewards: Array) -> None:
    """Learn rows one after another; every pair must have a slot."""
    belief_of, kept = open_ground(ground), open_sites(sites)
    for row in range(tasks.shape[0]):
        learn_site(belief_of, kept, arms[row], tasks[row], contexts[row], rewards[row])


@kernel
def replace_sites(
    ground: int, sites: int, tasks: IntArray, arms: IntArray, contexts: Array, old: Array, new: Array
) -> None:
    """Replace rewards one after another; every pair must have learned the old one."""
    belief_of, kept = open_ground(ground), open_sites(sites)
    for row in range(tasks.shape[0]):
        replace_site(belief_of, kept, arms[row], tasks[row], contexts[row], old[row], new[row])


@kernel
def refresh_sites(
    belief: Belief,
    evidence: Evidence,
    rows: KeptRows,
    squares: Array,
    family: int,
    steps: int,
    settled: float,
    buffers: Buffers,
) -> None:
    """Make sites again and improve the prior of all arms; every posterior is up to date afterwards."""
    improve_to_rest(belief, evidence, rows, squares, family, steps, settled, buffers)


@kernel
def show_rewards(family: int, mean: Array, sd: Array) -> None:
    """Turn mean and standard deviation of linear predictors into those of expected rewards, in place."""
    for place in range(mean.shape[0]):
        e, s = mean[place], sd[place]
        expected = expectations(family, e, s * s)[0]
        if family == BINARY:
            # Around the rate in the middle, so that nothing cancels where the belief is narrow.
            centre, square = 0.0, 0.0
            at = 1.0 / (1.0 + math.exp(-min(max(e, -700.0), 700.0)))
            for node in range(NODES.shape[0]):
                away = 1.0 / (1.0 + math.exp(-min(max(e + s * NODES[node], -700.0), 700.0))) - at
                centre += WEIGHTS[node] * away
                square += WEIGHTS[node] * away * away
            spread = math.sqrt(max(square - centre * centre, 0.0))
        else:
            spread = expected * math.sqrt(math.expm1(min(s * s, 600.0)))
        if not math.isnan(e):
            mean[place], sd[place] = expected, spread
