"""Vowpal Wabbit's decision service JSON (dsjson), read: one decision with its cost per line.

Its actions are counted from 1, its lists ``a`` and ``p`` are ranked by the policy, and it speaks of costs. Features of
actions have no place in a log, except for the one that names the arm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from posse.errors import DataFileError, InvalidValue
from posse.logs.findings import BadRow, Finding, Severity, shown
from posse.logs.jsonl import BadLine, as_float, decode, numbered_lines
from posse.logs.log import Log

CONSTANT = "="  # before a task that is the same in every line


@dataclass
class _Reading:
    """Rows so far, the line of each, and what was left out."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    dangling: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    dropping: list[float] = field(default_factory=list)


def from_dsjson(source: str | Path | Iterable[str], *, task: str, arms: str | None = None) -> Log:
    """Read dsjson.

    Parameters
    ----------
    source : path or iterable of str
        A file, gzipped or not, or its lines.
    task : str
        Where the task of a decision is: a path in the shared context such as ``"Shared.store"``, which is no feature
        then, or ``"=name"`` for one task of that name.
    arms : str, optional
        Where an action has the name of its arm: a path such as ``"Arm.id"`` or ``"_tag"``. Default: arms are called by
        their position, ``"1"`` to ``"n"``.

    Returns
    -------
    Log
        The reward is minus the cost. Features of the shared context are called by their path, ``"namespace.feature"``.
        ``log.notes`` says what was left out.

    Raises
    ------
    DataFileError
        If a line is not a decision; the error names it.
    """
    if not task:
        raise InvalidValue("task must say where the task is found, such as 'Shared.store', or '=all' for one task")
    reading = _Reading()
    name = str(source) if isinstance(source, str | Path) else "dsjson"
    for line, text in _lines(source):
        if not text.strip():
            continue
        try:
            _read(decode(text), line, task, arms, reading)
        except BadLine as error:
            raise DataFileError(f"{name}, line {line}: {error}") from None
    columns = ("decision_id", "time", "task", "arm", "eligible", "probabilities", "propensity", "context", "reward")
    table = {key: [row[key] for row in reading.rows] for key in (*columns, "version")}
    try:
        return Log(table, notes=tuple(_notes(reading)))
    except BadRow as error:
        raise DataFileError(f"{name}, line {reading.lines[error.row]}: {error.problem}") from None


def looks_like_dsjson(line: str) -> bool:
    """Return whether a line has the keys of dsjson rather than those of a log."""
    try:
        record = decode(line)
    except BadLine:
        return False
    marks = {"_label_cost", "_label_Action", "_labelIndex", "VWState", "RewardValue", "pdrop"}
    return "task" not in record and (bool(marks & record.keys()) or {"c", "a"} <= record.keys())


def _lines(source: str | Path | Iterable[str]) -> Iterator[tuple[int, str]]:
    if not isinstance(source, str | Path):
        yield from enumerate(source, start=1)
        return
    for first, block in numbered_lines(source):
        yield from enumerate(block, start=first)


def _read(record: dict[str, Any], line: int, task: str, arms: str | None, reading: _Reading) -> None:
    shared = record.get("c")
    if shared is None:
        # A reward that came without its decision, or too late to be joined to it.
        reading.dangling.append(line)
        return
    if not isinstance(shared, dict):
        raise BadLine(f"c must be an object, but {shown(shared)} came")
    if "_slots" in shared or "_outcomes" in record:
        raise BadLine("this is a decision with several slots; only one action per decision can be read")
    actions = shared.get("_multi")
    if not isinstance(actions, list) or not actions:
        raise BadLine(f"_multi must be a list of actions, but {shown(actions)} came")
    names = [str(place + 1) if arms is None else _label(action, arms, f"action {place + 1}")
             for place, action in enumerate(actions)]  # fmt: skip
    ranked, probabilities = _ranking(record, len(actions))
    chosen = _chosen(record, ranked, len(actions))
    if chosen is None:
        reading.dangling.append(line)
        return
    propensity = _number(record, "_label_probability")
    if propensity is None:
        propensity = probabilities.get(chosen)
    cost = _number(record, "_label_cost")
    if record.get("_skipLearn"):
        reading.skipped.append(line)
        cost = None
    dropping = _number(record, "pdrop") or 0.0
    if not 0 <= dropping < 1:
        raise BadLine(f"pdrop must be at least 0 and below 1, but {dropping:g} came")
    state = record.get("VWState")
    reading.lines.append(line)
    reading.dropping.append(dropping)
    reading.rows.append(
        {
            "decision_id": record.get("EventId"),
            "time": record.get("Timestamp"),
            "task": task[1:] if task.startswith(CONSTANT) else _label(shared, task, "the shared context"),
            "arm": names[chosen - 1],
            "eligible": names,
            # Of a ranking that was cut short, the rest is not known.
            "probabilities": [probabilities[action] for action in sorted(probabilities)]
            if len(probabilities) == len(names)
            else None,
            "propensity": propensity,
            "context": dict(_features(shared, "", without=task)),
            "reward": None if cost is None else 0.0 - cost,  # and not -0.0 for no cost
            "version": state.get("m") if isinstance(state, dict) else None,
        }
    )


