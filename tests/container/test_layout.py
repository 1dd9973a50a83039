"""Fronts and headers that a hostile writer could seal: every number in them is doubted before anything is allocated."""

import copy
import hashlib
import json
import operator
import os
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from posse.container import DamagedFile, open_container, write_container
from posse.container.layout import ALIGNMENT, DTYPES, MAGIC, PREFIX, aligned, place

CHUNK = 64
ARRAYS = {"a": np.arange(20.0), "b": np.arange(3, dtype=np.int32), "c": np.zeros((2, 0)), "d": np.array([True, False])}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sound file, taken apart: numbers of the prefix, header object, checksums and what follows the seal."""
    path = tmp_path_factory.mktemp("whole") / "sound.posse"
    write_container(path, kind="toy", version=1, header={"x": [1, 2]}, arrays=ARRAYS, chunk_bytes=CHUNK)
    data = path.read_bytes()
    magic, number, chunk_bytes, header_bytes, n_chunks, file_bytes = struct.unpack("<8sIIQQQ", data[:40])
    table = 40 + header_bytes
    return {
        "magic": magic,
        "number": number,
        "chunk_bytes": chunk_bytes,
        "header_bytes": header_bytes,
        "n_chunks": n_chunks,
        "file_bytes": file_bytes,
        "header": json.loads(data[40:table]),
        "digests": data[table : table + 32 * n_chunks],
        "body": data[aligned(table + 32 * n_chunks + 32) :],
    }


def forged(parts, **changes):
    """Put a file together, with a seal that fits; what is not changed follows from the rest."""
    parts = parts | changes
    header = parts["header"]
    if not isinstance(header, bytes):
        header = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    size = aligned(72 + len(header) + len(parts["digests"])) + len(parts["body"])
    prefix = struct.pack(
        "<8sIIQQQ",
        parts["magic"],
        parts["number"],
        parts["chunk_bytes"],
        changes.get("header_bytes", len(header)),
        changes.get("n_chunks", len(parts["digests"]) // 32),
        changes.get("file_bytes", size),
    )
    front = prefix + header + parts["digests"]
    front += hashlib.sha256(front).digest()
    return front + bytes(aligned(len(front)) - len(front)) + parts["body"]


def read_all(path):
    with open_container(path, kind="toy", versions=(1,)) as box:
        return {name: box.read(name) for name in box.names}


def refused(path, data, reason):
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match=reason) as caught:
        read_all(path)
    assert "restore" in str(caught.value) or "upgrade" in str(caught.value) or "check the path" in str(caught.value)


def test_the_documented_layout_is_what_is_written(tmp_path, whole):
    path = tmp_path / "again.posse"
    path.write_bytes(forged(whole))

    assert whole["magic"] == bytes.fromhex("89706f7373650d0a") == MAGIC
    assert (whole["number"], PREFIX.size) == (1, 40)
    back = read_all(path)
    assert list(back) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)
    # By hand: 160 bytes of a, up to 192; 12 of b, up to 256; none of c; 2 of d.
    assert len(whole["body"]) == 258
    assert np.frombuffer(whole["body"][:160], "<f8").tolist() == list(range(20))
    assert np.frombuffer(whole["body"][192:204], "<i4").tolist() == [0, 1, 2]
    assert whole["body"][256:] == b"\x01\x00"
    chunks = [(0, 64), (64, 128), (128, 160), (192, 204), (256, 258)]
    assert whole["digests"] == b"".join(hashlib.sha256(whole["body"][slice(*c)]).digest() for c in chunks)


def test_arrays_stand_aligned_and_apart():
    front, entries = place(
        [("a", "uint8", (65,)), ("b", "bool", ()), ("c", "float64", (0,))], header_bytes=3, chunk_bytes=64
    )

    assert (front.n_chunks, front.stop) == (3, 40 + 3 + 4 * 32)
    assert [(e.start, e.stop, e.first_chunk, e.n_chunks) for e in entries] == [
        (192, 257, 0, 2),
        (320, 321, 2, 1),
        (384, 384, 3, 0),
    ]
    assert front.file_bytes == 384
    assert all(entry.start % ALIGNMENT == 0 for entry in entries)


HUGE = [2**31, 2**32 - 1, 2**40, 2**61, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize(
    ("field", "values", "reason"),
    [
        ("file_bytes", [0, 1, 63, 65, 1 << 20, *HUGE], "it should be .* bytes long, but it is 770"),
        ("chunk_bytes", [0, 1, 63, 65, 96, (1 << 26) + 64, 2**31, 2**32 - 1], "its chunks cannot be"),
        ("chunk_bytes", [128, 1 << 20, 1 << 26], "its arrays would make"),
        ("header_bytes", [(1 << 24) + 1, *HUGE], "its header cannot be"),
        ("header_bytes", [600, 1 << 20, 1 << 24], "behind its own end at 770"),
        ("header_bytes", [0, 1, 227, 229], "does not match its checksum"),
        ("n_chunks", [(1 << 21) + 1, *HUGE], "it cannot have .* chunks"),
        ("n_chunks", [15, 1 << 20, 1 << 21], "behind its own end at 770"),
        ("n_chunks", [0, 4, 6], "does not match its checksum"),
    ],
)
def test_impossible_numbers_at_the_front(tmp_path, whole, field, values, reason):
    for value in values:
        refused(tmp_path / "f", forged(whole, **{field: value}), f"is damaged: .*{reason}")


def test_a_file_full_of_holes_is_not_taken_for_a_long_header(tmp_path, whole):
    path = tmp_path / "f"
    for changes in ({"header_bytes": 1 << 30}, {"n_chunks": 1 << 26}):
        path.write_bytes(forged(whole, **changes, file_bytes=1 << 33))
        os.truncate(path, 1 << 33)
        with pytest.raises(DamagedFile, match="cannot"):
            read_all(path)


def test_sizes_that_wrap_around_are_not_believed(tmp_path, whole):
    # Each product or sum here is small modulo 2**64.
    for changes in [{"n_chunks": 2**59 + 5}, {"header_bytes": 2**64 - 40}, {"n_chunks": 2**59, "header_bytes": 2**24}]:
        refused(tmp_path / "f", forged(whole, **changes), "is damaged")


def test_another_format_is_newer_and_another_magic_is_another_file(tmp_path, whole):
    refused(tmp_path / "f", forged(whole, number=2), "newer posse, or is damaged: its format is 2.*upgrade posse")
    refused(tmp_path / "f", forged(whole, number=0), "is damaged: its format is 0")
    refused(tmp_path / "f", forged(whole, magic=b"\x89posse\n\n"), "is not a posse file")
    refused(tmp_path / "f", b"PAR1" + bytes(100), "is not a posse file")
    refused(tmp_path / "f", b"", "is no posse file, or cut off: it has 0 bytes")


def with_array(whole, index=0, **changes):
    header = copy.deepcopy(whole["header"])
    header["arrays"][index] |= changes
    return forged(whole, header=header)


@pytest.mark.parametrize(
    ("reason", "shapes"),
    [
        (
            "the shape of array 'a' is wrong",
            [[-20], [20.0], ["20"], [True] * 3, [None], [[20]], [-4, -5], [1] * 8 + [20]],
        ),
        ("the shape of array 'a' is wrong", [20, "20", {"0": 20}, None]),
        ("array 'a' would be larger than the file", [[2**61], [2**63], [2**64 + 20], [2**32, 2**32], [2**62, 4, 20]]),
        ("array 'a' would be larger than the file", [[10**4000], [0, 2**63], [2**32, 2**32, 0], [97]]),
        ("its arrays would make", [[25], [33], [], [4, 4], [0]]),
    ],
)
def test_impossible_shapes(tmp_path, whole, reason, shapes):
    for shape in shapes:
        refused(tmp_path / "f", with_array(whole, shape=shape), f"is damaged: {reason}")


def test_an_empty_array_that_numpy_cannot_hold(tmp_path, whole):
    for shape, possible in [
        ([0, 2**60 - 1], True),
        ([0, 2**60], False),
        ([2**63, 0], False),
        ([0, 2**31, 2**31], False),
    ]:
        header = whole["header"] | {"arrays": [{"name": "a", "dtype": "float64", "shape": shape}]}
        data = forged(whole, header=header, digests=b"", body=b"")
        if possible:
            (tmp_path / "f").write_bytes(data)
            assert read_all(tmp_path / "f")["a"].shape == tuple(shape)
        else:
            refused(tmp_path / "f", data, "array 'a' would be larger than the file")


def test_the_same_bytes_under_another_shape_of_that_length_are_what_the_seal_says(tmp_path, whole):
    (tmp_path / "f").write_bytes(with_array(whole, shape=[4, 5]))
    np.testing.assert_array_equal(read_all(tmp_path / "f")["a"], ARRAYS["a"].reshape(4, 5))


@pytest.mark.parametrize(
    "dtype", ["float32", "int32", "object", "O", "<f8", "float64 ", "|V8", "", None, 8, ["float64"], {}]
)
def test_impossible_dtypes(tmp_path, whole, dtype):
    refused(tmp_path / "f", with_array(whole, dtype=dtype), "is damaged")


def test_names_are_text_and_differ(tmp_path, whole):
    refused(tmp_path / "f", with_array(whole, name="b"), "two of its arrays have the same name")
    for name in (None, 3, ["a"]):
        refused(tmp_path / "f", with_array(whole, name=name), "name or dtype of an array is wrong")
    refused(tmp_path / "f", with_array(whole, extra=1), "an array must have dtype, name and shape")


@pytest.mark.parametrize(
    ("key", "value"),
    [("arrays", {}), ("arrays", [1]), ("arrays", [[]]), ("header", []), ("header", None), ("kind", 3), ("kind", None)]
    + [("version", v) for v in (-1, 1.0, True, "1", None, 2**31, 10**4000)],
)
def test_header_of_the_wrong_form(tmp_path, whole, key, value):
    refused(tmp_path / "f", forged(whole, header=whole["header"] | {key: value}), "is damaged")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b"{" * 2_000_000,
        b"[" * 63 + b"]" * 63,
        b'{"arrays":[],"header":{},"kind":"toy"}',
        b'{"arrays":[],"header":{},"kind":"toy","more":1,"version":1}',
        b'{"arrays":[],"header":{"a":1,"a":2},"kind":"toy","version":1}',
        b'{"arrays":[],"header":{"a":NaN},"kind":"toy","version":1}',
        b'{"arrays":[],"header":{"a":1e999},"kind":"toy","version":1}',
        b'{"arrays":[],"header":{}, "kind":"toy","version":1}',
        b'{"arrays":[],"header":{"a":"\\ud800"},"kind":"toy","version":1}',
    ],
    ids=range(14),
)
def test_headers_that_are_not_what_they_must_be(tmp_path, whole, text):
    refused(tmp_path / "f", forged(whole, header=text, digests=b"", body=b""), "is damaged")


def test_an_honest_empty_file_reads(tmp_path, whole):
    # The same forgery as above with nothing wrong, so those tests fail for the reason they name.
    (tmp_path / "f").write_bytes(
        forged(whole, header=b'{"arrays":[],"header":{},"kind":"toy","version":1}', digests=b"", body=b"")
    )
    assert read_all(tmp_path / "f") == {}


def test_a_bool_is_0_or_1(tmp_path, whole):
    body = whole["body"][:256] + b"\x02\x00"
    digests = whole["digests"][:-32] + hashlib.sha256(b"\x02\x00").digest()
    refused(tmp_path / "f", forged(whole, body=body, digests=digests), "array 'd' has bytes other than 0 and 1")


def test_padding_is_zero(tmp_path, whole):
    for at in (160, 191, 204, 255):
        body = bytearray(whole["body"])
        body[at] = 1
        refused(tmp_path / "f", forged(whole, body=bytes(body)), "must be zero")


def test_a_hostile_file_takes_no_memory(tmp_path, whole):
    claims = [with_array(whole, shape=[2**40]), with_array(whole, shape=[2**20, 2**20]), b"\x89posse\r\n" * 10]
    claims += [
        forged(whole, **{field: value}) for field in ("header_bytes", "n_chunks", "file_bytes") for value in HUGE
    ]
    path = tmp_path / "f"
    for data in claims:
        path.write_bytes(data)
        tracemalloc.start()
        try:
            with pytest.raises(DamagedFile):
                read_all(path)
            # A few small objects; the smallest of the claims is 16 MiB.
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


counts = st.integers(-1, 70) | st.sampled_from([160, 2**20, *HUGE]) | st.booleans() | st.floats() | st.none()
odd = (
    st.none()
    | counts
    | st.text(max_size=2)
    | st.lists(counts, max_size=3)
    | st.dictionaries(st.text(max_size=1), counts)
)
sound = st.fixed_dictionaries(
    {
        "arrays": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["a", "b", "c", "d", "é"]),
                    "dtype": st.sampled_from(list(DTYPES)),
                    "shape": st.lists(st.integers(0, 5), max_size=3),
                }
            ),
            max_size=4,
            unique_by=lambda entry: entry["name"],
        ),
        "header": st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        "kind": st.just("toy"),
        "version": st.just(1),
    }
)


@pytest.mark.slow
@settings(max_examples=300)
@given(header=sound, data=st.data())
def test_any_sealed_header_is_refused_or_read_as_it_says(tmp_path_factory, whole, header, data):
    """Headers with odd values here and there, over a body of the length they ask for, or of another."""
    for _ in range(data.draw(st.integers(0, 2))):
        places = [header, *(entry for entry in header["arrays"] if isinstance(entry, dict))]
        place_of_change = data.draw(st.sampled_from(places))
        key = data.draw(st.sampled_from([*place_of_change, "more"]))
        place_of_change[key] = data.draw(st.lists(counts, max_size=9) | odd)
        if not isinstance(header["arrays"], list):
            break
    path = tmp_path_factory.getbasetemp() / "sealed.posse"
    try:
        specs = [(e["name"], e["dtype"], tuple(e["shape"])) for e in header["arrays"]]
        front, places = place(specs, header_bytes=0, chunk_bytes=CHUNK)
        length = max(0, operator.index(front.file_bytes) - aligned(front.stop))
    except (TypeError, KeyError, ValueError, OverflowError):
        length, places = 0, []
    body = bytearray(max(0, min(length, 4096) + data.draw(st.sampled_from([0, 0, 0, -1, 1, 64]))))
    digests = b""
    if 0 < length <= len(body):
        offset = aligned(front.stop)
        for entry in places:
            for chunk in range(entry.n_chunks):
                start = entry.start - offset + CHUNK * chunk
                digests += hashlib.sha256(body[start : min(start + CHUNK, entry.stop - offset)]).digest()
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    path.write_bytes(forged(whole, header=text, digests=digests, body=bytes(body)))
    try:
        back = read_all(path)
    except DamagedFile:
        return
    event("read")
    assert [(n, a.dtype.name, a.shape) for n, a in back.items()] == specs
    assert not any(array.any() for array in back.values())


def test_a_zero_axis_beside_a_long_one_is_an_array_like_any_other(tmp_path):
    arrays = {"a": np.empty((0, 2**40)), "b": np.empty((2**40, 0), dtype=bool)}
    write_container(tmp_path / "f", kind="toy", version=1, header={}, arrays=arrays)
    back = read_all(tmp_path / "f")

    assert {name: array.shape for name, array in back.items()} == {"a": (0, 2**40), "b": (2**40, 0)}
