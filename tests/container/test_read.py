import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from posse.container import DamagedFile, MissingFile, SavedFileError, open_container, write_container
from posse.container.read import Source
from posse.errors import InvalidValue, PosseError, ShapeError, UnknownLabel

TOY = {"kind": "toy", "versions": (1, 2)}
SMALL = {
    "values": np.array([[1.5, -2.0, np.nan], [0.0, 1e300, 3.0]]),
    "labels": np.array([3, 1, 2**40]),
    "short": np.array([7, -7], dtype=np.int32),
    "text": np.frombuffer("aé".encode(), dtype=np.uint8),
    "none": np.zeros((0, 4)),
    "flags": np.array([True, False, True]),
    "one": np.array(2.5),
}


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.posse"
    write_container(path, kind="toy", version=1, header={"arms": ["red", "grün"]}, arrays=SMALL, chunk_bytes=64)
    return path


def read_all(path):
    with open_container(path, **TOY) as box:
        return {name: box.read(name) for name in box.names}


def test_an_open_container_says_what_it_holds(small):
    with open_container(str(small), **TOY) as box:
        assert (box.kind, box.version, box.path) == ("toy", 1, small)
        assert box.header == {"arms": ["red", "grün"]}
        assert box.names == tuple(SMALL)
        for name, array in SMALL.items():
            assert box.shape(name) == array.shape
            assert box.dtype(name) == array.dtype


def test_what_was_read_belongs_to_the_caller(small):
    with open_container(small, **TOY) as box:
        first = box.read("values")
        first[:] = 0
        np.testing.assert_array_equal(box.read("values"), SMALL["values"])
    assert not first.any()


def test_every_flipped_bit_is_found(small):
    data = small.read_bytes()
    for at in range(len(data)):
        for bit in (0, 3, 7):
            broken = bytearray(data)
            broken[at] ^= 1 << bit
            small.write_bytes(broken)
            with pytest.raises(DamagedFile):
                read_all(small)
    small.write_bytes(data)
    np.testing.assert_array_equal(read_all(small)["labels"], SMALL["labels"])


def test_every_other_length_is_refused_before_any_array_is_read(small):
    data = small.read_bytes()
    for length in range(len(data)):
        small.write_bytes(data[:length])
        with pytest.raises(DamagedFile):
            open_container(small, **TOY)
    for more in (b"\0", b"x", bytes(64), data):
        small.write_bytes(data + more)
        with pytest.raises(DamagedFile, match=f"should be {len(data)} bytes long, but it is {len(data) + len(more)}"):
            open_container(small, **TOY)


@given(data=st.data())
def test_no_damage_gives_anything_but_one_error_or_the_same_arrays(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.posse"
    write_container(path, kind="toy", version=1, header={"a": 1}, arrays=SMALL, chunk_bytes=64)
    whole = path.read_bytes()
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(broken)))
        stop = data.draw(st.integers(start, min(len(broken), start + 70)))
        broken[start:stop] = data.draw(st.binary(max_size=70) | st.just(bytes(stop - start)))
    path.write_bytes(broken)
    try:
        read_all(path)
    except DamagedFile as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert broken == whole


def test_bytes_of_two_arrays_or_chunks_cannot_be_exchanged(tmp_path):
    path = tmp_path / "f"
    arrays = {"a": np.arange(16.0), "b": np.arange(16.0) + 100}
    write_container(path, kind="toy", version=1, header={}, arrays=arrays, chunk_bytes=64)
    data = path.read_bytes()
    body, size = data[:-256], 64
    chunks = [data[len(body) + size * i :][:size] for i in range(4)]
    for order in ([2, 3, 0, 1], [1, 0, 2, 3], [0, 1, 3, 2]):
        path.write_bytes(body + b"".join(chunks[i] for i in order))
        with pytest.raises(DamagedFile, match="do not match their checksum"):
            read_all(path)


def test_the_error_says_where_the_damage_is(small):
    data = bytearray(small.read_bytes())
    at = bytes(data).index(SMALL["labels"].tobytes())
    data[at + 5] ^= 1
    small.write_bytes(data)
    with open_container(small, **TOY) as box:
        with pytest.raises(
            DamagedFile, match=f"bytes {at} to {at + 23}, in array 'labels'.*; restore it from a backup"
        ):
            box.read("labels")
        np.testing.assert_array_equal(box.read("values"), SMALL["values"])


