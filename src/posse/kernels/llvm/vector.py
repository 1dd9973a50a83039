"""Eight numbers at a time: the operations that compiled loops over lanes are made of.

A *lane* is one of eight problems of the same shape that are solved side by side, so that every instruction works on
all of them, whatever their size. What belongs to one entry of a matrix stands together, lane after lane; a matrix of
``d`` rows and ``w`` columns is a flat array of ``d * w * 8`` numbers. The compiler cannot know that these arrays do not
overlap, so loops over lanes are spelled out as vector instructions here. Multiplication and addition stay two
roundings, as everywhere else: results are the same on every machine.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return where ``array[index]`` stands, as eight numbers."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _load(builder: Any, pointer: Any) -> Any:
    value = builder.load(pointer)
    value.align = 8
    return value


def _store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, pointer).align = 8


def load_vector(builder: Any, data: Any, index: Any) -> Any:
    """Return the eight numbers from ``data[index]`` on; for intrinsics elsewhere."""
    return _load(builder, builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer()))


def store_vector(builder: Any, value: Any, data: Any, index: Any) -> None:
    """Write eight numbers to ``data[index]`` and on; for intrinsics elsewhere."""
    _store(builder, value, builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer()))


def _products(operation: str) -> Any:
    """Return ``out[c] op= sum over k of a[k] * b[k, c]`` for ``count`` entries c of a row, k in order."""

    def products(
        typing_context: Any,
        out: Any,
        o: Any,
        count: Any,
        a: Any,
        i: Any,
        a_step: Any,
        b: Any,
        s: Any,
        b_step: Any,
        n: Any,
    ) -> Any:
        place = types.intp
        signature = types.void(out, place, place, a, place, place, b, place, place, place)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = signature.args
            out, o, count, a, i, a_step, b, s, b_step, n = arguments
            target, weights, source = (
                context.make_array(kinds[position])(context, builder, array).data
                for position, array in ((0, out), (3, a), (6, b))
            )
            word = ir.IntType(64)
            width = ir.Constant(word, LANES)
            combine = builder.fadd if operation == "add" else builder.fsub

            def at(data: Any, *offsets: Any) -> Any:
                index = offsets[0]
                for offset in offsets[1:]:
                    index = builder.add(index, offset)
                return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())

            done = cgutils.alloca_once_value(builder, ir.Constant(word, 0))
            # Several entries at once keep the adders busy; their sums stay in registers while k runs.
            for block in (4, 2, 1):
                left = builder.sub(count, builder.load(done))
                with cgutils.for_range(builder, builder.udiv(left, ir.Constant(word, block))):
                    first = builder.mul(builder.load(done), width)
                    shifts = [builder.add(first, ir.Constant(word, c * LANES)) for c in range(block)]
                    sums = [
                        cgutils.alloca_once_value(builder, _load(builder, at(target, o, shift))) for shift in shifts
                    ]
                    with cgutils.for_range(builder, n) as loop:
                        weight = _load(builder, at(weights, i, builder.mul(loop.index, a_step)))
                        row = builder.add(s, builder.mul(loop.index, b_step))
                        for shift, total in zip(shifts, sums, strict=True):
                            product = builder.fmul(weight, _load(builder, at(source, row, shift)))
                            builder.store(combine(builder.load(total), product), total)
                    for shift, total in zip(shifts, sums, strict=True):
                        _store(builder, builder.load(total), at(target, o, shift))
                    builder.store(builder.add(builder.load(done), ir.Constant(word, block)), done)
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(products)


add_products: Any = _products("add")
"""``add_products(out, o, count, a, i, a_step, b, s, b_step, n)``: add to ``count`` entries from ``out[o]`` on.

