"""Many related contextual bandits that learn from each other."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from posse._version import __version__

if TYPE_CHECKING:
    from posse.environments import SyntheticWorld
    from posse.examples import load_retailer
    from posse.features import FeatureSpec
    from posse.fleet import Catalogue, Decision, Posse
    from posse.model import Prior, Statistics, estimate_prior, log_evidence, posterior
    from posse.policies import EbmRandUCB, EbmTS, EbmUCB, make_policy
    from posse.regression import HierarchicalClassifier, HierarchicalCountRegressor, HierarchicalRegressor
    from posse.simulation import SimulationResult, simulate

__all__ = [
    "Catalogue",
    "Decision",
    "EbmRandUCB",
    "EbmTS",
    "EbmUCB",
    "FeatureSpec",
    "HierarchicalClassifier",
    "HierarchicalCountRegressor",
    "HierarchicalRegressor",
    "Posse",
    "Prior",
    "SimulationResult",
    "Statistics",
    "SyntheticWorld",
    "__version__",
    "estimate_prior",
    "load_retailer",
    "log_evidence",
    "make_policy",
    "posterior",
    "simulate",
]

# Loaded when first asked for: a service that decides does not wait for the simulator, nor a script for the compiler.
_HOMES = {
    "environments": ("SyntheticWorld",),
    "examples": ("load_retailer",),
    "features": ("FeatureSpec",),
    "fleet": ("Catalogue", "Decision", "Posse"),
    "model": ("Prior", "Statistics", "estimate_prior", "log_evidence", "posterior"),
    "policies": ("EbmRandUCB", "EbmTS", "EbmUCB", "make_policy"),
    "regression": ("HierarchicalClassifier", "HierarchicalCountRegressor", "HierarchicalRegressor"),
    "simulation": ("SimulationResult", "simulate"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"posse.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _HOMES:
        return import_module(f"posse.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOMES} - {"Any", "TYPE_CHECKING", "import_module"})
