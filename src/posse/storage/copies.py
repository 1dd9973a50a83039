"""Copy, restore and rewrite the SQLite file of a service."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from posse.errors import InvalidValue, StorageMismatch, StorageUnavailable
from posse.storage.migrations import steps_from
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
            _require_whole(new, target)
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


def restore_database(copy: Path, target: Path, *, replace: bool = False) -> Path | None:
    """Put a copy in the place of a storage that nobody uses; return where the old one went, None if there was none.

    Parameters
    ----------
    copy : Path
        Made by :func:`copy_database`; it stays as it is.
    target : Path
        Where a service will look for it; a symbolic link goes on leading there.
    replace : bool
        Whether there may be a storage already. It is moved aside, with all that belongs to it.

    Raises
    ------
    InvalidValue
        If there is no such copy, something at the target and ``replace`` is false, or a service uses it.
    StorageMismatch
        If the copy is damaged, something else, or of a newer posse.
    StorageUnavailable
        If the disk is full, say; then the target is as it was.
    """
    # A service behind a symbolic link has its lock, and what it wrote last, beside the file itself.
    target = target.resolve()
    if target.exists() and not replace:
        raise InvalidValue(f"{target} is there already; pass --replace to move it aside, or name another --database")
    if copy.exists() and target.exists() and copy.samefile(target):
        raise InvalidValue(f"expected a copy, got {target} itself")
    new = target.with_name(f"{target.name}.restoring-{os.getpid()}")
    with _held(target):
        try:
            # Through SQLite, which checks it and leaves out what is not in it: the result is for its owner alone.
            copy_database(copy, new)
            with closing(sqlite3.connect(new)) as connection:
                [(version,)] = connection.execute("PRAGMA user_version")
            steps_from(version, "sqlite", str(copy), migrate=True)  # raises if it is newer
            aside = _move_aside(target) if target.exists() else None
            new.rename(target)
            _flush(target.absolute().parent)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    return aside


def vacuum_database(path: Path) -> int:
    """Rewrite a storage that nobody uses, without its unused space; return its size in bytes.

    Copies of deleted rows that SQLite left in unused space of its pages are gone afterwards.

    Raises
    ------
    InvalidValue
        If there is no such storage, or a service uses it.
    StorageUnavailable
        If there is no room for a second copy, say; then the file is as it was.
    """
    if not path.is_file():
        raise InvalidValue(f"expected the SQLite file of a service, got {path}; name it with --database")
    path = path.resolve()
    with _held(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.DatabaseError as error:
            raise StorageUnavailable(f"{path} could not be rewritten: {error}; it is as it was") from None
    return path.stat().st_size


@contextmanager
def _held(target: Path) -> Iterator[None]:
    """Hold the lock of whoever serves a storage, so that nobody does meanwhile."""
    lock = target.with_name(f"{target.name}.lock")
    file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise InvalidValue(f"a service uses {target}; stop it before something else takes its place") from None
    try:
        yield
    finally:
        os.close(file)


def _move_aside(target: Path) -> Path:
    """Give a storage and what belongs to it another name; what was not moved to its file yet goes along."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = target.with_name(f"{target.name}.before-{stamp}")
    number = 1
    while aside.exists():
        aside, number = target.with_name(f"{target.name}.before-{stamp}-{number}"), number + 1
    for ending in ("-wal", "-shm", ""):
        old = target.with_name(target.name + ending)
        if old.exists():
            old.rename(aside.with_name(aside.name + ending))
    return aside


def _require_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Raise if a file is damaged: a copy of damage is no copy."""
    try:
        [(found,), *_] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise StorageMismatch(f"the copy {path} would be damaged ({found}), since its source is; take an older one")


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
