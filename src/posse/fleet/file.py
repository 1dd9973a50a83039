"""A fleet as one file.

The header of the container holds settings and counts; the arrays hold names, sums and beliefs of every (arm, task) with
rewards (arm after arm, in the order of their first reward), what belongs to each arm, and decisions that may still get
a reward. Beliefs could be rebuilt from the sums; they are kept so that the next decision is the same to the last bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from posse._version import __version__
from posse.container import Container, Streamed, open_container, write_container
from posse.errors import DamagedFile, InvalidValue, NotFinite, PosseError, UnknownTask
from posse.features import FeatureSpec
from posse.fleet.commit import commit
from posse.fleet.fading_file import drift_in, fading_state, restore_fading
from posse.fleet.known_file import declared, known_state, restore_known
from posse.fleet.labels import Label, Labels, checked_label
from posse.fleet.ledger import FORGOTTEN, MOST, PENDING, REWARDED, Ledger
from posse.fleet.rows import listed
from posse.fleet.site_file import restore_sites, rewards_in, site_state
from posse.fleet.site_store import SiteStore
from posse.fleet.soundness import beliefs_follow, contradiction, ledger_contradiction, uncounted
from posse.kernels.evidence import WORKING_ROOM
from posse.kernels.fleet import list_first
from posse.model.prior import Prior

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.fleet.posse import Posse
    from posse.types import IntArray

KIND, VERSION, SUMS_ONLY, WITH_SITES, WITH_KNOWN, FADING, FADING_SUMS, KNOWN_SUMS = "fleet", 2, 3, 4, 5, 6, 7, 8
FADING_KNOWN, FADING_KNOWN_SUMS = 9, 10
"""The second version is the first without beliefs about pairs: they are computed when they are first asked for.

The third is the first for clicks and counts, see :mod:`posse.fleet.site_file`, and the fourth the first with features
of tasks and arms, see :mod:`posse.fleet.known_file`. The next two are the first two of a fleet with drift, see
:mod:`posse.fleet.fading_file`, then comes the second with features, and the last two are the first two with both.
"""
WITHOUT_BELIEFS = (SUMS_ONLY, FADING_SUMS, KNOWN_SUMS, FADING_KNOWN_SUMS)
WITH_DRIFT = (FADING, FADING_SUMS, FADING_KNOWN, FADING_KNOWN_SUMS)
WITH_FEATURES = (WITH_KNOWN, KNOWN_SUMS, FADING_KNOWN, FADING_KNOWN_SUMS)

MOST_TASKS = 2**40

PER_ARM = (
    "covariance", "noise_variance", "shared_precision", "shared_location", "shared_covariance", "shared_moment",
    "shared_mean",
)  # fmt: skip
REBUILT = (  # what may hold anything: it is computed again if it does not follow from the rest
    "evidence_inverse", "evidence_last_move", "evidence_second_moment", "evidence_summaries", "arm_shared_covariance",
    "arm_shared_mean", "arm_shared_moment", "pair_local_covariance", "pair_local_mean",
)  # fmt: skip
BUFFERS = (
    "estimates",
    "order",
    "losses",
    "evidence",
    "robust",
    "distance",
    *WORKING_ROOM,
)  # not worth a place

Fleet = TypeVar("Fleet", bound="Posse")


Arrays = dict[str, Any]


def save_fleet(fleet: Posse, path: str | os.PathLike[str]) -> None:
    """Write a fleet; deciding goes on while the file is written, not while the arrays are copied."""
    freeze_whole(fleet)(path)


def freeze_whole(fleet: Posse) -> Callable[[str | os.PathLike[str]], None]:
    """Return what writes the state that a fleet is in now to a file, all of it copied."""
    with fleet._lock:
        fleet._require_whole()
        fleet._end_beside()
        header, arrays = _state(fleet)
    return partial(write_fleet, version=version_of(fleet), header=header, arrays=arrays)


def version_of(fleet: Posse) -> int:
    """Return the version of the file that a fleet is saved to, beliefs included."""
    if fleet._fading is not None:
        return FADING if fleet._known is None else FADING_KNOWN
    if fleet._known is not None:
        return WITH_KNOWN
    return WITH_SITES if isinstance(fleet._store, SiteStore) else VERSION


def version_without_beliefs(fleet: Posse) -> int:
    """Return the version of the file that a fleet is saved to without beliefs about pairs."""
    if fleet._fading is not None:
        return FADING_SUMS if fleet._known is None else FADING_KNOWN_SUMS
    return SUMS_ONLY if fleet._known is None else KNOWN_SUMS


def require_finite(name: str, array: npt.NDArray[Any]) -> None:
    """Raise if an array of a file is not a number somewhere."""
    if array.dtype == np.float64 and name not in REBUILT and not np.isfinite(array).all():
        raise NotFinite(
            f"this fleet cannot be saved: its {name} is not a number, since values of too different size were "
            "learned (1e20 beside 1, say); find such rows, forget their tasks and learn them again without"
        )


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a manifest rather than a fleet."""
    try:
        with open(path, "rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def write_fleet(
    path: str | os.PathLike[str], version: int, header: dict[str, Any], arrays: Arrays, *, kind: str = KIND
) -> None:
    """Write what a fleet is made of."""
    for name, array in arrays.items():
        if not isinstance(array, Streamed):
            require_finite(name, array)
    write_container(path, kind=kind, version=version, header=header, arrays=arrays)


