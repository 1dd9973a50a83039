"""``rewards=`` of ebmUCB, ebmTS and ebmRandUCB: clicks and counts are learned by the policy of their family."""

from __future__ import annotations

from typing import Any

from posse.checks import one_of
from posse.errors import InvalidValue
from posse.families import FAMILIES
from posse.keywords import KnownKeywords, require_keywords
from posse.model import Prior
from posse.policies.base import Policy
from posse.policies.family import FamilyRandUCB, FamilyTS, FamilyUCB

BY_LABEL: dict[str, type[Policy]] = {"ebmUCB": FamilyUCB, "ebmTS": FamilyTS, "ebmRandUCB": FamilyRandUCB}
SHARED = ("n_tasks", "n_arms", "n_features", "exploration", "refresh_growth", "first_pulls", "drift")
STANDARD: dict[str, Any] = {"prior": "evidence", "robust": False}
"""What else may be said, since it is what clicks and counts have anyway."""


class OfFamily(KnownKeywords):
    """Base of policies that are made as the policy of a family where ``rewards`` says so.

    The class that is made then is registered as a subclass of the one that was called (in :mod:`posse.policies.ebm`),
    but does not inherit from it, so Python does not run its ``__init__``.
    """

    def __new__(cls, *arguments: Any, **settings: Any) -> Any:
        """Make this policy for numbers, and that of the family for clicks and counts."""
        rewards = one_of(settings.get("rewards", "number"), "rewards", tuple(FAMILIES))
        if rewards == "number":
            return super().__new__(cls, *arguments, **settings)
        require_keywords(cls, settings)
        if "label" not in cls.__dict__:
            raise InvalidValue(f"expected rewards='number' for {cls.__name__}, a class of your own, got {rewards!r}")
        for name, value in settings.items():
            if name in SHARED or name == "rewards":
                continue
            if name not in STANDARD or type(value) is not type(STANDARD[name]) or value != STANDARD[name]:
                fixed = ", ".join(f"{setting}={only!r}" for setting, only in STANDARD.items())
                shown = type(value).__name__ if isinstance(value, Prior) else repr(value)
                raise InvalidValue(
                    f"expected {fixed} and no shared_precision for rewards={rewards!r}, got {name}={shown}; leave it "
                    "out, or take rewards='number'"
                )
        chosen: Any = BY_LABEL[str(cls.__dict__["label"])]
        kept = {name: value for name, value in settings.items() if name in SHARED}
        if kept.get("refresh_growth", 0.0) is None:
            del kept["refresh_growth"]  # None is the default here
        return chosen(*arguments, rewards=rewards, **kept)
