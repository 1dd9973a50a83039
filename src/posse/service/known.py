"""What is known about tasks and arms, in the definition of a fleet and in its log."""

from __future__ import annotations

import json
from typing import Any

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.service.contexts import Contexts
from posse.service.declaring import declared_features
from posse.service.settings import Limits
from posse.storage.rows import DIGEST

SPECS = ("task_features", "arm_features")
ABOUT = "known_arms"
"""The part of a stored definition that says what is known about arms, by name."""


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
