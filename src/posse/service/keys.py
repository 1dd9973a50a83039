"""API keys: random, kept as digests only, each with what it may do."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from posse.errors import InvalidValue
from posse.storage import KeyRow

SCOPES = ("decide", "reward", "read", "admin")
"""What a key may do: ask for decisions, report rewards, look, change fleets and erase tasks. None includes another."""

PREFIX = "posse"
LONGEST_LABEL = 100


def new_key(scopes: Iterable[str], label: str, time: float) -> tuple[str, KeyRow]:
    """Return a new key, which is shown once, and what is kept of it.

    Examples
    --------
    >>> key, row = new_key(["decide"], "shop", time=0.0)
    >>> key.startswith(f"posse_{row.id}_"), key.encode() in row.digest.encode()
    (True, False)
    """
    chosen = tuple(scope for scope in SCOPES if scope in (scopes := set(scopes)))
    unknown = set(scopes) - set(SCOPES)
    if unknown or not chosen:
        came = ", ".join(sorted(unknown)) or "none"
        raise InvalidValue(f"scopes must be some of {', '.join(SCOPES)}, but {came} came")
    if len(label) > LONGEST_LABEL or not (label.isprintable()):
        raise InvalidValue(f"a label must have at most {LONGEST_LABEL} visible characters")
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return f"{PREFIX}_{key_id}_{secret}", KeyRow(key_id, label, chosen, _digest(secret), time)


RULES = ("once-made", "always", "while-any")
"""When a key is asked for on this machine: since the first was made, always, or while one is in force."""


class KeyRing:
    """The keys in force; replaced as a whole when the storage has others.

    Parameters
    ----------
    rows : iterable of KeyRow
        All keys that ever were, revoked ones too.
    rule : str
        One of :data:`RULES`.
    """

    def __init__(self, rows: Iterable[KeyRow] = (), rule: str = RULES[0]) -> None:
        self._rows: dict[str, KeyRow] = {}
        self._rule, self._used = rule, False
        self.replace(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def replace(self, rows: Iterable[KeyRow]) -> None:
        """Let these be the keys."""
        rows = list(rows)
        self._rows = {row.id: row for row in rows if not row.revoked}
        self._used |= bool(rows)

    @property
    def needed(self) -> bool:
        """Whether a key is asked for: a service that has had one does not open when the last is revoked."""
        return bool(self._rows) or self._rule == "always" or (self._used and self._rule == "once-made")

    def find(self, key: str) -> KeyRow | None:
        """Return what is kept of a key, or None if there is no such key.

        The secret is compared in constant time, also when there is no key of this id.
        """
        prefix, _, rest = key.partition("_")
        key_id, _, secret = rest.partition("_")
        row = self._rows.get(key_id) if prefix == PREFIX else None
        expected = row.digest if row is not None else _digest("")
        same = hmac.compare_digest(_digest(secret), expected)
        return row if same and row is not None else None


def _digest(secret: str) -> str:
    # A fast hash is enough: the secret has 256 random bits, so there is nothing to guess.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()
