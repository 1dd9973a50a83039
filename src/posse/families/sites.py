"""Sites of rewards of any family, by the number that compiled code knows it by; see :mod:`posse.families.links`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posse.core.compiler import compiled, made
from posse.families import LINKED
from posse.families.count import dispersed_site
from posse.families.links import FAINTEST

NUMBER = 0  # the family that is not among those with a link
COUNT = LINKED["count"].code
CLOSE = 1e-5  # of a move, in standard deviations: what is left is its square
CLOSE_AGAIN = 1e-3  # likewise where a site is made again, and will be once more, and of counts that scatter

SIZES = (0.0, *(family.size for family in LINKED.values()))
"""How much predictors of every family differ, arms and tasks taken together."""


def _by_family(parts: list[tuple[int, Callable[..., Any]]]) -> Callable[..., Any]:
    """Return a compiled function that takes the number of a family first, and calls the function of that family."""
    code, first = parts[0]
    if len(parts) == 1:

        @made
        def only(_family: int, *arguments: Any) -> Any:
            return first(*arguments)

        return only
    others = _by_family(parts[1:])

    @made
    def chosen(family: int, *arguments: Any) -> Any:
        if family == code:
            return first(*arguments)
        return others(family, *arguments)

    return chosen


expectations = _by_family([(family.code, family.expectations) for family in LINKED.values()])
"""Of a family, and of mean and variance of a predictor: see :class:`posse.families.LinkedFamily`."""

spread = _by_family([(family.code, family.spread) for family in LINKED.values()])
"""Of a family, and of mean and standard deviation of a predictor."""

linked_site = _by_family([(family.code, family.site) for family in LINKED.values()])
"""Of a family with a link, and as :func:`posse.families.links.newton_site` says."""


@compiled
def site(family: int, reward: float, weight: float, m: float, v: float, dispersion: float) -> tuple[float, float]:
    """Return precision and moment of the site of a reward whose likelihood is raised to the power ``weight``.

    That of a number is its weight, in units of one over the noise variance, whatever is believed; of other rewards it
    is what they say under the belief N(m, v). Only counts have a ``dispersion``.
    """
    if family == NUMBER:
        return weight, weight * reward
    if not v > 0.0:  # of a context of zeros, which says nothing
        return FAINTEST, 0.0
    if family == COUNT and dispersion > 0.0:
        w, h = dispersed_site(reward, weight, m, v, CLOSE_AGAIN, dispersion)
        return w, h
    w, h = linked_site(family, reward, weight, m, v, m, v, CLOSE)
    return w, h


@compiled
def site_of_part(
    family: int, reward: float, weight: float, m: float, v: float, offset: float, spread: float, dispersion: float
) -> tuple[float, float]:
    """Return the site of a reward on one part of its predictor, N(m, v); the rest of it is N(offset, spread)."""
    w, h = site(family, reward, weight, m + offset, v + spread, dispersion)
    share = 1.0 / (1.0 + w * spread)
    return share * w, share * (h - w * offset)


@compiled
def expected_reward(family: int, mean: float, variance: float) -> float:
    """Return the expected reward where the predictor is N(mean, variance)."""
    if family == NUMBER:
        return mean
    rate: float = expectations(family, mean, variance)[0]
    return rate
