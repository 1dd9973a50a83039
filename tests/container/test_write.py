import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from posse.container import SavedFileError, open_container, write_container
from posse.container import write as module
from posse.errors import InvalidValue, ShapeError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
dtypes = st.sampled_from([np.float64, np.int64, np.int32, np.uint8, np.bool_])
shapes = npst.array_shapes(min_dims=0, max_dims=8, min_side=0, max_side=3) | st.tuples(st.integers(0, 400))
arrays = st.dictionaries(text, npst.arrays(dtypes, shapes), max_size=4)
ONE = {"kind": "toy", "version": 1, "header": {}, "arrays": {}}


def read_all(path, kind="toy", version=1):
    with open_container(path, kind=kind, versions=(version,)) as box:
        return box.header, {name: box.read(name) for name in box.names}


def assert_same(back, arrays):
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        # As bytes, so that NaN and -0.0 count too.
        assert back[name].tobytes() == array.tobytes()
        assert back[name].flags.writeable
        assert back[name].flags.c_contiguous


@given(
    header=st.dictionaries(text, values, max_size=4),
    arrays=arrays,
    kind=text,
    version=st.integers(0, 2**31 - 1),
    chunk_bytes=st.sampled_from([64, 128, 192, 1 << 18]),
)
def test_what_is_written_is_read(tmp_path_factory, header, arrays, kind, version, chunk_bytes):
    path = tmp_path_factory.getbasetemp() / "trip.posse"
    write_container(path, kind=kind, version=version, header=header, arrays=arrays, chunk_bytes=chunk_bytes)
    back, values = read_all(path, kind, version)

    assert back == header
    assert_same(values, arrays)


@given(st.data())
def test_arrays_of_any_strides_and_byte_order_are_written_in_c_order(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "strides.posse"
    array = data.draw(npst.arrays(dtypes, npst.array_shapes(max_dims=4, max_side=9)))
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    array = array[tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1, -3]))) for _ in range(array.ndim))]
    if data.draw(st.booleans()):
        array = array.astype(array.dtype.newbyteorder(">"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_BYTES", data.draw(st.sampled_from([1, 16, 100, 1 << 20])))
        write_container(path, **ONE | {"arrays": {"a": array}}, chunk_bytes=64)

    assert_same(read_all(path)[1], {"a": array.astype(array.dtype.newbyteorder("="))})


def test_an_array_is_never_copied_whole(tmp_path, monkeypatch):
    array = np.random.default_rng(0).random((3, 50_000, 4))
    sizes = []
    real = np.ascontiguousarray

    def spy(block, **kwargs):
        result = real(block, **kwargs)
        sizes.append(0 if np.shares_memory(result, array) else result.nbytes)
        return result

    monkeypatch.setattr(np, "ascontiguousarray", spy)
    write_container(tmp_path / "a", **ONE | {"arrays": {"a": array}})
    assert sizes == [0]
    write_container(tmp_path / "b", **ONE | {"arrays": {"a": array.transpose(1, 0, 2)}})
    assert max(sizes) <= 1 << 20
    assert sum(sizes) == array.nbytes
    write_container(tmp_path / "c", **ONE | {"arrays": {"a": array.astype(">f8")}})
    assert max(sizes) <= 1 << 20
    assert_same(read_all(tmp_path / "b")[1], {"a": array.transpose(1, 0, 2)})


def test_the_same_content_is_the_same_bytes(tmp_path):
    arrays = {"a": np.arange(100.0), "b": np.arange(3)}
    write_container(tmp_path / "a", kind="toy", version=1, header={"x": 1, "y": 2}, arrays=arrays)
    write_container(tmp_path / "b", kind="toy", version=1, header={"y": 2, "x": 1}, arrays=arrays)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"version": -1}, InvalidValue, "version to be at least 0"),
        ({"version": 2**31}, InvalidValue, "version to be at most"),
        ({"version": "1"}, InvalidValue, "version to be a whole number"),
        ({"kind": 3}, InvalidValue, "kind to be text"),
        ({"header": [1]}, InvalidValue, "header to be a mapping, got list"),
        ({"header": {"a": float("nan")}}, InvalidValue, "header to be plain JSON values"),
        ({"header": {"a": np.arange(2)}}, InvalidValue, "header to be plain JSON values"),
        ({"header": {"a": "x" * (1 << 24)}}, InvalidValue, "put long lists into arrays"),
        ({"arrays": {3: np.arange(2)}}, InvalidValue, "names of arrays to be text"),
        ({"arrays": {"a": [1, 2]}}, InvalidValue, "array 'a' to be an ndarray of .*, got list"),
        ({"arrays": {"a": np.arange(2, dtype=np.float32)}}, InvalidValue, "got one of float32"),
        ({"arrays": {"a": np.array([None])}}, InvalidValue, "got one of object"),
        ({"arrays": {"a": np.zeros((1,) * 9)}}, ShapeError, "at most 8 axes"),
        ({"arrays": {"\ud800": np.arange(2)}}, InvalidValue, "header to be plain JSON values"),
        ({"chunk_bytes": 100}, InvalidValue, "chunk_bytes to be a multiple of 64"),
        ({"chunk_bytes": 0}, InvalidValue, "chunk_bytes to be at least 64"),
        ({"chunk_bytes": 1 << 27}, InvalidValue, "chunk_bytes to be a multiple of 64 up to"),
        (
            {"arrays": {"a": np.broadcast_to(np.float64(0), 1 << 25)}, "chunk_bytes": 64},
            InvalidValue,
            "larger chunk_bytes",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_touched(tmp_path, wrong, error, message):
    with pytest.raises(error, match=message):
        write_container(tmp_path / "f", **ONE | wrong)
    assert os.listdir(tmp_path) == []


def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "f"
    arrays = {"a": np.arange(1000.0), "b": np.arange(5)}
    write_container(path, **ONE | {"arrays": arrays}, chunk_bytes=64)
    real = module._write_all
    calls = []

    def write_all(file, data):
        calls.append(len(data))
        if len(calls) == fail_at:
            raise OSError(28, "No space left on device")
        real(file, data)

    monkeypatch.setattr(module, "_write_all", write_all)
    # 125 chunks of a, 1 of b, the front: the first, one in the middle, the last.
    for fail_at in (1, 60, 127):
        calls.clear()
        with pytest.raises(SavedFileError, match="No space left on device; free some space"):
            write_container(path, **ONE | {"arrays": {"a": -arrays["a"], "b": -arrays["b"]}}, chunk_bytes=64)
        assert len(calls) == fail_at
        assert os.listdir(tmp_path) == ["f"]
        assert_same(read_all(path)[1], arrays)


def test_short_writes_are_continued(tmp_path):
    class Slow:
        def __init__(self):
            self.data = b""

        def write(self, piece):
            self.data += bytes(piece[:7])
            return min(7, len(piece))

    slow = Slow()
    module._write_all(slow, memoryview(bytes(range(100))))
    assert slow.data == bytes(range(100))
