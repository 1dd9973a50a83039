"""API keys: random, kept as digests only, each with what it may do."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable

from posse.errors import InvalidValue
from posse.storage import KeyRow

SCOPES = ("decide", "reward", "read", "admin")
"""What a key may do: ask for decisions, report rewards, look, change fleets and erase tasks. None includes another."""

FLEET_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
PREFIX = "posse"
LONGEST_LABEL = 100


def new_key(
    scopes: Iterable[str], label: str, time: float, *, fleets: Iterable[str] = (), expires: float | None = None
) -> tuple[str, KeyRow]:
    """Return a new key, which is shown once, and what is kept of it.

    Parameters
    ----------
    scopes : iterable of str
        Some of :data:`SCOPES`.
    label : str
        Whose key it is.
    time : float
        Now, in seconds since the epoch.
    fleets : iterable of str
        Names of those that it is for; none means all, also those that are made later.
    expires : float, optional
        When it becomes good for nothing.

    Examples
    --------
    >>> key, row = new_key(["decide"], "shop", time=0.0)
    >>> key.startswith(f"posse_{row.id}_"), key.encode() in row.digest.encode()
    (True, False)
    """
    chosen = tuple(scope for scope in SCOPES if scope in (scopes := set(scopes)))
    unknown = set(scopes) - set(SCOPES)
    if unknown or not chosen:
        came = ", ".join(map(repr, sorted(unknown))) or "none"
        raise InvalidValue(f"expected scopes to be some of {', '.join(SCOPES)}, got {came}")
    if len(label) > LONGEST_LABEL or not (label.isprintable()):
        raise InvalidValue(f"a label must have at most {LONGEST_LABEL} visible characters")
    names = tuple(sorted(set(fleets)))
    for name in names:
        if re.fullmatch(FLEET_NAME, name) is None:
            raise InvalidValue(
                f"expected the name of a fleet (letters, digits, dots, dashes and underscores), got {name[:100]!r}"
            )
    if expires is not None and expires <= time:
        raise InvalidValue("expected a time to come at which the key expires, got one that is over; give a later one")
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    row = KeyRow(key_id, label, chosen, _digest(secret), time, names, expires)
    return f"{PREFIX}_{key_id}_{secret}", row


def rotated(row: KeyRow, time: float, expires: float | None = None) -> tuple[str, KeyRow]:
    """Return a new key that may do what another may, and what is kept of it.

    It expires as long from now as the other did from when it was made, unless ``expires`` says otherwise.
    """
    if expires is None and row.expires is not None:
        expires = time + row.expires - row.created
    return new_key(row.scopes, row.label, time, fleets=row.fleets, expires=expires)


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
        self._uses: dict[str, float] = {}
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
        """Whether a key is asked for: a service that has had one does not open when the last is revoked.

        Nor does it when the last expires, whatever the rule: nobody decided that.
        """
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

    def note_use(self, key_id: str, time: float) -> None:
        """Note that a key was used."""
        self._uses[key_id] = time

    def take_uses(self) -> dict[str, float]:
        """Return when keys were last used since this was last asked for, by id."""
        uses, self._uses = self._uses, {}
        return uses


def _digest(secret: str) -> str:
    # A fast hash is enough: the secret has 256 random bits, so there is nothing to guess.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()
