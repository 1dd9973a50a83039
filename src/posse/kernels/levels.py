"""How noisy every arm is, and how much its coefficients differ between tasks: levels of its own, drawn to the others.

For every arm the evidence asks for a move of two logarithms, that of its noise variance and that of the level of its
covariance (their slopes, and the Fisher information about both). Arms are drawn to a centre by a penalty that grows
with the logarithm of the distance,

    NOISE_PULL / 2 log(1 + z_noise^2 + c z_level^2),  z = log value of the arm - centre,

a Student law of both together: arms like the others share what they know, and an arm unlike them in one way (one that
always pays 0 has no noise) is let go in both, and lets the others go. The centre is held to a start of the size of the
data.

One step minimises the quadratic form of all of it at once: every arm's own move, and the centre, which is then a mean
of the arms' wishes, each weighted by how well it is known and how ordinary it is.
"""

from __future__ import annotations

import math

from posse.kernels.compiler import inner_kernel, kernel
from posse.types import Array, BoolArray

NOISE, LEVEL = 0, 1  # of a centre

# Columns of an arm's slopes. The first two are moved by a step.
LOG_NOISE, LOG_LEVEL, NOISE_SLOPE, LEVEL_SLOPE, NOISE_NOISE, NOISE_LEVEL, LEVEL_LEVEL, COUNT = range(
    8
)  # the count is that of rewards, each at what it says about the noise
N_SLOPES = 8

NOISE_PULL = 60.0  # towards the centre, in units of information: that of 120 rewards
LEVEL_PULL = 15.0  # per feature: that of 30 well-known tasks
MOST_SAID = (
    4.0  # by one of several arms about a centre, in units of information: that of 8 rewards; for levels per feature
)
LOG_SD = 2.0  # of the log-normal priors that hold the centres to their starts
NOISE_HELD = 0.5  # more than that, in units of information, near its start: a law with heavier tails
LARGEST_MOVE = 1.5  # of a logarithm in one step
NOISE_SHARE, COVARIANCE_SHARE, MEAN_SHARE = 0.5, 0.1, 0.4  # starts, as shares of the scatter of the rewards
SCARCE = 30.0  # rewards: with n of them an arm's noise is at least the share SCARCE / (n + SCARCE) of the centre's
QUIET = 1e-9  # the least noise, as a share of the rewards' scatter: quieter rewards leave no digits to work with


@inner_kernel
def clip(move: float) -> float:
    """Return a move of a logarithm, kept within bounds."""
    return min(max(move, -LARGEST_MOVE), LARGEST_MOVE)


@inner_kernel
def curvature(information: float, slope: float) -> float:
    """Return by how much the slope of a log variance falls per unit of it.

    Where a variance is about to vanish, the evidence is linear in it, and its slope falls as fast as it is steep; the
    expected information alone would step over the top for ever.
    """
    return max(information, -slope)


@inner_kernel
def ordinary(at_noise: float, at_level: float, d: int) -> float:
    """Return the share of its pull to the centre that an arm at these distances keeps: 1 at the centre, 0 far away."""
    return 1.0 / (1.0 + at_noise * at_noise + LEVEL_PULL * d / NOISE_PULL * at_level * at_level)


@kernel
def least_noise(centre: float, rewards: float, size: float, constant: bool) -> float:
    """Return the least log noise variance of an arm: it may not fall faster than its rewards justify.

    Rewards that were all the same (``constant``) tell nothing about their noise, nor do arms of which none has shown
    any: there it falls from where it started.
    """
    start = math.log(NOISE_SHARE * size)
    above = max(centre, start) if constant else centre
    return max(above + math.log(SCARCE / (rewards + SCARCE)), math.log(QUIET * size))


