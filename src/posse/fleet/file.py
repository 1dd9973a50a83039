"""A fleet as one file: saved at once or not at all, and safe to open.

A file has components, each with a state of its own: settings and names in its header, the core, ledgers and what is
known about tasks and arms as arrays. There is one version for all kinds of fleets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from posse._version import __version__
from posse.container import Container, open_container, write_container
from posse.core.revenue import PARTS, UNIT, parts_of
from posse.core.state import N_SLOTS, N_TASKS
from posse.errors import DamagedFile, InvalidValue, NotFinite, PosseError, UnknownTask
from posse.features import FeatureSpec
from posse.fleet.ledger import COLUMNS, FORGOTTEN, MOST, PENDING, REWARDED, Ledger
from posse.fleet.names import Label, Labels, checked_label, listed
from posse.fleet.worth import worth_from_json
from posse.model.prior import Prior

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.core.core import Core
    from posse.fleet.fleet import Fleet
    from posse.types import IntArray

    Arrays = dict[str, npt.NDArray[Any]]

KIND, VERSION = "fleet", 13
AnyFleet = TypeVar("AnyFleet", bound="Fleet")

BY_SLOT = ("store.owner", "store.sums")
OF_CLICKS = ("store.row_ends", "store.plain")  # by slot, too; numbers have none
BY_ROW = ("store.row_context", "store.row_values", "store.row_links")
BY_TASK = ("store.known", "store.given", "store.weight")  # and a last row for tasks never seen
FREE = ("free_slots", "free_tasks", "store.free_rows")
HALF_LIFE = "forgetting.half_life"
LISTED = ("forgetting.", "residuals.")  # how arrays begin whose lengths are their own
OTHERS = ".others"  # says where an array is not a number: nothing known, or nothing learned yet
KINDS = {str: "text", int: "number", None: "none"}


class Component(Protocol):
    """Something of a kind of fleet that is saved with it."""

    def arrays(self) -> Arrays:
        """Return all that it has."""

    def take(self, reader: Reader) -> None:
        """Have that again."""


# Writing.


def freeze_fleet(
    fleet: Fleet, *, look: bool = True, kind: str = KIND, more: dict[str, Any] | None = None
) -> Callable[[str | os.PathLike[str]], None]:
    """Return a function that writes the state that a fleet is in now to a file; all of it is copied here.

    Without ``look`` the population may know nothing of rewards of a table that goes on; ``more`` has further entries of
    the header.
    """
    with fleet.lock:
        fleet.require_whole()
        if look:
            fleet.core.ensure_fresh()
        header, arrays = state_of(fleet)
    return partial(write_fleet, kind=kind, header=header | (more or {}), arrays=arrays)


def write_fleet(path: str | os.PathLike[str], *, kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Write the components of a fleet."""
    for name, array in arrays.items():
        if array.dtype == np.float64 and not np.isfinite(array).all():
            raise NotFinite(
                f"this fleet cannot be saved: its {name} is not a number, since values of too different size were "
                "learned (1e20 beside 1, say); find such rows, forget their tasks and learn them again without"
            )
    write_container(path, kind=kind, version=VERSION, header=header, arrays=arrays)


