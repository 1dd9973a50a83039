"""One number for many arrays.

A kernel that is called from Python with the twenty arrays of a belief spends more time on taking them over, one after
another, than on its work. A *handle* is a table of words that says where these arrays lie and how large they are. A
kernel takes its address, one whole number, and opens it: what it gets has the same fields as the named tuple of arrays,
so everything that looks at fields of the named tuple works on an opened handle. Nothing is copied: writes are writes to
the caller's arrays.

::

    LAYOUT = Layout(Sums(gram=floats(3), moment=floats(2), sum_of_squares=floats(1), counts=floats(1)))
    open_sums = LAYOUT.open

    @short_kernel
    def count(address: int, row: int) -> float:
        return open_sums(address).counts[row]

    handle = Handle(LAYOUT, sums)
    count(handle.address, 3)

Keep the handle in a name of its own while a kernel runs: in ``count(Handle(LAYOUT, sums).address, 3)`` the table is
gone before the kernel opens it.

A named tuple may hold arrays of float64, int64 or bool, in C order, aligned and writeable; single numbers, of which the
table keeps a copy; and other named tuples of these. A table is written once and never changed: when an array is
replaced by another one, or a number by another, make a new handle, and keep the old one while a kernel may be reading
it.
"""

from __future__ import annotations

import copy
import zlib
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posse.types import Array, BoolArray, IntArray

Parts = TypeVar("Parts", bound=tuple[Any, ...])

STALE = "compiled code from an earlier version of posse is in the way: delete Numba's cache (__pycache__/*.nb*)"
WORD = ir.IntType(64)
DTYPES = {np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)}


def floats(n_axes: int) -> Array:
    """Return an array that stands for all float64 arrays with this many axes."""
    return np.empty((0,) * n_axes)


def ints(n_axes: int) -> IntArray:
    """Return an array that stands for all int64 arrays with this many axes."""
    return np.empty((0,) * n_axes, dtype=np.int64)


def flags(n_axes: int) -> BoolArray:
    """Return an array that stands for all bool arrays with this many axes."""
    return np.empty((0,) * n_axes, dtype=np.bool_)


