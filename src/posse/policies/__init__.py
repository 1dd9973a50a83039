"""Policies: the paper's, its rivals', and the two ends of every comparison."""

from posse.policies.base import Played, Policy, Prediction
from posse.policies.bounds import BetaBernoulli, Oracle, Random
from posse.policies.ebm import EbmRandUCB, EbmTS, EbmUCB
from posse.policies.family import FamilyRandUCB, FamilyTS, FamilyUCB
from posse.policies.hier_ts import MTTS, HierTS
from posse.policies.lin import LinTS, LinUCB, LogisticTS
from posse.policies.ols_bandit import OLSBandit, RMBandit
from posse.policies.registry import CLICK_POLICIES, POLICIES, REVENUE_POLICIES, make_policy
from posse.policies.revenue import RevenueRandUCB, RevenueTS, RevenueUCB

__all__ = [
    "CLICK_POLICIES",
    "MTTS",
    "POLICIES",
    "REVENUE_POLICIES",
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
    "RevenueRandUCB",
    "RevenueTS",
    "RevenueUCB",
    "make_policy",
]
