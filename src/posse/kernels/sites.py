r"""What one reward of a family says about its linear predictor, as a Gaussian factor: its site.

Before the reward :math:`\eta = x^\top\theta` is believed to be :math:`\mathcal N(m, v)`; after it,
:math:`\mathcal N(e, q)` with

.. math:: e = m + v\,(y - \operatorname{E}\mu(\eta)), \qquad 1/q = 1/v + \operatorname{E}\mu'(\eta),

expectations under :math:`\mathcal N(e, q)` itself: the Gaussian nearest to the true belief in the variational sense.
The site is what took the one to the other: precision ``w = E mu'`` and moment ``h = y - E mu + w e``. So a reward
counts as a number ``h / sqrt(w)`` with noise variance 1, seen at ``sqrt(w) x``, and everything that knows how to learn
numbers learns it.
"""

from __future__ import annotations

import math

from posse.kernels import binary, count
from posse.kernels.compiler import inlined_kernel, inner_kernel

NUMBER, BINARY, COUNT = 0, 1, 2  # families, as kernels know them

ROUNDS = 50  # at most
CLOSE = 1e-5  # of a move, in standard deviations: what is left is its square
CLOSE_AGAIN = 1e-3  # likewise where a site is made again, and will be once more
FARTHEST = 4.0  # of a move of the predictor in one round: the logistic curve is flat beyond
FAINTEST = 1e-12  # a site of less precision says nothing

binary_expectations, count_expectations = binary.expectations, count.expectations
log_rate = count.log_rate


@inlined_kernel
def expectations(family: int, mean: float, variance: float) -> tuple[float, float, float, float]:
    """Return the expectations of the expected reward and of its first three derivatives by the predictor."""
    if family == BINARY:
        return binary_expectations(mean, variance)
    return count_expectations(mean, variance)


@inner_kernel
def site(
    family: int, reward: float, weight: float, m: float, v: float, e: float, q: float, close: float
) -> tuple[float, float]:
    """Return precision w and moment h of the site of a reward under the belief N(m, v); the search starts at N(e, q).

    Newton's method in e and log q, with limited steps, until a step is shorter than ``close`` standard deviations. With
    the log link both follow from one number, see :func:`posse.kernels.count.log_rate`.

    ``weight`` is what the reward still counts for, from 0 to 1: its likelihood is raised to that power, which makes
    reward and expectations smaller by it.
    """
    reward *= weight
    if family == COUNT:
        # A rate that is smaller by the weight is a predictor that is lower by its logarithm.
        less = math.log(weight)
        u, q = log_rate(reward, m + less, v, e + 0.5 * q + less, close)
        rate = math.exp(u)
        w = max(rate, FAINTEST)
        return w, reward - rate + w * (u - less - 0.5 * q)
    w, h = 0.0, 0.0
    for _round in range(ROUNDS):
        value, first, second, third = expectations(family, e, q)
        value, first, second, third = weight * value, weight * first, weight * second, weight * third
        left, right = e - m - v * (reward - value), 1.0 - q / v - q * first
        # Slopes of both by e and by log q. What a wide belief makes of the last one is not allowed to change its sign.
        left_e, left_q, right_e = 1.0 + v * first, 0.5 * v * q * second, -q * second
        right_q = -max(1.0 + 0.5 * q * q * third, 0.5)
        determinant = left_e * right_q - left_q * right_e
        if determinant < 0.25 * left_e * right_q:
            move = (left_q * right - right_q * left) / determinant
            growth = (right_e * left - left_e * right) / determinant
        else:
            move, growth = -left / left_e, -right / right_q
        move = min(max(move, -FARTHEST), FARTHEST)
        growth = min(max(growth, -1.0), 1.0)
        size = math.sqrt(q)
        change = q * (math.exp(growth) - 1.0)
        e, q = e + move, q + change
        w = max(first + second * move + 0.5 * third * change, FAINTEST)
        h = reward - (value + first * move + 0.5 * second * change) + w * e
        if abs(move) < close * size and abs(growth) < close:
            break
    return w, h


@inner_kernel
def site_again(
    family: int, reward: float, weight: float, e: float, q: float, w: float, h: float
) -> tuple[float, float]:
    """Return the site of a reward anew, where N(e, q) is believed with the site (w, h) counted in."""
    share = 1.0 - q * w
    if not share > 1e-9:  # the site is all that is known: nothing to make it from
        return w, h
    return site(family, reward, weight, (e - q * h) / share, q / share, e, q, CLOSE_AGAIN)