def state_of(fleet: Fleet) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a fleet's file; the lock must be held."""
    names, known = fleet.names, fleet.known
    arrays = {f"core.{name}": array for name, array in fleet.core.snapshot().items()}
    arrays |= label_arrays(names.tasks, "task")
    arrays["task_at"] = np.array(list(names.tasks.numbers.values()), dtype=np.int64)
    arrays |= _texts("known", [json.dumps(known.tasks.raw.get(task)) for task in names.tasks.numbers.values()])
    for component in fleet.components:
        arrays |= component.arrays()
    ledgers = list(fleet.ledgers)
    for place, ledger in enumerate(ledgers):
        arrays |= {f"ledger{place}.{name}": column for name, column in ledger.columns().items()}
    header = {
        "posse": __version__,
        "settings": fleet.settings.to_json(),
        "features": fleet.features.to_json(),
        "task_features": None if known.tasks.spec is None else known.tasks.spec.to_json(),
        "arm_features": None if known.arms.spec is None else known.arms.spec.to_json(),
        "known_arms": [known.arms.raw.get(arm) for arm in names.arms.numbers.values()],
        "arms": list(names.arms),
        "retired": sorted(names.arms.retired),
        "worth": None if fleet.worth is None else fleet.worth.to_json(),
        "tasks": KINDS[names.tasks.kind],
        "seed": str(fleet.stream.seed),
        "decided": fleet.stream.decided,
        "ledgers": [{"prefix": one.prefix, "first": one.first, "size": one.size} for one in ledgers],
        "origins": sorted(fleet.ledgers.origins),
    }
    return header, arrays


def label_arrays(labels: Labels, name: str) -> Arrays:
    """Return names as numbers, or as one text in UTF-8 and where each ends."""
    if labels.kind is int:
        return {f"{name}_number": np.fromiter(labels, dtype=np.int64, count=len(labels))}
    return _texts(name, list(map(str, labels)))


def _texts(name: str, texts: list[str]) -> Arrays:
    encoded = [text.encode() for text in texts]
    return {
        f"{name}_text": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        f"{name}_end": np.cumsum([len(text) for text in encoded], dtype=np.int64),
    }


# Reading: every number is checked before it is believed.


class Reader:
    """A container whose arrays must have the shapes that the header implies."""

    def __init__(self, box: Container, path: str) -> None:
        self.box, self.header, self.path = box, box.header, path

    def array(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64, rows: IntArray | None = None) -> Any:
        """Return an array of the right shape and type, finite, or raise."""
        if name not in self.box.names:
            raise self.damaged(f"it has no {name}")
        if self.box.shape(name) != shape or self.box.dtype(name) != dtype:
            raise self.damaged(
                f"{name} is {self.box.dtype(name)} of shape {self.box.shape(name)}, but {np.dtype(dtype)} of shape "
                f"{shape} is needed"
            )
        result = self.box.read(name) if rows is None else self.box.take(name, rows)
        if result.dtype == np.float64 and not np.isfinite(result).all():
            raise self.damaged(f"{name} has values that are not finite")
        return result

    def length(self, name: str) -> int:
        """Return the length of the first axis of an array."""
        if name not in self.box.names or not self.box.shape(name):
            raise self.damaged(f"it has no {name}")
        return self.box.shape(name)[0]

    def within(self, name: str, values: IntArray, low: int, high: int) -> IntArray:
        """Return whole numbers that are all from ``low`` to ``high - 1``, or raise."""
        if values.size and not (values.min() >= low and values.max() < high):
            raise self.damaged(f"{name} has numbers that are not from {low} to {high - 1}")
        return values

    def whole(self, name: str, low: int = 0, high: int = MOST - 1, place: dict[str, Any] | None = None) -> int:
        """Return a whole number of the header."""
        value = (self.header if place is None else place)[name]
        if type(value) is not int or not low <= value <= high:
            raise self.damaged(f"{name} is {value!r}")
        return value

    def texts(self, name: str, n: int) -> list[str]:
        """Return texts that stand one after the other."""
        ends = self.array(f"{name}_end", (n,), np.int64)
        text = self.array(f"{name}_text", (self.length(f"{name}_text"),), np.uint8).tobytes()
        starts = np.concatenate([[0], ends[:-1]]) if n else ends
        if (ends <= starts).any() or len(text) != (int(ends[-1]) if n else 0):
            raise self.damaged(f"{name}_text does not fit its ends")
        return [text[a:b].decode() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]

    def labels(self, name: str, kind: Any, n: int) -> list[Label]:
        """Return names."""
        if kind == "number":
            found: list[Label] = self.array(f"{name}_number", (n,), np.int64).tolist()
        elif kind in ("text", "none"):
            found = Labels(name).checked_all(self.texts(name, n))
        else:
            raise self.damaged(f"names of {name}s are {kind!r}")
        if len(set(found)) != n:
            raise self.damaged(f"two {name}s have one name")
        return found

    def damaged(self, why: str) -> DamagedFile:
        """Return the error of a file that is not as posse would have written it."""
        return DamagedFile(f"{self.path} is damaged or was not written by posse: {why}; restore it from a backup")


