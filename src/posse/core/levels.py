"""How noisy every arm is, and how much its coefficients differ between tasks: levels of its own, drawn to the others.

For every arm the evidence asks for a move of two logarithms, that of its noise variance and that of the level of its
covariance (their slopes, and the Fisher information about both). Arms are drawn to a centre by a penalty that grows
with the logarithm of the distance,

    NOISE_PULL / 2 log(1 + z_noise^2 + c z_level^2),  z = log value of the arm - centre,

a Student law of both together: arms like the others share what they know, and an arm unlike them in one way (one that
always pays 0 has no noise) is let go in both, and lets the others go. The centre is held to a start of the size of the
data.

One step minimises the quadratic form of all of it at once: every arm's own move, and the centre, which is then a mean
of the arms' wishes, each weighted by how well it is known and how ordinary it is. Clicks and counts have noise 1, which
is known: then only levels move.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posse.types import Array, BoolArray

NOISE, LEVEL = 0, 1  # of a centre

NOISE_PULL = 60.0  # towards the centre, in units of information: that of 120 rewards
LEVEL_PULL = 15.0  # per feature: that of 30 well-known tasks
MOST_SAID = 4.0  # by one of several arms about a centre, in units of information: of 8 rewards; for levels per feature
HELD = 0.25  # 1 over the variance of the log-normal priors that hold the centres to their starts
NOISE_HELD = 0.5  # more than that, in units of information, near its start: a law with heavier tails
LARGEST_MOVE = 1.5  # of a logarithm in one step
NOISE_SHARE, COVARIANCE_SHARE, MEAN_SHARE = 0.5, 0.1, 0.4  # starts, as shares of the scatter of the rewards
SCARCE = 30.0  # rewards: with n of them an arm's noise is at least the share SCARCE / (n + SCARCE) of the centre's
QUIET = 1e-9  # the least noise, as a share of the rewards' scatter: quieter rewards leave no digits to work with


class Slopes(NamedTuple):
    """What the evidence says about the levels of every arm: arrays of shape (n_arms,)."""

    noise: Array  # logarithms, which a step moves
    level: Array
    by_noise: Array  # slopes of the log evidence
    by_level: Array
    noise_noise: Array  # Fisher information
    noise_level: Array
    level_level: Array
    rewards: Array  # each at what it says about the noise


def clip(move: float) -> float:
    """Return a move of a logarithm, kept within bounds."""
    return min(max(move, -LARGEST_MOVE), LARGEST_MOVE)


def curvature(information: Array, slope: Array) -> Array:
    """Return by how much the slope of a log variance falls per unit of it.

    Where a variance is about to vanish, the evidence is linear in it, and its slope falls as fast as it is steep; the
    expected information alone would step over the top for ever.
    """
    return np.asarray(np.maximum(information, -slope))


def least_noise(centre: float, rewards: Array, size: float, constant: BoolArray) -> Array:
    """Return the least log noise variance of every arm: it may not fall faster than its rewards justify.

    Rewards that were all the same (``constant``) tell nothing about their noise, nor do arms of which none has shown
    any: there it falls from where it started.
    """
    above = np.where(constant, max(centre, math.log(NOISE_SHARE * size)), centre)
    return np.asarray(np.maximum(above + np.log(SCARCE / (rewards + SCARCE)), math.log(QUIET * size)))


def move_levels(
    slopes: Slopes, centre: Array, constant: BoolArray, size: float, d: int, *, noise_known: bool
) -> tuple[Array, Array, Array, float]:
    """Return log noise and log level of every arm after one step, the centre, and the largest move of any.

    ``size`` is the scatter of the rewards; ``constant`` says which arms' rewards were all the same so far.
    """
    away = math.log(NOISE_SHARE * size) - float(centre[NOISE])
    # Few rows per task hardly tell noise from coefficients; where the noise is far from its start, they did.
    held_noise = HELD + NOISE_HELD / (1.0 + (HELD * away * away) ** 2)
    hold_ll, ask_l = HELD, HELD * (math.log(COVARIANCE_SHARE * size / d) - float(centre[LEVEL]))
    hold_nn, hold_nl, ask_n = held_noise, 0.0, 0.0 if noise_known else held_noise * away
    for said in _wishes(slopes, centre, d, noise_known=noise_known):
        ask_n += said[0]
        ask_l += said[1]
        hold_nn += said[2]
        hold_nl += said[3]
        hold_ll += said[4]
    determinant = hold_nn * hold_ll - hold_nl * hold_nl
    new_n = clip((hold_ll * ask_n - hold_nl * ask_l) / determinant)
    new_l = clip((hold_nn * ask_l - hold_nl * ask_n) / determinant)
    at_n, at_l = slopes.noise - centre[NOISE], slopes.level - centre[LEVEL]
    pull_n, pull_l, nn, nl, ll = _pulls(slopes, at_n, at_l, d, noise_known=noise_known)
    determinants = nn * ll - nl * nl
    wish_n, wish_l = slopes.by_noise - pull_n * (at_n - new_n), slopes.by_level - pull_l * (at_l - new_l)
    move_n = np.clip((ll * wish_n - nl * wish_l) / determinants, -LARGEST_MOVE, LARGEST_MOVE)
    move_l = np.clip((nn * wish_l - nl * wish_n) / determinants, -LARGEST_MOVE, LARGEST_MOVE)
    centre = centre + np.array([new_n, new_l])
    noise = slopes.noise
    if not noise_known:
        noise = np.maximum(noise + move_n, least_noise(float(centre[NOISE]), slopes.rewards, size, constant))
    # What counts is how far the noise went, not how far it would go below its floor.
    moved = max(abs(new_n), abs(new_l), float(np.abs(noise - slopes.noise).max()), float(np.abs(move_l).max()))
    return noise, slopes.level + move_l, centre, moved


def _pulls(slopes: Slopes, at_n: Array, at_l: Array, d: int, *, noise_known: bool) -> tuple[Array, ...]:
    """Return the pulls of every arm to a centre at these distances, and its information with them.

    An arm keeps the share 1 of its pull at the centre, and 0 far away.
    """
    at_n = np.zeros_like(at_n) if noise_known else at_n
    share = 1.0 / (1.0 + at_n * at_n + LEVEL_PULL * d / NOISE_PULL * at_l * at_l)
    pull_n, pull_l = share * NOISE_PULL, share * LEVEL_PULL * d
    if noise_known:
        return np.zeros_like(share), pull_l, np.ones_like(share), np.zeros_like(share), slopes.level_level + pull_l
    return pull_n, pull_l, slopes.noise_noise + pull_n, slopes.noise_level, slopes.level_level + pull_l


def _wishes(slopes: Slopes, centre: Array, d: int, *, noise_known: bool) -> list[tuple[float, ...]]:
    """Return what every arm asks of the centre, and how strongly it holds it."""
    at_n, at_l = slopes.noise - centre[NOISE], slopes.level - centre[LEVEL]
    pull_n, pull_l, nn, nl, ll = _pulls(slopes, at_n, at_l, d, noise_known=noise_known)
    determinant = nn * ll - nl * nl
    wish_n, wish_l = slopes.by_noise - pull_n * at_n, slopes.by_level - pull_l * at_l
    said = (
        pull_n * (at_n + (ll * wish_n - nl * wish_l) / determinant),
        pull_l * (at_l + (nn * wish_l - nl * wish_n) / determinant),
        pull_n - pull_n * ll / determinant * pull_n, pull_n * nl / determinant * pull_l,
        pull_l - pull_l * nn / determinant * pull_l,
    )  # fmt: skip
    arms = list(zip(*(part.tolist() for part in said), strict=True))
    if noise_known or len(arms) == 1:  # an arm alone has nobody to lead astray
        return arms
    share = pull_n / NOISE_PULL
    return [_less(one, MOST_SAID * part, MOST_SAID * d * part) for one, part in zip(arms, share.tolist(), strict=True)]


def _less(said: tuple[float, ...], most_n: float, most_l: float) -> tuple[float, ...]:
    """Return what an arm says about the centres, with no more weight than this.

    An arm that is pulled nearly always knows itself, and says no more than others about the centres. It asks for them
    where it did, with less weight.
    """
    ask_n, ask_l, nn, nl, ll = said
    if nn <= most_n and ll <= most_l:
        return said
    determinant = nn * ll - nl * nl
    if determinant > 1e-9 * nn * ll:
        wish_n, wish_l = (ll * ask_n - nl * ask_l) / determinant, (nn * ask_l - nl * ask_n) / determinant
        less_n, less_l = math.sqrt(min(1.0, most_n / nn)), math.sqrt(min(1.0, most_l / ll))
        nn, nl, ll = less_n * less_n * nn, less_n * less_l * nl, less_l * less_l * ll
        return nn * wish_n + nl * wish_l, nl * wish_n + ll * wish_l, nn, nl, ll
    if nn > most_n:  # levels that nothing is known about
        return most_n / nn * ask_n, ask_l, most_n, most_n / nn * nl, ll
    return said
