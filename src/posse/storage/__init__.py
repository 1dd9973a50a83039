"""Where a service keeps its log of decisions and rewards: one contract, embedded (SQLite) or shared (PostgreSQL)."""

from __future__ import annotations

import os
from pathlib import Path

from posse.errors import InvalidValue, MissingDependency
from posse.storage.base import Storage
from posse.storage.rows import (
    ACCEPTED,
    CONFLICT,
    EXPIRED,
    GONE,
    NAMELESS,
    PENDING,
    REWARDED,
    SAME,
    UNFIT,
    UNKNOWN,
    UNREWARDED,
    WITHHELD,
    Activity,
    AuditRow,
    Change,
    ClockRow,
    FleetRow,
    KeyRow,
    LoggedDecision,
    NewDecision,
    NewReward,
    Outcome,
    Progress,
    RewardEvent,
    RewardRun,
    TaskRow,
    Written,
    digest_of,
)

__all__ = [
    "ACCEPTED", "CONFLICT", "EXPIRED", "GONE", "NAMELESS", "PENDING", "REWARDED", "SAME", "UNFIT", "UNKNOWN",
    "UNREWARDED", "WITHHELD", "Activity", "AuditRow", "Change", "ClockRow", "FleetRow", "KeyRow", "LoggedDecision",
    "NewDecision", "NewReward", "Outcome", "Progress", "RewardEvent", "RewardRun", "Storage", "TaskRow", "Written",
    "digest_of", "open_storage",
]  # fmt: skip


def open_storage(url_or_path: str | os.PathLike[str], *, migrate: bool = True) -> Storage:
    """Open a storage, and create its tables if there are none.

    Parameters
    ----------
    url_or_path : str or path
        A path or ``sqlite:///path`` for SQLite (a fourth slash makes the path absolute), ``postgresql://...`` for
        PostgreSQL.
    migrate : bool, default True
        Whether tables of an older posse are brought up to date. If not, they are refused, as is an empty database.

    Raises
    ------
    StorageUnavailable
        If the database cannot be reached; worth trying again.
    StorageMismatch
        If it is not a storage, or one of a newer posse.
    MissingDependency
        If PostgreSQL is asked for and psycopg is not installed.
    """
    address = os.fspath(url_or_path)
    if address.startswith(("postgresql://", "postgres://")):
        try:
            from posse.storage.postgres import PostgresStorage
        except ImportError:
            raise MissingDependency('PostgreSQL needs psycopg: pip install "psycopg[binary]"') from None
        return PostgresStorage(address, migrate=migrate)
    if address.startswith("sqlite:///"):
        address = address.removeprefix("sqlite:///")
    elif "://" in address:
        scheme = address.split("://")[0]
        raise InvalidValue(f"no storage is known as {scheme}://; give a path, sqlite:///path or postgresql://...")
    if not address or address.startswith((":memory:", "file:")) or "\0" in address:
        raise InvalidValue(f"a storage is a file on disk, but the path is {address!r}; give one such as posse.db")
    from posse.storage.sqlite import SqliteStorage

    return SqliteStorage(Path(address), migrate=migrate)
