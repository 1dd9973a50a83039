"""Simulated customers who ask a running service for decisions and report sales, as anybody's program would."""

from __future__ import annotations

import datetime
import http.client
import json
import logging
import threading
import time
from collections import deque
from typing import Any
from urllib.parse import urlsplit

from posse.service.demo.business import CLOSE, DEFINITION, FLEET, OPEN, Business

PAUSE = 4.0  # seconds between two customers
PATIENCE = 60.0  # seconds until it is tried again where the fleet is not the demo's, or a key is needed
PENDING = 15  # decisions that wait for their reward, on average
LATER = 10_000  # a day long after everything has changed

logger = logging.getLogger("posse.service")


def start_visits(address: str) -> threading.Thread:
    """Let simulated customers use the service at an address from now on, on a thread of their own."""
    thread = threading.Thread(target=_run, args=(address,), name="posse-demo", daemon=True)
    thread.start()
    return thread


def _run(address: str) -> None:
    business = Business(seed=time.time_ns())  # other customers after every start
    waiting: deque[tuple[str, float]] = deque()
    while True:
        try:
            _simulate(address, business, waiting)
        except (OSError, http.client.HTTPException) as error:
            logger.info("the demo waits for the service: %s", error)
            time.sleep(1.0)


def _simulate(address: str, business: Business, waiting: deque[tuple[str, float]]) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    while _ask(connection, "GET", "/readyz")[0] != 200:
        time.sleep(0.2)
    status, fleet = _ask(connection, "PUT", f"/v1/fleets/{FLEET}", DEFINITION)
    if status not in (200, 201):
        logger.warning("no customers come to the demo's stores: %s", fleet["error"]["message"])
        time.sleep(PATIENCE)
        return
    weather, changed = business.weather(), time.monotonic()
    while True:
        if time.monotonic() - changed > 1800:
            weather, changed = business.weather(), time.monotonic()
        _visit(connection, business, weather, waiting)
        time.sleep(PAUSE)


def _visit(
    connection: http.client.HTTPConnection, business: Business, weather: str, waiting: deque[tuple[str, float]]
) -> None:
    now = datetime.datetime.now()
    hour = min(max(now.hour + now.minute / 60, OPEN), CLOSE)  # the stores of a demo do not close
    visit = business.visit(LATER, hour, weather, now.weekday() >= 5)
    asked = {"task": visit.store, "context": visit.context}
    status, decision = _ask(connection, "POST", f"/v1/fleets/{FLEET}/decisions", asked)
    if status != 200:
        raise http.client.HTTPException(decision["error"]["message"])
    waiting.append((decision["id"], business.sale(visit, decision["arm"], LATER)))
    while len(waiting) > PENDING:
        one, value = waiting.popleft()
        _ask(connection, "POST", f"/v1/decisions/{one}/reward", {"reward": value})


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"null")