def _ranking(record: dict[str, Any], n_actions: int) -> tuple[list[int], dict[int, float]]:
    """Return the actions in the order of ``a``, and the probability of each where ``p`` has it."""
    ranked = record.get("a", record.get("_a")) or []
    whole = isinstance(ranked, list) and all(type(action) is int for action in ranked)
    if not whole or len(set(ranked)) < len(ranked) or not all(1 <= action <= n_actions for action in ranked):
        raise BadLine(f"a must list different actions, counted from 1 to {n_actions}, but {shown(ranked)} came")
    given = record.get("p", record.get("_p"))
    if given is None:
        return ranked, {}
    if not isinstance(given, list) or len(given) != len(ranked):
        raise BadLine(f"p must list a probability for each of {len(ranked)} actions of a, but {shown(given)} came")
    return ranked, dict(zip(ranked, (_finite(entry, "a probability of p") for entry in given), strict=True))


def _chosen(record: dict[str, Any], ranked: list[int], n_actions: int) -> int | None:
    """Return the action that was taken: the label's, else the first of the ranking."""
    labels = {key: record.get(key) for key in ("_label_Action", "_labelIndex")}
    for key, value in labels.items():
        if value is not None and type(value) is not int:
            raise BadLine(f"{key} must be a whole number, but {shown(value)} came")
    action, index = labels.values()
    if action is not None and index is not None and action != index + 1:
        raise BadLine(f"_label_Action counts from 1 and _labelIndex from 0, but {action} and {index} came")
    chosen = action if action is not None else index + 1 if index is not None else ranked[0] if ranked else None
    if chosen is not None and not 1 <= chosen <= n_actions:
        raise BadLine(f"the label is of action {chosen}, but the actions are 1 to {n_actions}")
    return chosen


def _label(where: Any, path: str, name: str) -> str | int:
    value = where
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None and isinstance(where, dict):
        value = where.get(path)  # a name with a dot in it
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadLine(f"{name} must have text or a whole number at {path!r}, but {shown(value)} came")
    return value


def _features(values: Any, path: str, without: str) -> Iterator[tuple[str, Any]]:
    """Yield the features of nested namespaces by path; entries of lists are counted from 0."""
    entries = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in entries:
        name = f"{path}.{key}" if path else str(key)
        if name == without or (not path and key == "_multi"):
            continue
        if isinstance(value, dict | list):
            yield from _features(value, name, without)
        elif isinstance(value, float | int) and not isinstance(value, bool):
            yield name, value if type(value) is int and abs(value) < 2**63 else _finite(value, f"feature {name!r}")
        else:
            yield name, value


def _number(record: dict[str, Any], key: str) -> float | None:
    value = record.get(key)
    return None if value is None else _finite(value, key)


def _finite(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLine(f"{name} must be a number, but {shown(value)} came")
    result = as_float(value)
    if not math.isfinite(result):
        raise BadLine(f"{name} must be finite, but a number too large for a float came")
    return result


def _notes(reading: _Reading) -> Iterator[Finding]:
    dropped = [line for line, share in zip(reading.lines, reading.dropping, strict=True) if share > 0]
    same = len(set(reading.dropping)) == 1
    weights = "all for the same number" if same else "and not all for the same number"
    for lines, code, severity, message, what_to_do in (
        (reading.dangling, "dsjson-dangling", "note",
         "lines hold a reward without its decision, or no action, and were left out",
         "nothing, unless there are many: then rewards came after the time that was waited for them"),
        (reading.skipped, "dsjson-skipped", "note", "lines say _skipLearn; their rewards count as not known",
         "nothing: the decision was never acted on"),
        (dropped, "dsjson-dropped", "note" if same else "warning",
         f"lines stand for 1 / (1 - pdrop) decisions each, {weights}",
         "nothing: equal weights cancel" if same else "thin out the log to one pdrop; a log has no weights"),
    ):  # fmt: skip
        if lines:
            found = f"{len(lines)} {message}"
            yield Finding(code, cast("Severity", severity), found, len(lines), f"line {lines[0]}", what_to_do)
