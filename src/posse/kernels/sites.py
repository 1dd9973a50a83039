"""Sites of rewards of any family: each family's own functions, chosen by the number that kernels know it by.

See :mod:`posse.families.links` for what a site is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posse.families import LINKED
from posse.families.links import FAINTEST
from posse.kernels.compiler import inner_kernel, made_kernel

NUMBER = 0  # the family that is not among those here
CLOSE = 1e-5  # of a move, in standard deviations: what is left is its square
CLOSE_AGAIN = 1e-3  # likewise where a site is made again, and will be once more

SIZES = (0.0, *(family.size for family in LINKED.values()))
"""How much predictors of every family differ, arms and tasks taken together."""


def _by_family(parts: list[tuple[int, Callable[..., Any]]]) -> Callable[..., Any]:
    """Return a compiled function that takes the number of a family first, and does what that family's one does."""
    code, first = parts[0]
    if len(parts) == 1:

        @made_kernel
        def only(_family: int, *arguments: Any) -> Any:
            return first(*arguments)

        return only
    others = _by_family(parts[1:])

    @made_kernel
    def chosen(family: int, *arguments: Any) -> Any:
        if family == code:
            return first(*arguments)
        return others(family, *arguments)

    return chosen


expectations = _by_family([(family.code, family.expectations) for family in LINKED.values()])
"""Of a family, and of mean and variance of a predictor: see :class:`posse.families.LinkedFamily`."""

spread = _by_family([(family.code, family.spread) for family in LINKED.values()])
"""Of a family, and of mean and standard deviation of a predictor."""

site = _by_family([(family.code, family.site) for family in LINKED.values()])
"""Of a family, and as :func:`posse.families.links.newton_site` says."""


@inner_kernel
def site_again(
    family: int, reward: float, weight: float, e: float, q: float, w: float, h: float, offset: float
) -> tuple[float, float]:
    """Return the site of a reward anew, where N(e, q) is believed with the site (w, h) counted in.

    Belief and sites are about the predictor less ``offset``.
    """
    share = 1.0 - q * w
    if not share > 1e-9:  # the site is all that is known: nothing to make it from
        return w, h
    w, h = site(family, reward, weight, (e - q * h) / share + offset, q / share, e + offset, q, CLOSE_AGAIN)
    return w, h - w * offset


__all__ = [
    "CLOSE", "CLOSE_AGAIN", "FAINTEST", "NUMBER", "SIZES", "expectations", "site", "site_again", "spread",
]  # fmt: skip
