"""The population that a fleet has learned, as bytes that another process with the same rewards can take over.

Estimating it is the expensive part of learning; what follows from it is exact and cheap. So one process estimates, and
the others adopt.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.commit import Steps, commit
from posse.errors import InvalidValue
from posse.fleet.known_file import effects_in, effects_state
from posse.kernels import estimators
from posse.kernels.evidence import WORKING_ROOM
from posse.model.refresh import LiveReader, Refresh

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.engine.known import Known
    from posse.fleet.fleet import Fleet

IN_FORCE = ("covariance", "noise_variance", "shared_precision", "shared_location")  # of the belief
NOT_SHARED = ("distance", *WORKING_ROOM)


def is_shared(fleet: Fleet) -> bool:
    """Whether a fleet's population is one that is estimated now and then, and does not depend on single tasks.

    That of clicks and counts is not: who learns the same rewards in the same order estimates it at the same places, and
    makes the same sites.
    """
    behaviour = fleet._behaviour
    return behaviour.method == estimators.EVIDENCE and not behaviour.robust and behaviour.family.name == "number"


def estimated_at(fleet: Fleet) -> float:
    """Return how many rewards the population in force was estimated from."""
    return float(fleet._engine.store.memory.evidence.refreshed_at[0])


def dump_population(fleet: Fleet) -> bytes:
    """Return the population in force."""
    with fleet._lock:
        arrays = {name: getattr(fleet._engine.store.belief, name).copy() for name in IN_FORCE}
        arrays |= {f"evidence_{name}": array.copy() for name, array in _memory(fleet).items()}
        if fleet._engine.known is not None:
            arrays |= effects_state(fleet._engine.known)
    return json.dumps(
        {
            name: {"shape": array.shape, "type": array.dtype.str, "data": base64.b64encode(array.tobytes()).decode()}
            for name, array in arrays.items()
        }
    ).encode()


def adopt_population(fleet: Fleet, data: bytes) -> bool:
    """Believe in a population that was estimated elsewhere; False if it is of other arms, and nothing is changed."""
    with fleet._lock:
        refresh = Refresh(fleet._engine.store.belief, fleet._engine.store.memory.evidence)
        given = _read(data)
        targets: dict[str, Any] = {name: getattr(refresh.population, name) for name in IN_FORCE}
        targets |= {f"evidence_{name}": getattr(refresh.evidence, name) for name in _memory(fleet)}
        known = fleet._engine.known
        effects = {} if known is None else effects_state(known)
        if given.keys() != targets.keys() | effects.keys():
            raise InvalidValue(
                "expected a population of this version of posse, got another version's; let all processes run the "
                "same version"
            )
        if any(
            given[name].shape != target.shape or given[name].dtype != target.dtype for name, target in targets.items()
        ):
            return False
        for name, target in targets.items():
            target[...] = given[name]
        if known is not None:
            commit(_taking_effects(fleet, known, given))
        refresh.look_from(LiveReader(fleet._engine.store.belief))
        fleet._engine.store.install(refresh)
        return True


def _taking_effects(fleet: Fleet, known: Known, given: dict[str, npt.NDArray[Any]]) -> Steps:
    """Have the effects of features in force that belong to a population; sums follow them."""

    def array(name: str, shape: tuple[int, ...]) -> Any:
        if given[name].shape != shape:
            raise InvalidValue(
                "expected a population of the same features, got other features; let all processes serve the same fleet"
            )
        return given[name].copy()  # which may be written to, as all arrays that compiled code takes

    store = fleet._engine.store
    units = min(len(given["known_task_mean"]), store.n_arms)  # arms that came later have no effects yet
    return known.taking(store, effects_in(known.tasks, "task", units, array), effects_in(known.arms, "arm", 1, array))


def _memory(fleet: Fleet) -> dict[str, npt.NDArray[Any]]:
    evidence = fleet._engine.store.memory.evidence
    return {
        name: array
        for name, array in zip(evidence._fields, evidence, strict=True)
        if isinstance(array, np.ndarray) and name not in NOT_SHARED
    }


def _read(data: bytes) -> dict[str, npt.NDArray[Any]]:
    try:
        return {
            name: np.frombuffer(base64.b64decode(entry["data"]), dtype=entry["type"]).reshape(entry["shape"])
            for name, entry in json.loads(data).items()
            if entry["type"] in ("<f8", "|b1")
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidValue(f"this is not a population that posse wrote: {error}") from None
