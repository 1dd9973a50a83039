r"""The log link: expectations over a Gaussian linear predictor.

.. math:: \operatorname{E} e^\eta = \exp(e + q / 2), \qquad \eta \sim \mathcal N(e, q)

which is the expectation of all its derivatives too.
"""

from __future__ import annotations

import math

from posse.kernels.compiler import inlined_kernel, kernel

LARGEST_EXPONENT = 300.0  # of a rate whose square is still a number
ROUNDS = 100  # at most: halvings of the widest bracket end before


@inlined_kernel
def expectations(mean: float, variance: float) -> tuple[float, float, float, float]:
    """Return the expected rate, which is the expectation of its first three derivatives too."""
    rate = math.exp(min(mean + 0.5 * variance, LARGEST_EXPONENT))
    return rate, rate, rate, rate


@kernel
def log_rate(reward: float, m: float, v: float, start: float, close: float) -> tuple[float, float]:
    r"""Return u = e + q / 2, the logarithm of the expected rate after a count, and q; before it N(m, v) was believed.

    With the rate :math:`r = e^u` it is the root of

    .. math:: u - m - v\,(y - r) - \frac{v}{2\,(1 + v r)}

    which rises from minus to plus infinity, so a bracket never loses it: however wide the belief was (a rate of e^300
    may be its mean), nothing overshoots. Newton's method from ``start``, halving where it would leave the bracket,
    until a step is shorter than ``close`` standard deviations.
    """
    low = min(-math.log(v), m + v * reward - 1.0)
    high = min(m + v * reward + 0.5 * v, math.log(reward + 0.5 + (max(m, 0.0) + 1.0) / v))
    low = min(low, high)
    u = min(max(start, low), high)
    q = v
    for _round in range(ROUNDS):
        rate = math.exp(u)
        q = v / (1.0 + v * rate)
        left = u - m - v * (reward - rate) - 0.5 * q
        if left > 0.0:
            high = u
        else:
            low = u
        new = u - left / (1.0 + v * rate + 0.5 * q * q * rate)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        move = abs(new - u)
        u = new
        if move * move <= close * close * min(q, 1.0):
            break
    return u, v / (1.0 + v * math.exp(u))
