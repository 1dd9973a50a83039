"""Tells an address when something about a fleet is new: a finding, or that it is not served as it should be."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from posse.errors import InvalidValue, PosseError
from posse.logs.writer import moment

if TYPE_CHECKING:
    from posse.service.engine import Engine

EVERY = 60.0  # seconds between two looks at all fleets
TRIES, FIRST_PAUSE, LONGEST_PAUSE = 6, 1.0, 60.0
TIMEOUT = 10.0  # seconds for an answer
SECRET = "POSSE_WEBHOOK_SECRET"
SIGNATURE = "X-Posse-Signature"

logger = logging.getLogger("posse.service")


def signature(secret: str, body: bytes) -> str:
    """Return what a body is signed with, so that whoever gets it knows who sent it.

    Examples
    --------
    >>> signature("hush", b"{}")[:20]
    'sha256=505c20ac604f6'
    """
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def require_address(url: str) -> str:
    """Return the address of a webhook, or raise."""
    if not url.startswith(("http://", "https://")):
        raise InvalidValue(f"expected webhook to be an address that begins with https:// or http://, got {url!r}")
    return url


class Webhooks:
    """Looks at all fleets now and then, and tells what was not so the last time.

    Only the process that learns does. What could not be told is told the next time; after a restart what is so then is
    told once more, under the same ids.

    Parameters
    ----------
    engine : Engine
    url : str
    secret : str, optional
        Default: that of the environment; without one nothing is signed.
    every : float
        Seconds.
    """

    def __init__(self, engine: Engine, url: str, secret: str | None = None, every: float = EVERY) -> None:
        self._engine, self._url, self._every = engine, url, every
        self._secret = os.environ.get(SECRET) if secret is None else secret
        self._known: dict[str, set[str]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="posse-webhooks", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, soon."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(TIMEOUT)

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                if self._engine.ready and self._engine.leading:
                    self.look()
            except Exception:
                logger.exception("telling what is new failed; tried again later")

    def look(self) -> None:
        """Tell what is new about every fleet."""
        for live in self._engine.roster.all():
            name = live.name
            try:
                found = {*live.replica.findings(), *self._engine.checker.findings(name)}
            except PosseError as error:
                found = {f"findings cannot be made: {error}"}
            state, reason = self._engine.roster.state_of(name)
            if reason is not None:
                found.add(f"the fleet is {state.replace('_', ' ')}: {reason}")
            if self._engine.steady.problem is not None:
                found.add(self._engine.steady.problem)
            known = self._known.get(name, set())
            new = sorted(found - known)
            # What is over may come again, and is news then.
            if not new or self._tell(name, new):
                self._known[name] = found

    def _tell(self, fleet: str, findings: list[str]) -> bool:
        told: dict[str, Any] = {
            "event": "findings",
            "fleet": fleet,
            "time": moment(self._engine.clock()),
            "findings": [
                {"id": hashlib.sha256(f"{fleet}\0{words}".encode()).hexdigest()[:16], "text": words}
                for words in findings
            ],
        }
        body, pause = to_json(told), FIRST_PAUSE
        for attempt in range(TRIES):
            if attempt and self._stop.wait(pause):
                return False
            pause = min(2 * pause, LONGEST_PAUSE)
            if self._send(body):
                return True
        logger.warning("what is new about fleet %r could not be told to the webhook; tried again later", fleet)
        return False

    def _send(self, body: bytes) -> bool:
        headers = {"content-type": "application/json", "user-agent": "posse"}
        if self._secret:
            headers[SIGNATURE] = signature(self._secret, body)
        request = urllib.request.Request(self._url, body, headers, method="POST")
        begin = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                status: int = answer.status
                return 200 <= status < 300
        except (urllib.error.URLError, OSError, ValueError) as error:
            logger.info("the webhook did not take it after %.1f s: %s", time.monotonic() - begin, error)
            return False
