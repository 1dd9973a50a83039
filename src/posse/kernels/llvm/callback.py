"""Kernels that are compiled on their own and called through their address.

A kernel that calls another one is compiled together with all that the other one is made of, again for every caller.
What is large and seldom called is better compiled once: a refresh takes the compiler half a minute, and steps, runs and
batches all end in one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import cfunc, types
from numba.extending import intrinsic

from posse.kernels.compiler import UNCOUNTED
from posse.kernels.llvm.quick import uncollected

if TYPE_CHECKING:
    from collections.abc import Callable

_WORD = ir.IntType(64)


class CompiledCallback:
    """A function of two whole numbers, compiled when it is first asked for.

    Parameters
    ----------
    function : callable
        Takes the address of a handle and one more number, and returns nothing. It must not raise.
    """

    def __init__(self, function: Callable[[int, int], None]) -> None:
        self._function = function

    @cached_property
    def _compiled(self) -> Any:
        signature = types.void(types.int64, types.int64)
        with uncollected:  # Numba tells of kernels only
            return cfunc(signature, cache=True, error_model="numpy", **UNCOUNTED)(self._function)

    @cached_property
    def _callable(self) -> Any:
        return self._compiled.ctypes

    @property
    def address(self) -> int:
        """What kernels pass to :func:`call`."""
        return int(self._compiled.address)

    def __call__(self, handle: int, number: int) -> None:
        """Call it from Python; the interpreter lock is not held meanwhile."""
        self._callable(handle, number)


def _call(typing_context: Any, address: Any, handle: Any, number: Any) -> Any:  # noqa: ARG001 -- Numba passes them

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.FunctionType(ir.VoidType(), [_WORD, _WORD])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


call: Any = intrinsic(_call)
"""``call(address, handle, number)``: call the separate kernel at ``address``, from another kernel."""
