"""A catalogue as one file: that of the fleet inside it, with arms and residuals beside."""

from __future__ import annotations

import os
import time as clock_module
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from posse.container import open_container, write_container
from posse.errors import DamagedFile, PosseError
from posse.features import FeatureSpec
from posse.fleet.file_format import Reader, require_finite
from posse.fleet.file_restore import read_labels, restore_fleet
from posse.fleet.file_state import label_arrays, state_of
from posse.fleet.labels import Labels
from posse.fleet.posse import Posse

if TYPE_CHECKING:
    from posse.fleet.catalogue import Catalogue

KIND, VERSION = "catalogue", 1

Kind = TypeVar("Kind", bound="Catalogue")


def save_catalogue(catalogue: Catalogue, path: str | os.PathLike[str]) -> None:
    """Write a catalogue."""
    header, arrays = catalogue_state(catalogue)
    write_container(path, kind=KIND, version=VERSION, header=header, arrays=arrays)


def is_catalogue(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds a catalogue; what is no file of ours is none."""
    try:
        open_container(path, kind=KIND, versions=(VERSION,)).close()
    except PosseError:
        return False
    return True


def catalogue_state(catalogue: Catalogue) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of a catalogue's file; nothing of them changes with the catalogue."""
    fleet, residuals = catalogue._fleet, catalogue._residuals
    with fleet._lock:
        header, arrays = state_of(fleet)
        place = np.full(fleet._engine.store.n_tasks + 1, -1, dtype=np.int64)
        order = np.array(list(fleet._tasks.numbers.values()), dtype=np.int64)
        place[order] = np.arange(order.size)
        tasks, arms, sums = residuals.pairs
        labels = label_arrays(list(catalogue._arms), catalogue._arms.kind)
        used = [catalogue._used.get(number, 0) for number in catalogue._arms.numbers.values()]
        arrays |= {name.replace("task_", "catalogue_arm_"): array for name, array in labels.items()}
        arrays |= {
            "catalogue_used": np.array(used, dtype=np.int64),
            "catalogue_pair_task": place[tasks],
            "catalogue_pair_arm": arms.copy(),
            "catalogue_pair_sums": sums.copy(),
            "catalogue_totals": residuals.totals(len(used)).copy(),
            "catalogue_residual_variance": np.array([residuals.variance]),
        }
        for number, ledger in enumerate(fleet._ledgers()):
            # The fleet inside has one arm; which of ours it was stands beside.
            arrays[f"catalogue_ledger{number}"] = ledger.arm.copy()
            arrays[f"ledger{number}_arm"] = np.where(arrays[f"ledger{number}_task"] >= 0, 0, -1)
    header |= {
        "context_features": catalogue.features.to_json(),
        "arm_features": catalogue.arm_features.to_json(),
        "interactions": catalogue.interactions,
        "max_arms": catalogue.max_arms,
        "n_catalogue_arms": len(used),
        "n_catalogue_pairs": int(tasks.size),
        "catalogue_arm_names": {str: "text", int: "number", None: "none"}[catalogue._arms.kind],
    }
    for name, array in arrays.items():
        require_finite(name, array)
    return header, arrays


def load_catalogue(
    cls: type[Kind],
    path: str | os.PathLike[str],
    *,
    clock: Callable[[], float] = clock_module.time,
    fleet: Callable[[Catalogue], Any] | None = None,
) -> Kind:
    """Read a catalogue; ``fleet`` returns what makes the fleet inside. Default: :class:`posse.Posse`."""
    with open_container(path, kind=KIND, versions=(VERSION,)) as box:
        try:
            return _read(cls, Reader(box, os.fspath(path)), clock, fleet)
        except DamagedFile:
            raise
        except (PosseError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DamagedFile(
                f"{os.fspath(path)} is not a catalogue that posse could have written: {error}; restore it from a backup"
            ) from None


class _ArmReader(Reader):
    """The names of arms, read as those of tasks are."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(_Renamed(reader.box), reader.path)  # type: ignore[arg-type]
        self.header = reader.header | {"task_names": reader.header["catalogue_arm_names"]}


class _Renamed:
    """A container in which arrays of arms' names have the names of those of tasks."""

    def __init__(self, box: Any) -> None:
        self.box, self.header = box, box.header
        self.names = [name.replace("catalogue_arm_", "task_") for name in box.names if name.startswith("catalogue_arm")]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.box, name)
        return lambda of, *rest: method(of.replace("task_", "catalogue_arm_"), *rest)


def _read(
    cls: type[Kind], reader: Reader, clock: Callable[[], float], inside: Callable[[Catalogue], Any] | None
) -> Kind:
    header = reader.header
    catalogue = cls.__new__(cls)
    catalogue._declare(
        FeatureSpec.from_json(header["context_features"]),
        FeatureSpec.from_json(header["arm_features"]),
        header["interactions"],
        header["max_arms"],
    )
    if header["features"] != FeatureSpec(catalogue.columns, intercept=False).to_json() or header["arms"] != ["reward"]:
        raise reader.damaged("its columns are not those of its features")
    catalogue._start(restore_fleet(Posse if inside is None else inside(catalogue), reader, None, clock))
    fleet = catalogue._fleet
    n_arms, n_pairs = reader.whole("n_catalogue_arms"), reader.whole("n_catalogue_pairs")
    labels = Labels("arm")
    labels.add_all([(label, number) for number, label in enumerate(read_labels(_ArmReader(reader), n_arms))])
    if len(labels) != n_arms:
        raise reader.damaged("two arms have one name")
    used = reader.array("catalogue_used", (n_arms,), np.int64)
    tasks = reader.within(
        "catalogue_pair_task", reader.array("catalogue_pair_task", (n_pairs,), np.int64), 0, len(fleet._tasks)
    )
    arms = reader.within("catalogue_pair_arm", reader.array("catalogue_pair_arm", (n_pairs,), np.int64), 0, n_arms)
    sums = reader.array("catalogue_pair_sums", (2, n_pairs))
    variance = float(reader.array("catalogue_residual_variance", (1,))[0])
    if not variance > 0 or not (sums[0] > 0).all():
        raise reader.damaged("a variance of residuals is not greater than 0")
    if np.unique(tasks * max(n_arms, 1) + arms).size != n_pairs:
        raise reader.damaged("a pair of task and arm is there twice")
    for number, entry in enumerate(header["ledgers"]):
        name = f"catalogue_ledger{number}"
        numbers = reader.within(name, reader.array(name, (entry["size"],), np.int64), -1, n_arms)
        if entry["size"]:
            ledger = fleet._adopted[entry["prefix"]]
            if (numbers[ledger.status == 0] < 0).any():
                raise reader.damaged(f"{name} has decisions without an arm that wait for a reward")
            ledger.arm[...] = numbers
    catalogue._arms = labels
    catalogue._used = dict(enumerate(used.tolist()))
    catalogue._residuals.reserve_arms(n_arms)
    if not catalogue._residuals.replace(tasks, arms, sums, reader.array("catalogue_totals", (2, n_arms))):
        raise reader.damaged("what rewards say about arms does not add up")
    catalogue._residuals.variance = variance
    return catalogue
