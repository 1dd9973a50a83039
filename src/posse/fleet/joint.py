"""The joint features of a context and an arm, which a catalogue learns coefficients of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.known import spec_of
from posse.fleet.settings import require_truth_value

if TYPE_CHECKING:
    from posse.types import Array


class JointFeatures:
    """What contexts and arms are made of, and the columns that follow from both.

    Parameters
    ----------
    features, arm_features : FeatureSpec, or sequence of feature names
        With an intercept each, a scaling that is known, and names that differ.
    interactions : bool
        Whether there are all products of their columns, or the columns alone.

    Raises
    ------
    InvalidValue
        If they are not so.
    """

    def __init__(self, features: Any, arm_features: Any, interactions: Any) -> None:
        self.features, self.arm_features = spec_of(features), spec_of(arm_features)
        require_truth_value(interactions, "interactions")
        self.interactions = bool(interactions)
        for spec, what in ((self.features, "features"), (self.arm_features, "arm_features")):
            if not spec.intercept:
                raise InvalidValue(f"expected {what} with an intercept, got a FeatureSpec without; leave it in")
            if not spec.ready:
                raise InvalidValue(
                    f"expected {what} whose scaling is known, got one that has not been learned; pass what "
                    "learn_scaling(table) returns"
                )
        both = set(self.features.names) & set(self.arm_features.names)
        if both:
            raise InvalidValue(
                f"expected names of features and arm_features that differ, got {min(both)!r} in both; rename one"
            )
        contexts, arms = self.features.columns, self.arm_features.columns
        self.columns: tuple[str, ...] = (*contexts, *arms[1:])
        if self.interactions:
            pairs = [(x, f) for x in contexts for f in arms]
            self.columns = tuple(f if x == contexts[0] else x if f == arms[0] else f"{x}*{f}" for x, f in pairs)

    @property
    def spec(self) -> FeatureSpec:
        """The joint features, as those of the contexts of a fleet."""
        return FeatureSpec(self.columns, intercept=False)

    def at(self, x: Array) -> Array:
        """Return what turns an arm's columns into joint features under this context, (n_joint, n_arm_columns)."""
        n = self.arm_features.n_features
        if self.interactions:
            return (x[:, None, None] * np.eye(n)).reshape(-1, n)
        joint: Array = np.zeros((x.size + n - 1, n))
        joint[: x.size, 0] = x
        joint[x.size :, 1:] = np.eye(n - 1)
        return joint
