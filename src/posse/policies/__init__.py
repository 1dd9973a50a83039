"""Policies: the paper's, its rivals', and the two ends of every comparison."""

from posse.policies.base import Played, Policy, Prediction
from posse.policies.beta_bernoulli import BetaBernoulli
from posse.policies.bounds import Oracle, Random
from posse.policies.ebm import EbmRandUCB, EbmTS, EbmUCB
from posse.policies.family import FamilyRandUCB, FamilyTS, FamilyUCB
from posse.policies.hier_ts import HierTS
from posse.policies.lin import LinTS, LinUCB
from posse.policies.logistic import LogisticTS
from posse.policies.mtts import MTTS
from posse.policies.ols_bandit import OLSBandit
from posse.policies.registry import CLICK_POLICIES, POLICIES, make_policy
from posse.policies.rm_bandit import RMBandit

__all__ = [
    "CLICK_POLICIES",
    "MTTS",
    "POLICIES",
    "BetaBernoulli",
    "EbmRandUCB",
    "EbmTS",
    "EbmUCB",
    "FamilyRandUCB",
    "FamilyTS",
    "FamilyUCB",
    "HierTS",
    "LinTS",
    "LinUCB",
    "LogisticTS",
    "OLSBandit",
    "Oracle",
    "Played",
    "Policy",
    "Prediction",
    "RMBandit",
    "Random",
    "make_policy",
]
