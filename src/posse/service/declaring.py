"""Features as a request declares them."""

from __future__ import annotations

from typing import Any

from posse.errors import InvalidValue
from posse.features import declare


def declared_features(given: list[Any]) -> list[Any]:
    """Return what a FeatureSpec is made of: names, and objects with a kind; or raise what is wrong with one."""
    declared: list[Any] = []
    for entry in given:
        if isinstance(entry, str):
            declared.append(entry)
            continue
        kind = entry.get("kind")
        if not isinstance(kind, str) or kind not in declare.KINDS:
            raise InvalidValue(f'a feature is a name, or an object whose "kind" is one of {", ".join(declare.KINDS)}')
        make, keys = declare.KINDS[kind]
        unknown = entry.keys() - keys - {"kind"}
        if unknown or "name" not in entry:
            raise InvalidValue(
                f"expected a {kind} feature to have {', '.join(sorted(keys))}, and a name at least, got "
                f"{', '.join(sorted(entry))}"
            )
        if not isinstance(entry.get("categories", []), list):
            raise InvalidValue(f"categories of feature {entry['name']!r} must be a list")
        try:
            declared.append(make(**{key: value for key, value in entry.items() if key != "kind"}))
        except TypeError as error:
            raise InvalidValue(f"feature {entry['name']!r}: {error}") from None
    return declared
