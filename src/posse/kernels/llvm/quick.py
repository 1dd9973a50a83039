"""What Numba's compiler need not do: it makes the same code in three quarters of the time.

Most of the time of the compiler is Python's, not LLVM's. A sixth of it goes to searches for garbage among objects that
nearly all live until a kernel is ready, and as much to settings: Numba compares those of two calls by calling a
property for each of twenty-two, some hundred thousand times for a first fleet.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.targetconfig import TargetConfig


class Uncollected(event.Listener):
    """Keeps Python from searching for garbage while a kernel is compiled.

    Kernels are compiled within each other, by one thread at a time: it goes on when the outermost is ready.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._was_enabled = False

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        """Begin a kernel; Numba's compiler is locked meanwhile."""
        if self._depth == 0:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """End it, compiled or failed."""
        self._depth -= 1
        if self._depth == 0 and self._was_enabled:
            gc.enable()

    def __enter__(self) -> None:
        global_compiler_lock.acquire()
        self.on_start(None)

    def __exit__(self, *problem: object) -> None:
        self.on_end(None)
        global_compiler_lock.release()


uncollected = Uncollected()


@cache
def _defaults(kind: type[TargetConfig]) -> dict[str, Any]:
    return {name: option.default for name, option in kind.options.items()}


def quick_values(settings: TargetConfig) -> dict[str, Any]:
    """Return the value of every setting, as ``TargetConfig.values`` does: what is not set has its default."""
    return {**_defaults(type(settings)), **settings._values}


def use_quick_settings() -> None:
    """Let Numba read its settings in this way, unless its next version keeps them elsewhere."""
    settings = TargetConfig()
    if isinstance(getattr(settings, "_values", None), dict) and hasattr(TargetConfig, "values"):
        TargetConfig.values = quick_values  # type: ignore[method-assign]
