"""What is known about tasks and arms, as it stands in the file of a fleet."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.engine.commit import commit
from posse.engine.site_offsets import setting_offsets
from posse.engine.site_store import SiteStore
from posse.features import FeatureSpec
from posse.model.effects import Effects

if TYPE_CHECKING:
    from posse.engine.known import Known, Side
    from posse.fleet.file_format import Reader
    from posse.fleet.fleet import Fleet
    from posse.types import IntArray


def known_state(known: Known, order: IntArray, n_arms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays; ``order`` has the numbers of the tasks in the order of the file."""
    header: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name, side, numbers in (("task", known.tasks, order.tolist()), ("arm", known.arms, list(range(n_arms)))):
        header[f"{name}_features"] = None if side.spec is None else side.spec.to_json()
        texts = [json.dumps(side.raw.get(number)).encode() for number in numbers]
        header[f"{name}_effects"] = len(side.effects.mean)
        arrays |= {
            f"known_{name}_text": np.frombuffer(b"".join(texts), dtype=np.uint8),
            f"known_{name}_end": np.cumsum([len(text) for text in texts], dtype=np.int64),
        }
    arrays |= effects_state(known)
    return {"known": header}, arrays


def effects_state(known: Known) -> dict[str, Any]:
    """Return the effects of features and what belongs to them, as arrays."""
    arrays: dict[str, Any] = {}
    for name, side in (("task", known.tasks), ("arm", known.arms)):
        effects = side.effects
        arrays |= {
            f"known_{name}_average": side.average,
            f"known_{name}_scatter": side.scatter,
            f"known_{name}_unit": side.unit,
            f"known_{name}_mean": effects.mean,
            f"known_{name}_covariance": effects.covariance,
            f"known_{name}_give": effects.give,
            # Before the first estimate there is none, and no file has numbers that are none.
            f"known_{name}_variance": np.where(np.isnan(effects.variance), -1.0, effects.variance),
        }
    return arrays


def effects_in(side: Side, name: str, n_units: int, array: Callable[[str, tuple[int, ...]], Any]) -> dict[str, Any]:
    """Return what :func:`effects_state` has of one side, by the names of attributes.

    ``array`` returns an array by name, or raises if it has another shape.
    """
    p, d = side.n_columns, len(side.unit)
    variance = array(f"known_{name}_variance", side.effects.variance.shape)
    return {
        "average": array(f"known_{name}_average", side.average.shape),
        "scatter": array(f"known_{name}_scatter", side.scatter.shape),
        "unit": array(f"known_{name}_unit", side.unit.shape),
        "effects": Effects(
            array(f"known_{name}_mean", (n_units, p, d)),
            array(f"known_{name}_covariance", (n_units, p * d, p * d)),
            np.where(variance < 0, np.nan, variance),
            array(f"known_{name}_give", (n_units, d, p * d)),
        ),
    }


def declared(header: dict[str, Any]) -> dict[str, Any]:
    """Return the features of tasks and arms that a file declares, as a fleet is made with them."""
    known = header["known"]
    names = ("task_features", "arm_features")
    return {name: None if known[name] is None else FeatureSpec.from_json(known[name]) for name in names}


def restore_known(fleet: Fleet, reader: Reader, numbers: IntArray, n_tasks: int, chosen: IntArray | None) -> None:
    """Know again what was known; ``numbers`` are those of the tasks that are loaded."""
    known = fleet._engine.known
    assert known is not None
    tasks = (numbers, np.arange(n_tasks) if chosen is None else chosen)
    arms = np.arange(fleet._engine.store.n_arms)
    known.tasks.reserve(fleet._engine.store.n_tasks)
    known.arms.reserve(arms.size)
    _restore_side(known.tasks, reader, "task", *tasks, n_tasks)
    _restore_side(known.arms, reader, "arm", arms, arms, arms.size)
    if isinstance(fleet._engine.store, SiteStore):
        commit(setting_offsets(fleet._engine.store, known))


def _restore_side(side: Side, reader: Reader, name: str, numbers: IntArray, places: IntArray, n: int) -> None:
    ends = reader.array(f"known_{name}_end", (n,), np.int64)
    text = reader.array(f"known_{name}_text", reader.box.shape(f"known_{name}_text"), np.uint8).tobytes()
    starts = np.concatenate([[0], ends[:-1]]) if n else ends
    if (ends <= starts).any() or len(text) != (int(ends[-1]) if n else 0):
        raise reader.damaged(f"what is known about {name}s does not fit its text")
    raw = {
        number: json.loads(text[starts[place] : ends[place]])
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True)
    }
    there = [number for number, values in raw.items() if values is not None]
    if there:
        if side.spec is None:
            raise reader.damaged(f"something is known about {name}s, but no {name}_features are declared")
        rows = [raw[number] for number in there]
        commit(side.setting(np.array(there), side.encode(rows), rows))
    units = reader.whole(f"{name}_effects", place=reader.header["known"])
    side.__dict__.update(effects_in(side, name, units, reader.array))
    if not (np.diagonal(side.unit) > 0).all():
        raise reader.damaged(f"known_{name}_unit has variances that are not greater than 0")
