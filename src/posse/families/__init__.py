"""Families of rewards: numbers, clicks, counts. One file each; :func:`family_of` finds one by its name."""

from typing import Literal, TypeAlias

from posse.checks import one_of
from posse.families.base import RewardFamily
from posse.families.binary import Binary
from posse.families.count import Count
from posse.families.number import Number

Rewards: TypeAlias = Literal["number", "binary", "count"]
"""What ``rewards=`` may be."""

FAMILIES: dict[str, RewardFamily] = {family.name: family for family in (Number(), Binary(), Count())}
"""Families by name."""


def family_of(rewards: str) -> RewardFamily:
    """Return the family that goes by this name, or raise one clear error.

    Examples
    --------
    >>> family_of("binary").code
    1
    """
    return FAMILIES[one_of(rewards, "rewards", tuple(FAMILIES))]


__all__ = ["FAMILIES", "Binary", "Count", "Number", "RewardFamily", "Rewards", "family_of"]
