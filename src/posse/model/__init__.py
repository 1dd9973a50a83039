"""The hierarchical model: statistics in, posterior, evidence and prior out."""

from posse.model.estimation import estimate_prior
from posse.model.family_prior import FamilyEstimate, estimate_family_prior
from posse.model.posterior import Posterior, log_evidence, posterior
from posse.model.prior import Prior, PriorEstimate, PriorReport
from posse.model.statistics import Statistics

__all__ = [
    "FamilyEstimate",
    "Posterior",
    "Prior",
    "PriorEstimate",
    "PriorReport",
    "Statistics",
    "estimate_family_prior",
    "estimate_prior",
    "log_evidence",
    "posterior",
]
