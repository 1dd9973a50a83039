"""What makes a fleet or a catalogue, as plain JSON values: checked when it comes, stored, and turned into one again."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from posse.errors import InvalidValue
from posse.features import FeatureSpec, declare
from posse.fleet.catalogue_replica import CatalogueReplica
from posse.fleet.replica import Replica
from posse.fleet.settings import LEARNING, POLICIES
from posse.fleet.worth import Worth, changed_worth
from posse.service.contexts import Contexts
from posse.service.http.errors import ApiError
from posse.service.settings import Limits
from posse.storage.rows import DIGEST

SETTINGS = (
    "policy", "prior", "exploration", "floor", "evaluation_budget", "refresh_growth", "robust", "time_to_live",
    "absent_reward", "count_pending", "rewards",
)  # fmt: skip
"""What is passed on to the fleet as it is."""

OF_REWARDS = {"reward_events": "once", "reward_window": None}
"""What the log makes of several rewards of one decision, and defaults; the fleet is told the outcome."""
OPTIONAL = ("drift",)  # see posse.service.definition for others
"""The same, where it is given: definitions from before do not have it."""

UNSEEN = ("Cc", "Cs", "Zl", "Zp")
"""Categories of characters that names must not have: controls, halves of pairs, and ends of lines."""
CATALOGUE = "catalogue"
OF_CATALOGUES = (
    "exploration", "floor", "evaluation_budget", "refresh_growth", "rewards", "drift", "time_to_live", "absent_reward",
    "count_pending",
)  # fmt: skip
"""What is passed on to the fleet inside."""
FIXED = {
    "policy": "ebm-rand-ucb", "prior": None, "robust": False, "reward_events": "once", "reward_window": None,
    "task_features": None, "arms": None, "intercept": True, "values": None, "costs": None,
}  # fmt: skip
"""What a catalogue has no choice in."""
UNSAID = ("task_features", "intercept", "values", "costs")
"""What definitions of catalogues do not say, and those of fleets only where it is given."""
SPECS = ("task_features", "arm_features")
ABOUT = "known_arms"
"""The part of a stored definition that says what is known about arms, by name."""


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
    retention = checked_retention(given, limits)
    of_rewards = {name: given.get(name, default) for name, default in OF_REWARDS.items()}
    if of_rewards["reward_window"] is not None and of_rewards["reward_events"] == "once":
        raise InvalidValue('reward_window is for fleets that take several rewards; pass reward_events "sum" or "last"')
    if of_rewards["reward_events"] == "sum" and given["rewards"] == "binary":
        raise InvalidValue(
            "expected reward_events 'once' or 'last' with rewards 'binary', got 'sum': two clicks are no click; pass "
            "rewards 'count'"
        )
    definition: dict[str, Any] = {
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
    settings = fleet.settings
    definition["prior"] = settings.prior if settings.policy in LEARNING else None
    definition["exploration"] = settings.exploration
    definition["refresh_growth"] = settings.refresh_growth
    worth = changed_worth(None, fleet.names.arms, given.get("values"), given.get("costs"))
    if worth is not None:
        definition |= prices_of(worth, definition["arms"])
        definition["first_prices"] = prices_of(worth, definition["arms"])
    return definition


def prices_of(worth: Worth, arms: list[str]) -> dict[str, dict[str, float]]:
    """Return the part of a definition that says what rewards of arms are worth and what arms cost."""
    values, costs = (dict(zip(arms, part, strict=True)) for part in worth.table.tolist())
    return ({"values": values} if worth.valued else {}) | {"costs": costs}


def with_prices(definition: dict[str, Any], arm: str, value: float | None, cost: float | None) -> dict[str, Any]:
    """Return a definition in which an arm has these prices, or the ones that it had; raise if it cannot."""
    given = {name: one for name, one in (("values", value), ("costs", cost)) if one is not None}
    if "values" in given and "values" not in definition:
        raise InvalidValue(
            f"expected no value for arm {arm!r}, as this fleet was made without values, got {value:g}; leave it "
            "out, or make a fleet with values"
        )
    if "values" in definition and value is None and arm not in definition["values"]:
        raise InvalidValue(f"expected the value of arm {arm!r}, as this fleet has values, got none; add it with value")
    changed = {name: {**definition.get(name, {}), arm: one} for name, one in given.items()}
    return {**definition, **changed}


def checked_retention(given: dict[str, Any], limits: Limits) -> float | None:
    """Return for how many seconds decisions are stored, or raise; what stands for no reward is checked, too."""
    absent, retention = given["absent_reward"], given["retention"]
    if absent is not None and abs(absent) > limits.number:
        raise InvalidValue(f"absent_reward must be at most {limits.number:g} in size (limits.number), not {absent:g}")
    if retention is not None and (given["time_to_live"] is None or retention < given["time_to_live"]):
        raise InvalidValue(
            "retention must be at least time_to_live, or decisions would go before their rewards can come"
        )
    found: float | None = retention
    return found


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
    fleet.know_arms(known_arms(definition))
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
    values, costs = definition.get("values"), definition.get("costs")
    for arm in definition["arms"]:
        if arm not in there:
            value = None if values is None or fleet.values is None else values[arm]
            cost = None if costs is None or fleet.costs is None else costs.get(arm)
            fleet.add_arm(arm, known_arms(definition).get(arm), value=value, cost=cost)
    retired = set(definition["retired"])
    for arm in definition["arms"]:
        # An arm comes back before others go, so that one is always there.
        if arm not in retired and arm in fleet.retired_arms:
            fleet.add_arm(arm)
    for arm in definition["arms"]:
        if arm in retired and arm in fleet.arms:
            fleet.retire_arm(arm)
    # Arms that are to come later have theirs already.
    fleet.set_values(
        *(None if prices is None else {arm: one for arm, one in prices.items() if arm in fleet.names.arms}
          for prices in (values, costs))
    )  # fmt: skip


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


def declared_features(given: list[Any]) -> list[Any]:
    """Return what a FeatureSpec is made of: names, and objects with a kind; or raise what is wrong with one."""
    declared: list[Any] = []
    for entry in given:
        if isinstance(entry, str):
            declared.append(entry)
            continue
        kind = entry.get("kind")
        if not isinstance(kind, str) or kind not in declare.KINDS:
            raise InvalidValue(f'a feature is a name, or an object whose "kind" is one of {", ".join(declare.KINDS)}')
        make, keys = declare.KINDS[kind]
        unknown = entry.keys() - keys - {"kind"}
        if unknown or "name" not in entry:
            raise InvalidValue(
                f"expected a {kind} feature to have {', '.join(sorted(keys))}, and a name at least, got "
                f"{', '.join(sorted(entry))}"
            )
        if not isinstance(entry.get("categories", []), list):
            raise InvalidValue(f"categories of feature {entry['name']!r} must be a list")
        try:
            declared.append(make(**{key: value for key, value in entry.items() if key != "kind"}))
        except TypeError as error:
            raise InvalidValue(f"feature {entry['name']!r}: {error}") from None
    return declared


def catalogue_definition(given: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Return the full definition of a catalogue that was asked for; what none can be made of is refused."""
    for name, value in FIXED.items():
        if given.get(name, value) != value:
            raise InvalidValue(f"expected a catalogue without {name}, got {given[name]!r}; leave it out")
    if given.get("arm_features") is None:
        raise InvalidValue("expected arm_features, by which a catalogue knows its arms, got none; declare them")
    features, arm_features = (FeatureSpec(declared_features(given[name])) for name in ("features", "arm_features"))
    retention = checked_retention(given, limits)
    definition = {
        **{name: value for name, value in FIXED.items() if name not in UNSAID},
        "kind": CATALOGUE,
        "arms": ["reward"],  # the one arm of the fleet inside
        "retired": [],
        "first_arms": 1,
        "features": features.to_json(),
        "arm_features": arm_features.to_json(),
        "interactions": given["interactions"],
        "max_arms": given["max_arms"],
        "retention": retention,
        **{name: given[name] for name in OF_CATALOGUES if given.get(name) is not None or name != "drift"},
    }
    fleet = new_catalogue(definition)
    if fleet.features.n_features > limits.features or fleet.features.n_features**2 > limits.cells:
        raise InvalidValue(
            f"expected at most {limits.features} joint columns of contexts and arms (limits.features), whose square is "
            f"at most {limits.cells:,} (limits.cells), got {fleet.features.n_features}; declare fewer, or leave out "
            "interactions"
        )
    # What was left open is decided now, so that it stays the same when defaults change.
    definition["prior"] = fleet.settings.prior
    definition["exploration"] = fleet.settings.exploration
    definition["refresh_growth"] = fleet.settings.refresh_growth
    return definition


