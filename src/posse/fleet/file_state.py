"""What a fleet's file holds: settings and counts in its header; names, sums, beliefs and decisions as arrays.

Sums and beliefs of every (arm, task) with rewards stand arm after arm, in the order of their first reward. Beliefs
could be rebuilt from the sums; they are kept so that the next decision is the same to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse._version import __version__
from posse.engine.site_store import SiteStore
from posse.fleet.fading_file import fading_state
from posse.fleet.file_format import (
    BUFFERS,
    FADING,
    FADING_KNOWN,
    FADING_KNOWN_SUMS,
    FADING_SITES,
    FADING_SUMS,
    KNOWN_SITES,
    KNOWN_SUMS,
    PER_ARM,
    SUMS_ONLY,
    VERSION,
    WITH_KNOWN,
    WITH_SITES,
    Arrays,
)
from posse.fleet.known_file import known_state
from posse.fleet.ledger import FORGOTTEN
from posse.fleet.site_file import site_state

if TYPE_CHECKING:
    from posse.fleet.fleet import Fleet
    from posse.fleet.labels import Label


def version_of(fleet: Fleet) -> int:
    """Return the version of the file that a fleet is saved to, beliefs included."""
    if fleet._engine.fading is not None:
        if isinstance(fleet._engine.store, SiteStore):
            return FADING_SITES
        return FADING if fleet._engine.known is None else FADING_KNOWN
    if isinstance(fleet._engine.store, SiteStore):
        return WITH_SITES if fleet._engine.known is None else KNOWN_SITES
    return VERSION if fleet._engine.known is None else WITH_KNOWN


def version_without_beliefs(fleet: Fleet) -> int:
    """Return the version of the file that a fleet is saved to without beliefs about pairs."""
    if fleet._engine.fading is not None:
        return FADING_SUMS if fleet._engine.known is None else FADING_KNOWN_SUMS
    return SUMS_ONLY if fleet._engine.known is None else KNOWN_SUMS


def state_of(fleet: Fleet) -> tuple[dict[str, Any], Arrays]:
    """Return all of a fleet, as it stands in a file."""
    fleet._engine.ensure_fresh()
    fleet._engine.store.settle()
    belief = fleet._engine.store.belief
    slots = np.concatenate([belief.seen[arm, : belief.n_seen[arm]] for arm in range(fleet._engine.store.n_arms)])
    header, arrays = state_but_pairs(fleet)
    if isinstance(fleet._engine.store, SiteStore):
        more, rows = site_state(fleet._engine.store, slots)
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


def state_but_pairs(fleet: Fleet) -> tuple[dict[str, Any], Arrays]:
    """Return what does not grow with the sums of pairs, names of tasks left out."""
    store, behaviour = fleet._engine.store, fleet._behaviour
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
        "retired": sorted(fleet._arms.retired),
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
        "time_to_live": fleet._late.time_to_live,
        "absent_reward": fleet._late.absent_reward,
        "count_pending": fleet._late.count_pending,
        "looked_at": store.looked_at,
        "replaced": store.replaced,
        "ledgers": ledgers,
        "origins": sorted(fleet._origins),
    }
    if fleet._engine.fading is not None:
        more, faded = fading_state(fleet._engine.fading, place)
        header, arrays = header | more, arrays | faded
    if fleet._engine.known is not None:
        more, rows = known_state(fleet._engine.known, order, n_arms)
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
