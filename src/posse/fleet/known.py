"""Features of tasks and arms: how they are declared and encoded, and their raw values as logs and files have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.errors import InvalidValue
from posse.features import FeatureSpec
from posse.fleet.menu import Menu, read_menu
from posse.fleet.names import Labels, listed
from posse.fleet.settings import Settings, require_memory

if TYPE_CHECKING:
    from posse.types import Array, IntArray


def spec_of(features: Any) -> FeatureSpec:
    """Return declared features, or names as numbers."""
    return features if isinstance(features, FeatureSpec) else FeatureSpec(features)


class Side:
    """Features of tasks, or of arms.

    Parameters
    ----------
    spec : FeatureSpec or None
        None if nothing is declared.
    """

    def __init__(self, spec: FeatureSpec | None) -> None:
        self.spec = spec
        self.raw: dict[int, list[Any]] = {}
        """Raw values by number, of those about which something is known."""

    @property
    def names(self) -> tuple[str, ...]:
        """The raw features, in order."""
        return () if self.spec is None else self.spec.names

    @property
    def groups(self) -> IntArray:
        """The feature that every encoded column belongs to; the mean itself is in the fleet's own model."""
        widths = [] if self.spec is None else [feature.width for feature in self.spec.features]
        return np.repeat(np.arange(len(widths)), widths)

    def encode(self, values: Any) -> Array:
        """Return columns of many of them, without the intercept."""
        assert self.spec is not None
        return np.ascontiguousarray(self.spec.encode_many(values)[:, int(self.spec.intercept) :])

    def about(self, number: int | None) -> dict[str, Any]:
        """Return raw values by name, as a log has them; None for each feature if nothing is known."""
        raw = None if number is None else self.raw.get(number)
        return dict.fromkeys(self.names) if raw is None else dict(zip(self.names, raw, strict=True))


class Known:
    """What is known about tasks and about arms."""

    def __init__(self, tasks: FeatureSpec | None, arms: FeatureSpec | None) -> None:
        self.tasks, self.arms = Side(tasks), Side(arms)

    @property
    def there(self) -> bool:
        """Whether features of tasks or arms are declared."""
        return self.tasks.spec is not None or self.arms.spec is not None

    def for_core(self, n_arms: int) -> dict[str, Any]:
        """Return what a core is made with; features of arms about which nothing is known are not numbers."""
        if not self.there:
            return {}
        rows = np.full((n_arms, self.arms.groups.size), np.nan)
        if self.arms.raw:
            rows[list(self.arms.raw)] = self.arms.encode(list(self.arms.raw.values()))
        return {
            "n_task_features": self.tasks.groups.size,
            "task_groups": self.tasks.groups,
            "arm_features": rows,
            "arm_groups": self.arms.groups,
        }

    def require(self, features: FeatureSpec, settings: Settings, n_arms: int) -> None:
        """Raise if features of tasks and arms do not go with those of contexts, or with the settings."""
        if not self.there:
            return
        if settings.prior != "evidence":
            raise InvalidValue(
                "expected a policy that learns the population and prior='evidence' with task_features or arm_features, "
                f"got policy={settings.policy!r} and prior={settings.prior!r}; leave the features out, or take those"
            )
        for side, units in ((self.tasks, n_arms), (self.arms, 1)):
            if side.spec is not None:
                require_memory(units, side.spec.n_features * features.n_features)
        both = set(features.names) & set(self.tasks.names)
        if both:
            raise InvalidValue(
                f"expected names of features and task_features that differ, got {min(both)!r} in both; rename one"
            )

    def new_arm(self, arm: Any, features: Any, labels: Labels) -> tuple[Array, list[Any]]:
        """Return columns and raw values of an arm that is added, or raise."""
        spec = self.arms.spec
        if spec is None:
            raise InvalidValue(
                "expected a fleet with arm_features, got one without; make it with arm_features=FeatureSpec(...), or "
                "add the arm without features"
            )
        if labels.get(arm) is not None:
            raise InvalidValue(
                f"expected features of a new arm, got those of {arm!r}, which there was before; bring it back without"
            )
        spec.encode(features)  # which refuses a scaling that one arm cannot teach
        menu = read_menu({arm: features}, spec, labels)
        return menu.columns[0], menu.all_raw()[0]


def declared_arms(arms: Any, arm_features: Any, labels: Labels) -> tuple[list[Any], Menu | None]:
    """Return the names of the first arms of a fleet, and what is known about them if that came with them."""
    if isinstance(arms, str):
        raise InvalidValue(f"expected arms to be a sequence of names, got the text {arms!r}; pass [{arms!r}]")
    menu = None
    if arm_features is not None and not isinstance(arms, list | tuple):
        menu = read_menu(arms, spec_of(arm_features), labels)
        arms = menu.arms
    names = labels.checked_all(listed(arms, "arms to be a sequence of names"))
    if not names:
        raise InvalidValue(
            "expected at least one arm, got none; pass what every task chooses among, as in arms=['coffee', 'cake']"
        )
    _require_apart(names)
    return names, menu


def _require_apart(names: Iterable[Any]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise InvalidValue(f"expected arms that differ, got {name!r} twice; name each once")
        seen.add(name)