def new_catalogue(definition: dict[str, Any]) -> CatalogueReplica:
    """Return the catalogue that a definition describes, before its first reward."""
    return CatalogueReplica.new(
        FeatureSpec.from_json(definition["features"]),
        FeatureSpec.from_json(definition["arm_features"]),
        interactions=definition["interactions"],
        max_arms=definition["max_arms"],
        **{name: definition[name] for name in OF_CATALOGUES if name in definition},
    )


def known_definition(given: dict[str, Any], features: FeatureSpec, limits: Limits) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the arms, and what a stored definition says about features of tasks and arms."""
    specs = {name: _spec(given[name], name, features, limits) for name in SPECS if given.get(name) is not None}
    stored: dict[str, Any] = {name: spec.to_json() for name, spec in specs.items()}
    arms = given["arms"]
    if not isinstance(arms, dict):
        return list(arms), stored
    if "arm_features" not in specs:
        raise InvalidValue(
            "expected arm_features where arms come with what is known about them, got none; declare them, or send arms "
            "as a list of names"
        )
    about = {
        arm: arm_values(specs["arm_features"], values, limits) for arm, values in arms.items() if values is not None
    }
    return list(arms), stored | {ABOUT: about}


def _spec(given: list[Any], what: str, features: FeatureSpec, limits: Limits) -> FeatureSpec:
    spec = FeatureSpec(declared_features(given))
    if not spec.ready:
        raise InvalidValue(
            f"a numeric feature of {what} with scale standard needs its center and spread here, since there is no "
            "table to learn them from; pass both"
        )
    for name in spec.names:
        if not 0 < len(name) <= limits.label:
            raise InvalidValue(
                f"the name of a feature must have 1 to {limits.label} characters, but it has {len(name)}"
            )
    size = spec.n_features * features.n_features
    if size > limits.features:
        raise InvalidValue(
            f"expected {what} whose columns times those of contexts are at most {limits.features} (limits.features), "
            f"got {spec.n_features} x {features.n_features} = {size}; declare fewer"
        )
    return spec


def known_settings(definition: dict[str, Any]) -> dict[str, Any]:
    """Return what a fleet is made with."""
    return {name: FeatureSpec.from_json(definition[name]) for name in SPECS if name in definition}


def task_names(definition: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of task features."""
    return FeatureSpec.from_json(definition["task_features"]).names if "task_features" in definition else ()


