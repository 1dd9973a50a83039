"""How a fleet decides: a policy of posse.policies by its key, and the population behind it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.checks import number, one_of
from posse.errors import InvalidValue, UnknownPolicy
from posse.families import RewardFamily, family_of
from posse.kernels import estimators
from posse.kernels.estimators import POLICY_METHODS
from posse.kernels.rule import Rule
from posse.kernels.select import OPTIMISTIC
from posse.model.prior import Prior
from posse.policies.ebm import EbmRandUCB, EbmTS, EbmUCB
from posse.policies.family import FamilyRandUCB, FamilyTS, FamilyUCB
from posse.policies.hierarchical import EVIDENCE_REFRESH, PAPER_EXPLORATION, PAPER_SHARED_PRECISION
from posse.policies.lin import LinUCB

LEARNING = {"ebm-rand-ucb": EbmRandUCB, "ebm-ts": EbmTS, "ebm-ucb": EbmUCB}
OF_FAMILY = {"ebm-rand-ucb": FamilyRandUCB, "ebm-ts": FamilyTS, "ebm-ucb": FamilyUCB}
POLICIES = (*LEARNING, "lin-ucb", "random")
PRIORS = {name: POLICY_METHODS[name] for name in ("evidence", "paper", "moments")}

RIDGE = 1.0
NO_SHARING = 1e12  # precision of a shared mean that is held at zero


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Everything that turns rewards into decisions, apart from the rewards.

    Parameters
    ----------
    policy : str
    prior : str
        How the population is estimated, or "known".
    start : Prior
        What stands until rewards say otherwise, or for good.
    exploration : float
        What the policy's rule is scaled by.
    rule : Rule
    refresh_growth : float
    robust : bool
    family : RewardFamily
        Of the rewards.
    """

    policy: str
    prior: str
    start: Prior
    exploration: float
    rule: Rule
    refresh_growth: float
    robust: bool
    family: RewardFamily

    @property
    def method(self) -> int:
        """The code of the estimator."""
        return PRIORS.get(self.prior, estimators.KNOWN)


def new_behaviour(
    policy: str,
    *,
    n_arms: int,
    n_features: int,
    prior: str | Prior | None,
    exploration: float | None,
    floor: float,
    evaluation_budget: float,
    refresh_growth: float | None,
    robust: bool,
    rewards: str = "number",
) -> Behaviour:
    """Return the behaviour that the settings of a fleet name."""
    if not isinstance(policy, str) or policy not in POLICIES:
        close = difflib.get_close_matches(policy, POLICIES, n=1) if isinstance(policy, str) else []
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UnknownPolicy(f"no policy {policy!r} for a fleet{hint} The keys are {', '.join(POLICIES)}")
    family = family_of(rewards)
    if family.name != "number":
        _require_family(family, policy, prior, robust)
    if prior is not None and policy not in LEARNING:
        raise InvalidValue(f"policy {policy!r} has no population, so prior must not be given")
    floor = number(floor, "floor", at_least=0)
    if floor > 1 / n_arms:
        raise InvalidValue(
            f"expected floor to be at most 1 / n_arms = {1 / n_arms:g}, or the probabilities would add up to more "
            f"than 1, got {floor:g}"
        )
    budget = number(evaluation_budget, "evaluation_budget", at_least=0)
    if budget > 1:
        raise InvalidValue(
            f"expected evaluation_budget to be a share of what deciding gains over playing at random, from 0 to 1, got "
            f"{budget:g}; 0.01 is 1 %"
        )
    isotropic = Prior.isotropic(n_arms=n_arms, n_features=n_features, shared_precision=PAPER_SHARED_PRECISION)
    if policy in LEARNING:
        cls = LEARNING[policy]
        name, start = _population("evidence" if prior is None else prior, isotropic)
        default = cls.evidence_exploration if name == "evidence" else PAPER_EXPLORATION
        explores = cls.explores
        if family.name != "number":
            start = _family_start(n_arms, n_features)
    elif policy == "lin-ucb":
        covariance = np.tile(np.eye(n_features) / RIDGE, (n_arms, 1, 1))
        name, start = "known", Prior(covariance=covariance, noise_variance=1.0, shared_precision=NO_SHARING)
        default, explores = 1.0, LinUCB.explores._replace(growing=False)
    else:
        name, start, default, explores = "known", isotropic, 0.0, OPTIMISTIC
        floor = 1.0  # at most 1 / eligible arms
    start.require_shape(n_arms=n_arms, n_features=n_features)
    if robust and name != "evidence":
        raise InvalidValue("expected prior='evidence' with robust=True, got another prior; leave robust out")
    scale = default if exploration is None else number(exploration, "exploration", at_least=0)
    if refresh_growth is None:
        refresh_growth = EVIDENCE_REFRESH
    return Behaviour(
        policy=policy,
        prior=name,
        start=start,
        exploration=scale,
        rule=Rule(explores.scaled(scale), floor, budget),
        refresh_growth=number(refresh_growth, "refresh_growth", at_least=0),
        robust=bool(robust),
        family=family,
    )


def _require_family(family: RewardFamily, policy: str, prior: Any, robust: bool) -> None:
    """Raise unless clicks or counts can be learned by this policy under this prior."""
    if policy not in OF_FAMILY:
        raise InvalidValue(
            f"expected a policy of {', '.join(OF_FAMILY)} for rewards={family.name!r}, got {policy!r}; take one of "
            "these, or rewards='number'"
        )
    if prior is not None and not (isinstance(prior, str) and prior == "evidence"):
        given = repr(prior) if isinstance(prior, str) else f"a {type(prior).__name__}"
        raise InvalidValue(
            f"expected prior='evidence' for rewards={family.name!r}, got {given}; leave it out, or take "
            "rewards='number'"
        )
    if robust:
        raise InvalidValue(
            f"expected robust=False for rewards={family.name!r}, got True: heavy tails are modelled for numbers only; "
            "leave it out"
        )


def _family_start(n_arms: int, n_features: int) -> Prior:
    """Return what is believed about predictors before the first reward."""
    return Prior.isotropic(n_arms=n_arms, n_features=n_features, shared_precision=1.0)


def _population(prior: Any, isotropic: Prior) -> tuple[str, Prior]:
    if isinstance(prior, Prior):
        return "known", prior
    if not isinstance(prior, str):
        raise InvalidValue(
            f"expected prior to be a Prior or one of {', '.join(map(repr, PRIORS))}, got {type(prior).__name__}"
        )
    return one_of(prior, "prior", tuple(PRIORS)), isotropic
