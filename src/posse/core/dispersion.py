r"""How much more than Poisson's counts scatter: the dispersion a of every arm, :math:`\operatorname{var} = m + a m^2`.

It is what the kept rows make most likely, their predictors as they are believed (an EM step: expectations over beliefs,
by Gauss-Hermite quadrature). Arms are drawn to a centre as noise variances of numbers are: by a penalty that grows with
the logarithm of the distance, so arms like the others share what they know, and an arm unlike them is let go. The
centre is held to a start. Where means are small, counts hardly tell a dispersion from none, and it does not matter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posse.core.compiler import compiled
from posse.core.linalg import dot, multiply
from posse.core.pair import Work, new_work, pair_posterior
from posse.core.rows import KEPT_ROWS
from posse.core.store import COUNT, DECAY, DECAY_AT, FIRST, NEXT, OFFSET, REWARD, SPREAD, Store, totals_at

if TYPE_CHECKING:
    from posse.core.sums import Pairs
    from posse.types import Array, IntArray

START = 0.1  # before any count
HELD = 0.25  # 1 over the variance of the log-normal prior that holds the centre to it
PULL = 20.0  # towards the centre, in units of information
LEAST, MOST = 1e-6, 1e3
LARGEST_MOVE = 1.5  # of a logarithm in one round
ROUNDS = 3  # of a step
MOST_ROWS = 2048  # of an arm that are looked at, about
LARGEST_EXPONENT = 30.0  # of a rate
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(6)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@compiled
def believe_rows(store: Store, work: Work, slots: IntArray, out: Array) -> int:
    """Write of every kept row of some slots its reward, what it counts for, and mean and variance of its predictor.

    Return how many there are.
    """
    d, n = work.solved.shape[0], 0
    mean, covariance = work.mean, work.matrices[0]
    for slot in slots:
        pair_posterior(store, work, slot, store.owner[slot, 0], store.owner[slot, 1], 1.0, mean, covariance)
        row = store.row_ends[slot, FIRST]
        while row >= 0 and n < out.shape[0]:
            x, values = store.row_context[row], store.row_values[row]
            multiply(covariance, x, work.column)
            out[n, 0] = values[REWARD]
            out[n, 1] = math.exp(store.pairs[slot, totals_at(d) + DECAY] - values[DECAY_AT])
            out[n, 2] = dot(x, mean) + values[OFFSET]
            out[n, 3] = max(dot(x, work.column), 0.0) + values[SPREAD]
            n += 1
            row = store.row_links[row, NEXT]
    return n


def learn_dispersion(store: Store, pairs: Pairs, before: Array) -> tuple[Array, float]:
    """Return the dispersion of every arm, and the largest relative move of a variance.

    Parameters
    ----------
    store : Store
        With the posterior in force.
    pairs : Pairs
    before : ndarray of shape (n_arms,)
    """
    arms = [_seen(store, pairs, arm) for arm in range(before.size)]
    logarithm, start = np.log(before), math.log(START)
    centre = centre_of(logarithm)
    for _ in range(ROUNDS):
        said = [slopes(dispersion, seen) for dispersion, seen in zip(np.exp(logarithm).tolist(), arms, strict=True)]
        slope, information = np.array(said).T
        away = logarithm - centre
        pull = PULL / (1.0 + away * away)
        # Arms and their centre move together: it gets the arms' wishes, as far as they give way to their pull.
        total = information + pull
        hold = HELD + float((pull * information / total).sum())
        ask = HELD * (start - centre) + float((pull * (away + (slope - pull * away) / total)).sum())
        move = min(max(ask / hold, -LARGEST_MOVE), LARGEST_MOVE)
        step = np.clip((slope - pull * (away - move)) / total, -LARGEST_MOVE, LARGEST_MOVE)
        centre += move
        logarithm = np.clip(logarithm + step, math.log(LEAST), math.log(MOST))
    after, typical = np.exp(logarithm), np.array([seen.typical for seen in arms])
    return after, float(np.abs(np.log1p(after * typical) - np.log1p(before * typical)).max())


class Seen(NamedTuple):
    """Rows of one arm."""

    rewards: Array
    weight: Array
    rates: Array  # (n_rows, n_nodes) at the nodes of what is believed about them
    typical: float  # their mean
    values: Array  # different rewards, and what all rows with each count for
    value_weight: Array


def believed_rows(store: Store, slots: IntArray) -> Array:
    """Return the kept rows of some pairs as :func:`believe_rows` writes them.

    Where there are very many, those of some pairs, evenly spread.
    """
    d = store.prior.shape[2]
    kept = float(np.minimum(store.pairs[slots, totals_at(d) + COUNT], KEPT_ROWS).sum())
    count = min(slots.size, int(slots.size * MOST_ROWS / max(kept, 1.0)))
    slots = slots[np.linspace(0, slots.size - 1, count).astype(np.int64)]
    rows = np.empty((2 * MOST_ROWS, 4))  # open ones are kept beyond that number
    return np.asarray(rows[: believe_rows(store, new_work(d, store.shared.shape[2]), slots, rows)])


def _seen(store: Store, pairs: Pairs, arm: int) -> Seen:
    """Return the kept rows of an arm."""
    rewards, weight, mean, variance = pairs.believed_rows(store, arm).T
    rates = np.exp(np.minimum(mean[:, None] + np.sqrt(variance)[:, None] * NODES, LARGEST_EXPONENT))
    values, places = np.unique(rewards, return_inverse=True)
    typical = float(weight @ rewards / weight.sum()) if rewards.size else 0.0
    return Seen(rewards, weight, rates, typical, values, np.asarray(np.bincount(places, weight), dtype=np.float64))


def centre_of(logarithm: Array) -> float:
    """Return what arms are drawn to, to begin with."""
    return float(np.median(logarithm))


def common_dispersion(dispersion: Array) -> Array:
    """Return the dispersion of a new arm."""
    return np.exp([centre_of(np.log(dispersion))]) if (dispersion > 0).all() else np.zeros(1)


def slopes(dispersion: float, seen: Seen) -> tuple[float, float]:
    """Return the slope of the expected log likelihood by the logarithm of a dispersion, and by how much that falls."""
    from scipy.special import digamma, polygamma

    r, y = 1.0 / dispersion, seen.values
    first, second = digamma(y + r) - digamma(r), polygamma(1, y + r) - polygamma(1, r)
    slope = float(seen.value_weight @ (y - r * first))
    falls = -float(seen.value_weight @ (r * first + r * r * second))
    scaled = dispersion * seen.rates
    share, logs, total = scaled / (1.0 + scaled), r * np.log1p(scaled), (seen.rewards + r)[:, None]
    slope += float(seen.weight @ ((logs - total * share) @ WEIGHTS))
    falls += float(seen.weight @ ((logs - 2.0 * r * share + total * share * (1.0 - share)) @ WEIGHTS))
    return slope, max(falls, 0.0)