def known_arms(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what is known about arms, by name."""
    about: dict[str, dict[str, Any]] = definition.get(ABOUT, {})
    return about


def arm_values(spec: FeatureSpec, values: Any, limits: Limits) -> dict[str, Any]:
    """Return what is known about one arm as it is stored, or raise what is wrong with it."""
    spec.encode(values)
    return Contexts(spec, limits.number).plain(values)


def with_arm(definition: dict[str, Any], arm: str, values: Any, limits: Limits) -> dict[str, Any]:
    """Return a definition in which something is known about an arm that is new."""
    if "arm_features" not in definition:
        raise InvalidValue(
            "expected a fleet with arm_features, got one without; add the arm without features, or make a fleet with "
            "arm_features"
        )
    if arm in definition["arms"]:
        raise InvalidValue(
            f"expected features of a new arm, got those of {arm!r}, which there was before; bring it back without"
        )
    about = arm_values(FeatureSpec.from_json(definition["arm_features"]), values, limits)
    return {**definition, ABOUT: {**known_arms(definition), arm: about}}


def shown(definition: dict[str, Any]) -> dict[str, Any]:
    """Return features of tasks and arms as people declare them."""
    return {name: definition[name]["features"] for name in SPECS if name in definition}


def task_line(task: str, values: dict[str, Any]) -> bytes:
    """Return what the log keeps when something is known about a task."""
    return json.dumps({"task": task, "features": values}, ensure_ascii=False, separators=(",", ":")).encode()


def read_line(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the task and its features of such a line, as the log gives it."""
    entry = json.loads(data[DIGEST:])
    return entry["task"], entry["features"]
