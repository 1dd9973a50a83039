"""Deciding: what is believed about arms under a context, and the arm that the rule makes of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posse.kernels.fleet import decide
from posse.kernels.fleet import decide_rows as decide_rows_compiled
from posse.kernels.fleet_sites import show_rewards
from posse.kernels.lanes import new_lanes
from posse.kernels.propensity import score_room
from posse.kernels.rule import action_probabilities, pick
from posse.kernels.sites import NUMBER
from posse.threads import MANY_ROWS, spread_parts, workers

if TYPE_CHECKING:
    from posse.engine.engine import Engine
    from posse.engine.known import Known
    from posse.types import Array, BoolArray, IntArray


def choose(
    engine: Engine, task: int, x: Array, arms: IntArray, step: int, explore: bool, uniform: float, out: Array
) -> int:
    """Decide among ``arms``; return the position of the chosen one, or -1 if a belief is not a number.

    Parameters
    ----------
    engine : Engine
        It must be fresh.
    task : int
        A negative one is one never seen.
    x : ndarray of shape (n_features,)
    arms : ndarray of shape (n_arms,)
        The numbers of those that may be chosen.
    step : int
        Which decision it is, from 1.
    explore : bool
    uniform : float
        What the arm is drawn with, from 0 to 1.
    out : ndarray of shape (3, n_arms)
        Written to: probability, mean and standard deviation of the expected reward of each of ``arms``.
    """
    if engine.store.overdue is not None:
        engine.store.fade_overdue_tasks(np.array([task]))
    if engine.known is not None:
        position = _choose_with_offsets(engine, engine.known, task, x, arms, step, explore, uniform, out)
    else:
        position = int(decide(engine.store.ground.address, task, x, arms, step, explore, uniform, out))
    if engine.family.code != NUMBER:
        show_rewards(engine.family.code, out[1], out[2])
    return position


def believe(engine: Engine, task: int, x: Array, arms: IntArray, out: Array) -> int:
    """Write what is believed about linear predictors to ``out``, as :func:`choose` does of expected rewards."""
    if engine.known is not None:  # rewards are numbers then, whose predictor is what is expected
        return choose(engine, task, x, arms, 1, False, 0.0, out)
    if engine.store.overdue is not None:
        engine.store.fade_overdue_tasks(np.array([task]))
    return int(decide(engine.store.ground.address, task, x, arms, 1, False, 0.0, out))


def _choose_with_offsets(
    engine: Engine, known: Known, task: int, x: Array, arms: IntArray, step: int, explore: bool, uniform: float,
    out: Array,
) -> int:  # fmt: skip
    """Decide where something is known about tasks or arms; what is written is of linear predictors."""
    if decide(engine.store.ground.address, task, x, arms, step, False, 0.0, out) < 0:
        return -1
    known.add(engine.store, task, x, arms, out[1], out[2])
    scratch = np.empty((5, score_room(arms.size)))
    silent = engine.store.silent[arms]
    action_probabilities(out[1], out[2], silent, step, engine.rule, explore, scratch, out[0])
    return int(pick(out[0], uniform))


def expected_rewards(engine: Engine, mean: Array, sd: Array) -> None:
    """Turn what is believed about linear predictors into what people see, in place: expected rewards."""
    if engine.family.code != NUMBER:
        show_rewards(engine.family.code, mean.reshape(-1), sd.reshape(-1))


def decide_rows(
    engine: Engine,
    tasks: IntArray,
    X: Array,
    mask: BoolArray,
    steps: tuple[int, int],
    explore: bool,
    uniforms: Array,
    *,
    advance: bool = True,
) -> tuple[IntArray, Array, Array, Array]:
    """Decide every row by what is believed now.

    Parameters
    ----------
    engine : Engine
        It must be fresh.
    tasks : ndarray of shape (n_rows,)
        Negative for tasks never seen.
    X : ndarray of shape (n_rows, n_features)
    mask : ndarray of shape (1, n_arms) or (n_rows, n_arms)
        Which arms may be chosen.
    steps : (int, int)
        The step of the first row by decisions, and the least of any row.
    explore : bool
    uniforms : ndarray of shape (n_rows,)
    advance : bool, default True
        False if every row is the next decision.

    Returns
    -------
    chosen : ndarray of shape (n_rows,)
        Arms; negative where a belief is not a number.
    probabilities, mean, sd : ndarray of shape (n_rows, n_arms)
        Mean and standard deviation are those of linear predictors.
    """
    n, n_arms = len(tasks), mask.shape[1]
    chosen = np.empty(n, dtype=np.int64)
    probabilities, mean, sd = (np.empty((n, n_arms)) for _ in range(3))
    ground = engine.store.ground  # kept while compiled code works on it
    address = ground.address
    first_step, least_step = steps
    engine.store.fade_overdue_tasks(tasks)
    known = engine.known
    if known is not None:
        probabilities[...], mean[...], sd[...] = 0.0, np.nan, np.nan
        for row in range(n):
            arms = np.flatnonzero(mask[row if len(mask) > 1 else 0])
            step, out = max(first_step + (row if advance else 0), least_step), np.empty((3, arms.size))
            task, uniform = int(tasks[row]), float(uniforms[row])
            position = _choose_with_offsets(engine, known, task, X[row], arms, step, explore, uniform, out)
            chosen[row] = arms[position] if position >= 0 else -1
            probabilities[row, arms], mean[row, arms], sd[row, arms] = out
        return chosen, probabilities, mean, sd
    # Rows of one task together, so that what belongs to it is fetched once; answers do not depend on the order.
    order = np.argsort(tasks, kind="stable")

    def block(first: int, last: int) -> None:
        decide_rows_compiled(
            address, order, tasks, X, mask, first_step, least_step, advance, explore, uniforms, first, last,
            new_lanes(X.shape[1]), chosen, probabilities, mean, sd,
        )  # fmt: skip

    if n < MANY_ROWS or workers() == 1:
        block(0, n)
    else:
        cuts = np.linspace(0, n, 4 * workers() + 1).astype(int)
        # All rows of one task in one block, as the first that comes settles what it believes.
        sorted_tasks = tasks[order]
        inner = np.searchsorted(sorted_tasks, sorted_tasks[cuts[1:-1]])
        # Tasks never seen have nothing to settle, and may be many.
        inner = np.where(sorted_tasks[cuts[1:-1]] < 0, cuts[1:-1], inner)
        cuts = np.unique(np.concatenate([[0], inner, [n]]))
        parts = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
        spread_parts([partial(block, first, last) for first, last in parts])
    return chosen, probabilities, mean, sd
