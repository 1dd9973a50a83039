"""What makes a fleet, as plain JSON values: checked when it comes, stored, and turned into a fleet again."""

from __future__ import annotations

import unicodedata
from typing import Any

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.behaviour import LEARNING, POLICIES
from posse.fleet.knowing import know_arms
from posse.fleet.replica import Replica
from posse.service.catalogues import CATALOGUE, catalogue_definition, new_catalogue
from posse.service.declaring import declared_features
from posse.service.http.errors import ApiError
from posse.service.known import known_arms, known_definition, known_settings
from posse.service.settings import Limits

SETTINGS = (
    "policy", "prior", "exploration", "floor", "evaluation_budget", "refresh_growth", "robust", "time_to_live",
    "absent_reward", "count_pending", "rewards",
)  # fmt: skip
"""What is passed on to the fleet as it is."""

OF_REWARDS = {"reward_events": "once", "reward_window": None}
"""What the log makes of several rewards of one decision, and defaults; the fleet is told the outcome."""
OPTIONAL = ("drift",)  # see posse.service.known for others
"""The same, where it is given: definitions from before do not have it."""

UNSEEN = ("Cc", "Cs", "Zl", "Zp")
"""Categories of characters that names must not have: controls, halves of pairs, and ends of lines."""


def new_definition(given: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Return the full definition of a fleet that was asked for; whatever no fleet can be made of is refused.

    Parameters
    ----------
    given : dict
        Checked for types only; see :class:`posse.service.requests.Definition`.
    limits : Limits
    """
    given = complete(given)
    if given.pop("kind", None) == CATALOGUE:
        return catalogue_definition(given, limits)
    if given["arms"] is None:
        raise ApiError("invalid", "arms is missing; give it", "arms")
    features = FeatureSpec(declared_features(given["features"]), intercept=given["intercept"])
    for name in features.names:
        require_label(name, "a feature", limits)
    if features.n_features > limits.features:
        raise InvalidValue(
            f"features make {features.n_features} encoded columns, but this service allows {limits.features}; "
            "declare fewer, or raise limits.features in its settings"
        )
    if not features.ready:
        raise InvalidValue(
            "a numeric feature with scale standard needs its center and spread here, since there is no table to learn "
            "them from; pass both"
        )
    given["arms"], known = known_definition(given, features, limits)
    for arm in given["arms"]:
        require_label(arm, "an arm", limits)
    if len(given["arms"]) > limits.arms:
        raise InvalidValue(f"expected at most {limits.arms} arms (limits.arms), got {len(given['arms'])}")
    require_cells(len(given["arms"]), features.n_features, limits)
    absent = given["absent_reward"]
    if absent is not None and abs(absent) > limits.number:
        raise InvalidValue(f"absent_reward must be at most {limits.number:g} in size (limits.number), not {absent:g}")
    retention = given["retention"]
    if retention is not None and (given["time_to_live"] is None or retention < given["time_to_live"]):
        raise InvalidValue(
            "retention must be at least time_to_live, or decisions would go before their rewards can come"
        )
    of_rewards = {name: given.get(name, default) for name, default in OF_REWARDS.items()}
    if of_rewards["reward_window"] is not None and of_rewards["reward_events"] == "once":
        raise InvalidValue('reward_window is for fleets that take several rewards; pass reward_events "sum" or "last"')
    if of_rewards["reward_events"] != "once" and given.get("drift") is not None:
        raise InvalidValue(
            f"expected reward_events 'once' with drift, got {of_rewards['reward_events']!r}: a reward that has faded "
            "cannot be replaced exactly; leave one of them out"
        )
    if of_rewards["reward_events"] != "once" and given.get("rewards", "number") != "number":
        raise InvalidValue(
            f"expected reward_events 'once' with rewards {given['rewards']!r}, got {of_rewards['reward_events']!r}: "
            "what a click or count says depends on those before it, so it cannot be replaced; pass rewards 'number'"
        )
    definition = {
        "arms": list(given["arms"]),
        "retired": [],
        "first_arms": len(given["arms"]),
        "features": features.to_json(),
        "retention": retention,
        **of_rewards,
    }
    definition |= {name: given[name] for name in SETTINGS}
    definition |= {name: given[name] for name in OPTIONAL if given.get(name) is not None}
    definition |= known
    fleet = new_replica(definition)
    # What was left open is decided now, so that it stays the same when defaults change.
    behaviour = fleet._behaviour
    definition["prior"] = behaviour.prior if behaviour.policy in LEARNING else None
    definition["exploration"] = behaviour.exploration
    definition["refresh_growth"] = behaviour.refresh_growth
    return definition


def require_cells(n_arms: int, n_columns: int, limits: Limits) -> None:
    """Raise if a population of so many arms and columns would take so long that other fleets notice."""
    if n_arms * n_columns**2 > limits.cells:
        most = limits.cells // n_columns**2
        raise InvalidValue(
            f"expected arms x encoded columns squared to be at most {limits.cells:,} (limits.cells), got {n_arms} x "
            f"{n_columns}^2 = {n_arms * n_columns**2:,}; with {n_columns} columns there may be {most} arms: declare "
            "fewer or hashed features, or raise the limit"
        )


def complete(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with what was not asked for when it was stored."""
    return {"rewards": "number", **definition}


def require_known(definition: dict[str, Any]) -> None:
    """Raise if a stored definition lacks something, or is of a posse that knew more policies: nothing serves it."""
    needed = {"arms", "retired", "first_arms", "features", "retention", *SETTINGS}
    missing = sorted(needed.difference(complete(definition)))
    if missing:
        raise InvalidValue(
            f"expected a whole definition, got one without {', '.join(missing)}; repair it, or delete it"
        )
    if definition["policy"] not in POLICIES:
        raise InvalidValue(f"expected a policy of {', '.join(POLICIES)}, got {definition['policy']!r}; upgrade posse")


def new_replica(definition: dict[str, Any]) -> Replica:
    """Return the fleet that a definition describes, before its first reward."""
    definition = complete(definition)
    if definition.get("kind") == CATALOGUE:
        return new_catalogue(definition)
    fleet = Replica(
        arms=definition["arms"],
        features=FeatureSpec.from_json(definition["features"]),
        background=True,
        **{name: definition[name] for name in SETTINGS},
        **{name: definition[name] for name in OPTIONAL if name in definition},
        **known_settings(definition),
    )
    know_arms(fleet, known_arms(definition))
    match_arms(fleet, definition)
    return fleet


def first_replica(definition: dict[str, Any]) -> Replica:
    """Return the fleet that a definition described when it was made: a log that is learned from its start goes on here.

    Sums do not mind arms that are there too early; what clicks and counts say depends on all that was there before.
    """
    if complete(definition)["rewards"] == "number":
        return new_replica(definition)
    return new_replica({**definition, "arms": definition["arms"][: definition["first_arms"]], "retired": []})


def match_arms(fleet: Replica, definition: dict[str, Any]) -> None:
    """Let a fleet have the arms that its definition says."""
    there = {*fleet.arms, *fleet.retired_arms}
    for arm in definition["arms"]:
        if arm not in there:
            fleet.add_arm(arm, known_arms(definition).get(arm))
    retired = set(definition["retired"])
    for arm in definition["arms"]:
        # An arm comes back before others go, so that one is always there.
        if arm not in retired and arm in fleet.retired_arms:
            fleet.add_arm(arm)
    for arm in definition["arms"]:
        if arm in retired and arm in fleet.arms:
            fleet.retire_arm(arm)


def active_arms(definition: dict[str, Any]) -> list[str]:
    """Return the arms that may be chosen."""
    retired = set(definition["retired"])
    return [arm for arm in definition["arms"] if arm not in retired]


def require_label(name: str, what: str, limits: Limits) -> None:
    """Raise unless a name can be shown, stored and put in a path."""
    if not 0 < len(name) <= limits.label:
        raise InvalidValue(f"the name of {what} must have 1 to {limits.label} characters, but it has {len(name)}")
    if name in (".", ".."):
        raise InvalidValue(f"the name of {what} must not be {name!r}, which paths cannot hold")
    if name.isprintable():
        return  # nearly all are
    odd = next((character for character in name if unicodedata.category(character) in UNSEEN), None)
    if odd is not None:
        raise InvalidValue(
            f"expected the name of {what} to have no control characters, got U+{ord(odd):04X}; take it out"
        )