@inner_kernel
def move_levels(slopes: Array, centre: Array, constant: BoolArray, size: float, d: int) -> float:
    """Move the logarithms of all arms and their centres one step; return the largest move of any.

    ``size`` is the scatter of the rewards; ``constant`` says which arms' rewards were all the same so far.
    """
    n_arms = slopes.shape[0]
    held = 1.0 / (LOG_SD * LOG_SD)
    # In distances from the old centres: (sum of what each arm holds) (new - old) = sum of what each arm asks for.
    away = math.log(NOISE_SHARE * size) - centre[NOISE]
    # Few rows per task hardly tell noise from coefficients; where the noise is far from its start, they did.
    held_noise = held + NOISE_HELD / (1.0 + (held * away * away) ** 2)
    hold_nn, hold_nl, hold_ll = held_noise, 0.0, held
    ask_n = held_noise * away
    ask_l = held * (math.log(COVARIANCE_SHARE * size / d) - centre[LEVEL])
    for arm in range(n_arms):
        row = slopes[arm]
        at_n, at_l = row[LOG_NOISE] - centre[NOISE], row[LOG_LEVEL] - centre[LEVEL]
        share = ordinary(at_n, at_l, d)
        pull_n, pull_l = share * NOISE_PULL, share * LEVEL_PULL * d
        nn, nl, ll = row[NOISE_NOISE] + pull_n, row[NOISE_LEVEL], row[LEVEL_LEVEL] + pull_l
        determinant = nn * ll - nl * nl
        wish_n, wish_l = row[NOISE_SLOPE] - pull_n * at_n, row[LEVEL_SLOPE] - pull_l * at_l
        arm_n = pull_n * (at_n + (ll * wish_n - nl * wish_l) / determinant)
        arm_l = pull_l * (at_l + (nn * wish_l - nl * wish_n) / determinant)
        arm_nn = pull_n - pull_n * ll / determinant * pull_n
        arm_nl = pull_n * nl / determinant * pull_l
        arm_ll = pull_l - pull_l * nn / determinant * pull_l
        most_n, most_l = MOST_SAID * share, MOST_SAID * d * share
        if n_arms > 1 and (arm_nn > most_n or arm_ll > most_l):
            # An arm that is pulled nearly always knows itself, and says no more than others about the centres. It asks
            # for them where it did, with less weight. An arm alone has nobody to lead astray.
            determinant = arm_nn * arm_ll - arm_nl * arm_nl
            if determinant > 1e-9 * arm_nn * arm_ll:
                wish_n = (arm_ll * arm_n - arm_nl * arm_l) / determinant
                wish_l = (arm_nn * arm_l - arm_nl * arm_n) / determinant
                less_n, less_l = math.sqrt(min(1.0, most_n / arm_nn)), math.sqrt(min(1.0, most_l / arm_ll))
                arm_nn, arm_nl, arm_ll = less_n * less_n * arm_nn, less_n * less_l * arm_nl, less_l * less_l * arm_ll
                arm_n, arm_l = arm_nn * wish_n + arm_nl * wish_l, arm_nl * wish_n + arm_ll * wish_l
            elif arm_nn > most_n:  # levels that nothing is known about
                arm_n, arm_nn, arm_nl = most_n / arm_nn * arm_n, most_n, most_n / arm_nn * arm_nl
        ask_n += arm_n
        ask_l += arm_l
        hold_nn += arm_nn
        hold_nl += arm_nl
        hold_ll += arm_ll
    determinant = hold_nn * hold_ll - hold_nl * hold_nl
    new_n = clip((hold_ll * ask_n - hold_nl * ask_l) / determinant)
    new_l = clip((hold_nn * ask_l - hold_nl * ask_n) / determinant)
    move = max(abs(new_n), abs(new_l))
    centre[NOISE] += new_n
    centre[LEVEL] += new_l
    for arm in range(n_arms):
        row = slopes[arm]
        at_n, at_l = row[LOG_NOISE] - centre[NOISE] + new_n, row[LOG_LEVEL] - centre[LEVEL] + new_l
        share = ordinary(at_n, at_l, d)
        pull_n, pull_l = share * NOISE_PULL, share * LEVEL_PULL * d
        nn, nl, ll = row[NOISE_NOISE] + pull_n, row[NOISE_LEVEL], row[LEVEL_LEVEL] + pull_l
        determinant = nn * ll - nl * nl
        wish_n = row[NOISE_SLOPE] - pull_n * (at_n - new_n)
        wish_l = row[LEVEL_SLOPE] - pull_l * (at_l - new_l)
        move_n = clip((ll * wish_n - nl * wish_l) / determinant)
        move_l = clip((nn * wish_l - nl * wish_n) / determinant)
        noise = max(row[LOG_NOISE] + move_n, least_noise(centre[NOISE], row[COUNT], size, constant[arm]))
        # What counts is how far the noise went, not how far it would go below its floor.
        move = max(move, max(abs(noise - row[LOG_NOISE]), abs(move_l)))
        row[LOG_NOISE] = noise
        row[LOG_LEVEL] += move_l
    return move
