"""The Ray cluster that work is given to."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from posse.errors import MissingDependency, PosseError

if TYPE_CHECKING:
    from types import ModuleType

SECONDS = 10.0  # in which a cluster must answer


def require_ray() -> ModuleType:
    """Return the module ``ray``, or raise an error that says what to install."""
    try:
        return import_module("ray")
    except ImportError:
        raise MissingDependency(
            "expected Ray for more than one machine, got none: install it with: pip install 'ray[data]' pyarrow"
        ) from None


def start(address: str | None = None, *, num_cpus: int | None = None) -> ModuleType:
    """Connect to a cluster, unless that is done already; without an address, start one on this machine.

    Parameters
    ----------
    address : str, optional
        Of a cluster, as ``ray.init`` takes it: "auto", "10.0.0.1:6379", "ray://10.0.0.1:10001". Default: the one in
        RAY_ADDRESS, or one of this machine's own.
    num_cpus : int, optional
        Of the one that is started here. Default: all cores.
    """
    ray = require_ray()
    if ray.is_initialized():
        return ray
    address = address or os.environ.get("RAY_ADDRESS")
    settings: dict[str, Any] = {"logging_level": logging.WARNING, "log_to_driver": False}
    if address is None:
        settings |= {"address": "local", "include_dashboard": False, "num_cpus": num_cpus}
    else:
        _require_answer(address)
        settings["address"] = address
    try:
        ray.init(**settings)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PosseError(
            f"expected a Ray cluster at {address or 'this machine'}, got: {error}; start one with: ray start --head"
        ) from error
    return ray


def _require_answer(address: str) -> None:
    """Raise if nobody listens at ``host:port`` or ``ray://host:port``: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
        except (OSError, OverflowError) as error:
            raise PosseError(
                f"expected a Ray cluster at {address}, got no answer: {error}; start one with: ray start --head"
            ) from error


def has_several_machines() -> bool:
    """Return whether the connected cluster has more than this machine, so that local files are not seen everywhere."""
    ray = require_ray()
    addresses = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    # A program that is connected through Ray's client need not be on any of them.
    return len(addresses) > 1 or bool(ray.util.client.ray.is_connected())


def gather(results: Sequence[Any]) -> list[Any]:
    """Return what remote calls answer, or raise what the first that failed raised there."""
    ray = require_ray()
    try:
        return list(ray.get(list(results)))
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, PosseError):
            raise cause from None
        raise
    except ray.exceptions.RayActorError as error:
        raise PosseError(
            f"a shard of this fleet died and could not be brought back: {error}; with folder=..., a shard is restored "
            "from what was written there"
        ) from error


class OtherArms(PosseError):
    """A shard was asked about other arms than it has: one was added meanwhile. Nothing has changed."""


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

    def call(self, shard: int, method: str, *arguments: Any) -> Any:
        """Return what a method of one shard answers."""
        return gather([getattr(self._actors[shard], method).remote(*arguments)])[0]
