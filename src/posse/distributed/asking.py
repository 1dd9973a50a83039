"""Asking all shards of a fleet something, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from posse.distributed.cluster import gather, require_ray
from posse.errors import PosseError


class OtherArms(PosseError):
    """A shard was asked about other arms than it has: one was added meanwhile. Nothing has changed."""


class Asking(Protocol):
    """Somebody who knows all shards."""

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Return what a method of every shard answers, in their order."""

    def tell(self, method: str, each: Sequence[Any], *common: Any) -> list[Any]:
        """Return what every shard answers that is given something of its own, and what is common to all."""


class Actors:
    """Shards that are Ray actors.

    Parameters
    ----------
    names : list of str
        Of the actors.
    namespace : str
        Of these names.
    """

    def __init__(self, names: list[str], namespace: str) -> None:
        self._names, self._namespace = names, namespace
        self._found: list[Any] = []

    @property
    def _actors(self) -> list[Any]:
        if not self._found:
            ray = require_ray()
            self._found = [ray.get_actor(name, namespace=self._namespace) for name in self._names]
        return self._found

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Return what a method of every shard answers, in their order."""
        return gather([getattr(actor, method).remote(*arguments) for actor in self._actors])

    def tell(self, method: str, each: Sequence[Any], *common: Any) -> list[Any]:
        """Return what every shard answers that is given something of its own, and what is common to all."""
        ray = require_ray()
        shared = [ray.put(one) if isinstance(one, dict) else one for one in common]  # arrays go to a machine once
        calls = [getattr(actor, method).remote(own, *shared) for actor, own in zip(self._actors, each, strict=True)]
        return gather(calls)
