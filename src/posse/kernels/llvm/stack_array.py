"""Room to work in that belongs to one call alone.

Several threads may decide at once, so a decision cannot share room with another; and to ask for memory costs a third of
a small decision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from posse.kernels.compiler import woven_kernel
from posse.types import Array

ON_THE_STACK = 4096  # numbers, 32 kB: little even for threads with small stacks

_WORD = ir.IntType(64)


def _stack(typing_context: Any, n_rows: Any, n_columns: Any) -> Any:  # noqa: ARG001 -- Numba passes them
    kind = types.Array(types.float64, 2, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        from numba.np.arrayobj import make_array, populate_array

        n_rows, n_columns = arguments
        size = ir.Constant(_WORD, 8)
        data = builder.alloca(ir.DoubleType(), size=builder.mul(n_rows, n_columns))
        data.align = 64
        array = make_array(kind)(context, builder)
        populate_array(
            array,
            data=data,
            shape=[n_rows, n_columns],
            strides=[builder.mul(n_columns, size), size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return kind(types.int64, types.int64), generate


stack: Any = intrinsic(_stack)
"""``stack(n_rows, n_columns)``: an array on the stack of the kernel that this becomes part of."""


def _array_at(typing_context: Any, address: Any, n_rows: Any, n_columns: Any) -> Any:  # noqa: ARG001 -- see above
    kind = types.Array(types.float64, 2, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        from numba.np.arrayobj import make_array, populate_array

        place, n_rows, n_columns = arguments
        size = ir.Constant(_WORD, 8)
        array = make_array(kind)(context, builder)
        populate_array(
            array,
            data=builder.inttoptr(place, ir.DoubleType().as_pointer()),
            shape=[n_rows, n_columns],
            strides=[builder.mul(n_columns, size), size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return kind(types.int64, types.int64, types.int64), generate


array_at: Any = intrinsic(_array_at)
"""``array_at(address, n_rows, n_columns)``: the array whose numbers stand there."""


@woven_kernel
def room(n_rows: int, n_columns: int) -> Array:
    """Return an array with anything in it, which lasts until the kernel that asked for it returns.

    Not for use inside a loop: the stack gets nothing back before the end.
    """
    if n_rows * n_columns <= ON_THE_STACK:
        return stack(n_rows, n_columns)
    return np.empty((n_rows, n_columns))
