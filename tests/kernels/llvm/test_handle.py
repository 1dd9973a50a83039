"""Handles: the same arrays on either side, nothing else opened by mistake, nothing leaked."""

import copy
import re
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from posse.kernels.llvm.handle import Handle, Layout, flags, floats, ints

pytestmark = pytest.mark.slow

# Not kept: a cached kernel would test code that is no longer there.
compiled = njit(error_model="numpy")


class Inner(NamedTuple):
    weights: np.ndarray
    marks: np.ndarray
    scale: float


class Outer(NamedTuple):
    n: int
    cube: np.ndarray
    inner: Inner
    labels: np.ndarray
    bent: bool
    level: float


LAYOUT = Layout(Outer(0, floats(3), Inner(floats(1), flags(2), 0.0), ints(2), False, 0.0))
open_outer = LAYOUT.open


def parts(n=-7, scale=-2.5, bent=True, level=0.1):
    return Outer(
        n=n,
        cube=np.arange(24.0).reshape(2, 3, 4),
        inner=Inner(np.array([0.5, -1.5]), np.array([[True, False, True]]), scale),
        labels=np.array([[4, -9], [2**62, 0], [1, 1]]),
        bent=bent,
        level=level,
    )


@compiled
def shapes(address):
    outer = open_outer(address)
    return outer.cube.shape, outer.inner.weights.shape, outer.inner.marks.shape, outer.labels.shape


@compiled
def numbers(address):
    outer = open_outer(address)
    return outer.n, outer.inner.scale, outer.bent, outer.level


@compiled
def read(address, cube, weights, marks, labels):
    outer = open_outer(address)
    cube[:] = outer.cube
    weights[:] = outer.inner.weights
    marks[:] = outer.inner.marks
    labels[:] = outer.labels


@compiled
def write(address):
    outer = open_outer(address)
    outer.cube[1, 2, 3] = -1.0
    outer.cube[0] *= 2.0
    outer.inner.weights[1] = 8.0
    outer.inner.marks[0, 1] = True
    outer.labels[1, 0] += 1
    return outer.inner.marks[0].sum()


def test_a_kernel_sees_what_was_handed_over():
    given = parts()
    handle = Handle(LAYOUT, given)

    assert shapes(handle.address) == ((2, 3, 4), (2,), (1, 3), (3, 2))
    assert numbers(handle.address) == (-7, -2.5, True, 0.1)
    seen = [np.empty_like(array) for array in (given.cube, given.inner.weights, given.inner.marks, given.labels)]
    read(handle.address, *seen)
    for array, original in zip(seen, (given.cube, given.inner.weights, given.inner.marks, given.labels), strict=True):
        assert_array_equal(array, original)


@compiled
def crosswise(address):
    outer = open_outer(address)
    return outer.cube[:, 1, :].copy(), outer.cube[:, 1:, 2].copy(), outer.labels.T.copy()


def test_writes_are_writes_to_the_callers_arrays():
    given = parts()
    handle = Handle(LAYOUT, given)
    assert write(handle.address) == 3

    expected = np.arange(24.0).reshape(2, 3, 4)
    expected[0] *= 2.0
    expected[1, 2, 3] = -1.0
    assert_array_equal(given.cube, expected)
    assert_array_equal(given.inner.weights, [0.5, 8.0])
    assert given.inner.marks.all()
    assert_array_equal(given.labels, [[4, -9], [2**62 + 1, 0], [1, 1]])


def test_a_handle_keeps_its_arrays_and_opening_it_owns_nothing():
    given = parts()
    before = [sys.getrefcount(array) for array in (given.cube, given.labels)]
    handle = Handle(LAYOUT, given)
    for _ in range(100):
        write(handle.address)
    assert [sys.getrefcount(array) for array in (given.cube, given.labels)] == before

    cube = given.cube
    del given
    assert sys.getrefcount(cube) >= 3, "the handle holds it"
    del handle
    assert sys.getrefcount(cube) == 2


def test_a_deep_copy_opens_copied_arrays():
    given = parts()
    holder = {"arrays": given, "handle": Handle(LAYOUT, given)}
    copied = copy.deepcopy(holder)
    write(copied["handle"].address)

    assert_array_equal(given.cube, np.arange(24.0).reshape(2, 3, 4))
    assert copied["arrays"].cube[1, 2, 3] == -1.0, "what was copied together stays together"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"cube": np.zeros((2, 3, 4), dtype=np.float32)}, "cube .* float32"),
        ({"cube": np.zeros((2, 3))}, r"not laid out as Outer: .*cube float64\[2\]"),
        ({"cube": np.zeros((2, 3, 4), order="F")}, "cube must be in C order"),
        ({"cube": np.zeros((2, 3, 8))[:, :, ::2]}, "cube must be in C order"),
        ({"labels": np.zeros((3, 2))}, r"labels float64\[2\]"),
        ({"labels": np.zeros((3, 2), dtype=np.int32)}, "labels .* int32"),
        ({"n": 1.0}, "n float"),
        ({"level": None}, "level must be an array or a number, but NoneType came"),
        ({"inner": Inner(np.zeros(1), np.zeros((1, 1)), 1.0)}, r"inner.marks float64\[2\]"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_does_not_fit_is_refused(wrong, words):
    with pytest.raises(TypeError, match=words):
        Handle(LAYOUT, parts()._replace(**wrong))


def test_read_only_arrays_are_refused():
    given = parts()
    given.cube.flags.writeable = False
    with pytest.raises(TypeError, match="writeable"):
        Handle(LAYOUT, given)


def test_a_table_of_another_layout_is_not_opened():
    # What old compiled code would do with the table of a newer layout.
    other = Layout(Inner(floats(1), flags(2), 0.0))
    handle = Handle(other, parts().inner)
    with pytest.raises(RuntimeError, match="delete Numba's cache"):
        numbers(handle.address)


PROGRAM = """
from typing import NamedTuple
import numpy as np
from posse.kernels.compiler import short_kernel
from posse.kernels.llvm.handle import Handle, Layout, floats

class Pair(NamedTuple):
    a: np.ndarray
    b: float

LAYOUT = Layout(Pair(floats(1), 0.0))
open_pair = LAYOUT.open

@short_kernel
def total(address):
    pair = open_pair(address)
    return pair.a.sum() + pair.b

room = [np.empty({extra}) for _ in range({extra})]  # so that arrays lie elsewhere in the second run
handle = Handle(LAYOUT, Pair(np.full({n}, 2.0), 0.5))
print(total(handle.address), sum(total.stats.cache_hits.values()))
"""


def test_cached_code_knows_no_address(tmp_path):
    answers = []
    for n in (3, 5):
        script = tmp_path / "program.py"
        if not script.exists():
            script.write_text("import sys\nn = int(sys.argv[1])\n" + re.sub(r"{(n|extra)}", "n", PROGRAM))
        run = subprocess.run(
            [sys.executable, script, str(n)],
            capture_output=True,
            check=True,
            text=True,
            env={"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""},
        )
        answers.append(run.stdout.split())
    assert answers == [["6.5", "0"], ["10.5", "1"]]
