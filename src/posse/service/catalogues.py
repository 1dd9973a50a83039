"""Fleets of kind catalogue: what they are made of, and decisions among arms that come with a request."""

from __future__ import annotations

from typing import Any

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.catalogue_replica import CatalogueReplica
from posse.service.declaring import declared_features
from posse.service.settings import Limits

CATALOGUE = "catalogue"
SETTINGS = ("exploration", "floor", "evaluation_budget", "refresh_growth", "time_to_live")
"""What is passed on to the fleet inside."""
FIXED = {
    "policy": "ebm-rand-ucb", "prior": None, "robust": False, "absent_reward": None, "count_pending": True,
    "rewards": "number", "reward_events": "once", "reward_window": None, "drift": None, "task_features": None,
    "arms": None, "intercept": True,
}  # fmt: skip
"""What a catalogue has no choice in."""


def catalogue_definition(given: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Return the full definition of a catalogue that was asked for; what none can be made of is refused."""
    for name, value in FIXED.items():
        if given.get(name, value) != value:
            raise InvalidValue(f"expected a catalogue without {name}, got {given[name]!r}; leave it out")
    if given.get("arm_features") is None:
        raise InvalidValue("expected arm_features, by which a catalogue knows its arms, got none; declare them")
    features, arm_features = (FeatureSpec(declared_features(given[name])) for name in ("features", "arm_features"))
    retention = given["retention"]
    if retention is not None and (given["time_to_live"] is None or retention < given["time_to_live"]):
        raise InvalidValue(
            "retention must be at least time_to_live, or decisions would go before their rewards can come"
        )
    definition = {
        **{name: value for name, value in FIXED.items() if name not in ("drift", "task_features", "intercept")},
        "kind": CATALOGUE,
        "arms": ["reward"],  # the one arm of the fleet inside
        "retired": [],
        "first_arms": 1,
        "features": features.to_json(),
        "arm_features": arm_features.to_json(),
        "interactions": given["interactions"],
        "max_arms": given["max_arms"],
        "retention": retention,
        **{name: given[name] for name in SETTINGS},
    }
    fleet = new_catalogue(definition)
    if fleet.features.n_features > limits.features or fleet.features.n_features**2 > limits.cells:
        raise InvalidValue(
            f"expected at most {limits.features} joint columns of contexts and arms (limits.features), whose square is "
            f"at most {limits.cells:,} (limits.cells), got {fleet.features.n_features}; declare fewer, or leave out "
            "interactions"
        )
    # What was left open is decided now, so that it stays the same when defaults change.
    definition["prior"] = fleet._behaviour.prior
    definition["exploration"] = fleet._behaviour.exploration
    definition["refresh_growth"] = fleet._behaviour.refresh_growth
    return definition


def new_catalogue(definition: dict[str, Any]) -> CatalogueReplica:
    """Return the catalogue that a definition describes, before its first reward."""
    return CatalogueReplica.new(
        FeatureSpec.from_json(definition["features"]),
        FeatureSpec.from_json(definition["arm_features"]),
        interactions=definition["interactions"],
        max_arms=definition["max_arms"],
        **{name: definition[name] for name in SETTINGS},
    )
