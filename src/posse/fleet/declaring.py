"""What a new fleet is told about itself: its arms, and what may be known about tasks and arms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.commit import commit
from posse.engine.known import Known
from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.checking import require_room
from posse.fleet.menu import Menu, read_menu
from posse.fleet.rows import listed
from posse.kernels import estimators

if TYPE_CHECKING:
    from posse.engine.engine import Engine
    from posse.fleet.behaviour import Behaviour
    from posse.fleet.labels import Labels


def spec_of(features: Any) -> FeatureSpec:
    """Return declared features, or names as numbers."""
    return features if isinstance(features, FeatureSpec) else FeatureSpec(features)


def declare_arms(arms: Any, arm_features: Any, labels: Labels) -> Menu | None:
    """Give the first arms of a fleet their numbers; return what is known about them, if that came with them.

    Parameters
    ----------
    arms : sequence of names, or with ``arm_features`` a mapping or a table
    arm_features : FeatureSpec, sequence of names, or None
    labels : Labels
        Those of the fleet, still empty.
    """
    if isinstance(arms, str):
        raise InvalidValue(f"expected arms to be a sequence of names, got the text {arms!r}; pass [{arms!r}]")
    known = None
    if arm_features is not None and not isinstance(arms, list | tuple):
        known = read_menu(arms, spec_of(arm_features), labels)
        arms = known.arms
    names = labels.checked_all(listed(arms, "arms to be a sequence of names"))
    if not names:
        raise InvalidValue(
            "expected at least one arm, got none; pass what every task chooses among, as in arms=['coffee', 'cake']"
        )
    for position, name in enumerate(names):
        if name in labels:
            raise InvalidValue(f"expected arms that differ, got {name!r} twice; name each once")
        labels.add(name, position)
    return known


def declare_known(
    features: FeatureSpec,
    task_features: Any,
    arm_features: Any,
    known_arms: Menu | None,
    behaviour: Behaviour,
    engine: Engine,
) -> Known | None:
    """Return what will be known about tasks and arms, or None if nothing was declared; or raise if it cannot be.

    Parameters
    ----------
    features : FeatureSpec
        Of contexts.
    task_features, arm_features : FeatureSpec, sequence of names, or None
    known_arms : Menu or None
        What is known about the arms that the fleet begins with.
    behaviour : Behaviour
    engine : Engine
        That will have it.
    """
    if task_features is None and arm_features is None:
        return None
    if behaviour.method != estimators.EVIDENCE:
        raise InvalidValue(
            "expected a policy that learns the population and prior='evidence' with task_features or arm_features, got "
            f"policy={behaviour.policy!r} and prior={behaviour.prior!r}; leave the features out, or take those"
        )
    if engine.fading is not None and behaviour.family.name != "number":
        raise InvalidValue(
            "expected rewards='number' with drift and task_features or arm_features, got "
            f"rewards={behaviour.family.name!r}: clicks and counts have one or the other yet; leave one of them out"
        )
    n_arms = engine.store.n_arms
    of_tasks, of_arms = (None if given is None else spec_of(given) for given in (task_features, arm_features))
    if known_arms is not None:
        of_arms = known_arms.spec  # with its scaling
    for of_units, units in ((of_tasks, n_arms), (of_arms, 1)):
        if of_units is not None:
            require_room(units, of_units.n_features * features.n_features)
    known = Known(of_tasks, of_arms, n_arms, features.n_features)
    both = set(features.names) & set(known.task_names)
    if both:
        raise InvalidValue(
            f"expected names of features and task_features that differ, got {min(both)!r} in both; rename one"
        )
    if known_arms is not None:
        commit(known.arms.setting(np.arange(n_arms), known_arms.columns, known_arms.all_raw()))
    return known
