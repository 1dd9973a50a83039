"""A storage in one SQLite file: one process learns, others may look and manage keys."""

# ruff: noqa: D102 (posse.storage.base says what the methods do)

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from posse.errors import InvalidValue, StorageMismatch, StorageUnavailable
from posse.storage.checkpoints import KEPT, Checkpoints
from posse.storage.migrations import steps_from
from posse.storage.outcomes import LookupKeys, resolve
from posse.storage.rows import NewDecision, NewReward, Written
from posse.storage.sql import Pool, Row, Session, SqlStorage
from posse.storage.sqlite_rows import apply, look_up

APPLICATION = 0x706F7365
"""Marks the file as a storage of posse (the letters "pose"), where file(1) and SQLite look for it."""

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that writes."""

READERS = 8

WAL_LIMIT = 64 * 2**20
"""Bytes that the file of recent writes may have before readers are waited for, so that it can start over."""

FORGET_TRIES, FORGET_PAUSE, FORGET_PATIENCE = 40, 0.05, 10
"""How often, and after how many seconds again, the file of recent writes is asked to start over; and how many
milliseconds readers are waited for each time, which whoever writes has to wait for, too."""

ADVICE = {
    sqlite3.SQLITE_BUSY: "another process writes to it; try again",
    sqlite3.SQLITE_LOCKED: "another process writes to it; try again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: "the disk does not read or write; look at the disk and the system's log",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that its folder exists and may be written to",
    sqlite3.SQLITE_READONLY: "the file may not be written to; check its permissions",
    sqlite3.SQLITE_PERM: "the file may not be used; check its permissions",
    sqlite3.SQLITE_NOMEM: "there is no memory left; free some and try again",
    sqlite3.SQLITE_PROTOCOL: "other processes keep its lock; try again",
    sqlite3.SQLITE_INTERRUPT: "it was interrupted; try again",
}

_BROKEN = (sqlite3.Error, OverflowError, UnicodeError)


LOST = (
    "what is written now would be lost, so nothing is accepted: put the file back, or restart the service if it is "
    "to use the new one"
)

logger = logging.getLogger("posse.storage")


class OwnFile:
    """A database file and its write-ahead log, as they were when they were opened.

    Another file under the same name would get nothing of what is written. It is asked by device and inode, never by
    opening the file: locks of a file belong to a process, which loses all of them when it closes the file anywhere, and
    SQLite would not know.

    Parameters
    ----------
    path : Path
        As it was given. A symbolic link must go on leading to the file, or a restart would open another one.
    """

    def __init__(self, path: Path) -> None:
        self.given = path.absolute()
        self.path = self.given.resolve()
        self._wal = f"{self.path}-wal"
        self._own: os.stat_result | None = None
        self._own_wal: os.stat_result | None = None
        self._said = False

    def opened(self) -> None:
        """Note the file, or raise if it is another one than before; call it after every connection was made."""
        if self._own is None:
            self._own = os.stat(self.given)
        self.require()

    def opened_wal(self) -> None:
        """Note the write-ahead log, which stays the same file for as long as one connection is open."""
        self._own_wal = _stat(self._wal)

    def closed_wal(self) -> None:
        """Forget the write-ahead log: SQLite deletes it with the last connection, and makes another."""
        self._own_wal = None

    def require(self) -> None:
        """Raise unless both are still there under their names; the first time is an error in the log, too."""
        for name, own in ((self.given, self._own), (self._wal, self._own_wal)):
            if own is None:
                continue
            now = _stat(name)
            if now is None or not os.path.samestat(own, now):
                fate = "is gone" if now is None else "was replaced by another file"
                if not self._said:
                    self._said = True
                    logger.error("%s %s while it was in use; %s", name, fate, LOST)
                raise StorageUnavailable(f"{name} {fate}; {LOST}")
        if self._said:
            self._said = False
            logger.warning("%s is back; what comes is accepted again", self.given)

    def require_one_name(self) -> None:
        """Raise if the file has several names: each would have a write-ahead log and a lock of its own."""
        found = os.stat(self.path)
        if found.st_nlink > 1:
            raise StorageMismatch(
                f"expected {self.path} to have one name, got {found.st_nlink} (hard links): two processes could write "
                "to it without knowing of each other; remove the other links (find -samefile), or copy it instead"
            )


def _stat(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def run(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount


class SqliteStorage(SqlStorage):
    """A storage in one file, with write-ahead logging; a commit is on disk when it returns.

    Parameters
    ----------
    path : Path
    migrate : bool
    """

    def __init__(self, path: Path, *, migrate: bool = True) -> None:
        super().__init__()
        self._file = OwnFile(path)
        self._path = self._file.path
        self._closed = False
        self._lock_file: int | None = None
        self._write_lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._readers = Pool(self._connect_reader, READERS, BUSY_TIMEOUT)
        self._checkpoints = Checkpoints(Path(f"{self._path}-wal"), self._connect, self._write_lock)
        try:
            self._prepare(migrate)
        except BaseException:
            self.close()
            raise

    def _prepare(self, migrate: bool) -> None:
        with self._translated():
            if migrate:
                # Contexts may be personal, so nobody else reads a file that we make.
                with suppress(FileExistsError):
                    os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            elif not self._path.exists():
                raise StorageMismatch(f"{self._path} does not exist; open it with migrate=True to create it")
            connection = self._connect()
        try:
            with self._translated():
                self._check(connection)
                self._migrate(connection, migrate)
        finally:
            connection.close()

    def _check(self, connection: sqlite3.Connection) -> None:
        [(application,)] = connection.execute("PRAGMA application_id")
        [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_master")
        if tables and application != APPLICATION:
            raise StorageMismatch(
                f"{self._path} is an SQLite database, but not a storage of posse; name another file, "
                "or one that does not exist yet"
            )

    def _migrate(self, connection: sqlite3.Connection, migrate: bool) -> None:
        if not steps_from(_version(connection), "sqlite", str(self._path), migrate=migrate):
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster.
            for number, statements in steps_from(_version(connection), "sqlite", str(self._path), migrate=migrate):
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise StorageUnavailable("the storage was closed; open it again")
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw", uri=True, timeout=BUSY_TIMEOUT, isolation_level=None,
            check_same_thread=False, cached_statements=256,
        )  # fmt: skip
        try:
            self._file.opened()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA journal_size_limit = {KEPT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            connection.execute("PRAGMA cache_size = -16384")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # opens the write-ahead log
            self._file.opened_wal()
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise _translate(error, self._path) from error
        except OSError as error:
            raise StorageUnavailable(
                f"{self._path}: {error.strerror or error}; check that its folder exists and may be written to"
            ) from error

    def _read(self, statement: str, *values: Any) -> list[Row]:
        with self._translated(), self._readers.lend() as connection:
            # All rows at once: a read transaction that stays open would keep the write-ahead log from starting over.
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        with self._transaction() as connection:
            yield _Transaction(connection)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._translated():
            if self._writer is None:
                self._writer = self._connect_writer()
            connection = self._writer
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                self._file.require()
                connection.execute("COMMIT")
                # What went into a file that was taken away meanwhile is not acknowledged.
                self._file.require()
            except BaseException as error:
                self._roll_back(connection, error)
                raise
        self._checkpoints.written()

    def _roll_back(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """Undo what is open; a connection that may be broken is thrown away, and the next call makes another."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop_writer()
        else:
            if isinstance(error, sqlite3.Error) and _code(error) not in (
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_CONSTRAINT,
            ):
                self._drop_writer()

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        self._file.closed_wal()
        self._checkpoints.let_go()
        if writer is not None:
            with suppress(sqlite3.Error):
                writer.close()

    # The hot path.

    def write(self, groups: Sequence[Sequence[NewDecision | NewReward]]) -> Written:
        wanted = LookupKeys(groups)
        with self._transaction() as connection:
            verdict = resolve(groups, look_up(connection, wanted))
            apply(connection, verdict)
        self._bound_log()
        return verdict.written

    def _bound_log(self) -> None:
        """Start the write-ahead log over if readers that overlap have kept SQLite from doing so by itself."""
        if self._checkpoints.large and self._checkpoints.reaches(WAL_LIMIT):
            self._forget()

    def _forget(self) -> None:
        # Rows are overwritten when they are deleted (secure_delete), but older copies of their pages are in the log.
        with suppress(sqlite3.Error, StorageUnavailable, OSError):
            self._checkpoints.make()  # most of it, while others write
        for _ in range(FORGET_TRIES):
            with self._write_lock, suppress(sqlite3.Error):
                if self._writer is None or self._empty_log(self._writer):
                    return
            # Somebody reads, or makes a checkpoint of its own: others write meanwhile.
            time.sleep(FORGET_PAUSE)

    def _empty_log(self, writer: sqlite3.Connection) -> bool:
        """Move all that the write-ahead log has to the file; False if somebody reads, who is not waited for."""
        writer.execute(f"PRAGMA busy_timeout = {FORGET_PATIENCE}")
        try:
            [(busy, *_)] = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            writer.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT)}")
        return not busy

    # Who learns, and whether it is there.

    def lead(self) -> bool:
        with self._translated():
            path = f"{self._path}.lock"
            self._file.require()
            if self._lock_file is not None:
                if _is_file(self._lock_file, path):
                    return True
                os.close(self._lock_file)
                self._lock_file = None
            if self._closed:
                raise StorageUnavailable("the storage was closed; open it again")
            self._file.require_one_name()
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            except BaseException:
                os.close(file)
                raise
            if not _is_file(file, path):
                os.close(file)
                return False
            self._lock_file = file
            return True

    def ping(self) -> None:
        with self._translated():
            self._file.require()
        super().ping()

    def size(self) -> int:
        with self._translated():
            return sum(path.stat().st_size for path in (self._path, Path(f"{self._path}-wal")) if path.exists())

    def schema_version(self) -> int:
        return int(self._read("PRAGMA user_version")[0][0])

    def close(self) -> None:
        self._closed = True
        self._checkpoints.close()
        self._readers.clear()
        with self._write_lock:
            self._drop_writer()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


