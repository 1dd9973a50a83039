r"""Lines that Polars may read.

Polars decodes JSON many times faster than Python, but it is lenient: it takes the first of two equal keys, makes text
of whatever stands where text is expected, drops keys it does not know and spoils broken characters. A shape is a
regular expression for lines in which none of that can happen: known keys in one order, each once or not at all, and
values of the kinds seen so far. Commas are not looked at, since Polars refuses lines where one is wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posse.logs.kinds import Kinds
from posse.logs.schema import ARM_FEATURES, COLUMNS

if TYPE_CHECKING:
    import polars as pl

SPACE = r"[ \t\r]*"
TEXT = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]'
    r'|\\u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))*"'  # no surrogates
)
WHOLE = r"-?(?:0|[1-9][0-9]{0,17})"  # 18 digits always fit into 64 bits
PLACE = r"[1-9][0-9]{0,17}"
FLOAT = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
TRUTH = "true|false"
KINDS = {"text": TEXT, "whole": WHOLE, "float": FLOAT, "truth": TRUTH}
SCALAR = "|".join((TEXT, FLOAT, TRUTH))


@dataclass(frozen=True)
class Shape:
    """A regular expression for lines, and the type that Polars should decode them to."""

    pattern: str
    dtype: pl.Struct


def shape_of(kinds: Kinds) -> Shape:
    """Return the shape of lines like those that were seen."""
    import polars as pl

    label = kinds.of("arm")
    arms = (_list(KINDS[label]), pl.List(kinds.dtype("arm"))) if label else (_list("null"), pl.List(pl.String()))
    known = {
        "decision_id": (TEXT, pl.String()),
        "time": _scalar(kinds, "time"),
        "task": _scalar(kinds, "task"),
        "arm": _scalar(kinds, "arm"),
        "eligible": arms,
        "probabilities": (_list(FLOAT), pl.List(pl.Float64())),
        "expected_rewards": (_list(FLOAT), pl.List(pl.Float64())),
        "propensity": (FLOAT, pl.Float64()),
        "reward": _scalar(kinds, "reward"),
        "reward_family": (TEXT, pl.String()),
        "reward_time": _scalar(kinds, "reward_time"),
        "policy": (TEXT, pl.String()),
        "version": (TEXT, pl.String()),
        "ranking_id": (TEXT, pl.String()),
        "ranking_place": (PLACE, pl.Int64()),
    }
    features = {name: _scalar(kinds, ("context", name)) for name in kinds.features.keys}
    types = {name: dtype for name, (_, dtype) in features.items() if dtype != pl.Null()}
    known["context"] = (_object(list(features), features), pl.Struct(types) if types else pl.Null())
    of_arms = {name: _entries(kinds, (ARM_FEATURES, name)) for name in kinds.arm_features.keys}
    lists = {name: dtype for name, (_, dtype) in of_arms.items()}
    known[ARM_FEATURES] = (_object(list(of_arms), of_arms), pl.Struct(lists) if lists else pl.Null())
    values = {key: known.get(key, (SCALAR, pl.Null())) for key in kinds.order.keys}
    fields = {key: values[key][1] for key in (*COLUMNS, ARM_FEATURES) if key in values and values[key][1] != pl.Null()}
    return Shape(f"^{SPACE}{_object(kinds.order.keys, values)}{SPACE}$", pl.Struct(fields))


def _scalar(kinds: Kinds, key: str | tuple[str, str]) -> tuple[str, pl.DataType]:
    """Return pattern and type of a key; where only nulls were seen, nothing else has the shape."""
    kind = kinds.of(key)
    return (KINDS[kind] if kind else "null"), kinds.dtype(key)


def _entries(kinds: Kinds, key: tuple[str, str]) -> tuple[str, pl.DataType]:
    """Return pattern and type of a list of which any entry may be null."""
    import polars as pl

    kind, dtype = kinds.of(key), kinds.dtype(key)
    return _list(f"null|{KINDS[kind]}" if kind else "null"), pl.List(dtype if kind else pl.Float64())


def _list(entry: str) -> str:
    inner = f"(?:{entry}){SPACE}"
    return rf"\[{SPACE}(?:{inner}(?:,{SPACE}{inner})*)?\]"


def _object(order: list[str], values: dict[str, tuple[str, pl.DataType]]) -> str:
    fields = (rf"(?:,?{SPACE}{_key(name)}{SPACE}:{SPACE}(?:{values[name][0]}|null){SPACE})?" for name in order)
    return rf"\{{{SPACE}{''.join(fields)}\}}"


def _key(name: str) -> str:
    return re.escape(json.dumps(name, ensure_ascii=False))
