r"""The log link: expectations over a Gaussian linear predictor.

.. math:: \operatorname{E} e^\eta = \exp(e + q / 2), \qquad \eta \sim \mathcal N(e, q)

which is the expectation of all its derivatives too.
"""

from __future__ import annotations

import math

from posse.kernels.compiler import inlined_kernel

LARGEST_EXPONENT = 300.0  # of a rate whose square is still a number


@inlined_kernel
def expectations(mean: float, variance: float) -> tuple[float, float, float, float]:
    """Return the expected rate, which is the expectation of its first three derivatives too."""
    rate = math.exp(min(mean + 0.5 * variance, LARGEST_EXPONENT))
    return rate, rate, rate, rate