rows_and_shapes = st.tuples(st.integers(1, 40), npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=6))


@given(rows_and_shapes, st.sampled_from([np.float64, np.int32, np.uint8, np.bool_]), st.data())
def test_partial_reads_equal_slices(tmp_path_factory, shape, dtype, data):
    path = tmp_path_factory.getbasetemp() / "partial.posse"
    n_rows, rest = shape
    array = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 200, (n_rows, *rest)).astype(dtype)
    write_container(path, kind="toy", version=1, header={}, arrays={"a": array}, chunk_bytes=64)
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    rows = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=10))
    with open_container(path, **TOY) as box:
        part = box.rows("a", start, stop)
        taken = box.take("a", np.array(rows, dtype=data.draw(st.sampled_from([np.int64, np.int32, np.uint8]))))

    for got, expected in ((part, array[start:stop]), (taken, array[rows])):
        assert got.dtype == array.dtype
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)
        assert got.flags.writeable


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Nine chunks of 64 bytes in rows of 24 bytes, and a list of the places that are read."""
    path = tmp_path / "rows.posse"
    write_container(
        path, kind="toy", version=1, header={}, arrays={"a": np.arange(72.0).reshape(24, 3)}, chunk_bytes=64
    )
    start = path.stat().st_size - 576
    read = []
    real = Source.read_at

    def read_at(self, place, target):
        if place >= start:
            read.append(((place - start) // 64, len(target)))
        real(self, place, target)

    monkeypatch.setattr(Source, "read_at", read_at)
    return path, start, read


# Row r has the bytes 24 r to 24 r + 23, so rows 2, 5 and 18 stand across two chunks.
@pytest.mark.parametrize(
    ("rows", "chunks"),
    [
        ([0], [0]),
        ([1], [0]),
        ([2], [0, 1]),
        ([3, 4], [1]),
        ([0, 23], [0, 8]),
        ([5, 5, 5], [1, 2]),
        ([18, 2, 0], [0, 1, 6, 7]),
        ([1, 2, 3], [0, 1]),
        ([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2]),
        ([], []),
        (list(range(23, -1, -1)), list(range(9))),
    ],
)
def test_only_touched_chunks_are_read_and_each_once(counted, rows, chunks):
    path, _, read = counted
    with open_container(path, **TOY) as box:
        taken = box.take("a", np.array(rows, dtype=np.int64))

    np.testing.assert_array_equal(taken, np.arange(72.0).reshape(24, 3)[rows])
    assert read == [(chunk, 64) for chunk in chunks]


def test_a_range_reads_the_chunks_it_stands_in(counted):
    path, _, read = counted
    with open_container(path, **TOY) as box:
        box.rows("a", 3, 6)
        assert [chunk for chunk, _ in read] == [1, 2]
        read.clear()
        box.rows("a", 4, 4)
        assert read == []


def test_damage_matters_where_it_is_and_nowhere_else(counted):
    path, start, _ = counted
    array = np.arange(72.0).reshape(24, 3)
    data = path.read_bytes()
    for chunk in range(9):
        broken = bytearray(data)
        broken[start + 64 * chunk + 17] ^= 4
        path.write_bytes(broken)
        with open_container(path, **TOY) as box:
            for row in range(24):
                touched = 24 * row // 64 <= chunk <= (24 * row + 23) // 64
                for part in (lambda r=row: box.rows("a", r, r + 1), lambda r=row: box.take("a", np.array([r]))):
                    if touched:
                        with pytest.raises(DamagedFile, match="do not match their checksum"):
                            part()
                    else:
                        np.testing.assert_array_equal(part(), array[[row]])
            with pytest.raises(DamagedFile):
                box.read("a")


def test_questions_that_have_no_answer(small):
    with open_container(small, **TOY) as box:
        for method in (box.read, box.shape, box.dtype):
            with pytest.raises(UnknownLabel, match=r"no array 'gram' in .*; its arrays are 'values', 'labels'"):
                method("gram")
        for bounds in ((-1, 1), (0, 3), (2, 1), (0.0, 1), (0, True)):
            with pytest.raises(InvalidValue):
                box.rows("values", *bounds)
        for rows in ([2], [-1], [0.5], [[0]], 0, [2**63], ["a"], [True]):
            with pytest.raises(InvalidValue):
                box.take("values", np.array(rows))
        with pytest.raises(ShapeError, match=r"'one' is a single value without rows; use read\('one'\)"):
            box.rows("one", 0, 1)
        with pytest.raises(ShapeError):
            box.take("one", np.array([0]))
        with pytest.raises(InvalidValue):
            box.take("none", np.array([0]))
    with pytest.raises(InvalidValue, match="is closed"):
        box.read("values")


def test_another_kind_or_version_is_refused(small):
    with pytest.raises(DamagedFile, match="holds 'toy', but 'fleet' was expected; choose another file"):
        open_container(small, kind="fleet", versions=(1,))
    with pytest.raises(DamagedFile, match="is version 1 of 'toy', but this posse reads 2, 3; learn its log"):
        open_container(small, kind="toy", versions=(3, 2))
    write_container(small, kind="toy", version=4, header={}, arrays={})
    with pytest.raises(DamagedFile, match="but this posse reads 1, 2; it was written by a newer posse: upgrade posse"):
        open_container(small, **TOY)


def test_a_missing_file_or_a_folder_is_named(tmp_path):
    with pytest.raises(MissingFile, match=r"no file .*nothing\.posse; check the path"):
        open_container(tmp_path / "nothing.posse", **TOY)
    with pytest.raises(SavedFileError, match="it is not a file"):
        open_container(tmp_path, **TOY)
    for error in (MissingFile, DamagedFile, SavedFileError):
        assert issubclass(error, (PosseError, ValueError))


def test_a_refused_file_is_closed(small):
    small.write_bytes(small.read_bytes()[:-1])
    with pytest.raises(DamagedFile):
        open_container(small, **TOY)
    gc.collect()  # a file left open would warn here, and warnings are errors


def test_a_file_cut_while_it_is_open_is_damaged(small):
    with open_container(small, **TOY) as box:
        os.truncate(small, small.stat().st_size - 100)
        with pytest.raises(DamagedFile, match="cut off while it was read"):
            box.read("one")


def test_an_array_larger_than_memory_is_our_error(small, monkeypatch):
    with open_container(small, **TOY) as box:

        def empty(*args, **kwargs):
            raise MemoryError("Unable to allocate 7 TiB")

        monkeypatch.setattr(np, "empty", empty)
        with pytest.raises(SavedFileError, match=r"cannot read array 'values' of .*7 TiB; read fewer rows"):
            box.read("values")


def test_readers_see_one_file_or_the_other_while_it_is_replaced(tmp_path):
    path = tmp_path / "f"

    def write(number):
        arrays = {name: np.full(5_000, float(number)) for name in ("a", "b", "c")}
        write_container(path, kind="toy", version=1, header={"number": number}, arrays=arrays, chunk_bytes=4096)

    write(0)
    done = threading.Event()

    def read():
        seen = set()
        while not done.is_set() or not seen:
            with open_container(path, **TOY) as box:
                number = box.header["number"]
                for name in reversed(box.names):
                    assert (box.read(name) == number).all()
            seen.add(number)
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(1, 40):
                write(number)
        finally:
            done.set()
        seen = [reader.result() for reader in readers]

    assert all(numbers <= set(range(40)) for numbers in seen)
    assert os.listdir(tmp_path) == ["f"]


def test_threads_may_share_an_open_container(tmp_path):
    path = tmp_path / "f"
    array = np.arange(40_000.0).reshape(1000, 40)
    write_container(path, kind="toy", version=1, header={}, arrays={"a": array}, chunk_bytes=1024)
    with open_container(path, **TOY) as box:

        def check(seed):
            rows = np.random.default_rng(seed).integers(0, 1000, 30)
            return np.array_equal(box.take("a", rows), array[rows])

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(check, range(100)))
