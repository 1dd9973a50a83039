"""Vowpal Wabbit's decision service JSON (dsjson), written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

from posse.errors import InvalidValue
from posse.logs.jsonl import require_finite
from posse.logs.log import Log
from posse.logs.times import as_text

TASK, ARM = "Task.id", "Arm.id"  # where a written file has task and arm


def to_dsjson(log: Log, path: str | Path) -> None:
    """Write a log as dsjson; see :func:`write_dsjson` for what goes where."""
    from posse.logs.files import write_log

    write_log(log, path, "dsjson")


def write_dsjson(log: Log, stream: IO[bytes]) -> None:
    """Write a log as dsjson: task and arms as features ``Task.id`` and ``Arm.id``, both as text.

    The time of the reward and the name of the policy have no place and are lost; whole numbers as tasks or arms come
    back as text. A feature whose name has dots is written as nested namespaces.
    """
    require_finite(log)
    names = [_nested(name) for name in log.features]
    columns = {
        "time": as_text(log.frame["time"]).to_list(),
        "eligible": log.eligible.to_list(),
        **{
            key: log.frame[key].to_list()
            for key in ("decision_id", "task", "arm", "probabilities", "propensity", "reward", "version")
        },
    }
    contexts = log.contexts.iter_rows() if names else iter([()] * log.n_rows)
    for row, context in enumerate(contexts):
        line = _line(row, {key: values[row] for key, values in columns.items()}, names, context)
        stream.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _line(row: int, values: dict[str, Any], names: list[list[str]], context: tuple[Any, ...]) -> dict[str, Any]:
    eligible, arm, propensity = values["eligible"], values["arm"], values["propensity"]
    if eligible.count(arm) != 1:
        raise InvalidValue(f"row {row} of the log: arm {arm!r} must be once among eligible to be written as dsjson")
    if propensity is None:
        raise InvalidValue(f"row {row} of the log: dsjson needs the propensity, which is not known here")
    place = eligible.index(arm)
    probabilities = values["probabilities"]
    if probabilities is not None and len(probabilities) != len(eligible):
        raise InvalidValue(f"row {row} of the log: probabilities and eligible must be of one length")
    ranked = [place, *(other for other in range(len(eligible)) if other != place)]
    line: dict[str, Any] = {}
    if values["reward"] is not None:
        line["_label_cost"] = 0.0 - values["reward"]
        line["_label_probability"] = propensity
        line["_label_Action"] = place + 1
        line["_labelIndex"] = place
    line["Timestamp"] = values["time"]
    line["Version"] = "1"
    line["EventId"] = values["decision_id"]
    line["a"] = [action + 1 for action in ranked]
    shared: dict[str, Any] = {}
    for name, value in zip([TASK.split("."), *names], [str(values["task"]), *context], strict=True):
        if value is not None:
            _put(shared, name, value, row)
    shared["_multi"] = [_put({}, ARM.split("."), str(each), row) for each in eligible]
    line["c"] = shared
    if probabilities is not None:
        line["p"] = [probabilities[action] for action in ranked]
    if values["version"] is not None:
        line["VWState"] = {"m": values["version"]}
    return {key: value for key, value in line.items() if value is not None}


def _nested(name: str) -> list[str]:
    """Return the path of a feature, or say why Vowpal Wabbit would not read it."""
    path = name.split(".")
    reserved = [step for step in path if step.startswith("_") and step != "_text"]
    if reserved or not all(path) or path == TASK.split("."):
        raise InvalidValue(
            f"feature {name!r} cannot be written as dsjson: parts of its name must not be empty or start with _, "
            f"and {TASK} is the task; rename it"
        )
    return path


def _put(where: dict[str, Any], path: list[str], value: Any, row: int) -> dict[str, Any]:
    inner = where
    for step in path[:-1]:
        inner = inner.setdefault(step, {})
        if not isinstance(inner, dict):
            break
    if not isinstance(inner, dict) or path[-1] in inner:
        raise InvalidValue(
            f"row {row} of the log: feature {'.'.join(path)!r} is also the start of another name; rename it"
        )
    inner[path[-1]] = value
    return where
