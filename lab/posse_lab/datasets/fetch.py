"""Fetching a dataset: download, check, and only then put into place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from posse.errors import DamagedData, DataFileError, FetchFailed, MissingData
from posse_lab.datasets.archive import find_members
from posse_lab.datasets.catalogue import Dataset, dataset
from posse_lab.datasets.download import PAUSE, Progress, download, forget
from posse_lab.datasets.folder import DATA_VARIABLE, data_folder

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
    set_aside : tuple of Path
        Other files that were in its place, under their new names.
    """

    name: str
    downloaded: bool
    files: tuple[Path, ...]
    set_aside: tuple[Path, ...] = ()


def fetch(
    name: str,
    folder: str | Path | None = None,
    *,
    progress: Progress | None = None,
    address: str | None = None,
    timeout: float = 30.0,
    pause: float = PAUSE,
) -> Fetched:
    """Download a dataset into the data folder, unless it is there already.

    An interrupted download continues at the next call. Nothing that lies in the folder is lost: what came is checked
    first, and a file that was in the way is renamed.

    Parameters
    ----------
    name : str
        A name of the catalogue, e.g. "letter".
    folder : path, optional
        The data folder. Default: the one that the environment variable ``POSSE_DATA`` names.
    progress : callable, optional
        Called with the bytes that are here and the bytes that there will be (None if unknown).
    address : str, optional
        Download from here rather than from the official address; what comes must be the official file all the same.
    timeout : float
        Seconds without a byte after which a connection counts as lost.
    pause : float
        Seconds before a lost connection is tried again, doubled every time.
    """
    chosen = dataset(name)
    root = data_folder(folder)
    if root is None:
        raise MissingData(f"no folder to put {name} into; pass one or set {DATA_VARIABLE}=DIR")
    if chosen.status(root) == "present":
        return Fetched(name, False, _places(chosen, root))
    partial = root / f"{chosen.download}.partial"
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataFileError(f"cannot make the folder {partial.parent}: {error.strerror or error}") from None
    addresses = (address,) if address is not None else chosen.addresses
    contents = _get_from_any(chosen, addresses, partial, progress, timeout, pause)
    try:
        set_aside = _install(chosen, root, partial, contents)
        forget(partial)
        _rejected(partial).unlink(missing_ok=True)
    except OSError as error:
        raise DataFileError(f"cannot put {name} into {root}: {error.strerror or error}") from error
    for found in chosen.check(root):
        # A room with trial files of its own that were never published, for example.
        if found.state != "ok":
            raise DamagedData(f"{name} was fetched, but {root / found.path} is still {found.state}: {found.complaint}")
    return Fetched(name, True, _places(chosen, root), set_aside)


def _get_from_any(
    chosen: Dataset,
    addresses: tuple[str, ...],
    partial: Path,
    progress: Progress | None,
    timeout: float,
    pause: float,
) -> dict[str, bytes]:
    errors: list[DataFileError] = []
    for address in addresses:
        try:
            return _get(chosen, address, partial, progress, timeout, pause)
        except (FetchFailed, DamagedData) as error:
            errors.append(error)
    if len(errors) == 1 and isinstance(errors[0], DamagedData):
        raise errors[0]
    raise FetchFailed(f"{'; then '.join(map(str, errors))}; {chosen.title} has its home at {chosen.home}")


def _get(
    chosen: Dataset, address: str, partial: Path, progress: Progress | None, timeout: float, pause: float
) -> dict[str, bytes]:
    """Download and check; return the files to write, none for a download that goes into place as it is."""
    continued = download(address, partial, progress=progress, timeout=timeout, pause=pause)
    try:
        return _checked(chosen, partial)
    except DamagedData as wrong:
        if not continued:
            raise _reject(chosen, address, partial, wrong) from None
    # Two answers were put together: perhaps they were of different versions, though the server did not say so.
    forget(partial)
    download(address, partial, progress=progress, timeout=timeout, pause=pause)
    try:
        return _checked(chosen, partial)
    except DamagedData as wrong:
        raise _reject(chosen, address, partial, wrong) from None


def _checked(chosen: Dataset, partial: Path) -> dict[str, bytes]:
    """Return the files to write, or raise if the download does not hold exactly what was published."""
    unpacked: dict[str, bytes] = {}
    members: dict[str, bytes] = {}
    if chosen.packing == "zip":
        members = find_members(partial, lambda name: any(file.wants(name) for file in chosen.files))
    for file in chosen.files:
        if chosen.packing == "zip":
            pieces = file.gather(members)
            if not pieces:
                raise DamagedData(f"it does not hold {file.path}")
            unpacked |= pieces
            found = file.compare(b"".join(pieces.values()))
        else:
            found = file.compare(file.content(partial))
        if found.state == "damaged":
            raise DamagedData(f"for {file.path}, {found.complaint}")
    return unpacked


def _reject(chosen: Dataset, address: str, partial: Path, wrong: DamagedData) -> DamagedData:
    """Keep what came under another name, and return the error that says what it is."""
    kept = _rejected(partial)
    try:
        size = partial.stat().st_size
        with partial.open("rb") as file:
            start = file.read(SHOWN)
        os.replace(partial, kept)
        forget(partial)
    except OSError as error:
        raise DataFileError(f"cannot put {partial} aside: {error.strerror or error}") from error
    return DamagedData(
        f"what came from {address} is not {chosen.title}: {wrong}; {size:,} bytes came, beginning with {start!r}, and "
        f"are kept as {kept}; nothing else was changed; see {chosen.home}"
    )


def _install(chosen: Dataset, root: Path, partial: Path, contents: dict[str, bytes]) -> tuple[Path, ...]:
    """Put what was checked into place; return the new names of files that were there."""
    set_aside: list[Path] = []
    if chosen.packing != "zip":
        _put(partial, root / chosen.download, set_aside)
    for path, content in contents.items():
        target = root / path
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"{target.name}.new")
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _put(new, target, set_aside)
    return tuple(set_aside)


def _put(new: Path, target: Path, set_aside: list[Path]) -> None:
    if target.exists():
        old, number = target.with_name(f"{target.name}.old"), 1
        while old.exists():
            number += 1
            old = target.with_name(f"{target.name}.old{number}")
        os.replace(target, old)
        set_aside.append(old)
    os.replace(new, target)


def _places(chosen: Dataset, root: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(file.place(root) for file in chosen.files))


def _rejected(partial: Path) -> Path:
    return partial.with_suffix(".rejected")
