"""A storage in a PostgreSQL database, which any number of processes share; its tables are in the schema ``posse``."""

# ruff: noqa: D102 (posse.storage.base says what the methods do)

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg

from posse.errors import InvalidValue, StorageMismatch, StorageUnavailable
from posse.storage.migrations import steps_from
from posse.storage.outcomes import LookupKeys, LookupResult, resolve
from posse.storage.postgres_rows import Connection, apply, look_up
from posse.storage.rows import NewDecision, NewReward, Written
from posse.storage.sql import Pool, Row, Session, SqlStorage

CONNECT_TIMEOUT = 3
STATEMENT_TIMEOUT = 5.0
MIGRATION_TIMEOUT = 60.0
LOCK_TIMEOUT = 3.0
"""Seconds; all of them lead to StorageUnavailable."""

LEASE = 10.0
"""Seconds after which a leader that stands still, but whose connection is open, is not one any more."""

READERS = 8
PATIENCE = 5.0

LEADER, MIGRATOR = (0x706F7365, 1), (0x706F7365, 2)
"""Names of advisory locks."""


class Deadlines:
    """Shuts a socket down when its call has taken too long; the call then fails as if the server had gone away.

    A database limits the time of its statements by itself, but not while it, or its machine, stands still.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[int, float] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, seconds: float, descriptor: int) -> Iterator[None]:
        """Shut a socket down if the body takes longer."""
        with self._lock:
            self._due[descriptor] = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="posse storage deadlines", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._due.pop(descriptor, None)

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            now = time.monotonic()
            # The lock keeps the body from ending, so the number cannot belong to another file by now.
            with self._lock:
                for descriptor in [number for number, due in self._due.items() if due < now]:
                    del self._due[descriptor]
                    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as handle:
                        handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop watching."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()


class _Transaction:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self._connection.execute(_spelled(statement), values).fetchall()

    def run(self, statement: str, *values: Any) -> int:
        return self._connection.execute(_spelled(statement), values).rowcount


class PostgresStorage(SqlStorage):
    """A storage in a database that is shared. A lost connection fails one call; the next one makes a new one.

    Parameters
    ----------
    url : str
        ``postgresql://user@host/database``. A proxy that hands out another connection for every transaction will not
        do: leadership belongs to a connection.
    migrate : bool
    """

    LOCK = " FOR NO KEY UPDATE"
    BINARY = "bytea"
    reads_beside = True

    def __init__(self, url: str, *, migrate: bool = True) -> None:
        super().__init__()
        self._url = url
        self._closed = False
        self._write_lock = threading.RLock()
        self._writer: Connection | None = None
        self._writes = 0
        self._lead_lock = threading.Lock()
        self._leader: Connection | None = None
        self._deadlines = Deadlines()
        self._readers: Pool[Connection] = Pool(self._connect, READERS, PATIENCE)
        try:
            with _translated():
                self._migrate(migrate)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Connection:
        if self._closed:
            raise StorageUnavailable("the storage was closed; open it again")
        connection = psycopg.connect(
            self._url, autocommit=True, prepare_threshold=1, connect_timeout=CONNECT_TIMEOUT, client_encoding="utf8",
            keepalives=1, keepalives_idle=3, keepalives_interval=1, keepalives_count=3, tcp_user_timeout=5000,
        )  # fmt: skip
        try:
            connection.execute(
                "SET search_path = posse; SET default_transaction_isolation = 'read committed'; SET jit = off; "
                f"SET statement_timeout = {round(STATEMENT_TIMEOUT * 1000)}; "
                f"SET lock_timeout = {round(LOCK_TIMEOUT * 1000)}; "
                f"SET idle_in_transaction_session_timeout = {round(STATEMENT_TIMEOUT * 1000)}"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_writer(self) -> Connection:
        connection = self._connect()
        try:
            # What is acknowledged is on disk, whatever the server's default is. Statements are planned once, while
            # tables may be small, so plans that read whole tables are not wanted.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            connection.execute("SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, migrate: bool) -> None:
        with self._connect() as connection:
            encoding = connection.execute("SHOW server_encoding").fetchone()
            if encoding != ("UTF8",):
                raise StorageMismatch(f"the database has the encoding {encoding}; create one with ENCODING 'UTF8'")
            if not steps_from(_version(connection), "postgres", "the database", migrate=migrate):
                return
            connection.execute(f"SET statement_timeout = {round(MIGRATION_TIMEOUT * 1000)}")
            connection.execute(f"SET lock_timeout = {round(MIGRATION_TIMEOUT * 1000)}")
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", MIGRATOR)
                # Another process may have been faster.
                version = _version(connection)
                if version == 0:
                    connection.execute("CREATE SCHEMA IF NOT EXISTS posse")
                    connection.execute("CREATE TABLE schema_version (version bigint NOT NULL)")
                    connection.execute("INSERT INTO schema_version VALUES (0)")
                for number, statements in steps_from(version, "postgres", "the database", migrate=True):
                    for statement in statements:
                        connection.execute(statement)
                    connection.execute("UPDATE schema_version SET version = %s", (number,))

    def _read(self, statement: str, *values: Any) -> list[Row]:
        text = _spelled(statement)
        with _translated():
            try:
                return self._read_once(text, values)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if not _lost(error):
                    raise
                # The database may have been restarted since these connections were made.
                self._readers.clear()
                return self._read_once(text, values)

    def _read_once(self, text: str, values: Sequence[Any]) -> list[Row]:
        with self._readers.lend() as connection, self._within(connection):
            return connection.execute(text, values).fetchall()

    @contextmanager
    def _within(self, connection: Connection) -> Iterator[None]:
        with self._deadlines.within(STATEMENT_TIMEOUT + LOCK_TIMEOUT, connection.fileno()):
            yield

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        with self._write_lock, _translated():
            connection = self._begin()
            try:
                with self._within(connection):
                    yield _Transaction(connection)
                    connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise

    def _begin(self) -> Connection:
        start = "BEGIN"
        if self._writer is not None:
            try:
                with self._within(self._writer):
                    self._writer.execute(start)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self._drop_writer()
        if self._writer is None:
            self._writer = self._connect_writer()
            self._writer.execute(start)
        return self._writer

    def _roll_back(self, connection: Connection) -> None:
        """Undo what is open; a connection that does not even do that is thrown away."""
        try:
            with self._within(connection):
                connection.execute("ROLLBACK")
        except (psycopg.Error, OSError):
            self._drop_writer()

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    # The hot path.

    def write(self, groups: Sequence[Sequence[NewDecision | NewReward]]) -> Written:
        wanted = LookupKeys(groups)
        with self._write_lock, _translated():
            self._writes += 1
            found = self._look_up(wanted)
            connection = self._writer
            assert connection is not None
            try:
                with self._within(connection):
                    verdict = resolve(groups, found)
                    apply(connection, verdict)
            except BaseException:
                self._roll_back(connection)
                raise
        return verdict.written

    def _look_up(self, wanted: LookupKeys) -> LookupResult:
        """Begin a transaction, lock all fleets that entries may touch and read what is known about them."""
        for attempt in range(5):
            fresh = self._writer is None
            if self._writer is None:
                self._writer = self._connect_writer()
            connection = self._writer
            try:
                with self._within(connection):
                    # What was planned for a table half as large may be slow by now.
                    if self._writes.bit_count() == 1:
                        connection.execute("DISCARD PLANS")
                    found = look_up(connection, wanted)
                if found is not None:
                    return found
                # A decision came into a fleet that was not locked, while we locked: once more, with all of them.
                connection.execute("ROLLBACK")
            except BaseException as error:
                self._roll_back(connection)
                # Nothing was written yet, so a connection that broke while it was idle is replaced quietly.
                if fresh or attempt or not _lost(error):
                    raise
        raise StorageUnavailable("fleets came and went while entries were written; try again")

    def _forget(self) -> None:
        # Deleted rows are invisible at once; autovacuum gives their space to new rows.
        pass

    # Who learns, and whether it is there.

    def lead(self) -> bool:
        with self._lead_lock, _translated():
            try:
                if self._leader is not None:
                    with suppress(psycopg.OperationalError, psycopg.InterfaceError), self._within(self._leader):
                        held = self._leader.execute(
                            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s "
                            "AND pid = pg_backend_pid() AND granted AND database = "
                            "(SELECT oid FROM pg_database WHERE datname = current_database())",
                            LEADER,
                        ).fetchone()
                        return held is not None or self._try_to_lead(self._leader)
                    self._leader.close()
                    self._leader = None
                self._leader = self._connect_leader()
                with self._within(self._leader):
                    return self._try_to_lead(self._leader)
            except BaseException:
                if self._leader is not None:
                    self._leader.close()
                    self._leader = None
                raise

    def _try_to_lead(self, connection: Connection) -> bool:
        return connection.execute("SELECT pg_try_advisory_lock(%s, %s)", LEADER).fetchone() == (True,)

    def _connect_leader(self) -> Connection:
        connection = self._connect()
        # The server, too, has to notice when a leader is gone without a word.
        connection.execute("SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 2")
        if connection.info.server_version >= 140000:
            connection.execute(f"SET idle_session_timeout = {round(LEASE * 1000)}")
        return connection

    def now(self) -> float | None:
        # Machines that share a database need not agree about the time, but all of them go by this.
        return float(self._read("SELECT extract(epoch FROM clock_timestamp())")[0][0])

    def size(self) -> int:
        return int(self._read("SELECT pg_database_size(current_database())")[0][0])

    def schema_version(self) -> int:
        return int(self._read("SELECT version FROM schema_version")[0][0])

    def close(self) -> None:
        self._closed = True
        self._readers.clear()
        with self._write_lock:
            self._drop_writer()
        with self._lead_lock:
            if self._leader is not None:
                # Said, not only left to the server, which may take a moment to notice that we are gone.
                with suppress(psycopg.Error), self._within(self._leader):
                    self._leader.execute("SELECT pg_advisory_unlock_all()")
                self._leader.close()
                self._leader = None
        self._deadlines.close()


@lru_cache(512)
def _spelled(statement: str) -> str:
    return statement.replace("?", "%s")


def _version(connection: Connection) -> int:
    [(there, tables)] = connection.execute(
        "SELECT to_regclass('posse.schema_version') IS NOT NULL, "
        "(SELECT count(*) FROM pg_tables WHERE schemaname = 'posse')"
    ).fetchall()
    if not there:
        if tables:
            raise StorageMismatch(
                "the database has a schema posse whose tables are not a storage; name another database, or rename it"
            )
        return 0
    return int(connection.execute("SELECT version FROM schema_version").fetchall()[0][0])


def _lost(error: BaseException) -> bool:
    """Say whether an error means that the connection is gone, and not only that a statement failed."""
    return isinstance(error, psycopg.InterfaceError) or (
        isinstance(error, psycopg.OperationalError)
        and (error.sqlstate is None or error.sqlstate.startswith(("08", "57P")))
    )


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.NotSupportedError, UnicodeError, OverflowError) as error:
        raise InvalidValue(f"a value cannot be stored: {_first_line(error)}") from error
    except psycopg.ProgrammingError as error:
        raise StorageMismatch(
            f"PostgreSQL refused: {_first_line(error)}; check that the role may use the schema posse, "
            "and that its tables are those of this posse"
        ) from error
    except (psycopg.Error, OSError) as error:
        raise StorageUnavailable(
            f"PostgreSQL does not answer as it should: {_first_line(error)}; what was asked may be asked again"
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
