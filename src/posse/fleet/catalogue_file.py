"""A catalogue as one file: that of the fleet inside it, with arms and residuals."""

from __future__ import annotations

import os
import time as clock_module
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from posse.container import open_container
from posse.errors import PosseError
from posse.features import FeatureSpec
from posse.fleet.file import KINDS, VERSION, Reader, label_arrays, read_checked, restore_fleet, state_of, write_fleet
from posse.fleet.ledger import PENDING
from posse.fleet.posse import Posse

if TYPE_CHECKING:
    from posse.fleet.catalogue import Catalogue

KIND = "catalogue"
Kind = TypeVar("Kind", bound="Catalogue")


def freeze_catalogue(catalogue: Catalogue) -> Callable[[str | os.PathLike[str]], None]:
    """Return a function that writes the state that a catalogue is in now to a file."""
    fleet, residuals = catalogue.fleet, catalogue.residuals
    with fleet.lock:
        fleet.core.finish_background()
        fleet.core.ensure_fresh()
        header, arrays = state_of(fleet)
        tasks, arms, sums = residuals.pairs
        labels = catalogue.labels
        arrays |= label_arrays(labels, "catalogue_arm") | {
            "catalogue_used": np.array([catalogue.used.get(arm, 0) for arm in labels.numbers.values()], dtype=np.int64),
            "catalogue_task": tasks.copy(),
            "catalogue_arm": arms.copy(),
            "catalogue_sums": sums.copy(),
            "catalogue_totals": residuals.totals(len(labels)).copy(),
            "catalogue_variance": np.array([residuals.variance]),
        }
        for number, _ in enumerate(fleet.ledgers):
            # The fleet inside has one arm; which of the catalogue's it was is an array of its own.
            arrays[f"catalogue_ledger{number}"] = arrays[f"ledger{number}.arm"]
            arrays[f"ledger{number}.arm"] = np.where(arrays[f"ledger{number}.task"] >= 0, 0, -1)
        header |= {
            "context_features": catalogue.features.to_json(),
            "item_features": catalogue.arm_features.to_json(),
            "interactions": catalogue.interactions,
            "max_arms": catalogue.max_arms,
            "items": KINDS[labels.kind],
        }
    return partial(write_fleet, kind=KIND, header=header, arrays=arrays)


def is_catalogue(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds a catalogue; a file that is none of posse's is none."""
    try:
        open_container(path, kind=KIND, versions=(VERSION,)).close()
    except PosseError:
        return False
    return True


def load_catalogue(
    cls: type[Kind],
    path: str | os.PathLike[str],
    *,
    clock: Callable[[], float] = clock_module.time,
    inside: Callable[[Catalogue], Any] = lambda _: Posse,
) -> Kind:
    """Read a catalogue; ``inside`` returns the class of the fleet inside, or what makes it."""
    found: Kind = read_checked(path, KIND, lambda reader: _read(cls, reader, clock, inside))
    return found


def _read(cls: type[Kind], reader: Reader, clock: Callable[[], float], inside: Callable[[Catalogue], Any]) -> Kind:
    header = reader.header
    catalogue = cls.__new__(cls)
    catalogue.declare(
        FeatureSpec.from_json(header["context_features"]),
        FeatureSpec.from_json(header["item_features"]),
        header["interactions"],
        header["max_arms"],
    )
    if header["features"] != FeatureSpec(catalogue.columns, intercept=False).to_json() or header["arms"] != ["reward"]:
        raise reader.damaged("its columns are not those of its features")
    catalogue.start(restore_fleet(inside(catalogue), reader, None, clock))
    n_arms, n_pairs = reader.length("catalogue_used"), reader.length("catalogue_task")
    labels = reader.labels("catalogue_arm", header["items"], n_arms)
    used = reader.array("catalogue_used", (n_arms,), np.int64)
    tasks, arms = (
        reader.within(name, reader.array(name, (n_pairs,), np.int64), 0, n)
        for name, n in (("catalogue_task", catalogue.fleet.core.n_tasks), ("catalogue_arm", n_arms))
    )
    sums = reader.array("catalogue_sums", (2, n_pairs))
    variance = float(reader.array("catalogue_variance", (1,))[0])
    if not variance > 0 or not (sums[0] > 0).all():
        raise reader.damaged("a variance of residuals is not greater than 0")
    if np.unique(tasks * max(n_arms, 1) + arms).size != n_pairs:
        raise reader.damaged("a pair of task and arm is there twice")
    for number, entry in enumerate(header["ledgers"]):
        name = f"catalogue_ledger{number}"
        numbers = reader.within(name, reader.array(name, (entry["size"],), np.int64), -1, n_arms)
        if entry["size"]:
            ledger = catalogue.fleet.ledgers.adopted[entry["prefix"]]
            if (numbers[ledger.status[ledger.live] == PENDING] < 0).any():
                raise reader.damaged(f"{name} has decisions without an arm that wait for a reward")
            ledger.arm[ledger.live] = numbers
    catalogue.labels.take(labels, range(n_arms))
    catalogue.used = dict(enumerate(used.tolist()))
    catalogue.residuals.reserve(n_arms)
    if not catalogue.residuals.replace(tasks, arms, sums, reader.array("catalogue_totals", (2, n_arms))):
        raise reader.damaged("what rewards say about arms does not add up")
    catalogue.residuals.variance = variance
    return catalogue