def _version(connection: sqlite3.Connection) -> int:
    [(version,)] = connection.execute("PRAGMA user_version")
    return int(version)


def _is_file(descriptor: int, path: str) -> bool:
    """Say whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _code(error: sqlite3.Error) -> int:
    """Return the primary code of an error, 0 if it is one of the Python module."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _translate(error: BaseException, path: Path) -> Exception:
    if not isinstance(error, sqlite3.Error):
        return InvalidValue(f"a value cannot be stored: {error}")
    code = _code(error)
    if code in ADVICE:
        return StorageUnavailable(f"{path}: {error}; {ADVICE[code]}")
    if code == sqlite3.SQLITE_NOTADB:
        return StorageMismatch(f"{path} is not an SQLite database; name another file, or one that does not exist yet")
    if code == sqlite3.SQLITE_CORRUPT:
        return StorageMismatch(f"{path} is damaged ({error}); restore it from a backup")
    if code == sqlite3.SQLITE_CONSTRAINT or isinstance(error, sqlite3.DataError):
        return InvalidValue(f"a value cannot be stored: {error}")
    if code == 0 and "closed" in str(error):
        return StorageUnavailable("the storage was closed; open it again")
    if code == 0 or code in (sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG):
        return InvalidValue(f"a value cannot be stored: {error}")
    return StorageMismatch(f"{path}: {error}; its tables are not those that this posse knows")
