"""Products of small matrices with vectors, a block of columns at a time.

The matrices of a step have a handful of rows, so what a loop over them costs is mostly its beginning and its end: the
compiler cannot know how few columns there are, nor that a result does not overlap what it is made of, so it reads and
writes the result once for every row. Here a block of eight columns, then of four, two and one, stays in registers from
the first row to the last. Sums are added in the order of the rows and multiplication and addition stay two roundings,
so results are those of the plain loops to the last bit, on every machine.

Arrays must not overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

_WORD = ir.IntType(64)
_WIDTHS = (8, 4, 2, 1)  # a sum of some of these, with as many eights as it takes, is any number of columns


def _number(value: int) -> Any:
    return ir.Constant(_WORD, value)


def _vector(width: int) -> Any:
    return ir.DoubleType() if width == 1 else ir.VectorType(ir.DoubleType(), width)


def _place(builder: Any, data: Any, index: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(data, [index]), _vector(width).as_pointer())


def _load(builder: Any, data: Any, index: Any, width: int) -> Any:
    value = builder.load(_place(builder, data, index, width))
    value.align = 8
    return value


def _store(builder: Any, value: Any, data: Any, index: Any, width: int) -> None:
    builder.store(value, _place(builder, data, index, width)).align = 8


def _spread(builder: Any, value: Any, width: int) -> Any:
    """Return a vector that holds one number everywhere."""
    if width == 1:
        return value
    nothing = ir.Constant(_vector(width), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(first, nothing, everywhere)


def _for_blocks(builder: Any, n_columns: Any, work: Callable[[Any, int], None]) -> None:
    """Write code that does ``work(first_column, width)`` for blocks that make up all columns."""
    widest = _WIDTHS[0]
    whole = builder.and_(n_columns, _number(-widest))
    with cgutils.for_range_slice(builder, _number(0), whole, _number(widest)) as (column, _):
        work(column, widest)
    column = whole
    for width in _WIDTHS[1:]:
        rest = builder.and_(n_columns, _number(width))
        with builder.if_then(builder.icmp_unsigned("!=", rest, _number(0))):
            work(column, width)
        column = builder.add(column, rest)


def _arrays(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    pairs = zip(signature.args, arguments, strict=True)
    return [context.make_array(kind)(context, builder, argument) for kind, argument in pairs]


def _multiply_rows(typing_context: Any, matrix: Any, x: Any, out: Any) -> Any:  # noqa: ARG001 -- Numba passes it

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, x, out = _arrays(context, builder, signature, arguments)
        (n_rows,) = cgutils.unpack_tuple(builder, x.shape)
        (n_columns,) = cgutils.unpack_tuple(builder, out.shape)

        def block(column: Any, width: int) -> None:
            zero = ir.Constant(_vector(width), 0.0 if width == 1 else [0.0] * width)
            total = cgutils.alloca_once_value(builder, zero)
            builder.store(zero, total)
            with cgutils.for_range(builder, n_rows) as loop:
                weight = _spread(builder, builder.load(builder.gep(x.data, [loop.index])), width)
                index = builder.add(builder.mul(loop.index, n_columns), column)
                product = builder.fmul(weight, _load(builder, matrix.data, index, width))
                builder.store(builder.fadd(builder.load(total), product), total)
            _store(builder, builder.load(total), out.data, column, width)

        _for_blocks(builder, n_columns, block)
        return context.get_dummy_value()

    return types.void(matrix, x, out), generate


multiply_rows: Any = intrinsic(_multiply_rows)
"""``multiply_rows(matrix, x, out)``: write the sum of the rows of a matrix, each times its entry of ``x``."""


def _add_outer_rows(typing_context: Any, weight: Any, x: Any, out: Any) -> Any:  # noqa: ARG001 -- Numba passes it

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, out = (
            context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(signature.args[1:], arguments[1:], strict=True)
        )
        (size,) = cgutils.unpack_tuple(builder, x.shape)

        def block(column: Any, width: int) -> None:
            factor = _spread(builder, arguments[0], width)
            others = _load(builder, x.data, column, width)
            with cgutils.for_range(builder, size) as loop:
                own = _spread(builder, builder.load(builder.gep(x.data, [loop.index])), width)
                index = builder.add(builder.mul(loop.index, size), column)
                product = builder.fmul(factor, builder.fmul(own, others))
                total = builder.fadd(_load(builder, out.data, index, width), product)
                _store(builder, total, out.data, index, width)

        _for_blocks(builder, size, block)
        return context.get_dummy_value()

    return types.void(types.float64, x, out), generate


add_outer_rows: Any = intrinsic(_add_outer_rows)
"""``add_outer_rows(weight, x, out)``: add ``weight * (x[i] * x[j])`` to every ``out[i, j]``."""
