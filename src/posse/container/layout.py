"""Where everything stands in a container: the numbers at its front, and what follows from them."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.errors import InvalidValue

MAX_DEPTH = 64

_STEPS = np.zeros(256, dtype=np.int8)
"""How each byte outside of strings changes the depth."""
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def encode_json(value: Any, name: str) -> bytes:
    """Return the canonical spelling of plain JSON values; raise unless they come back as they went in."""
    try:
        text = _spell(value)
        same = decode_json(text) == value
    except RecursionError:
        raise InvalidValue(f"{name} must be at most {MAX_DEPTH} levels deep; flatten it") from None
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"expected {name} to be plain JSON values, got this: {error}") from None
    if not same:
        raise InvalidValue(
            f"expected {name} to be plain JSON values that come back as they were, got others; use text as keys, and "
            "lists for tuples"
        )
    return text


def decode_json(text: bytes) -> Any:
    """Return the values of a canonical spelling; raise ValueError, with the reason, for any other bytes."""
    # Before the parser sees it: the parser recurses, so a million brackets could end the process.
    if _depth(text) > MAX_DEPTH:
        raise ValueError(f"it is more than {MAX_DEPTH} levels deep")
    value = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    if _spell(value) != text:
        raise ValueError("it is not in canonical form")
    return value


def _spell(value: Any) -> bytes:
    # Sorted and without spaces there is one spelling of a value, so repeated keys cannot hide.
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _depth(text: bytes) -> int:
    # Without escaped backslashes and then escaped quotes, every second piece between quotes is outside of all strings.
    outside = b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    steps = _STEPS[np.frombuffer(outside, dtype=np.uint8)]
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


MAGIC = b"\x89posse\r\n"
FORMAT = 1
PREFIX = struct.Struct("<8sIIQQQ")
ALIGNMENT = 64
DIGEST_BYTES = 32
MAX_HEADER_BYTES = 1 << 24
MAX_CHUNKS = 1 << 21
MIN_CHUNK_BYTES, MAX_CHUNK_BYTES = ALIGNMENT, 1 << 26
MAX_AXES = 8
MAX_VERSION = (1 << 31) - 1
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("float64", "int64", "int32", "uint8", "bool")}
"""The kinds of values an array may have, as they stand in the file."""

Spec = tuple[str, str, tuple[int, ...]]
"""Name, dtype and shape of an array."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One array of the file: what it is and where it stands."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    first_chunk: int
    n_chunks: int

    @property
    def n_bytes(self) -> int:
        """Length of the array's values."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def stop(self) -> int:
        """Where the array ends in the file."""
        return self.start + self.n_bytes


@dataclass(frozen=True, slots=True)
class Front:
    """The fixed numbers at the beginning of the file."""

    chunk_bytes: int
    header_bytes: int
    n_chunks: int
    file_bytes: int

    @property
    def seal_at(self) -> int:
        """Where the seal stands: after prefix, header and table."""
        return self.table_at + DIGEST_BYTES * self.n_chunks

    @property
    def table_at(self) -> int:
        """Where the table of checksums stands."""
        return PREFIX.size + self.header_bytes

    @property
    def stop(self) -> int:
        """Where the seal ends."""
        return self.seal_at + DIGEST_BYTES


def aligned(position: int) -> int:
    """Return the next place where an array may begin."""
    return -(-position // ALIGNMENT) * ALIGNMENT


def checksum(data: bytes | memoryview) -> bytes:
    """Return the checksum of some bytes."""
    return hashlib.sha256(data).digest()


def place(specs: Iterable[Spec], *, header_bytes: int, chunk_bytes: int) -> tuple[Front, list[Entry]]:
    """Return where each array stands, and the front that says so."""
    sized = [(spec, math.prod(spec[2]) * DTYPES[spec[1]].itemsize) for spec in specs]
    n_chunks = sum(-(-n_bytes // chunk_bytes) for _, n_bytes in sized)
    position = aligned(PREFIX.size + header_bytes + DIGEST_BYTES * (n_chunks + 1))
    entries: list[Entry] = []
    chunk = 0
    for (name, dtype, shape), n_bytes in sized:
        position = aligned(position)
        entry = Entry(name, DTYPES[dtype], shape, position, chunk, -(-n_bytes // chunk_bytes))
        entries.append(entry)
        position, chunk = entry.stop, chunk + entry.n_chunks
    return Front(chunk_bytes, header_bytes, n_chunks, position), entries


def pack_front(front: Front, header: bytes, digests: bytes) -> bytes:
    """Return all bytes up to the end of the seal."""
    prefix = PREFIX.pack(MAGIC, FORMAT, front.chunk_bytes, front.header_bytes, front.n_chunks, front.file_bytes)
    body = prefix + header + digests
    return body + checksum(body)


def unpack_prefix(prefix: bytes, file_bytes: int) -> Front:
    """Return the numbers at the front of a file; raise ValueError, with the reason, if they cannot be true."""
    magic, number, chunk_bytes, header_bytes, n_chunks, stated_bytes = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise ValueError("it does not begin as one")
    if number != FORMAT:
        raise ValueError(f"its format is {number}, but {FORMAT} was expected")
    front = Front(chunk_bytes, header_bytes, n_chunks, stated_bytes)
    if stated_bytes != file_bytes:
        raise ValueError(f"it should be {stated_bytes} bytes long, but it is {file_bytes}")
    if chunk_bytes % ALIGNMENT or not MIN_CHUNK_BYTES <= chunk_bytes <= MAX_CHUNK_BYTES:
        raise ValueError(f"its chunks cannot be {chunk_bytes} bytes long")
    if header_bytes > MAX_HEADER_BYTES:
        raise ValueError(f"its header cannot be {header_bytes} bytes long")
    if n_chunks > MAX_CHUNKS:
        raise ValueError(f"it cannot have {n_chunks} chunks")
    if aligned(front.stop) > file_bytes:
        raise ValueError(f"its header and checksums end at {front.stop}, behind its own end at {file_bytes}")
    return front


def unpack_header(text: bytes, front: Front) -> tuple[dict[str, Any], list[Entry]]:
    """Return the header object and the arrays it names; raise ValueError, with the reason, if they cannot be true."""
    whole = decode_json(text)
    if not isinstance(whole, dict) or set(whole) != {"arrays", "header", "kind", "version"}:
        raise ValueError("its header must have arrays, header, kind and version")
    if not isinstance(whole["header"], dict) or not isinstance(whole["kind"], str):
        raise ValueError("its header or kind is of the wrong type")
    if not _is_count(whole["version"]) or whole["version"] > MAX_VERSION:
        raise ValueError("its version is no whole number that one can have")
    if not isinstance(whole["arrays"], list):
        raise ValueError("its arrays must be a list")
    specs = [_spec(item, front.file_bytes) for item in whole["arrays"]]
    if len({name for name, _, _ in specs}) != len(specs):
        raise ValueError("two of its arrays have the same name")
    expected, entries = place(specs, header_bytes=front.header_bytes, chunk_bytes=front.chunk_bytes)
    if expected != front:
        raise ValueError(
            f"its arrays would make {expected.n_chunks} chunks and {expected.file_bytes} bytes, "
            f"but it has {front.n_chunks} and {front.file_bytes}"
        )
    return whole, entries


def _spec(item: Any, file_bytes: int) -> Spec:
    if not isinstance(item, dict) or set(item) != {"dtype", "name", "shape"}:
        raise ValueError("an array must have dtype, name and shape")
    name, dtype, shape = item["name"], item["dtype"], item["shape"]
    if not isinstance(name, str) or not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"the name or dtype of an array is wrong: {str(name)[:60]!r}, {str(dtype)[:60]!r}")
    if not isinstance(shape, list) or len(shape) > MAX_AXES or not all(map(_is_count, shape)):
        raise ValueError(f"the shape of array {name[:60]!r} is wrong")
    itemsize = DTYPES[dtype].itemsize
    # NumPy holds no array whose other axes multiply beyond this, even where one axis has length 0.
    if math.prod(filter(None, shape)) * itemsize > sys.maxsize or math.prod(shape) * itemsize > file_bytes:
        raise ValueError(f"array {name[:60]!r} would be larger than the file")
    return name, dtype, tuple(shape)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
