"""Writing a container."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from typing import Any

import numpy as np
import numpy.typing as npt

from posse.checks import whole_number
from posse.container.layout import (
    ALIGNMENT,
    DTYPES,
    MAX_AXES,
    MAX_CHUNK_BYTES,
    MAX_CHUNKS,
    MAX_HEADER_BYTES,
    MAX_VERSION,
    MIN_CHUNK_BYTES,
    Entry,
    Spec,
    encode_json,
    pack_front,
    place,
)
from posse.container.replace import replacing
from posse.errors import InvalidValue, ShapeError

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Streamed:
    """An array that is never in memory as a whole.

    Parameters
    ----------
    dtype : str
    shape : tuple of int
    blocks : callable
        Returns an iterator over its rows, in order, some at a time.
    """

    dtype: str
    shape: tuple[int, ...]
    blocks: Callable[[], Iterator[npt.NDArray[Any]]]


def write_container(
    path: str | os.PathLike[str],
    *,
    kind: str,
    version: int,
    header: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any] | Streamed],
    chunk_bytes: int = 1 << 18,
) -> None:
    r"""Write header and arrays to one file; a file of that name is replaced at once or not at all.

    Parameters
    ----------
    path : path of the file
        Of a symbolic link, the file it points to.
    kind : str
        What the file holds; readers ask for it by this name.
    version : int
        Version of that kind, from 0 to 2\ :sup:`31` - 1.
    header : mapping
        Plain JSON values: text keys, lists, text, finite numbers, booleans, None. At most 16 MiB; what grows with the
        data, such as many names, belongs in an array.
    arrays : mapping of names to ndarrays, or to Streamed
        Of float64, int64, int32, uint8 or bool, with at most 8 axes. They must not change while they are written.
    chunk_bytes : int, default 256 KiB
        Length of the pieces that have a checksum each, a multiple of 64: a partial read takes in whole pieces.

    Raises
    ------
    InvalidValue
        If an argument cannot be written; before anything is touched.
    MissingFile
        If the folder does not exist.
    SavedFileError
        If writing fails. The old file, if any, is still there and whole.
    """
    version = whole_number(version, "version", at_least=0)
    if version > MAX_VERSION:
        raise InvalidValue(f"expected version to be at most {MAX_VERSION}, got {version}")
    chunk_bytes = whole_number(chunk_bytes, "chunk_bytes", at_least=MIN_CHUNK_BYTES)
    if chunk_bytes % ALIGNMENT or chunk_bytes > MAX_CHUNK_BYTES:
        raise InvalidValue(f"expected chunk_bytes to be a multiple of 64 up to {MAX_CHUNK_BYTES}, got {chunk_bytes}")
    if not isinstance(kind, str):
        raise InvalidValue(f"expected kind to be text, got {kind!r}")
    if not isinstance(header, Mapping):
        raise InvalidValue(f"expected header to be a mapping, got {type(header).__name__}")
    arrays = dict(arrays)
    specs = [_spec(name, array) for name, array in arrays.items()]
    named = [{"name": name, "dtype": dtype, "shape": list(shape)} for name, dtype, shape in specs]
    text = encode_json({"kind": kind, "version": version, "header": dict(header), "arrays": named}, "header")
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidValue(
            f"header must be at most {MAX_HEADER_BYTES} bytes, but it is {len(text)}; put long lists into arrays"
        )
    front, entries = place(specs, header_bytes=len(text), chunk_bytes=chunk_bytes)
    if front.n_chunks > MAX_CHUNKS:
        raise InvalidValue(f"the arrays make {front.n_chunks} chunks, but {MAX_CHUNKS} can be; use larger chunk_bytes")

    with replacing(path) as file:
        file.truncate(front.file_bytes)  # what is never written to is zero, as padding must be
        digests = b"".join(_write_array(file, entry, arrays[entry.name], chunk_bytes) for entry in entries)
        # Last, so that values are passed over once: their checksums stand before them.
        file.seek(0)
        _write_all(file, memoryview(pack_front(front, text, digests)))


def _spec(name: Any, array: Any) -> Spec:
    if not isinstance(name, str):
        raise InvalidValue(f"expected names of arrays to be text, got {name!r}")
    if isinstance(array, Streamed) and array.dtype in DTYPES:
        return name, array.dtype, array.shape
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
        came = f"one of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise InvalidValue(f"expected array {name!r} to be an ndarray of {', '.join(DTYPES)}, got {came}")
    if array.ndim > MAX_AXES:
        raise ShapeError(f"expected array {name!r} to have at most {MAX_AXES} axes, got shape {array.shape}")
    return name, array.dtype.name, array.shape


def _write_array(file: FileIO, entry: Entry, array: npt.NDArray[Any] | Streamed, chunk_bytes: int) -> bytes:
    """Write the values and return the checksums of their chunks."""
    file.seek(entry.start)
    digests: list[bytes] = []
    digest, left = hashlib.sha256(), chunk_bytes
    for block in _all_blocks(array, entry.dtype):
        while len(block):
            piece, block = block[:left], block[left:]
            # Checksum and write piece by piece: the second finds it in the processor's cache.
            digest.update(piece)
            _write_all(file, piece)
            left -= len(piece)
            if not left:
                digests.append(digest.digest())
                digest, left = hashlib.sha256(), chunk_bytes
    if left < chunk_bytes:
        digests.append(digest.digest())
    if file.tell() != entry.stop:
        raise ShapeError(f"array {entry.name!r} said that its shape is {entry.shape}, but other rows came")
    return b"".join(digests)


def _all_blocks(array: npt.NDArray[Any] | Streamed, dtype: np.dtype[Any]) -> Iterator[memoryview]:
    for part in array.blocks() if isinstance(array, Streamed) else [array]:
        yield from _blocks(part, dtype)


def _blocks(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> Iterator[memoryview]:
    """Yield the values in C order; memory that has them so is not copied, other memory a block at a time."""
    if (array.flags.c_contiguous and array.dtype == dtype) or array.nbytes <= _BLOCK_BYTES:
        yield np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8).data
        return
    rows = max(1, _BLOCK_BYTES * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        block = array[start : start + rows]
        yield from _blocks(block if len(block) > 1 else block[0], dtype)


def _write_all(file: FileIO, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]
