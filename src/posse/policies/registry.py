"""Policies by key: the one place where class, key and label are decided."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from posse.checks import nearest
from posse.errors import InvalidValue, UnknownPolicy
from posse.policies.base import Policy
from posse.policies.bounds import BetaBernoulli, Oracle, Random
from posse.policies.ebm import EbmRandUCB, EbmTS, EbmUCB
from posse.policies.family import FamilyRandUCB, FamilyTS, FamilyUCB
from posse.policies.hier_ts import MTTS, HierTS
from posse.policies.lin import LinTS, LinUCB, LogisticTS
from posse.policies.ols_bandit import OLSBandit, RMBandit
from posse.policies.revenue import RevenueRandUCB, RevenueTS, RevenueUCB

POLICIES: dict[str, Callable[..., Policy]] = {
    "ebm-ucb": EbmUCB,
    "ebm-ts": EbmTS,
    "ebm-rand-ucb": EbmRandUCB,
    "hier-ts": HierTS,
    "mtts": MTTS,
    "lin-ucb": LinUCB,
    "lin-ts": LinTS,
    "lin-ucb-pooled": partial(LinUCB, pooled=True),
    "ols-bandit": OLSBandit,
    "rm-bandit": RMBandit,
    "random": Random,
    "oracle": Oracle,
}

CLICK_POLICIES: dict[str, Callable[..., Policy]] = {
    "family-ucb": FamilyUCB,
    "family-ts": FamilyTS,
    "family-rand-ucb": FamilyRandUCB,
    "logistic-ts": LogisticTS,
    "logistic-ts-pooled": partial(LogisticTS, pooled=True),
    "beta-bernoulli": BetaBernoulli,
}
"""Policies that learn clicks, and most of them counts, but not numbers."""

REVENUE_POLICIES: dict[str, Callable[..., Policy]] = {
    "revenue-ucb": RevenueUCB,
    "revenue-ts": RevenueTS,
    "revenue-rand-ucb": RevenueRandUCB,
}
"""Policies that learn revenue: 0, or an amount above 0."""


def policy_factory(key: str) -> Callable[..., Policy]:
    """Return what makes the policy that goes by ``key``."""
    known = {**POLICIES, **CLICK_POLICIES, **REVENUE_POLICIES}
    if key not in known:
        raise UnknownPolicy(f"no policy {key!r}; {nearest(key, known, 'policies')}")
    return known[key]


def check_settings(factory: Callable[..., Any], settings: dict[str, Any], name: str) -> None:
    """Raise unless every setting is one that ``factory`` takes."""
    known = set(inspect.signature(factory).parameters) - {"n_tasks", "n_arms", "n_features"}
    for setting in settings:
        if setting not in known:
            choices = sorted(known)
            raise InvalidValue(f"policy {name!r} has no setting {setting!r}; it has {', '.join(choices) or 'none'}")


def make_policy(key: str, *, n_tasks: int, n_arms: int, n_features: int, **settings: Any) -> Policy:
    """Return a new policy by its key.

    Examples
    --------
    >>> make_policy("lin-ucb", n_tasks=10, n_arms=5, n_features=3, exploration=0.5).describe()
    'exploration 0.5, constant; ridge 1'
    """
    factory = policy_factory(key)
    check_settings(factory, settings, key)
    for name, parameter in inspect.signature(factory).parameters.items():
        given = name in settings or name in ("n_tasks", "n_arms", "n_features")
        if parameter.default is inspect.Parameter.empty and not given:
            raise InvalidValue(f"policy {key!r} needs the setting {name!r}")
    return factory(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, **settings)
