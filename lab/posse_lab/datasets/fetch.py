"""Fetching a dataset: download, check, and only then put into place."""

from __future__ import annotations

import http.client
import io
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from posse._version import __version__
from posse.errors import DamagedData, DataFileError, FetchFailed, InvalidValue, MissingData
from posse_lab.datasets.archive import find_members, read_member
from posse_lab.datasets.catalogue import Dataset, dataset
from posse_lab.datasets.folder import DATA_VARIABLE, data_folder

LARGEST = 2**30  # bytes of a download from which on it is no dataset known here
SHOWN = 40  # bytes of a wrong download that an error shows: enough to recognise a web page


@dataclass(frozen=True, slots=True)
class Fetched:
    """What fetching a dataset did.

    Parameters
    ----------
    name : str
    downloaded : bool
        False where the right files were there already.
    files : tuple of Path
        Where the dataset lies.
    """

    name: str
    downloaded: bool
    files: tuple[Path, ...]


def fetch(
    name: str,
    folder: str | Path | None = None,
    *,
    address: str | None = None,
    timeout: float = 30.0,
) -> Fetched:
    """Download a dataset into the data folder, unless it is there already.

    Nothing that lies in the folder is lost: what came is checked first, and no other file is overwritten.

    Parameters
    ----------
    name : str
        A name of the catalogue, e.g. "letter".
    folder : path, optional
        The data folder. Default: the one that the environment variable ``POSSE_DATA`` names.
    address : str, optional
        Download from here rather than from the official address; what comes must be the official file all the same.
    timeout : float
        Seconds without a byte after which a connection counts as lost.
    """
    chosen = dataset(name)
    root = data_folder(folder)
    if root is None:
        raise MissingData(f"no folder to put {name} into; pass one or set {DATA_VARIABLE}=DIR")
    places = tuple(dict.fromkeys(file.place(root) for file in chosen.files))
    if chosen.status(root) == "present":
        return Fetched(name, False, places)
    contents = _from_any(chosen, (address,) if address is not None else chosen.addresses, timeout)
    for path, content in contents.items():
        if (root / path).exists() and not ((root / path).is_file() and (root / path).read_bytes() == content):
            raise DamagedData(
                f"{root / path} is there and is not the published file; move it away and fetch {name} again"
            )
    try:
        for path, content in contents.items():
            _put(root / path, content)
    except OSError as error:
        raise DataFileError(f"cannot put {name} into {root}: {error.strerror or error}") from error
    for found in chosen.check(root):
        # A room with trial files of its own that were never published, for example.
        if found.state != "ok":
            raise DamagedData(f"{name} was fetched, but {root / found.path} is still {found.state}: {found.complaint}")
    return Fetched(name, True, tuple(dict.fromkeys(file.place(root) for file in chosen.files)))


def download(address: str, *, timeout: float) -> bytes:
    """Return what lies at an address."""
    if not address.startswith(("http://", "https://")):
        raise InvalidValue(f"expected the address to start with http:// or https://, got {address!r}")
    request = urllib.request.Request(address, headers={"User-Agent": f"posse/{__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            content: bytes = response.read(LARGEST + 1)
            length = response.headers.get("Content-Length", "")
    except urllib.error.HTTPError as error:
        with error:
            raise FetchFailed(f"cannot download {address}: the server answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise FetchFailed(f"cannot download {address}: {str(error) or type(error).__name__}") from None
    if len(content) > LARGEST:
        raise FetchFailed(f"{address} sends more than {LARGEST:,} bytes, more than any dataset known here")
    if length.isdecimal() and len(content) < int(length):
        raise FetchFailed(f"cannot download {address}: it ended after {len(content):,} of {int(length):,} bytes")
    return content


def _from_any(chosen: Dataset, addresses: tuple[str, ...], timeout: float) -> dict[str, bytes]:
    """Return the files to write, by their place in the data folder, from the first address that has them."""
    errors: list[DataFileError] = []
    for address in addresses:
        try:
            content = download(address, timeout=timeout)
            return _checked(chosen, address, content)
        except (FetchFailed, DamagedData) as error:
            errors.append(error)
    if len(errors) == 1 and isinstance(errors[0], DamagedData):
        raise errors[0]
    raise FetchFailed(f"{'; then '.join(map(str, errors))}; {chosen.title} has its home at {chosen.home}")


def _checked(chosen: Dataset, address: str, content: bytes) -> dict[str, bytes]:
    """Return the files to write, or raise if the download does not hold exactly what was published."""
    try:
        return _pieces(chosen, content)
    except DamagedData as wrong:
        raise DamagedData(
            f"what came from {address} is not {chosen.title}: {wrong}; {len(content):,} bytes came, beginning with "
            f"{content[:SHOWN]!r}; nothing was changed; see {chosen.home}"
        ) from None


def _pieces(chosen: Dataset, content: bytes) -> dict[str, bytes]:
    name = PurePosixPath(chosen.download).name
    written: dict[str, bytes] = {}
    members: dict[str, bytes] = {}
    if chosen.packing == "zip":
        members = find_members(io.BytesIO(content), name, lambda each: any(file.wants(each) for file in chosen.files))
    for file in chosen.files:
        if chosen.packing == "zip":
            pieces = file.gather(members)
            if not pieces:
                raise DamagedData(f"it does not hold {file.path}")
            written |= pieces
            found = file.compare(b"".join(pieces.values()))
        elif chosen.packing == "kept zip":
            found = file.compare(read_member(io.BytesIO(content), file.member, name))
        else:
            found = file.compare(content)
        if found.state != "ok":
            raise DamagedData(f"for {file.path}, {found.complaint}")
    return written or {chosen.download: content}


def _put(target: Path, content: bytes) -> None:
    """Write a file into its place, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f"{target.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, target)
