r"""One file of a JSON header and plain arrays, written at once or not at all, and safe to open whoever wrote it.

.. code-block:: python

    write_container(path, kind="fleet", version=1, header={"arms": ["red"]}, arrays={"gram": gram})
    with open_container(path, kind="fleet", versions=(1,)) as box:
        gram = box.read("gram")

Format 1
--------
Numbers are little endian; SHA-256 is the only checksum.

========================  =====================================================================================
bytes                     what
========================  =====================================================================================
8                         magic: ``89 70 6f 73 73 65 0d 0a`` (0x89, "posse", carriage return, line feed)
4                         format number, 1
4                         ``chunk_bytes``: a multiple of 64, from 64 to 64 MiB
8                         ``header_bytes``: length of the header, at most 16 MiB
8                         ``n_chunks``: entries of the checksum table, at most 2\ :sup:`21`
8                         length of the whole file
``header_bytes``          header: JSON in UTF-8
32 ``n_chunks``           table: the checksum of every chunk of every array, in file order
32                        seal: the checksum of all bytes before it
up to 63                  zeros, up to the next multiple of 64
the rest                  arrays: each begins at the next multiple of 64 (zeros between) and the file ends with
                          the last one; values in C order; cut from its first byte into chunks of
                          ``chunk_bytes``, of which the last may be shorter; an array without values has no chunk
========================  =====================================================================================

The header is the object ``{"arrays": [{"dtype", "name", "shape"}, ...], "header": {...}, "kind": text, "version":
whole number}``; ``arrays`` stand in file order, so their places follow from it and are not written down. A dtype is
``float64``, ``int64``, ``int32``, ``uint8`` or ``bool`` (a byte that is 0 or 1); a shape has at most 8 axes.
The header is canonical: keys sorted, no spaces, at most 64 levels, finite numbers, text that is valid Unicode. Any
other spelling of the same values is refused, so a name cannot stand twice and mean two things.

Every byte is thus covered: by the seal, by a chunk's checksum, or by having to be zero. Checksums find damage; they do
not prove who wrote a file. A hostile file can hold any header and any arrays of the sizes it says, but it can neither
run code nor make the reader take more memory than the file is long (plus what 16 MiB of JSON can spell).
"""

from posse.container.read import Container, open_container
from posse.container.write import Streamed, write_container
from posse.errors import DamagedFile, MissingFile, SavedFileError

__all__ = ["Container", "DamagedFile", "MissingFile", "SavedFileError", "Streamed", "open_container", "write_container"]
