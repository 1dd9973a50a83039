"""State in, state out: plain arrays by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posse.core.capacity import FIRST_SIZE, grown
from posse.core.forgetting import HALF_LIFE
from posse.core.population import Population
from posse.core.soundness import check_snapshot, require
from posse.core.state import N_SLOTS, N_TASKS, State
from posse.core.store import GENERATIONS, pair_width
from posse.families.sites import NUMBER

BY_ARM = ("noise", "prior", "shared", "apart", "dispersion", "told")
BY_TASK = ("known", "given", "weight")
BY_ROW = ("row_context", "row_values", "row_links")
WHOLE = ("arm_features", "silent", "numbers")


def saved_state(state: State) -> dict[str, Any]:
    """Return copies of what was learned; what follows from it is left out."""
    store, n_slots = state.store, int(state.numbers[N_SLOTS])
    # Of a task that was not taken after all there may be a slot, which it has when it comes again.
    n_tasks = max(int(state.numbers[N_TASKS]), 1 + int(store.owner[:n_slots, 0].max(initial=-1)))
    n_rows = int(store.free_rows[1])
    saved: dict[str, Any] = {name: getattr(state, name).copy() for name in WHOLE}
    saved |= {f"population.{name}": np.copy(value) for name, value in state.population._asdict().items()}
    saved |= {f"store.{name}": getattr(store, name).copy() for name in (*BY_ARM, "summed_at")}
    saved["store.ageing"] = np.where(np.isinf(store.ageing), 0.0, store.ageing)
    for name in BY_TASK:
        array = getattr(store, name)
        saved[f"store.{name}"] = np.concatenate([array[:n_tasks], array[-1:]])
    saved["store.owner"] = store.owner[:n_slots].copy()
    saved["store.sums"] = store.pairs[:n_slots].copy()
    saved |= {f"store.{name}": getattr(store, name)[:n_rows].copy() for name in BY_ROW}
    saved["store.plain"] = store.plain[:n_slots].copy()
    saved["store.row_ends"] = store.row_ends[:n_slots].copy()
    saved["store.free_rows"] = store.free_rows[: 2 + int(store.free_rows[0])].copy()
    return all_finite(saved)


def all_finite(saved: dict[str, Any]) -> dict[str, Any]:
    """Return arrays of finite numbers only, and beside those that had others which: 1 for NaN, 2 for infinity."""
    result = dict(saved)
    for name, array in saved.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            result[f"{name}.others"] = np.where(np.isnan(array), 1, np.where(np.isinf(array), 2, 0))
            result[name] = np.where(np.isfinite(array), array, 0.0)
    return result


def with_others(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that :func:`all_finite` was given."""
    result = {name: array for name, array in saved.items() if not name.endswith(".others")}
    for name, others in saved.items():
        whole = name.removesuffix(".others")
        if whole != name:
            require(whole in result and result[whole].shape == others.shape, f"as many entries of {name} as of {whole}")
            result[whole] = np.where(others == 1, np.nan, np.where(others == 2, np.inf, result[whole]))
    return result


def restored(state: State, saved: Mapping[str, Any]) -> State:
    """Return a state with what was saved, and the settings of the one that is given.

    Raises
    ------
    ValueError
        If the arrays are not those of such a core, or cannot belong together.
    """
    store = state.store
    saved = with_others(saved)
    check_snapshot(saved, with_others(saved_state(state)), store.family)
    d, sums = store.prior.shape[2], saved["store.sums"]
    n_slots, n_tasks, n_rows = len(sums), len(saved["store.given"]) - 1, len(saved["store.row_values"])
    n_arms = len(saved["store.noise"])
    parts: dict[str, Any] = {name: np.array(saved[f"store.{name}"]) for name in (*BY_ARM, "summed_at")}
    for name in BY_TASK:
        array = saved[f"store.{name}"]
        parts[name] = np.concatenate([array[:-1], np.repeat(array[-1:], FIRST_SIZE + 1, axis=0)])
    parts["ageing"] = saved["store.ageing"].copy()
    parts["ageing"][HALF_LIFE] = parts["ageing"][HALF_LIFE] or np.inf
    slot = np.full((n_tasks + FIRST_SIZE + 1, n_arms), -1, dtype=np.int64)
    owner = saved["store.owner"]
    taken = np.flatnonzero(owner[:, 0] >= 0)
    slot[owner[taken, 0], owner[taken, 1]] = taken
    pairs = np.zeros((n_slots + FIRST_SIZE, pair_width(d)))
    pairs[:n_slots] = sums
    free = saved["store.free_rows"]
    more = 0 if store.family == NUMBER else FIRST_SIZE
    rows: dict[str, Any] = {name: grown(saved[f"store.{name}"], n_rows + more) for name in BY_ROW}
    store = store._replace(
        **parts,
        slot=slot,
        owner=grown(owner, n_slots + FIRST_SIZE),
        pairs=pairs,
        factors=np.zeros((len(pairs), 1 + d * (d + 1) // 2)),
        generation=np.full(n_arms, float(next(GENERATIONS))),
        plain=grown(saved["store.plain"], n_slots + FIRST_SIZE if more else 0),
        row_ends=grown(saved["store.row_ends"], n_slots + FIRST_SIZE if more else 0),
        free_rows=grown(free, 2 + n_rows + more),
        **rows,
    )
    population = {name: saved[f"population.{name}"] for name in Population._fields}
    return State(
        store=store,
        population=Population(**{name: np.array(array) for name, array in population.items()}),
        **{name: np.array(saved[name]) for name in WHOLE},
    )
