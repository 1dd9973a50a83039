"""API keys and the audit log in tables, the same in both databases."""

# ruff: noqa: D102 (posse.storage.base says what the methods do)

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from posse.errors import InvalidValue
from posse.storage.base import (
    Storage,
)
from posse.storage.rows import AuditRow, KeyRow

KEYS = "SELECT id, label, scopes, digest, created, fleets, expires, used FROM keys ORDER BY created, id"
AUDIT = "SELECT id, time, actor, client, action, fleet, target, request, status FROM audit"
USED = "UPDATE keys SET used = ? WHERE id = ? AND digest <> '' AND (used IS NULL OR used < ?)"


class SqlKeys(Storage):
    """What both databases do alike with keys."""

    @abstractmethod
    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return rows of one statement."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Any]:
        """Return a transaction."""

    def add_key(self, key: KeyRow) -> None:
        with self._writing() as session:
            session.run(
                "INSERT INTO keys (id, label, scopes, digest, created, fleets, expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
                key.id, key.label, " ".join(key.scopes), key.digest, key.created, " ".join(key.fleets), key.expires,
            )  # fmt: skip

    def keys(self, *, revoked: bool = False) -> list[KeyRow]:
        rows = [
            KeyRow(row[0], row[1], tuple(row[2].split()), row[3], row[4], tuple(row[5].split()), row[6], row[7])
            for row in self._read(KEYS)
        ]
        return [row for row in rows if revoked or not row.revoked]

    def revoke_key(self, key_id: str) -> bool:
        with self._writing() as session:
            # An older posse, too, finds no key that has this digest.
            statement = (
                "UPDATE keys SET label = '', scopes = '', digest = '', fleets = '' WHERE id = ? AND digest <> ''"
            )
            return session.run(statement, key_id) > 0  # type: ignore[no-any-return]

    def expire_key(self, key_id: str, time: float) -> bool:
        with self._writing() as session:
            statement = "UPDATE keys SET expires = ? WHERE id = ? AND digest <> '' AND (expires IS NULL OR expires > ?)"
            return session.run(statement, time, key_id, time) > 0  # type: ignore[no-any-return]

    def note_key_use(self, times: Mapping[str, float]) -> None:
        with self._writing() as session:
            for key_id, time in sorted(times.items()):
                session.run(USED, time, key_id, time)

    def add_audit(self, row: AuditRow) -> int:
        with self._writing() as session:
            [(number,)] = session.rows(
                "INSERT INTO audit (time, actor, client, action, fleet, target, request, status) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                *row[1:],
            )
        return int(number)

    def finish_audit(self, number: int, status: int) -> None:
        with self._writing() as session:
            session.run("UPDATE audit SET status = ? WHERE id = ?", status, number)

    def audit(self, *, fleets: Sequence[str] = (), before: int | None = None, limit: int = 100) -> list[AuditRow]:
        if limit < 0:
            raise InvalidValue(f"limit is {limit}; give 0 or more")
        where, values = [], list[Any]()
        if before is not None:
            where, values = ["id < ?"], [before]
        if fleets:
            where.append(f"fleet IN ({', '.join('?' * len(fleets))})")
            values += fleets
        statement = AUDIT + (f" WHERE {' AND '.join(where)}" if where else "") + " ORDER BY id DESC LIMIT ?"
        return [AuditRow._make(row) for row in self._read(statement, *values, limit)]
