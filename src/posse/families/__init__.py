"""Families of rewards: numbers, clicks, counts, revenue. One file each; :func:`family_of` finds one by its name."""

from typing import Literal, TypeAlias, cast

from posse.checks import one_of
from posse.families.base import LinkedFamily, RewardFamily
from posse.families.binary import Binary
from posse.families.count import Count
from posse.families.number import Number
from posse.families.revenue import Revenue

Rewards: TypeAlias = Literal["number", "binary", "count", "revenue"]
"""Values of ``rewards=``."""

# Numbers first: compiled code knows them by 0.
_IN_ORDER: tuple[RewardFamily, ...] = (Number(), Binary(), Count(), Revenue())
for _code, _family in enumerate(_IN_ORDER):
    _family.code = _code

FAMILIES: dict[str, RewardFamily] = {family.name: family for family in _IN_ORDER}
"""Families by name."""

LINKED: dict[str, LinkedFamily] = {family.name: cast("LinkedFamily", family) for family in _IN_ORDER[1:3]}
"""Those that learn rewards as sites: clicks and counts. The noise of numbers is learned; revenue is two of these."""


def family_of(rewards: str) -> RewardFamily:
    """Return the family that goes by this name, or raise one clear error.

    Examples
    --------
    >>> family_of("binary").code
    1
    """
    return FAMILIES[one_of(rewards, "rewards", tuple(FAMILIES))]


def linked_family_of(rewards: str) -> LinkedFamily:
    """Return the family of clicks, counts and the like that goes by this name, or raise one clear error."""
    return LINKED[one_of(rewards, "rewards", tuple(LINKED))]


__all__ = [
    "FAMILIES", "LINKED", "Binary", "Count", "LinkedFamily", "Number", "Revenue", "RewardFamily", "Rewards",
    "family_of", "linked_family_of",
]  # fmt: skip