The entry c gets the sum over k < n of the entry at ``a[i + k a_step]`` times the one at ``b[s + k b_step]`` and c more.
"""

subtract_products: Any = _products("subtract")
"""``subtract_products(...)``: the same, subtracted."""


def _copy_row(typing_context: Any, out: Any, o: Any, b: Any, s: Any, count: Any) -> Any:
    """Copy entries."""
    signature = types.void(out, types.intp, b, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, o, b, s, count = arguments
        target = context.make_array(signature.args[0])(context, builder, out).data
        source = context.make_array(signature.args[2])(context, builder, b).data
        width = ir.Constant(ir.IntType(64), LANES)
        with cgutils.for_range(builder, count) as loop:
            shift = builder.mul(loop.index, width)
            value = builder.gep(source, [builder.add(s, shift)])
            place = builder.gep(target, [builder.add(o, shift)])
            value = _load(builder, builder.bitcast(value, _VECTOR.as_pointer()))
            _store(builder, value, builder.bitcast(place, _VECTOR.as_pointer()))
        return context.get_dummy_value()

    return signature, generate


copy_row: Any = intrinsic(_copy_row)
"""``copy_row(out, o, b, s, count)``: copy ``count`` entries from ``b[s]`` on to ``out[o]`` and on."""


def _entries(square: bool) -> Any:
    """Return ``out[c] += b[c]``, or its square, for ``count`` entries c."""

    def entries(typing_context: Any, out: Any, b: Any, count: Any) -> Any:
        signature = types.void(out, b, types.intp)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            out, b, count = arguments
            target = context.make_array(signature.args[0])(context, builder, out).data
            source = context.make_array(signature.args[1])(context, builder, b).data
            width = ir.Constant(ir.IntType(64), LANES)
            with cgutils.for_range(builder, count) as loop:
                shift = builder.mul(loop.index, width)
                place = builder.bitcast(builder.gep(target, [shift]), _VECTOR.as_pointer())
                value = _load(builder, builder.bitcast(builder.gep(source, [shift]), _VECTOR.as_pointer()))
                value = builder.fmul(value, value) if square else value
                _store(builder, builder.fadd(_load(builder, place), value), place)
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(entries)


add_rows: Any = _entries(square=False)
"""``add_rows(out, b, count)``: add the first ``count`` entries of ``b``."""

add_squares: Any = _entries(square=True)
"""``add_squares(out, b, count)``: add the squares of the first ``count`` entries of ``b``."""


def _scale_row(typing_context: Any, out: Any, o: Any, a: Any, i: Any, count: Any) -> Any:
    """Multiply a row by the entry at ``a[i]``."""
    signature = types.void(out, types.intp, a, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, o, a, i, count = arguments
        weight = _load(builder, _pointer(context, builder, signature.args[2], a, i))
        target = context.make_array(signature.args[0])(context, builder, out).data
        width = ir.Constant(ir.IntType(64), LANES)
        with cgutils.for_range(builder, count) as loop:
            place = builder.gep(target, [builder.add(o, builder.mul(loop.index, width))])
            place = builder.bitcast(place, _VECTOR.as_pointer())
            _store(builder, builder.fmul(_load(builder, place), weight), place)
        return context.get_dummy_value()

    return signature, generate


def _inverse_root(typing_context: Any, out: Any, o: Any, a: Any, i: Any, least: Any, j: Any) -> Any:
    """Write ``1 / sqrt(max(a, least))`` of three entries to ``out[o]``."""
    signature = types.void(out, types.intp, a, types.intp, least, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, o, a, i, least, j = arguments
        kinds = signature.args
        value = _load(builder, _pointer(context, builder, kinds[2], a, i))
        bound = _load(builder, _pointer(context, builder, kinds[4], least, j))
        # A pivot that is not a number stays none: only one that is smaller gets the bound.
        pivot = builder.select(builder.fcmp_ordered("<", value, bound), bound, value)
        module = builder.module
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        sqrt = cgutils.get_or_insert_function(module, kind, f"llvm.sqrt.v{LANES}f64")
        one = ir.Constant(_VECTOR, [1.0] * LANES)
        result = builder.fdiv(one, builder.call(sqrt, [pivot]))
        _store(builder, result, _pointer(context, builder, kinds[0], out, o))
        return context.get_dummy_value()

    return signature, generate


def _fetch(typing_context: Any, array: Any, row: Any) -> Any:
    """Ask for a row of a matrix, which will be needed soon."""
    signature = types.void(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
        word, byte = ir.IntType(64), ir.IntType(8)
        width = builder.extract_value(matrix.shape, 1) if signature.args[0].ndim > 1 else ir.Constant(word, 1)
        size = builder.mul(width, ir.Constant(word, 8))
        first = builder.bitcast(builder.gep(matrix.data, [builder.mul(arguments[1], width)]), byte.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), *[ir.IntType(32)] * 3])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        numbers = [ir.Constant(ir.IntType(32), value) for value in (1, 3, 1)]  # to write, to keep, data
        line = ir.Constant(word, 64)
        lines = builder.udiv(builder.add(size, ir.Constant(word, 63)), line)
        with cgutils.for_range(builder, lines) as loop:
            builder.call(ask, [builder.gep(first, [builder.mul(loop.index, line)]), *numbers])
        return context.get_dummy_value()

    return signature, generate


def _address(typing_context: Any, array: Any, row: Any) -> Any:
    """Return where a row of an array begins."""
    signature = types.int64(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
        width: Any = ir.Constant(ir.IntType(64), 1)
        for axis in range(1, signature.args[0].ndim):
            width = builder.mul(width, builder.extract_value(matrix.shape, axis))
        place = builder.gep(matrix.data, [builder.mul(arguments[1], width)])
        return builder.ptrtoint(place, ir.IntType(64))

    return signature, generate


def _interleave(typing_context: Any, addresses: Any, count: Any, out: Any) -> Any:
    """Write numbers that stand in eight places, one after another, as one entry of eight lanes after another."""
    signature = types.void(addresses, types.intp, out)
    low = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0, 8, 1, 9, 2, 10, 3, 11])
    high = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [4, 12, 5, 13, 6, 14, 7, 15])

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, double = ir.IntType(64), ir.DoubleType()
        table = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        target = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        rows = [
            builder.inttoptr(builder.load(builder.gep(table, [ir.Constant(word, lane)])), double.as_pointer())
            for lane in range(LANES)
        ]
        lanes = ir.Constant(word, LANES)
        blocks = builder.udiv(arguments[1], lanes)
        with cgutils.for_range(builder, blocks) as loop:
            first = builder.mul(loop.index, lanes)
            values = [_load(builder, builder.bitcast(builder.gep(row, [first]), _VECTOR.as_pointer())) for row in rows]
            # To shuffle each row with the one four further on, three times, is to turn rows into columns.
            for _ in range(3):
                pairs = [(values[i], values[i + LANES // 2]) for i in range(LANES // 2)]
                values = [builder.shuffle_vector(a, b, order) for a, b in pairs for order in (low, high)]
            for entry, value in enumerate(values):
                place = builder.mul(builder.add(first, ir.Constant(word, entry)), lanes)
                _store(builder, value, builder.bitcast(builder.gep(target, [place]), _VECTOR.as_pointer()))
        done = builder.mul(blocks, lanes)
        with cgutils.for_range(builder, builder.sub(arguments[1], done)) as loop:
            entry = builder.add(done, loop.index)
            rest: Any = ir.Constant(_VECTOR, ir.Undefined)
            for lane, row in enumerate(rows):
                number = builder.load(builder.gep(row, [entry]))
                rest = builder.insert_element(rest, number, ir.Constant(ir.IntType(32), lane))
            place = builder.gep(target, [builder.mul(entry, lanes)])
            _store(builder, rest, builder.bitcast(place, _VECTOR.as_pointer()))
        return context.get_dummy_value()

    return signature, generate


address: Any = intrinsic(_address)
"""``address(array, row)``: where a row of an array begins."""

interleave: Any = intrinsic(_interleave)
"""``interleave(addresses, count, out)``: write ``count`` numbers of each of eight places as entries of eight lanes."""

fetch: Any = intrinsic(_fetch)
"""``fetch(array, row)``: ask memory for a row that will be needed soon; nothing happens but that it comes earlier."""

scale_row: Any = intrinsic(_scale_row)
"""``scale_row(out, o, a, i, count)``: multiply ``count`` entries from ``out[o]`` on by the entry at ``a[i]``."""

inverse_root: Any = intrinsic(_inverse_root)
"""``inverse_root(out, o, a, i, least, j)``: write ``1 / sqrt(max(a, least))`` of two entries to ``out[o]``."""
