"""What the service writes to its standard error, the same in every process: as text or as JSON, without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

from posse.service.http import heads

FORMATS = ("text", "json")
SECRETS = (
    (re.compile(r"(posse_[0-9a-f]{12})_[A-Za-z0-9_-]+"), r"\1_***"),  # of an API key
    (re.compile(r"(\w+://[^/\s:@]*):[^/\s@]+@"), r"\1:***@"),  # of the address of a database
    (re.compile(r"(password\s*=\s*)\S+", re.IGNORECASE), r"\1***"),
)
FIELDS = "fields"
"""The attribute of a record with values of its own, such as those of the access log."""


def without_secrets(text: str) -> str:
    """Return a line with API keys and passwords of databases left out.

    Examples
    --------
    >>> without_secrets("cannot connect to postgresql://posse:hush@db/posse")
    'cannot connect to postgresql://posse:***@db/posse'
    """
    for pattern, rest in SECRETS:
        text = pattern.sub(rest, text)
    return text


class TextLines(logging.Formatter):
    """A line for people: time, level, name, message and the request that it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, and a traceback below it if there is one."""
        request = heads.current.get()
        line = f"{_time(record)} {record.levelname} {record.name}: {super().format(record)}"
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, FIELDS, {}).items() if value is not None)
        return without_secrets(" ".join([line, *([fields] if fields else [])]) + (f" [{request}]" if request else ""))


class JsonLines(logging.Formatter):
    """A line for programs: one JSON object, whatever is in the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one JSON object; a traceback is a text in it."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            "process": record.process,
            "request_id": heads.current.get(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps({name: value for name, value in line.items() if value is not None}, default=str)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_log_lines(verbose: bool = False, log_format: str = FORMATS[0]) -> None:
    """Write warnings of all libraries, and what the service has to say, to the standard error of this process.

    Parameters
    ----------
    verbose : bool
        Whether other libraries may say more, too.
    log_format : {"text", "json"}
        Lines for people, or JSON objects.
    """
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root = logging.getLogger()
    for handler in list(root.handlers):
        if getattr(handler, "of_posse", False):
            root.removeHandler(handler)
    stream.of_posse = True  # type: ignore[attr-defined]  # so that a second call replaces it
    root.addHandler(stream)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    for name in ("posse.service", "posse.access"):
        logging.getLogger(name).setLevel(logging.INFO)
