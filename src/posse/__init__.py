"""Many related contextual bandits that learn from each other."""

from posse._version import __version__
from posse.environments import SyntheticWorld
from posse.model import Prior, Statistics, estimate_prior, log_evidence, posterior
from posse.policies import EbmTS, EbmUCB, make_policy
from posse.simulation import SimulationResult, simulate

__all__ = [
    "EbmTS",
    "EbmUCB",
    "Prior",
    "SimulationResult",
    "Statistics",
    "SyntheticWorld",
    "__version__",
    "estimate_prior",
    "log_evidence",
    "make_policy",
    "posterior",
    "simulate",
]
