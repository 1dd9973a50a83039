"""Many related contextual bandits that learn from each other."""

from typing import TYPE_CHECKING, Any

from posse._version import __version__
from posse.environments import SyntheticWorld
from posse.model import Prior, Statistics, estimate_prior, log_evidence, posterior
from posse.policies import EbmTS, EbmUCB, make_policy
from posse.simulation import SimulationResult, simulate

if TYPE_CHECKING:
    from posse.regression import HierarchicalRegressor

__all__ = [
    "EbmTS",
    "EbmUCB",
    "HierarchicalRegressor",
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


def __getattr__(name: str) -> Any:
    # Built on scikit-learn where it is installed, which takes a second to import.
    if name == "HierarchicalRegressor":
        from posse.regression import HierarchicalRegressor

        return HierarchicalRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
