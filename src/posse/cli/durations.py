"""Lengths of time as people write them: 90d, 12h, 30m, 45s."""

from __future__ import annotations

import re

from posse.errors import InvalidValue

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def seconds_of(text: str, what: str) -> float:
    """Return a length of time in seconds.

    Examples
    --------
    >>> seconds_of("1.5h", "grace")
    5400.0
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", text.strip())
    if match is None:
        raise InvalidValue(f"expected {what} as a number and a unit, such as 90d, 12h, 30m or 45s, got {text!r}")
    return float(match[1]) * UNITS[match[2] or "s"]
