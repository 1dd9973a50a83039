"""Making a fleet again from what its file holds; every number is checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from posse.engine.commit import commit
from posse.engine.site_store import SiteStore
from posse.errors import UnknownTask
from posse.features import FeatureSpec
from posse.fleet.fading_file import drift_in, restore_fading
from posse.fleet.file_format import (
    BUFFERS,
    MOST_TASKS,
    OF_SITES,
    PER_ARM,
    WITH_DRIFT,
    WITH_FEATURES,
    WITHOUT_BELIEFS,
    Reader,
)
from posse.fleet.known_file import declared, restore_known
from posse.fleet.labels import Label, Labels
from posse.fleet.ledger import FORGOTTEN, MOST, PENDING, REWARDED, Ledger
from posse.fleet.site_file import restore_sites, rewards_in
from posse.fleet.soundness import beliefs_follow, contradiction, ledger_contradiction, uncounted
from posse.kernels.fleet import list_first
from posse.model.prior import Prior

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.types import IntArray

AnyFleet = TypeVar("AnyFleet", bound="Fleet")

LEDGER_ARRAYS = 6  # of every ledger


def restore_fleet(
    cls: type[AnyFleet], reader: Reader, tasks: Iterable[Label] | None, clock: Callable[[], float]
) -> AnyFleet:
    """Return a fleet of class ``cls`` with what a file holds, of all its tasks or of some."""
    header = reader.header
    spec = FeatureSpec.from_json(header["features"])
    d, n_tasks = spec.n_features, reader.whole("n_tasks", 0, MOST_TASKS)
    names, first_arms = list(header["arms"]), reader.whole("first_arms", 1)
    # Before arrays are made for as many arms and features as the header says.
    reader.require("arm_covariance", (len(names), d, d))
    if first_arms > len(names):
        raise reader.damaged(f"first_arms is {first_arms}, but there are {len(names)} arms")
    prior: str | Prior | None = header["prior"]
    if header["policy"] in ("lin-ucb", "random"):
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
        rewards=rewards_in(header) if reader.box.version in OF_SITES else "number",
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
        fleet._arms.retired.add(position)
    fleet._list_active()
    fleet._decided = reader.whole("decided")
    labels = read_labels(reader, n_tasks)
    chosen = None
    if tasks is not None:
        chosen = _chosen(reader, labels, tasks)
        everyone = frozenset(labels)
        labels = [labels[position] for position in chosen.tolist()]
    numbers, new = fleet._tasks.numbered(fleet._engine.store, labels, np.full(len(labels), -1))
    commit(fleet._tasks.taking(fleet._engine.store, new))
    if len(fleet._tasks) != len(labels):
        raise reader.damaged("two tasks have one name")
    _restore_pairs(fleet, reader, n_tasks, chosen)
    if fleet._engine.known is not None:
        restore_known(fleet, reader, numbers, n_tasks, chosen)
    weight = reader.array("task_weight", (n_tasks,), rows=chosen)
    if not (weight > 0).all():
        raise reader.damaged("task_weight has numbers that are not greater than 0")
    fleet._engine.store.belief.task_weight[numbers] = weight
    _restore_arms(fleet, reader)
    if chosen is None:
        _restore_ledgers(fleet, reader, n_tasks)
    if fleet._engine.fading is not None:
        restore_fading(fleet._engine.fading, reader, n_tasks, None if chosen is None else chosen.size)
    fleet._engine.store.experience = reader.whole("experience")
    fleet._engine.store.replaced = reader.whole("replaced")
    looked_at = header["looked_at"]
    if type(looked_at) is not float or not 0 <= looked_at <= MOST:
        raise reader.damaged(f"looked_at is {looked_at!r}")
    fleet._engine.store.looked_at = looked_at
    if chosen is not None:
        fleet._partial, fleet._counts_pending = True, False
        if fleet._engine.fading is not None:
            fleet._engine.fading.stopped = True
        fleet._tasks.elsewhere = everyone - frozenset(labels)
    beliefs = reader.box.version not in WITHOUT_BELIEFS
    wrong = contradiction(fleet._engine.store, whole=chosen is None, faded=fleet._engine.fading is not None)
    if wrong is not None:
        raise reader.damaged(wrong)
    fleet._engine.store.take_over(beliefs=beliefs)
    if not beliefs_follow(fleet._engine.store, beliefs=beliefs):
        if chosen is not None:
            raise reader.damaged("its beliefs do not follow from its sums; load all of it")
        fleet._engine.store.rebuild()
    fleet._seek()
    return fleet


def read_labels(reader: Reader, n_tasks: int) -> list[Label]:
    """Return the names of so many tasks."""
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


def _chosen(reader: Reader, labels: list[Label], tasks: Iterable[Label]) -> IntArray:
    place = {label: position for position, label in enumerate(labels)}
    chosen = []
    for task in dict.fromkeys(tasks):
        if task not in place:
            raise UnknownTask(f"no task {task!r} among the {len(labels)} tasks of {reader.path}")
        chosen.append(place[task])
    return np.array(chosen, dtype=np.int64)


def _restore_pairs(fleet: Fleet, reader: Reader, n_tasks: int, chosen: IntArray | None) -> None:
    """Put sums and beliefs of all pairs, or of those of the chosen tasks, into their arrays."""
    store = fleet._engine.store
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


def _restore_arms(fleet: Fleet, reader: Reader) -> None:
    belief, memory = fleet._engine.store.belief, fleet._engine.store.memory
    for name in PER_ARM:
        target = getattr(belief, name)
        target[...] = reader.array(f"arm_{name}", target.shape)
    if not ((belief.noise_variance > 0).all()):
        raise reader.damaged("a noise variance of an arm is not greater than 0")
    # The population must be one: a Prior checks that.
    _ = fleet._engine.store.prior
    parts: tuple[tuple[str, Any], ...] = (("memory", memory), ("evidence", memory.evidence))
    for prefix, part in parts:
        for name, target in zip(part._fields, part, strict=True):
            if name not in BUFFERS:
                target[...] = reader.array(f"{prefix}_{name}", target.shape, target.dtype.type)


def _restore_ledgers(fleet: Fleet, reader: Reader, n_tasks: int) -> None:
    entries = reader.header["ledgers"]
    if not isinstance(entries, list):
        raise reader.damaged("it has no ledgers of decisions")
    d, n_arms = fleet._engine.store.n_features, fleet._engine.store.n_arms
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
    if sum(name.startswith("ledger") for name in reader.box.names) != LEDGER_ARRAYS * len(entries):
        raise reader.damaged("it has decisions of ledgers that its header does not name")
    origins = reader.header["origins"]
    if not isinstance(origins, list) or not all(isinstance(name, str) for name in origins):
        raise reader.damaged(f"origins is {origins!r}")
    if not set(ledgers) <= set(origins):
        raise reader.damaged(f"origins is {origins!r}")
    if fleet._counts_pending and ledgers:
        wrong = uncounted(fleet._engine.store, list(ledgers.values()))
        if wrong is not None:
            raise reader.damaged(wrong)
    fleet._adopt_ledgers(ledgers.values())
    fleet._origins |= set(origins)
