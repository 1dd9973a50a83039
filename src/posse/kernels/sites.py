"""Sites of rewards of any family, see :mod:`posse.families.sites`; and sites that are made again."""

from __future__ import annotations

from posse.families.links import FAINTEST
from posse.families.sites import CLOSE, CLOSE_AGAIN, NUMBER, SIZES, expectations, spread
from posse.families.sites import linked_site as site
from posse.kernels.compiler import inner_kernel


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
