"""Where data files lie, and whether they are the files they should be."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from posse.errors import DamagedData, DataFileError, MissingData

DATA_VARIABLE = "POSSE_DATA"
"""The environment variable that names the data folder."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One official file: where it belongs, where it comes from, how to know it.

    Parameters
    ----------
    title : str
        What people call the dataset.
    path : str
        Place inside the data folder.
    home : str
        Official address.
    sha256 : str, optional
    git_blob : str, optional
        Git's name for the content, for a file whose SHA-256 nobody has published.
    """

    title: str
    path: str
    home: str
    sha256: str | None = None
    git_blob: str | None = None

    def find(self, folder: str | Path | None = None) -> Path:
        """Return the file's place in ``folder``, or in the one that ``POSSE_DATA`` names."""
        given = folder if folder is not None else os.environ.get(DATA_VARIABLE)
        if not given:
            raise MissingData(
                f"{self.title} needs a data folder, but none was named; get the file from {self.home}, put it at "
                f"DIR/{self.path} and pass DIR or set {DATA_VARIABLE}=DIR"
            )
        file = Path(given) / self.path
        if not file.is_file():
            raise MissingData(
                f"no file {file}; get {self.title} from {self.home}, put it there, or set {DATA_VARIABLE} to the "
                f"folder that holds {self.path}"
            )
        return file

    def read(self, file: Path, *, verify: bool) -> tuple[bytes, str]:
        """Return the content of ``file`` and its SHA-256, refusing content that was not published."""
        try:
            content = file.read_bytes()
        except OSError as error:
            raise DataFileError(f"cannot read {file}: {error}") from error
        found = hashlib.sha256(content).hexdigest()
        if verify and self.sha256 is not None and found != self.sha256:
            raise DamagedData(self._differs(file, "SHA-256", self.sha256, found))
        if verify and self.git_blob is not None:
            blob = git_blob(content)
            if blob != self.git_blob:
                raise DamagedData(self._differs(file, "git blob", self.git_blob, blob))
        return content, found

    def damaged_row(self, file: Path, row: int, expected: str, came: str) -> DamagedData:
        """Return the error for the first row that cannot be used; rows count from 1."""
        return DamagedData(f"{file}, row {row}: expected {expected}, but {came} came; get it again from {self.home}")

    def _differs(self, file: Path, kind: str, expected: str, found: str) -> str:
        return (
            f"{file} is not the published file: expected {kind} {expected}, but {found} came; get it again from "
            f"{self.home}, or pass verify=False to read it as it is"
        )


def git_blob(content: bytes) -> str:
    r"""Return the name that git gives to a file with this content.

    Examples
    --------
    >>> git_blob(b"hello\n")
    'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    # A fingerprint that others published, not protection against an attacker.
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
