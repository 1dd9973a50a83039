"""Plain JSON in its one canonical spelling, with a bound on how deep it goes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from posse.errors import InvalidValue

MAX_DEPTH = 64

_STEPS = np.zeros(256, dtype=np.int8)
"""How each byte outside of strings changes the depth."""
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def encode(value: Any, name: str) -> bytes:
    """Return the canonical spelling of plain JSON values; raise unless they come back as they went in."""
    try:
        text = _spell(value)
        same = decode(text) == value
    except RecursionError:
        raise InvalidValue(f"{name} must be at most {MAX_DEPTH} levels deep; flatten it") from None
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"expected {name} to be plain JSON values, got this: {error}") from None
    if not same:
        raise InvalidValue(
            f"expected {name} to be plain JSON values that come back as they were, got others; use text as keys, and "
            "lists for tuples"
        )
    return text


def decode(text: bytes) -> Any:
    """Return the values of a canonical spelling; raise ValueError, with the reason, for any other bytes."""
    # Before the parser sees it: the parser recurses, so a million brackets could end the process.
    if _depth(text) > MAX_DEPTH:
        raise ValueError(f"it is more than {MAX_DEPTH} levels deep")
    value = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    if _spell(value) != text:
        raise ValueError("it is not in canonical form")
    return value


def _spell(value: Any) -> bytes:
    # Sorted and without spaces there is one spelling of a value, so repeated keys cannot hide.
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _depth(text: bytes) -> int:
    # Without escaped backslashes and then escaped quotes, every second piece between quotes is outside of all strings.
    outside = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    steps = _STEPS[np.frombuffer(outside, dtype=np.uint8)]
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