def load_fleet(
    cls: type[Fleet],
    path: str | os.PathLike[str],
    *,
    tasks: Iterable[Label] | None = None,
    clock: Callable[[], float],
    kind: str = KIND,
) -> Fleet:
    """Read a fleet, or some of its tasks."""
    if tasks is not None:
        if isinstance(tasks, str):
            raise InvalidValue(f"tasks must be a sequence of names, but the text {tasks!r} came; pass [{tasks!r}]")
        tasks = [checked_label(task, "a task") for task in listed(tasks, "tasks must be a sequence of names")]
    versions = {VERSION, WITH_SITES, *WITHOUT_BELIEFS, *WITH_DRIFT, *WITH_FEATURES}
    with open_container(path, kind=kind, versions=versions) as box:
        try:
            return _restore(cls, _Reader(box, os.fspath(path)), tasks, clock)
        except (DamagedFile, UnknownTask):
            raise
        except (PosseError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DamagedFile(
                f"{os.fspath(path)} is not a fleet that posse could have written: {error}; restore it from a backup"
            ) from None


def _state(fleet: Posse) -> tuple[dict[str, Any], Arrays]:
    """Return all of a fleet, as it stands in a file."""
    fleet._look()
    fleet._store.settle()
    belief = fleet._store.belief
    slots = np.concatenate([belief.seen[arm, : belief.n_seen[arm]] for arm in range(fleet._store.n_arms)])
    header, arrays = state_but_pairs(fleet)
    if isinstance(fleet._store, SiteStore):
        more, rows = site_state(fleet._store, slots)
        header, arrays = header | more, arrays | rows
    arrays |= {
        "pair_gram": belief.sums.gram[slots],
        "pair_moment": belief.sums.moment[slots],
        "pair_sum_of_squares": belief.sums.sum_of_squares[slots],
        "pair_count": belief.sums.counts[slots],
        "pair_local_covariance": belief.local_covariance[slots],
        "pair_local_mean": belief.local_mean[slots],
    }
    return header, arrays | label_arrays(list(fleet._tasks), fleet._tasks.kind)


def state_but_pairs(fleet: Posse) -> tuple[dict[str, Any], Arrays]:
    """Return what does not grow with the sums of pairs, names of tasks left out."""
    store, behaviour = fleet._store, fleet._behaviour
    belief = store.belief
    n_arms = store.n_arms
    seen = [belief.seen[arm, : belief.n_seen[arm]] for arm in range(n_arms)]
    slots = np.concatenate(seen)
    # Tasks are numbered anew, in the order of their names.
    order = np.array(list(fleet._tasks.numbers.values()), dtype=np.int64)
    place = np.full(store.n_tasks + 1, -1, dtype=np.int64)
    place[order] = np.arange(order.size)
    arrays: Arrays = {"pair_task": place[belief.task_of[slots]], "task_weight": belief.task_weight[order]}
    arrays |= {f"arm_{name}": getattr(belief, name).copy() for name in PER_ARM}
    parts: tuple[tuple[str, Any], ...] = (("memory", store.memory), ("evidence", store.memory.evidence))
    for prefix, memory in parts:
        for name, array in zip(memory._fields, memory, strict=True):
            if name not in BUFFERS:
                arrays[f"{prefix}_{name}"] = array.copy()
    if behaviour.prior == "known":
        start = behaviour.start
        arrays["start_covariance"], arrays["start_noise_variance"] = start.covariance, start.noise_variance
        arrays["start_shared_precision"] = start.shared_precisions
        arrays["start_shared_location"] = start.shared_location
    ledgers = []
    for number, ledger in enumerate(fleet._ledgers()):
        ledgers.append({"prefix": ledger.prefix, "first": ledger.first, "size": ledger.size})
        task = np.where(ledger.status == FORGOTTEN, -1, place[ledger.task])
        arrays |= {
            f"ledger{number}_task": task,
            f"ledger{number}_arm": ledger.arm.copy(),
            f"ledger{number}_time": ledger.time.copy(),
            f"ledger{number}_status": ledger.status.copy(),
            f"ledger{number}_reward": ledger.reward.copy(),
            f"ledger{number}_context": ledger.context.copy(),
        }
    header = {
        "posse": __version__,
        "features": fleet._features.to_json(),
        "arms": list(fleet._arms),
        "retired": sorted(fleet._retired),
        "seen": [rows.size for rows in seen],
        "n_tasks": len(fleet._tasks),
        "task_names": {str: "text", int: "number", None: "none"}[fleet._tasks.kind],
        "policy": behaviour.policy,
        "prior": behaviour.prior,
        "first_arms": behaviour.start.n_arms,
        "exploration": behaviour.exploration,
        "floor": 0.0 if behaviour.policy == "random" else behaviour.rule.floor,
        "evaluation_budget": behaviour.rule.budget,
        "refresh_growth": behaviour.refresh_growth,
        "robust": behaviour.robust,
        "seed": str(fleet._seed),
        "decided": fleet._decided,
        "experience": store.experience,
        "time_to_live": fleet._time_to_live,
        "absent_reward": fleet._absent_reward,
        "count_pending": fleet._count_pending,
        "looked_at": store.looked_at,
        "replaced": store.replaced,
        "ledgers": ledgers,
        "origins": sorted(fleet._origins),
    }
    if fleet._fading is not None:
        more, faded = fading_state(fleet._fading, place)
        header, arrays = header | more, arrays | faded
    if fleet._known is not None:
        more, rows = known_state(fleet._known, order, n_arms)
        header, arrays = header | more, arrays | rows
    return header, arrays


def label_arrays(labels: list[Label], kind: type | None) -> Arrays:
    """Return names as numbers, or as one text in UTF-8 and where each ends."""
    if kind is int:
        return {"task_number": np.fromiter(labels, dtype=np.int64, count=len(labels))}
    encoded = [str(label).encode() for label in labels]
    return {
        "task_text": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "task_end": np.cumsum([len(text) for text in encoded], dtype=np.int64),
    }


class _Reader:
    """A container whose arrays must have the shapes that the header implies."""

    def __init__(self, box: Container, path: str) -> None:
        self.box = box
        self.header = box.header
        self.path = path

    def array(self, name: str, shape: tuple[int, ...], dtype: type = np.float64, rows: IntArray | None = None) -> Any:
        """Return an array of the right shape and type, finite, or raise."""
        self.require(name, shape, dtype)
        result = self.box.read(name) if rows is None else self.box.take(name, rows)
        if dtype is np.float64 and name not in REBUILT and not np.isfinite(result).all():
            raise self.damaged(f"{name} has values that are not finite")
        return result

    def require(self, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> None:
        """Raise unless there is an array of this shape and type."""
        if name not in self.box.names:
            raise self.damaged(f"it has no {name}")
        if self.box.shape(name) != shape or self.box.dtype(name) != dtype:
            raise self.damaged(
                f"{name} is {self.box.dtype(name)} of shape {self.box.shape(name)}, but {np.dtype(dtype)} of shape "
                f"{shape} is needed"
            )

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

    def damaged(self, what: str) -> DamagedFile:
        return DamagedFile(f"{self.path} is damaged or was not written by posse: {what}; restore it from a backup")


def _restore(cls: type[Fleet], reader: _Reader, tasks: Iterable[Label] | None, clock: Callable[[], float]) -> Fleet:
    header = reader.header
    spec = FeatureSpec.from_json(header["features"])
    d, n_tasks = spec.n_features, reader.whole("n_tasks", 0, MOST_TASKS)
    names, first_arms = list(header["arms"]), reader.whole("first_arms", 1)
    # Before arrays are made for as many arms and features as the header says.
    reader.require("arm_covariance", (len(names), d, d))
    if first_arms > len(names):
        raise reader.damaged(f"first_arms is {first_arms}, but there are {len(names)} arms")
    prior: str | Prior | None = header["prior"]
    if header["policy"] in ("lin-ts", "lin-ucb", "random"):
        prior = None
    elif prior == "known":
        prior = Prior(
            covariance=reader.array("start_covariance", (first_arms, d, d)),
            noise_variance=reader.array("start_noise_variance", (first_arms,)),
            shared_precision=reader.array("start_shared_precision", (first_arms, d, d)),
            shared_location=reader.array("start_shared_location", (first_arms, d)),
        )
    fleet = cls(
        arms=names[:first_arms],
        features=spec,
        policy=header["policy"],
        seed=int(header["seed"]),
        prior=prior,
        exploration=header["exploration"],
        floor=header["floor"],
        evaluation_budget=header["evaluation_budget"],
        refresh_growth=header["refresh_growth"],
        robust=header["robust"],
        rewards=rewards_in(header) if reader.box.version == WITH_SITES else "number",
        drift=drift_in(header) if reader.box.version in WITH_DRIFT else None,
        time_to_live=header["time_to_live"],
        absent_reward=header["absent_reward"],
        count_pending=header["count_pending"],
        **(declared(header) if reader.box.version in WITH_FEATURES else {}),
        clock=clock,
    )
    for name in names[first_arms:]:
        fleet.add_arm(name)
    retired = header["retired"]
    if not isinstance(retired, list) or len(set(map(str, retired))) != len(retired) or len(retired) >= len(names):
        raise reader.damaged(f"retired is {retired!r}")
    for position in retired:
        if type(position) is not int or not 0 <= position < len(names):
            raise reader.damaged(f"retired is {retired!r}")
        fleet._retired.add(position)
    fleet._list_active()
    fleet._decided = reader.whole("decided")
    labels = _labels(reader, n_tasks)
    chosen = None
    if tasks is not None:
        chosen = _chosen(reader, labels, tasks)
        everyone = frozenset(labels)
        labels = [labels[position] for position in chosen.tolist()]
    numbers, new = fleet._numbers(labels, np.full(len(labels), -1))
    commit(fleet._taking(new))
    if len(fleet._tasks) != len(labels):
        raise reader.damaged("two tasks have one name")
    _restore_pairs(fleet, reader, n_tasks, chosen)
    if fleet._known is not None:
        restore_known(fleet, reader, numbers, n_tasks, chosen)
    weight = reader.array("task_weight", (n_tasks,), rows=chosen)
    if not (weight > 0).all():
        raise reader.damaged("task_weight has numbers that are not greater than 0")
    fleet._store.belief.task_weight[numbers] = weight
    _restore_arms(fleet, reader)
    if chosen is None:
        _restore_ledgers(fleet, reader, n_tasks)
    if fleet._fading is not None:
        restore_fading(fleet._fading, reader, n_tasks, None if chosen is None else chosen.size)
    fleet._store.experience = reader.whole("experience")
    fleet._store.replaced = reader.whole("replaced")
    looked_at = header["looked_at"]
    if type(looked_at) is not float or not 0 <= looked_at <= MOST:
        raise reader.damaged(f"looked_at is {looked_at!r}")
    fleet._store.looked_at = looked_at
    fleet._partial = chosen is not None
    if chosen is not None:
        fleet._elsewhere = everyone - frozenset(labels)
    beliefs = reader.box.version not in WITHOUT_BELIEFS
    wrong = contradiction(fleet._store, whole=chosen is None, faded=fleet._fading is not None)
    if wrong is not None:
        raise reader.damaged(wrong)
    fleet._store.take_over(beliefs=beliefs)
    if not beliefs_follow(fleet._store, beliefs=beliefs):
        if chosen is not None:
            raise reader.damaged("its beliefs do not follow from its sums; load all of it")
        fleet._store.rebuild()
    fleet._seek()
    return fleet


def _labels(reader: _Reader, n_tasks: int) -> list[Label]:
    kind = reader.header["task_names"]
    if kind == "number":
        numbers: list[Label] = reader.array("task_number", (n_tasks,), np.int64).tolist()
        return numbers
    if kind not in ("text", "none"):
        raise reader.damaged(f"task_names is {kind!r}")
    ends = reader.array("task_end", (n_tasks,), np.int64)
    length = reader.box.shape("task_text")
    text = reader.array("task_text", length, np.uint8).tobytes()
    starts = np.concatenate([[0], ends[:-1]]) if n_tasks else ends
    if (ends <= starts).any() or (len(text) != (int(ends[-1]) if n_tasks else 0)):
        raise reader.damaged("names of tasks do not fit their text")
    checked = Labels("task").checked_all
    return checked(text[a:b].decode() for a, b in zip(starts.tolist(), ends.tolist(), strict=True))


def _chosen(reader: _Reader, labels: list[Label], tasks: Iterable[Label]) -> IntArray:
    place = {label: position for position, label in enumerate(labels)}
    chosen = []
    for task in dict.fromkeys(tasks):
        if task not in place:
            raise UnknownTask(f"no task {task!r} among the {len(labels)} tasks of {reader.path}")
        chosen.append(place[task])
    return np.array(chosen, dtype=np.int64)


def _restore_pairs(fleet: Posse, reader: _Reader, n_tasks: int, chosen: IntArray | None) -> None:
    """Put sums and beliefs of all pairs, or of those of the chosen tasks, into their arrays."""
    store = fleet._store
    n_arms, d = store.n_arms, store.n_features
    seen = reader.header["seen"]
    if not isinstance(seen, list) or len(seen) != n_arms or not all(type(n) is int and 0 <= n <= n_tasks for n in seen):
        raise reader.damaged(f"seen is {seen!r}")
    n_pairs, triangle = sum(seen), d * (d + 1) // 2
    tasks = reader.within("pair_task", reader.array("pair_task", (n_pairs,), np.int64), 0, n_tasks)
    arms = np.repeat(np.arange(n_arms), seen)
    if np.unique(tasks * n_arms + arms).size != n_pairs:
        raise reader.damaged("a pair of task and arm is there twice")
    rows = None
    if chosen is not None:
        place = np.full(n_tasks, -1, dtype=np.int64)
        place[chosen] = np.arange(chosen.size)
        rows = np.flatnonzero(place[tasks] >= 0)
        tasks, arms = place[tasks[rows]], arms[rows]
    slots = store.claim(tasks, arms)
    belief = store.belief
    parts = [
        ("gram", belief.sums.gram, (n_pairs, triangle)),
        ("moment", belief.sums.moment, (n_pairs, d)),
        ("sum_of_squares", belief.sums.sum_of_squares, (n_pairs,)),
        ("count", belief.sums.counts, (n_pairs,)),
    ]
    if reader.box.version not in WITHOUT_BELIEFS:
        parts += [
            ("local_covariance", belief.local_covariance, (n_pairs, triangle)),
            ("local_mean", belief.local_mean, (n_pairs, d)),
        ]
    # A new store gives out its slots in order.
    for name, target, shape in parts:
        target[: slots.size] = reader.array(f"pair_{name}", shape, rows=rows)
    if isinstance(store, SiteStore):
        restore_sites(store, reader, n_pairs, rows)
    if not (belief.sums.counts[: slots.size] > 0).all():
        raise reader.damaged("a pair has no rewards")
    counts = belief.sums.counts[: slots.size].copy()
    belief.sums.counts[: slots.size] = 0.0
    list_first(belief.sums.counts, slots, arms, belief.seen, belief.n_seen)
    belief.sums.counts[: slots.size] = counts
    for arm in range(n_arms):
        belief.rewards[arm] = belief.sums.counts[belief.seen[arm, : belief.n_seen[arm]]].sum()
    store.count_rewards()


def _restore_arms(fleet: Posse, reader: _Reader) -> None:
    belief, memory = fleet._store.belief, fleet._store.memory
    for name in PER_ARM:
        target = getattr(belief, name)
        target[...] = reader.array(f"arm_{name}", target.shape)
    if not ((belief.noise_variance > 0).all()):
        raise reader.damaged("a noise variance of an arm is not greater than 0")
    # The population must be one: a Prior checks that.
    _ = fleet._store.prior
    parts: tuple[tuple[str, Any], ...] = (("memory", memory), ("evidence", memory.evidence))
    for prefix, part in parts:
        for name, target in zip(part._fields, part, strict=True):
            if name not in BUFFERS:
                target[...] = reader.array(f"{prefix}_{name}", target.shape, target.dtype.type)


def _restore_ledgers(fleet: Posse, reader: _Reader, n_tasks: int) -> None:
    entries = reader.header["ledgers"]
    if not isinstance(entries, list) or not entries:
        raise reader.damaged("it has no ledger of decisions")
    d, n_arms = fleet._store.n_features, fleet._store.n_arms
    ledgers: dict[str, Ledger] = {}
    for number, entry in enumerate(entries):
        prefix, size = entry["prefix"], reader.whole("size", place=entry)
        if not isinstance(prefix, str) or not prefix.isalnum() or prefix in ledgers:
            raise reader.damaged(f"a ledger is called {prefix!r}")
        ledger = Ledger(prefix, d, reader.whole("first", 1, MOST - 1 - size, place=entry))
        name = f"ledger{number}_"
        status = reader.array(name + "status", (size,), np.uint8)
        task, arm = (reader.array(name + column, (size,), np.int64) for column in ("task", "arm"))
        kept = status != FORGOTTEN
        if not ((task[~kept] == -1).all() and (arm[~kept] == -1).all()):
            raise reader.damaged(f"{name}status has forgotten decisions of someone")
        reader.within(name + "task", task[kept], 0, n_tasks)
        reader.within(name + "arm", arm[kept], 0, n_arms)
        if not np.isin(status, (PENDING, REWARDED, FORGOTTEN)).all():
            raise reader.damaged(f"{name}status has values that mean nothing")
        ledger.reserve(size)
        ledger.add_many(np.where(kept, task, -1), arm, 0.0, reader.array(name + "context", (size, d)))
        ledger.time[:] = reader.array(name + "time", (size,))
        ledger.status[:], ledger.reward[:] = status, reader.array(name + "reward", (size,))
        wrong = ledger_contradiction(ledger)
        if wrong is not None:
            raise reader.damaged(wrong)
        ledgers[prefix] = ledger
    origins = reader.header["origins"]
    if not isinstance(origins, list) or not all(isinstance(name, str) for name in origins):
        raise reader.damaged(f"origins is {origins!r}")
    if not set(ledgers) <= set(origins):
        raise reader.damaged(f"origins is {origins!r}")
    if fleet._counts_pending:
        wrong = uncounted(fleet._store, list(ledgers.values()))
        if wrong is not None:
            raise reader.damaged(wrong)
    # Whoever wrote the file may have decided more since, so new decisions get ids of their own.
    fleet._adopted = {prefix: ledger for prefix, ledger in ledgers.items() if ledger.size}
    fleet._origins |= set(origins)
