r"""The logistic link: expectations over a Gaussian linear predictor.

.. math:: \operatorname{E} \mu(\eta), \operatorname{E} \mu'(\eta), \dots, \qquad \eta \sim \mathcal N(e, q)

The logistic curve is a mixture of eight normal curves up to 6e-8 (Monahan and Stefanski, 1992, had the idea; weights
and scales are a fit of our own, which also keeps the tails), and the expectation of a normal curve is known exactly,
however wide the belief. Gauss-Hermite quadrature with 20 nodes is off by 10 % where a belief is 5 wide.
"""

from __future__ import annotations

import math

from posse.kernels.compiler import inlined_kernel

WEIGHTS = (
    0.01160795657, 0.1172172002, 0.2912124401, 0.3194765351,
    0.1911244247, 0.06096207988, 0.008149839433, 0.0002495240124,
)  # fmt: skip
SCALES = (1.252932914, 0.9495775386, 0.7303097835, 0.5650736586, 0.4404380669, 0.346628825, 0.2747098302, 0.2164535583)

ROOT_HALF = math.sqrt(0.5)
NORMAL = 1.0 / math.sqrt(2.0 * math.pi)


@inlined_kernel
def expectations(mean: float, variance: float) -> tuple[float, float, float, float]:
    """Return the expectations of the logistic curve and of its first three derivatives."""
    value, first, second, third = 0.0, 0.0, 0.0, 0.0
    for part in range(8):
        scale = SCALES[part] / math.sqrt(1.0 + SCALES[part] * SCALES[part] * variance)
        at = scale * mean
        value += WEIGHTS[part] * math.erfc(-ROOT_HALF * at)
        density = WEIGHTS[part] * scale * math.exp(-0.5 * at * at)
        first += density
        second -= density * scale * at
        third += density * scale * scale * (at * at - 1.0)
    return 0.5 * value, NORMAL * first, NORMAL * second, NORMAL * third
