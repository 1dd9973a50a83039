"""What a synthetic world always knows and the type of a draw leaves open."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """Return the population or the coefficients of a synthetic world, which are never missing."""
    assert value is not None
    return value
