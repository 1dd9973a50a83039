"""What the simulator asks of a world, checked before the first seed."""

from __future__ import annotations

from typing import Any

from posse.errors import InvalidValue

NEEDED = ("n_tasks", "n_arms", "n_features", "draw", "settings")


def require_world(world: Any) -> None:
    """Raise unless a world has all that the simulator asks of it."""
    if isinstance(world, type):
        raise InvalidValue(f"expected a world, got the class {world.__name__}; pass {world.__name__}(...)")
    lacking = [name for name in NEEDED if not hasattr(world, name)]
    if not lacking:
        return
    name = type(world).__name__
    hint = (
        "; settings() returns plain values that say which world this is, for the result file: return {} if there are "
        "none" if "settings" in lacking else ""
    )  # fmt: skip
    raise InvalidValue(f"a world must have {', '.join(NEEDED)}, but {name} lacks {', '.join(lacking)}{hint}")
