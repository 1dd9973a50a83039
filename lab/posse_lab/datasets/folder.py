"""Where data files lie, and whether they are the files they should be."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from posse.errors import DamagedData, DataFileError, MissingData
from posse_lab.datasets.archive import read_member

DATA_VARIABLE = "POSSE_DATA"
"""The environment variable that names the data folder."""


def data_folder(folder: str | Path | None = None) -> Path | None:
    """Return ``folder``, or the one that ``POSSE_DATA`` names, or None if neither is given."""
    given = folder if folder is not None else os.environ.get(DATA_VARIABLE)
    return Path(given) if given else None


def fetch_command(name: str, folder: str | Path | None = None) -> str:
    """Return what to type to get a dataset.

    Examples
    --------
    >>> fetch_command("letter", "my data")
    "posse lab data fetch letter --data 'my data'"
    """
    return f"posse lab data fetch {name} --data {shlex.quote(str(folder)) if folder else 'DIR'}"


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What was found at the place of a file.

    Parameters
    ----------
    path : str
        Place inside the data folder.
    state : {"ok", "missing", "damaged"}
    kind : str, optional
        Which checksum was compared; None where none is known, or none could be computed.
    expected, found : str, optional
        The two checksums.
    reason : str, optional
        Why a damaged file could not be compared.
    """

    path: str
    state: Literal["ok", "missing", "damaged"]
    kind: str | None = None
    expected: str | None = None
    found: str | None = None
    reason: str | None = None

    @property
    def complaint(self) -> str:
        """What is wrong, in words."""
        return self.reason or f"expected {self.kind} {self.expected}, but {self.found} came"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One official file: where it belongs, where it comes from, how to know it.

    Parameters
    ----------
    name : str
        Name of the dataset in the catalogue.
    title : str
        What people call the dataset.
    path : str
        Place inside the data folder.
    home : str
        Official address.
    sha256, md5 : str, optional
    git_blob : str, optional
        Git's name for the content, for a file whose SHA-256 nobody has published.
    archive : str, optional
        Place of a zip file that may hold the file instead. Unpacked where it lies, it would give ``path``.
    """

    name: str
    title: str
    path: str
    home: str
    sha256: str | None = None
    md5: str | None = None
    git_blob: str | None = None
    archive: str | None = None

    def find(self, folder: str | Path | None = None) -> Path:
        """Return the file's place in ``folder``, or in the one that ``POSSE_DATA`` names."""
        root = data_folder(folder)
        if root is None:
            raise MissingData(
                f"{self.title} needs a data folder, but none was named; get the file from {self.home}, put it at "
                f"DIR/{self.archive or self.path} and pass DIR or set {DATA_VARIABLE}=DIR; or fetch it with: "
                f"{fetch_command(self.name)}"
            )
        file = self.place(root)
        if not self.exists(file):
            raise MissingData(
                f"{self.absent(file)}; get {self.title} from {self.home}, put it there, or set {DATA_VARIABLE} to the "
                f"folder that holds {file.relative_to(root).as_posix()}; or fetch it with: "
                f"{fetch_command(self.name, root)}"
            )
        return file

    def place(self, root: Path) -> Path:
        """Return where the file, or the archive that holds it, lies or should lie."""
        file = root / self.path
        if self.archive is not None and ((root / self.archive).is_file() or not file.parent.is_dir()):
            return root / self.archive
        return file

    def exists(self, place: Path) -> bool:
        """Tell whether there is something to read."""
        return place.is_file()

    def absent(self, place: Path) -> str:
        """Return how to say that there is nothing to read."""
        return f"no file {place}"

    def read(self, file: Path, *, verify: bool) -> tuple[bytes, str]:
        """Return the content of ``file`` and its SHA-256, refusing content that was not published."""
        content = self.content(file)
        if verify:
            self.approve(content, file)
        return content, hashlib.sha256(content).hexdigest()

    def content(self, file: Path) -> bytes:
        """Return what ``file`` holds, or its member if it is an archive."""
        if self._packed(file):
            return read_member(file, self.member)
        try:
            return file.read_bytes()
        except OSError as error:
            raise DataFileError(f"cannot read {file}: {error}") from error

    def approve(self, content: bytes, file: Path) -> None:
        """Raise unless this is the content that was published."""
        found = self.compare(content)
        if found.state == "damaged":
            raise DamagedData(
                f"{self.shown(file)} is not the published file: {found.complaint}; get it again from {self.home} "
                f"({fetch_command(self.name)}), or pass verify=False to read it as it is"
            )

    def compare(self, content: bytes) -> FileCheck:
        """Return whether this is the content that was published."""
        known: tuple[tuple[str, str | None, Callable[[], str]], ...] = (
            ("SHA-256", self.sha256, lambda: hashlib.sha256(content).hexdigest()),
            # Fingerprints that others published, not protection against an attacker.
            ("MD5", self.md5, lambda: hashlib.md5(content, usedforsecurity=False).hexdigest()),
            ("git blob", self.git_blob, lambda: git_blob(content)),
        )
        checked = FileCheck(self.path, "ok")
        for kind, expected, compute in known:
            if expected is not None:
                found = compute()
                checked = FileCheck(self.path, "ok" if found == expected else "damaged", kind, expected, found)
                if found != expected:
                    break
        return checked

    def check(self, root: Path) -> FileCheck:
        """Return what is at the file's place in the data folder."""
        file = self.place(root)
        path = self.shown(file).relative_to(root).as_posix()
        try:
            if not self.exists(file):
                return FileCheck(path, "missing")
            return replace(self.compare(self.content(file)), path=path)
        except DataFileError as error:
            return FileCheck(path, "damaged", reason=str(error))

    def wants(self, name: str) -> bool:
        """Tell whether a member of a downloaded archive with this last name belongs here."""
        return name == PurePosixPath(self.path).name

    def gather(self, members: dict[str, bytes]) -> dict[str, bytes]:
        """Return the files to write, by their place in the data folder."""
        name = PurePosixPath(self.path).name
        return {self.path: members[name]} if name in members else {}

    @property
    def member(self) -> str:
        """The file's name inside the archive."""
        return PurePosixPath(self.path).relative_to(PurePosixPath(self.archive or self.path).parent).as_posix()

    def shown(self, file: Path) -> Path:
        """Return a place to name in a message: the member, where ``file`` is an archive."""
        return file / self.member if self._packed(file) else file

    def damaged_row(self, file: Path, row: int, expected: str, came: str) -> DamagedData:
        """Return the error for the first row that cannot be used; rows count from 1."""
        return DamagedData(
            f"{self.shown(file)}, row {row}: expected {expected}, but {came} came; get it again from {self.home} "
            f"({fetch_command(self.name)})"
        )

    def _packed(self, file: Path) -> bool:
        return self.archive is not None and file.name != PurePosixPath(self.path).name


def git_blob(content: bytes) -> str:
    r"""Return the name that git gives to a file with this content.

    Examples
    --------
    >>> git_blob(b"hello\n")
    'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    # A fingerprint that others published, not protection against an attacker.
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
