"""The feedback dictionary of the Open Bandit Pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posse.checks import labels, real_array, whole_number
from posse.errors import InvalidValue, ShapeError, UnknownArm
from posse.logs.log import Log
from posse.types import Array, ArrayLike, IntArray

ONE_TASK = "all"  # the task of feedback that has none
POSITION = "position"


def from_obp(
    feedback: Mapping[str, Any],
    *,
    features: Sequence[str] | None = None,
    arms: Sequence[Any] | None = None,
    task: ArrayLike | int | None = None,
) -> Log:
    """Return a feedback dictionary as a log.

    Parameters
    ----------
    feedback : mapping
        ``n_rounds, n_actions, context, action, reward``, and ``pscore, pi_b, position`` where they are known. What
        :func:`to_obp` adds (``task``, ``arms``, ``features``, ``reward_family``) is used unless others are passed.
    features : sequence of str, optional
        Names of the columns of the context. Default: ``"x0"``, ``"x1"``, ...
    arms : sequence, optional
        Labels of the actions. Default: their numbers.
    task : array of labels, or int, optional
        The task of every round, or the column of the context that holds it and is then no feature. Default: one task.

    Returns
    -------
    Log
        Propensities are ``pscore``, else those of ``pi_b``. Where there are several positions, the position is a
        feature. ``action_context`` and ``expected_reward`` have no place in a log.
    """
    import polars as pl

    missing = [key for key in ("n_rounds", "n_actions", "context", "action", "reward") if key not in feedback]
    if missing:
        raise InvalidValue(f"feedback needs {', '.join(map(repr, missing))}; it has {', '.join(map(repr, feedback))}")
    n_rounds = whole_number(_plain(feedback["n_rounds"]), "n_rounds", at_least=0)
    n_actions = whole_number(_plain(feedback["n_actions"]), "n_actions", at_least=1)
    _require_shape(feedback["action"], "action", (n_rounds,))
    action = labels(feedback["action"], "action", below=n_actions, error=UnknownArm)
    context = real_array(feedback["context"], "context")
    if context.ndim != 2 or context.shape[0] != n_rounds:
        raise ShapeError(f"context must have shape ({n_rounds}, n_features), but its shape is {context.shape}")
    positions = _positions(feedback.get("position"), n_rounds)
    names = _different(arms if arms is not None else feedback.get("arms"), "arms", n_actions) or list(range(n_actions))
    arm = pl.Series(names)
    probabilities = _probabilities(feedback.get("pi_b"), positions, n_rounds, n_actions)
    column, tasks = _tasks(task if task is not None else feedback.get("task"), context, n_rounds)
    places = _feature_columns(features if features is not None else feedback.get("features"), context.shape[1], column)
    raw: dict[str, Any] = {name: context[:, place] for name, place in places.items()}
    if positions is not None and np.unique(positions).size > 1:
        if POSITION in raw:
            raise InvalidValue(f"a feature is called {POSITION!r}, as the positions would be; call it otherwise")
        raw[POSITION] = positions
    columns: dict[str, Any] = {
        "task": tasks,
        "arm": arm.gather(pl.Series(action)),
        "eligible": pl.select(pl.repeat(arm.implode().first(), n_rounds)).to_series(),
        "reward": _require_shape(feedback["reward"], "reward", (n_rounds,)),
    }
    if raw:
        columns["context"] = pl.DataFrame(raw).to_struct()
    if probabilities is not None:
        columns["probabilities"] = pl.Series(probabilities).arr.to_list()
        columns["propensity"] = probabilities[np.arange(n_rounds), action]
    if feedback.get("pscore") is not None:
        columns["propensity"] = _require_shape(feedback["pscore"], "pscore", (n_rounds,))
    family = _plain(feedback.get("reward_family"))
    if family is None and np.asarray(feedback["reward"]).dtype == np.bool_:
        family = "binary"
    return Log(columns, rewards=family)


def to_obp(log: Log) -> dict[str, Any]:
    """Return a log as a feedback dictionary.

    Every feature must be a number or a truth value in every row, and every reward known. ``pi_b`` is there where the
    log has probabilities, with 0 for arms that were not eligible. Tasks have no place in the Open Bandit Pipeline: they
    are under the extra key ``task``, as the labels of arms and features are under ``arms`` and ``features``, and what
    rewards are, unless they are numbers, under ``reward_family``. Ids, times, policy and version are left out.

    Returns
    -------
    dict
        ``n_rounds, n_actions, context, action, position, reward, pscore, pi_b, task, arms, features``, and
        ``reward_family`` of clicks and counts.
    """
    import polars as pl

    if log.frame["reward"].null_count():
        raise InvalidValue("the Open Bandit Pipeline needs every reward; pass log.with_rewards()")
    features = log.contexts
    for name, dtype in features.schema.items():
        if dtype == pl.String():
            raise InvalidValue(f"feature {name!r} is text, but contexts there are numbers; encode or drop it first")
        if features[name].null_count():
            raise InvalidValue(f"feature {name!r} has gaps, but contexts there are numbers; fill or drop it first")
    arms = log.arms
    numbers = pl.DataFrame({"label": pl.Series(arms, dtype=log.frame.schema["arm"]), "number": range(len(arms))})
    action = log.frame["arm"].replace_strict(numbers["label"], numbers["number"], return_dtype=pl.Int64)
    propensity = log.frame["propensity"]
    if 0 < propensity.null_count() < log.n_rows:
        raise InvalidValue("some propensities are known and others not; keep rows of one kind")
    return {
        "n_rounds": log.n_rows,
        "n_actions": len(arms),
        "context": features.select(pl.all().cast(pl.Float64)).to_numpy().reshape(log.n_rows, features.width),
        "action": action.to_numpy().copy(),
        "position": None,
        "reward": log.frame["reward"].to_numpy().copy(),
        "pscore": None if propensity.null_count() else propensity.to_numpy().copy(),
        "pi_b": _pi_b(log, numbers),
        "task": np.asarray(log.frame["task"].to_list()),
        "arms": np.asarray(arms),
        "features": np.asarray(log.features, dtype=np.str_),
        **({} if log.rewards == "number" else {"reward_family": log.rewards}),
    }


def _pi_b(log: Log, numbers: Any) -> Array | None:
    import polars as pl

    given = log.frame["probabilities"]
    eligible = log.eligible
    if given.null_count():
        return None
    if not (given.list.len() == eligible.list.len()).all():
        raise InvalidValue("probabilities must have as many entries as eligible; posse log check names the rows")
    long = pl.DataFrame({"row": range(log.n_rows), "arm": eligible, "p": given}).explode("arm", "p").drop_nulls("arm")
    place = long["arm"].replace_strict(numbers["label"], numbers["number"], return_dtype=pl.Int64)
    result = np.zeros((log.n_rows, numbers.height, 1))
    result[long["row"].to_numpy(), place.to_numpy(), 0] = long["p"].to_numpy()
    return result


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0 else value


def _require_shape(value: Any, name: str, shape: tuple[int, ...]) -> Array:
    result = real_array(value, name)
    if result.shape != shape:
        raise ShapeError(f"{name} must have shape {shape}, but its shape is {result.shape}")
    return result


def _positions(value: Any, n_rounds: int) -> IntArray | None:
    if value is None:
        return None
    positions = _require_shape(value, POSITION, (n_rounds,))
    wrong = (positions < 0) | (positions != np.floor(positions))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidValue(f"position must be whole numbers of at least 0, but {positions[row]:g} came at row {row}")
    return positions.astype(np.int64)


def _different(value: Any, name: str, count: int) -> list[Any]:
    """Return ``count`` different names; an empty list if none were given."""
    names = [] if value is None else np.asarray(value).tolist() if isinstance(value, np.ndarray) else list(value)
    if value is not None and (len(names) != count or len(set(names)) != count):
        raise ShapeError(f"{name} must be {count} different names, but {len(names)} came, {len(set(names))} different")
    return names


def _probabilities(value: Any, positions: IntArray | None, n_rounds: int, n_actions: int) -> Array | None:
    if value is None:
        return None
    table = real_array(value, "pi_b")
    if table.ndim == 2:
        table = table[:, :, None]
    if table.ndim != 3 or table.shape[:2] != (n_rounds, n_actions) or table.shape[2] < 1:
        raise ShapeError(f"pi_b must have shape ({n_rounds}, {n_actions}, n_positions), but its shape is {table.shape}")
    if table.shape[2] == 1:
        return table[:, :, 0]
    if positions is None or (positions >= table.shape[2]).any():
        raise InvalidValue(f"pi_b has {table.shape[2]} positions, but position does not say which one each round had")
    return table[np.arange(n_rounds), :, positions]


def _tasks(value: Any, context: Array, n_rounds: int) -> tuple[int | None, Any]:
    """Return the column of the context that holds the task, if one does, and the tasks."""
    if value is None:
        return None, [ONE_TASK] * n_rounds
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if not 0 <= value < context.shape[1]:
            raise InvalidValue(f"task must be a column of the context, 0 to {context.shape[1] - 1}, but {value} came")
        numbers = context[:, int(value)]
        if (numbers != np.round(numbers)).any() or (np.abs(numbers) > 2**53).any():
            raise InvalidValue(f"column {value} of the context cannot be the task: not all of it is whole numbers")
        return int(value), numbers.astype(np.int64)
    tasks = value if isinstance(value, np.ndarray) else list(value)
    if np.shape(tasks)[:1] != (n_rounds,):
        raise ShapeError(f"task must have {n_rounds} labels, one per round, but {len(tasks)} came")
    return None, tasks


def _feature_columns(value: Any, n_columns: int, without: int | None) -> dict[str, int]:
    """Return the column of every feature."""
    places = [place for place in range(n_columns) if place != without]
    names = None if value is None else [str(name) for name in value]
    if names is not None and len(names) == n_columns and without is not None:
        del names[without]
    return dict(
        zip(_different(names, "features", len(places)) or [f"x{place}" for place in places], places, strict=True)
    )
