"""Covariate diversity: whether contexts alone explore enough for a greedy policy."""

from __future__ import annotations

from posse.checks import one_of

LAWS = ("mixed-gaussian", "uniform", "intercept", "one-hot")
"""The context laws of :class:`posse.SyntheticWorld`."""


def covariate_diversity(law: str) -> float:
    r"""Return the diversity of a law of contexts, exactly.

    Bastani, Bayati and Khosravi call contexts diverse if, whichever half of them an arm gets to see, it sees every
    direction:

    .. math:: \lambda_0 = \min_{\lVert u \rVert = 1} \lambda_{\min}\bigl( E[x x^\top 1(x^\top u \ge 0)] \bigr) > 0 .

    If x and −x have the same law, and :math:`x^\top u = 0` has probability 0 for every u, both halves are alike and the
    matrix is :math:`E[x x^\top] / 2` for every u.

    Parameters
    ----------
    law : {"mixed-gaussian", "uniform", "intercept", "one-hot"}

    Returns
    -------
    float
        *mixed-gaussian*: 1, as a coordinate is N(±1, 1) and its mean square 2. The paper says that this law lacks
        diversity; it has six times that of the uniform law. *uniform* on [−1, 1]: 1/6. *intercept*: 0, as with
        u = −e₁ no context is left. *one-hot*: 0, for the same u, which leaves out e₁.

    Examples
    --------
    >>> covariate_diversity("mixed-gaussian"), covariate_diversity("one-hot")
    (1.0, 0.0)
    """
    one_of(law, "law", LAWS)
    return {"mixed-gaussian": 1.0, "uniform": 1.0 / 6.0}.get(law, 0.0)
