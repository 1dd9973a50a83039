"""Policies: the paper's, its rivals', and the two ends of every comparison."""

from posse.policies.base import Played, Policy, Prediction
from posse.policies.bounds import Oracle, Random
from posse.policies.ebm import EbmRandUCB, EbmTS, EbmUCB
from posse.policies.hier_ts import HierTS
from posse.policies.lin import LinTS, LinUCB
from posse.policies.ols_bandit import OLSBandit
from posse.policies.registry import POLICIES, make_policy
from posse.policies.rm_bandit import RMBandit

__all__ = [
    "POLICIES",
    "EbmRandUCB",
    "EbmTS",
    "EbmUCB",
    "HierTS",
    "LinTS",
    "LinUCB",
    "OLSBandit",
    "Oracle",
    "Played",
    "Policy",
    "Prediction",
    "RMBandit",
    "Random",
    "make_policy",
]
