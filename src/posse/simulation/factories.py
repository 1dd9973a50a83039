"""From what a user names (a class, a partial, a key) to a policy for one drawn world."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from posse.environments.base import Draw
from posse.errors import InvalidValue
from posse.model.prior import Prior
from posse.policies.base import DecisionMaker, Policy
from posse.policies.bounds import Oracle
from posse.policies.registry import check_settings, policy_factory
from posse.types import Settings

Factory: TypeAlias = Callable[..., DecisionMaker]
PolicyChoice: TypeAlias = str | Factory


def named_factories(policies: Mapping[str, PolicyChoice] | Sequence[PolicyChoice]) -> dict[str, Factory]:
    """Return a factory for every name; a policy without a name goes by its label."""
    if isinstance(policies, str):
        raise InvalidValue(
            f"expected policies to be a mapping from names to policies or a list, got the text {policies!r}"
        )
    if not isinstance(policies, Mapping):
        named: dict[str, PolicyChoice] = {}
        for policy in policies:
            name = policy if isinstance(policy, str) else _label(policy)
            if name in named:
                raise InvalidValue(f"two policies go by the name {name!r}; pass a mapping from names to policies")
            named[name] = policy
        policies = named
    if not policies:
        raise InvalidValue("policies must name at least one policy, but it is empty")
    factories: dict[str, Factory] = {}
    for name, policy in policies.items():
        factory = policy_factory(policy) if isinstance(policy, str) else policy
        if not callable(factory):
            raise InvalidValue(
                f"expected policy {name!r} to be a class, a functools.partial of one or a key, got {factory!r}"
            )
        if isinstance(factory, partial) and isinstance(factory.func, type) and issubclass(factory.func, Policy):
            check_settings(factory.func, factory.keywords, name)
        factories[str(name)] = factory
    return factories


def build(factory: Factory, draw: Draw, *, n_tasks: int, n_arms: int, n_features: int) -> DecisionMaker:
    """Return a new policy for this world.

    ``prior="known"`` stands for the population of the drawn world, and an :class:`~posse.policies.Oracle` without
    coefficients for its coefficients: both differ from seed to seed, so nobody can pass them beforehand.
    """
    settings: dict[str, Any] = {}
    keywords = factory.keywords if isinstance(factory, partial) else {}
    if isinstance(keywords.get("prior"), str) and keywords["prior"] == "known":
        if draw.prior is None:
            raise InvalidValue("prior='known' needs a world that knows its population; this one does not")
        settings["prior"] = draw.prior
    target = factory.func if isinstance(factory, partial) else factory
    if target is Oracle and "coefficients" not in keywords:
        if draw.coefficients is None:
            raise InvalidValue("the oracle needs a world with known coefficients; this one has none")
        settings["coefficients"] = draw.coefficients
    return factory(n_tasks=n_tasks, n_arms=n_arms, n_features=n_features, **settings)


def describe(factory: Factory) -> Settings:
    """Return plain values that say which policy a factory makes, for the result file."""
    if isinstance(factory, partial):
        inner = describe(factory.func)
        positional = {str(place): _plain(value) for place, value in enumerate(factory.args)}
        named = {key: _plain(value) for key, value in factory.keywords.items()}
        inner["settings"] = {**inner["settings"], **positional, **named}
        return inner
    where = f"{getattr(factory, '__module__', '?')}.{getattr(factory, '__qualname__', repr(type(factory)))}"
    return {"policy": where, "settings": {}}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Prior):
        arrays = (value.covariance, value.noise_variance, value.shared_precision)
        return "prior:" + hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]
    if isinstance(value, np.ndarray | list | tuple):
        return np.asarray(value).tolist()
    return repr(value)


def _label(policy: Factory) -> str:
    if isinstance(policy, partial):
        given = ", ".join(f"{key}={_plain(value)}" for key, value in policy.keywords.items())
        return f"{_label(policy.func)} ({given})"
    label = getattr(policy, "label", None)
    return label if isinstance(label, str) else getattr(policy, "__name__", repr(policy))


NEEDED = ("n_tasks", "n_arms", "n_features", "draw", "settings")


def require_world(world: Any) -> None:
    """Raise unless a world has all that the simulator asks of it."""
    if isinstance(world, type):
        raise InvalidValue(f"expected a world, got the class {world.__name__}; pass {world.__name__}(...)")
    lacking = [name for name in NEEDED if not hasattr(world, name)]
    if not lacking:
        return
    name = type(world).__name__
    hint = (
        "; settings() returns plain values that say which world this is, for the result file: return {} if there are "
        "none" if "settings" in lacking else ""
    )  # fmt: skip
    raise InvalidValue(f"a world must have {', '.join(NEEDED)}, but {name} lacks {', '.join(lacking)}{hint}")