def leaves(parts: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and numbers of nested named tuples with their names, in the order of the table."""
    for name, part in zip(parts._fields, parts, strict=True):
        if isinstance(part, tuple):
            yield from leaves(part, f"{path}{name}.")
        else:
            yield path + name, part


def kind_of(name: str, leaf: Any) -> str:
    """Return what kind of array or number this is; raise if it has no place in a table."""
    if isinstance(leaf, np.ndarray):
        if leaf.dtype not in DTYPES:
            raise TypeError(f"{name} must hold float64, int64 or bool, but its type is {leaf.dtype}")
        if not leaf.flags.carray:
            raise TypeError(f"{name} must be in C order, aligned and writeable, but it is not; pass a copy")
        return f"{leaf.dtype.name}[{leaf.ndim}]"
    if type(leaf) in (bool, int, float):
        return type(leaf).__name__
    raise TypeError(f"{name} must be an array or a number, but {type(leaf).__name__} came")


class Layout(Generic[Parts]):
    """What a kernel knows of a named tuple before it sees one: which arrays, of what type, with how many axes.

    Parameters
    ----------
    example : named tuple
        With arrays of any size: those of :func:`floats`, :func:`ints` and :func:`flags`, or real ones.

    Attributes
    ----------
    open : callable
        Takes an address and returns the named tuple. Only for kernels; give it a name of its own in the module, as
        kernels see no attributes.
    """

    open: Callable[[int], Parts]

    def __init__(self, example: Parts) -> None:
        self.name = type(example).__name__
        self.kinds = [f"{name} {kind_of(name, leaf)}" for name, leaf in leaves(example)]
        # Numba looks at a kernel's own file to see whether what it compiled before still holds, but the layout may come
        # from another one. The first word of a table says what layout it has, so that old code cannot misread it.
        self.mark = zlib.crc32("\n".join(self.kinds).encode())
        self.open = _opener(typeof(example), self.mark)

    def table(self, parts: Parts) -> IntArray:
        """Return the words that say where the arrays of ``parts`` lie."""
        words = [self.mark]
        named = list(leaves(parts))
        kinds = [f"{name} {kind_of(name, leaf)}" for name, leaf in named]
        if kinds != self.kinds:
            wrong = sorted(set(kinds) ^ set(self.kinds))
            raise TypeError(f"this is not laid out as {self.name}: look at {', '.join(wrong)}")
        for _, leaf in named:
            if isinstance(leaf, np.ndarray):
                words += [leaf.ctypes.data, *leaf.shape]
            elif type(leaf) is float:
                words.append(int(np.float64(leaf).view(np.int64)))
            else:
                words.append(int(leaf))
        return np.array(words, dtype=np.int64)


class Handle(Generic[Parts]):
    """A table of where the arrays of ``parts`` lie, together with the arrays, so that they stay there.

    A copy of a handle is a handle of copied arrays: objects that have one can be copied like any other.

    Parameters
    ----------
    layout : Layout
    parts : named tuple

    Attributes
    ----------
    address : int
        What a kernel opens; good for as long as this handle lives.
    """

    __slots__ = ("_table", "address", "layout", "parts")

    def __init__(self, layout: Layout[Parts], parts: Parts) -> None:
        self.layout = layout
        self.parts = parts
        self._table = layout.table(parts)
        self.address: int = self._table.ctypes.data

    def __repr__(self) -> str:
        return f"Handle({self.layout.name})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Handle[Parts]:
        return Handle(self.layout, copy.deepcopy(self.parts, memo))

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a handle is of use in its own process only; send the arrays and make another one there")


class View(types.Type):
    """The type of an opened handle, or of a named tuple inside of it: at run time nothing but the table's address.

    A named tuple of sixty arrays is some four hundred words, and a compiler that is handed it by value copies all of
    them at every assignment, call and look at a field. A view is one word: looking at an array reads its few words of
    the table, and what nobody looks at costs nothing.

    Parameters
    ----------
    mark : int
        Says which layout it is.
    name : str
        Of the named tuple inside of it.
    fields : dict
        What every field is: a view, an array, or a number; and its first word in the table.
    """

    def __init__(self, mark: int, name: str, fields: dict[str, tuple[Any, int]]) -> None:
        self.mark, self.fields = mark, fields
        super().__init__(f"View({name}, {mark})")


@register_model(View)
class _ViewModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, WORD)


@infer_getattr
class _ViewFields(AttributeTemplate):
    key = View

    def generic_resolve(self, view: View, name: str) -> Any:  # type: ignore[override]
        return view.fields[name][0] if name in view.fields else None


@lower_getattr_generic(View)
def _look_at(context: Any, builder: Any, view: View, address: Any, name: str) -> Any:
    kind, first = view.fields[name]
    if isinstance(kind, View):
        return address
    table = builder.inttoptr(address, WORD.as_pointer())
    place = iter(range(first, 1 << 30))

    def word() -> Any:
        pointer = builder.gep(table, [ir.Constant(WORD, next(place))], inbounds=True)
        value = builder.load(pointer)
        # Words do not change, so the compiler may read one where it is needed, and again rather than keep it.
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    if isinstance(kind, types.Array):
        return build_array(context, builder, kind, word)
    if kind == types.float64:
        return builder.bitcast(word(), ir.DoubleType())
    return context.cast(builder, word(), types.int64, kind)


def _view(named_tuple: Any, mark: int, path: str, first: int) -> tuple[View, int]:
    """Return the view of a named tuple whose first word is this, and the word after its last."""
    fields: dict[str, tuple[Any, int]] = {}
    for name, kind in zip(named_tuple.fields, named_tuple.types, strict=True):
        if hasattr(kind, "instance_class"):
            view, after = _view(kind, mark, f"{path}.{name}", first)
            fields[name] = (view, first)
            first = after
        else:
            fields[name] = (kind, first)
            first += 1 + (kind.ndim if isinstance(kind, types.Array) else 0)
    return View(mark, path, fields), first


def _opener(named_tuple: Any, mark: int) -> Any:
    """Return the intrinsic that turns an address into a view."""
    view, _ = _view(named_tuple, mark, named_tuple.instance_class.__name__, 1)

    def open_parts(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 -- Numba passes it
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            found = builder.load(builder.inttoptr(arguments[0], WORD.as_pointer()))
            stale = builder.icmp_unsigned("!=", found, ir.Constant(WORD, mark))
            with builder.if_then(stale, likely=False):
                context.call_conv.return_user_exc(builder, RuntimeError, (STALE,))
            return arguments[0]

        return view(types.int64), generate

    return intrinsic(open_parts)


def build_array(context: Any, builder: Any, kind: Any, word: Callable[[], Any]) -> Any:
    """Return an array value from the next words of a table: its address and its shape."""
    # Only here: it is large, and those who compile nothing need not wait for it.
    from numba.np.arrayobj import make_array, populate_array

    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    data = builder.inttoptr(word(), context.get_data_type(kind.dtype).as_pointer())
    shape = [word() for _ in range(kind.ndim)]
    strides: list[Any] = []
    stride: Any = ir.Constant(WORD, size)
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    array = make_array(kind)(context, builder)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=ir.Constant(WORD, size), meminfo=None)
    return array._getvalue()
