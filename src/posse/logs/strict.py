"""One line of JSON as a decision, checked value by value.

This is the slow and certain way to read a line; :mod:`posse.logs.shapes` finds lines for which Polars gives the same.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from posse.logs.kinds import LARGEST, WORDS, BadLine, Kinds, kind_of
from posse.logs.rows import shown
from posse.logs.schema import ARM_FEATURES, COLUMNS, NUMBER_LISTS

ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")  # a surrogate; Python reads half of a pair, which no file can hold


def decode(line: str) -> dict[str, Any]:
    """Return a line's object; duplicate keys, NaN, infinity and broken text are refused."""
    try:
        record = _DECODER.decode(line)
        if ESCAPED.search(line):
            json.dumps(record, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise BadLine(f"this is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise BadLine("lists or objects are nested too deep") from None
    except UnicodeEncodeError:
        raise BadLine("a text has half of a surrogate pair, which is no character") from None
    except ValueError:  # Python's limit on the digits of whole numbers
        raise BadLine("a whole number has more digits than any number here can have") from None
    if not isinstance(record, dict):
        raise BadLine(f"an object was expected, but {shown(record)} came")
    return record


def read_line(text: str, line: int, kinds: Kinds) -> dict[str, Any]:
    """Return a line's values for every column, in the form that :func:`posse.logs.jsonl.as_columns` takes.

    Parameters
    ----------
    text : str
        The line.
    line : int
        Its number, for later complaints.
    kinds : Kinds
        What was seen in other lines; this line is added.

    Raises
    ------
    BadLine
        If it is neither a decision nor the reward of one.
    """
    record = decode(text)
    kinds.order.merge(record, "keys")
    values = {key: record.get(key) for key in COLUMNS}
    for key in () if _is_reward(values) else ("task", "arm"):
        if values[key] is None:
            raise BadLine(f"{key} is missing, but every decision has one")
        _label(values[key], key, key, line, kinds)
    for key in ("decision_id", "reward_family", "policy", "version", "ranking_id"):
        if not isinstance(values[key], str | None):
            raise BadLine(f"{key} must be text, but {shown(values[key])} came")
    for key in ("time", "reward_time"):
        if not isinstance(values[key], str):
            values[key] = _number(values[key], key, "ISO 8601 text or seconds since 1970")
        if values[key] is not None and key not in kinds.seen:
            kinds.see(key, "text" if isinstance(values[key], str) else "float", line)
    place = values["ranking_place"]
    if place is not None and (type(place) is not int or not 1 <= place <= LARGEST):
        raise BadLine(f"ranking_place must be a whole number from 1 on, but {shown(place)} came")
    if isinstance(values["reward"], bool):
        kinds.see("reward", "truth", line)
        values["reward"] = float(values["reward"])
    elif values["reward"] is not None:
        values["reward"] = _number(values["reward"], "reward", "a number, true or false")
        kinds.see("reward", "float", line)
    values["propensity"] = _number(values["propensity"], "propensity", "a number")
    for key in NUMBER_LISTS:
        entries = _list(values[key], key)
        if entries is not None:
            values[key] = [_number(entry, key, "a list of numbers", gap=False) for entry in entries]
    values["eligible"] = _list(values["eligible"], "eligible")
    for entry in values["eligible"] or ():
        _label(entry, "an arm of eligible", "arm", line, kinds)
    values["context"] = _context(values["context"], line, kinds)
    values[ARM_FEATURES] = _arm_features(record.get(ARM_FEATURES), line, kinds)
    return values


def _is_reward(values: dict[str, Any]) -> bool:
    """Whether a line is the reward of an earlier decision; :func:`join_rewards` looks at it closely."""
    given = {key for key, value in values.items() if value is not None}
    return given >= {"decision_id", "reward"} and not given & {"task", "arm"}


def _label(value: Any, name: str, key: str, line: int, kinds: Kinds) -> None:
    kind = kind_of(value) if value is not None else ""
    if kind not in ("text", "whole"):
        raise BadLine(f"{name} must be text or a whole number below 2**63, but {shown(value)} came")
    kinds.see(key, kind, line)


def _number(value: Any, name: str, expected: str, *, gap: bool = True) -> float | None:
    if type(value) is float and value - value == 0.0:  # finite, the common case
        return value
    if value is None and gap:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLine(f"{name} must be {expected}, but {shown(value)} came")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise BadLine(f"{name} must be finite, but a number too large for a float came")
    return result


def _list(value: Any, name: str) -> list[Any] | None:
    if not isinstance(value, list | None):
        raise BadLine(f"{name} must be a list, but {shown(value)} came")
    return value


def _context(value: Any, line: int, kinds: Kinds) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadLine(f"context must be an object of features by name, but {shown(value)} came")
    kinds.features.merge(value, "features")
    for name, entry in value.items():
        value[name] = _entry(entry, f"feature {name!r}", ("context", name), line, kinds)
    return value


def _arm_features(value: Any, line: int, kinds: Kinds) -> dict[str, list[Any] | None]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadLine(f"{ARM_FEATURES} must be an object of lists by name, but {shown(value)} came")
    kinds.arm_features.merge(value, "features of arms")
    for name, entries in value.items():
        what, key = f"arm feature {name!r}", (ARM_FEATURES, name)
        _list(entries, what)
        value[name] = entries and [_entry(entry, what, key, line, kinds) for entry in entries]
    return value


def _entry(value: Any, what: str, key: tuple[str, str], line: int, kinds: Kinds) -> Any:
    """Return the value of a feature; its kind is noted."""
    if value is None:
        return None
    kind = kind_of(value)
    if kind == "float":
        if type(value) is int or value - value != 0.0:
            value = _number(value, what, "a number")
    elif kind not in WORDS:
        raise BadLine(f"{what} must be a number, text, true or false, but {shown(value)} came")
    kinds.see(key, kind, line)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        raise BadLine(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} occurs twice")
    return result


def _refuse_constant(name: str) -> None:
    raise BadLine(f"{name} is not JSON; leave a number that is not known out or write null")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
