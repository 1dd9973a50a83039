r"""What one reward of a family says about its linear predictor, as a Gaussian factor: its site.

Before the reward :math:`\eta = x^\top\theta` is believed to be :math:`\mathcal N(m, v)`; after it,
:math:`\mathcal N(e, q)` with

.. math:: e = m + v\,(y - \operatorname{E}\mu(\eta)), \qquad 1/q = 1/v + \operatorname{E}\mu'(\eta),

expectations under :math:`\mathcal N(e, q)` itself: the Gaussian nearest to the true belief in the variational sense.
The site is what took the one to the other: precision ``w = E mu'`` and moment ``h = y - E mu + w e``. So a reward
counts as a number ``h / sqrt(w)`` with noise variance 1, seen at ``sqrt(w) x``, and everything that knows how to learn
numbers learns it.

Families say what their link is; what is compiled here is made of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posse.kernels.compiler import made_kernel

ROUNDS = 50  # at most
FARTHEST = 4.0  # of a move of the predictor in one round: the logistic curve is flat beyond
FAINTEST = 1e-12  # a site of less precision says nothing

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def newton_site(expectations: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function that finds sites under a link, given its expectations.

    The function takes ``reward``, ``weight``, ``m``, ``v``, ``e``, ``q`` and ``close``, and returns precision and
    moment of the site of a reward under the belief N(m, v). It is Newton's method in e and log q, from N(e, q) on, with
    limited steps, until a step is shorter than ``close`` standard deviations. ``weight`` is what the reward still
    counts for, from 0 to 1: its likelihood is raised to that power, which makes reward and expectations smaller by it.
    """

    @made_kernel
    def site(reward: float, weight: float, m: float, v: float, e: float, q: float, close: float) -> tuple[float, float]:
        reward *= weight
        w, h = 0.0, 0.0
        for _round in range(ROUNDS):
            value, first, second, third = expectations(e, q)
            value, first, second, third = weight * value, weight * first, weight * second, weight * third
            left, right = e - m - v * (reward - value), 1.0 - q / v - q * first
            # Slopes of both by e and by log q. What a wide belief makes of the last one may not change its sign.
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

    return site


def quadrature_spread(rate: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function of mean and sd of a predictor that gives the sd of its rate, by quadrature."""

    @made_kernel
    def spread(mean: float, sd: float) -> float:
        # Around the rate in the middle, so that nothing cancels where the belief is narrow.
        at = rate(mean)
        centre, square = 0.0, 0.0
        for node in range(NODES.shape[0]):
            away = rate(mean + sd * NODES[node]) - at
            centre += WEIGHTS[node] * away
            square += WEIGHTS[node] * away * away
        return math.sqrt(max(square - centre * centre, 0.0))

    return spread