def load_fleet(
    cls: type[AnyFleet],
    path: str | os.PathLike[str],
    *,
    tasks: Iterable[Label] | None = None,
    clock: Callable[[], float],
    kind: str = KIND,
) -> AnyFleet:
    """Read a fleet, or some of its tasks."""
    if tasks is not None:
        if isinstance(tasks, str):
            raise InvalidValue(f"expected tasks to be a sequence of names, got the text {tasks!r}; pass [{tasks!r}]")
        tasks = [checked_label(task, "a task") for task in listed(tasks, "tasks to be a sequence of names")]
    fleet: AnyFleet = read_checked(path, kind, lambda reader: restore_fleet(cls, reader, tasks, clock))
    return fleet


def read_checked(path: str | os.PathLike[str], kind: str, read: Callable[[Reader], Any]) -> Any:
    """Return what is read of a file; whatever goes wrong is one clear error."""
    with open_container(path, kind=kind, versions=(VERSION,)) as box:
        try:
            return read(Reader(box, os.fspath(path)))
        except (DamagedFile, UnknownTask):
            raise
        except (PosseError, LookupError, TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise DamagedFile(
                f"{os.fspath(path)} is not a {kind} that posse could have written: {error}; restore it from a backup"
            ) from None


def restore_fleet(
    cls: type[AnyFleet], reader: Reader, tasks: Sequence[Label] | None, clock: Callable[[], float]
) -> AnyFleet:
    """Return a fleet of class ``cls`` with the contents of a file, of all its tasks or of some."""
    header, settings = reader.header, dict(reader.header["settings"])
    spec, names = FeatureSpec.from_json(header["features"]), header["arms"]
    if not isinstance(names, list):
        raise reader.damaged(f"arms is {names!r}")
    d = spec.n_features
    prior: str | Prior | None = settings.pop("prior")
    # Before arrays are made for as many arms and features as the header says.
    within = f"{PARTS[0]}." if settings["rewards"] == "revenue" else ""
    covariance = reader.array(f"core.{within}population.covariance", (len(names), d, d))
    if settings["policy"] in ("lin-ucb", "random"):
        prior = None
    elif prior == "known":
        prior = Prior(
            covariance=covariance,
            noise_variance=reader.array("core.population.noise", (len(names),)),
            shared_precision=reader.array("core.population.prior_precision", (len(names), d, d)),
            shared_location=reader.array("core.population.prior_location", (len(names), d)),
        )
    known: dict[str, Any] = {
        name: None if header[name] is None else FeatureSpec.from_json(header[name])
        for name in ("task_features", "arm_features")
    }
    fleet = cls(arms=names, features=spec, seed=int(header["seed"]), prior=prior, clock=clock, **settings, **known)
    fleet.stream.decided = reader.whole("decided")
    _restore_arms(fleet, reader)
    fleet.worth = worth_from_json(header["worth"], fleet.names.arms)
    n_tasks = reader.length("task_at")
    labels, at = reader.labels("task", header["tasks"], n_tasks), reader.array("task_at", (n_tasks,), np.int64)
    chosen = np.arange(n_tasks) if tasks is None else _chosen(reader, labels, tasks)
    saved = _core_arrays(fleet.core, reader, None if tasks is None else at[chosen])
    fleet.core.restore(saved)
    numbers = at if tasks is None else np.arange(chosen.size)
    if np.unique(numbers).size != numbers.size or (numbers < 0).any() or (numbers >= fleet.core.n_tasks).any():
        raise reader.damaged("task_at has numbers that are not those of tasks")
    fleet.names.tasks.take([labels[place] for place in chosen.tolist()], numbers.tolist())
    texts = reader.texts("known", n_tasks)
    for place, number in zip(chosen.tolist(), numbers.tolist(), strict=True):
        raw = json.loads(texts[place])
        if raw is not None:
            fleet.known.tasks.raw[number] = raw
    if fleet.known.tasks.raw:
        fleet.known.tasks.encode(list(fleet.known.tasks.raw.values()))  # or it could not have been said
    if tasks is None:
        _restore_ledgers(fleet, reader)
        for component in fleet.components:
            component.take(reader)
    else:
        fleet.partial = True
        fleet.names.tasks.elsewhere = frozenset(labels) - frozenset(fleet.names.tasks)
    return fleet


def _restore_arms(fleet: Fleet, reader: Reader) -> None:
    arms, known, retired = fleet.names.arms, reader.header["known_arms"], reader.header["retired"]
    if not isinstance(retired, list) or not all(type(arm) is int and 0 <= arm < len(arms) for arm in retired):
        raise reader.damaged(f"retired is {retired!r}")
    if len(set(retired)) != len(retired) or len(retired) >= len(arms):
        raise reader.damaged(f"retired is {retired!r}")
    arms.change(arms.numbers, retired)
    if not isinstance(known, list) or len(known) != len(arms):
        raise reader.damaged("it does not say what is known about arms")
    fleet.known.arms.raw = {arm: raw for arm, raw in enumerate(known) if raw is not None}
    if fleet.known.arms.raw:
        fleet.known.arms.encode(list(fleet.known.arms.raw.values()))


def _chosen(reader: Reader, labels: list[Label], tasks: Sequence[Label]) -> IntArray:
    place = {label: position for position, label in enumerate(labels)}
    for task in tasks:
        if task not in place:
            raise UnknownTask(f"no task {task!r} among the {len(labels)} tasks of {reader.path}")
    return np.array([place[task] for task in dict.fromkeys(tasks)], dtype=np.int64)


def _core_arrays(core: Core, reader: Reader, some: IntArray | None) -> dict[str, Any]:
    """Return the arrays of a core, all of them or those that some tasks need; shapes are those of a new core."""
    parts = parts_of(core)
    found: dict[str, Any] = {}
    for prefix, part in parts.items():
        arrays = _part_arrays(part, reader, some, f"core.{prefix}")
        found |= {f"{prefix}{name}": array for name, array in arrays.items()}
    if "" not in parts:
        found |= {name: reader.array(f"core.{name}", (1,), kind) for name, kind in UNIT.items()}
    return found


def _part_arrays(core: Core, reader: Reader, some: IntArray | None, box: str) -> dict[str, Any]:
    """Return the arrays of a core whose names in the file begin with ``box``."""
    like, found, numbers = core.snapshot(), {}, core.family.name == "number"
    n_tasks, slots, rows = reader.length(f"{box}store.given") - 1, None, None
    owner = reader.array(f"{box}store.owner", (reader.length(f"{box}store.owner"), 2), np.int64)
    if some is not None:
        place = np.full(n_tasks + 1, -1, dtype=np.int64)
        place[reader.within("task_at", some, 0, n_tasks)] = np.arange(some.size)
        slots = np.flatnonzero(place[reader.within(f"{box}store.owner", owner[:, 0], -1, n_tasks)] >= 0)
        rows = np.append(some, n_tasks)
    for name, array in like.items():
        if name.endswith(OTHERS):
            continue  # read with the array that it belongs to, if the file has it
        shape, at = array.shape, None
        if name in BY_SLOT or (name in OF_CLICKS and not numbers):
            shape, at = (len(owner), *array.shape[1:]), slots
        elif name in BY_TASK:
            shape, at = (n_tasks + 1, *array.shape[1:]), rows
        elif name in BY_ROW or name in FREE or (name.startswith(LISTED) and name != HALF_LIFE):
            shape = (reader.length(f"{box}{name}"), *array.shape[1:])
        found[name] = reader.array(f"{box}{name}", shape, array.dtype, at)
        if f"{box}{name}{OTHERS}" in reader.box.names:
            found[name + OTHERS] = reader.array(f"{box}{name}{OTHERS}", shape, np.int64, at)
    if some is not None:
        # Such a fleet does not learn: it needs no rows.
        found |= {name: like[name] for name in (*BY_ROW, *FREE)}
        found["store.owner"] = np.column_stack([place[found["store.owner"][:, 0]], found["store.owner"][:, 1]])
        found["store.row_ends"] = np.tile(np.array([[-1, -1, 0]]), (len(found["store.row_ends"]), 1))
        found["numbers"][[N_TASKS, N_SLOTS]] = some.size, len(found["store.owner"])
    return found


def _restore_ledgers(fleet: Fleet, reader: Reader) -> None:
    entries, d, core = reader.header["ledgers"], fleet.core.context_width, fleet.core
    if not isinstance(entries, list):
        raise reader.damaged("it has no ledgers of decisions")
    for number, entry in enumerate(entries):
        prefix, size = entry["prefix"], reader.whole("size", place=entry)
        if not isinstance(prefix, str) or not prefix.isalnum() or prefix in fleet.ledgers.adopted:
            raise reader.damaged(f"a ledger is called {prefix!r}")
        ledger = Ledger(prefix, d, reader.whole("first", 1, MOST - 1 - size, place=entry))
        columns = {
            name: reader.array(f"ledger{number}.{name}", (size, d) if name == "context" else (size,), kind)
            for name, kind in COLUMNS.items()
        }
        gone = columns["status"] == FORGOTTEN
        if (columns["status"] > max(FORGOTTEN, REWARDED)).any() or (
            columns["arm"][columns["status"] == PENDING] < 0
        ).any():
            raise reader.damaged(f"ledger{number}.status has values that mean nothing")
        for name, least, n in (("task", 0, core.n_tasks), ("arm", core.least_arm, core.n_choices)):
            if (columns[name][gone] != -1).any():
                raise reader.damaged(f"ledger{number}.{name} has forgotten decisions of someone")
            reader.within(f"ledger{number}.{name}", columns[name][~gone], least, n)
        for task in np.unique(columns["task"][~gone]).tolist():
            if not fleet.names.tasks.has(task):
                raise reader.damaged(f"ledger{number}.task has decisions of tasks without a name")
        for values in (columns["reward"], columns["context"], columns["time"]):
            if (np.abs(values) > 1e50).any():
                raise reader.damaged(f"ledger{number} has a decision with a context or a reward that no fleet takes")
        ledger.fill(columns)
        if size:
            # Whoever wrote the file may have decided more since, so new decisions get ids of their own.
            fleet.ledgers.adopted[prefix] = ledger
        if fleet.settings.counts_pending and not all(
            core.replaceable(ledger.receipt(at)) for at in ledger.places(columns["status"] == 0)
        ):
            raise reader.damaged("it has decisions that count, but are not among what was learned")
    if sum(name.startswith("ledger") for name in reader.box.names) != len(COLUMNS) * len(entries):
        raise reader.damaged("it has decisions of ledgers that its header does not name")
    origins = reader.header["origins"]
    if not isinstance(origins, list) or not all(isinstance(name, str) for name in origins):
        raise reader.damaged(f"origins is {origins!r}")
    if not {entry["prefix"] for entry in entries} <= set(origins):
        raise reader.damaged(f"origins is {origins!r}")
    fleet.ledgers.origins |= set(origins)


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a manifest rather than a fleet."""
    try:
        with open(path, "rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False
