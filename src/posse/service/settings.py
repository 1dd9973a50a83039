"""Everything about a service that can be set, from a TOML file, options of the command line, or neither."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posse.checks import nearest, number, one_of, whole_number
from posse.errors import InvalidValue
from posse.service.keys import RULES
from posse.service.log_lines import FORMATS


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may ask for.

    Parameters
    ----------
    body : int
        Bytes of a request.
    batch : int
        Decisions or rewards in one request.
    label : int
        Characters of the name of a task, an arm, a feature, or an idempotency key.
    features : int
        Encoded columns of a fleet.
    arms : int
        Arms of a fleet, retired ones included.
    cells : int
        Arms times encoded columns squared, of a fleet: what its population takes in memory, time and in the log. More
        than 10 million do not fit into the log.
    fleets : int
        Fleets of a service.
    number : float
        Size of a number in a context, and of a reward.
    rate : float
        Requests a second of one key, or of one address where there are no keys; twice as many at once. 0 is no limit.
    refusals : float
        Requests a second of one address with a wrong key or none.
    waiting : int
        Requests that wait for the disk; more are told to come back.
    connections : int
        Open connections of one process; fewer where the system allows fewer open files. A new one takes the place of
        one at which nobody waits, or is told to come back.
    """

    body: int = 1 << 20
    batch: int = 1000
    label: int = 200
    features: int = 500
    arms: int = 200
    cells: int = 100_000
    fleets: int = 100
    number: float = 1e9
    rate: float = 10_000.0
    refusals: float = 10.0
    waiting: int = 5000
    connections: int = 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a service runs.

    Parameters
    ----------
    database : str
        Path of an SQLite file, or ``postgresql://user@host/name``.
    host, port : str, int
        Where it listens. Without API keys that must be this machine alone.
    workers : int
        Processes; more than one needs PostgreSQL.
    snapshot_seconds : float
        A snapshot is written after so long if there is news.
    follow_seconds : float
        How often news of other processes are asked for.
    require_keys : str
        When a key is asked for: "once-made" (since the database had its first, also after the last was revoked),
        "always", or "while-any" (while one is in force). Away from this machine one is always asked for.
    log_format : str
        Lines of the log: "text", for people, or "json", an object each.
    access_log : bool
        Whether every request is a line of the log.
    limits : Limits
    """

    database: str = "posse.db"
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    snapshot_seconds: float = 60.0
    follow_seconds: float = 0.25
    require_keys: str = RULES[0]
    log_format: str = FORMATS[0]
    access_log: bool = False
    limits: Limits = field(default_factory=Limits)

    @property
    def embedded(self) -> bool:
        """Whether the database is a file of this process."""
        return not self.database.startswith(("postgresql://", "postgres://"))


def read_settings(path: str | None, **options: Any) -> Settings:
    """Return settings from a TOML file, if any, with options that were given put over it.

    Parameters
    ----------
    path : path, optional
        A file with keys of :class:`Settings`, and a table ``[limits]``.
    **options
        None means not given.
    """
    values = {} if path is None else _read(path)
    try:
        _settings(values)
    except InvalidValue as error:  # what options say wrongly is not the file's fault
        raise type(error)(f"{path}: {error}") from None
    return _settings(values | {name: value for name, value in options.items() if value is not None})


def _settings(values: dict[str, Any]) -> Settings:
    """Return the settings that these values say."""
    limits = values.get("limits", {})
    if not isinstance(limits, dict):
        raise InvalidValue(f"expected limits to be a table, [limits], got {limits!r}")
    others = {name: value for name, value in values.items() if name != "limits"}
    settings: Settings = _checked(Settings, others, "")
    return dataclasses.replace(settings, limits=_checked(Limits, limits, "limits."))


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(f"cannot read the settings {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{path} is not TOML: {error}") from None


def _checked(kind: type[Any], values: dict[str, Any], prefix: str) -> Any:
    defaults = kind()
    names = [entry.name for entry in dataclasses.fields(kind) if entry.name != "limits"]
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in names:
            known = [prefix + known for known in names]
            raise InvalidValue(f"no setting {prefix}{name}; {nearest(prefix + name, known, 'settings')}")
        default = getattr(defaults, name)
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise InvalidValue(f"expected {prefix}{name} to be true or false, got {value!r}")
            checked[name] = value
        elif isinstance(default, str):
            if not isinstance(value, str) or not value:
                raise InvalidValue(f"expected {prefix}{name} to be text, got {value!r}")
            checked[name] = value
        elif isinstance(default, int):
            least = 0 if name == "port" else 1
            checked[name] = whole_number(value, prefix + name, at_least=least)
        else:
            checked[name] = number(value, prefix + name, at_least=0)
    if checked.get("port", 1) > 65535:
        raise InvalidValue(f"expected port to be at most 65535, got {checked['port']}")
    if "require_keys" in checked:
        one_of(checked["require_keys"], "require_keys", RULES)
    if "log_format" in checked:
        one_of(checked["log_format"], "log_format", FORMATS)
    for name in ("snapshot_seconds", "follow_seconds"):
        if checked.get(name) == 0:
            raise InvalidValue(f"{name} must be greater than 0")
    return kind(**checked)
