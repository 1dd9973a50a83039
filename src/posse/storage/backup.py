"""A whole copy of an SQLite storage, while others write to it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from posse.errors import InvalidValue, StorageMismatch, StorageUnavailable
from posse.storage.sqlite import APPLICATION, BUSY_TIMEOUT


def copy_database(source: Path, target: Path) -> int:
    """Copy a storage to a new file that only its owner may read; return its size in bytes.

    Parameters
    ----------
    source : Path
        Of a storage; whoever uses it may go on.
    target : Path
        Must not exist.

    Raises
    ------
    InvalidValue
        If there is no such storage, or something at the target.
    StorageMismatch
        If the source is something else.
    StorageUnavailable
        If the disk is full, say; then there is nothing at the target.
    """
    if not source.is_file():
        raise InvalidValue(f"there is no database {source}; name the file that the service uses with --database")
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise InvalidValue(f"{target} is there already; choose another name, or remove it first") from None
    except OSError as error:
        raise InvalidValue(f"cannot write {target}: {error.strerror or error}") from None
    try:
        uri = f"{source.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            [(application,)] = old.execute("PRAGMA application_id")
            if application != APPLICATION:
                raise StorageMismatch(f"{source} is not a storage of posse; name another file with --database")
            # All pages in one step: others may write meanwhile, and it need not start again.
            old.backup(new)
        _flush(target)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
            raise StorageMismatch(f"{source} is not an SQLite database; name another file with --database") from None
        if isinstance(error, sqlite3.Error | OSError):
            raise StorageUnavailable(
                f"{source} could not be copied to {target}: {error}; nothing was written"
            ) from None
        raise
    return target.stat().st_size


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
