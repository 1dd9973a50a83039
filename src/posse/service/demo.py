"""Simulated stores that ask a running service for decisions and report sales, so that there is something to see."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections import deque
from typing import Any
from urllib.parse import urlsplit

import numpy as np

FLEET = "stores"
ARMS = ("coffee", "cake", "newspaper", "ice cream")
WEATHER = ("sun", "cloud", "rain")
N_STORES = 40
FIRST = 2500  # decisions at once, so that the page is not empty
PAUSE = 0.1  # seconds between decisions afterwards
PENDING = 60  # decisions that wait for their reward, on average

DEFINITION = {
    "arms": ARMS,
    "features": ["hour", "basket", {"kind": "one_hot", "name": "weather", "categories": WEATHER}],
    "evaluation_budget": 0.01,
}

logger = logging.getLogger("posse.service")


def start_demo(address: str) -> threading.Thread:
    """Let simulated stores use the service at an address from now on, on a thread of their own."""
    thread = threading.Thread(target=_run, args=(address,), name="posse-demo", daemon=True)
    thread.start()
    return thread


class World:
    """What customers of every store buy: stores differ, and have much in common.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        n_features = 3 + len(WEATHER)
        shared = np.array(
            [
                [2.0, -0.6, 0.2, -0.3, 0.0, 0.5],  # coffee: in the morning, when it rains
                [1.4, 0.3, 0.5, 0.1, 0.1, 0.0],
                [1.1, -0.8, 0.0, 0.0, 0.1, 0.3],
                [1.0, 0.9, 0.3, 1.2, -0.2, -0.9],  # ice cream: when the sun shines
            ]
        )
        spread = self._rng.normal(size=(len(ARMS), n_features, n_features)) * 0.15
        own = self._rng.normal(size=(N_STORES, len(ARMS), n_features))
        self._coefficients = shared + np.einsum("kij,nkj->nki", spread, own)
        self._busy = self._rng.dirichlet(np.full(N_STORES, 0.8))  # some stores hardly ever ask

    def visit(self) -> tuple[int, dict[str, Any]]:
        """Return a store and who comes in."""
        store = int(self._rng.choice(N_STORES, p=self._busy))
        hour, basket = self._rng.uniform(-1, 1), self._rng.exponential(1.0)
        weather = WEATHER[int(self._rng.integers(len(WEATHER)))]
        return store, {"hour": round(hour, 2), "basket": round(min(basket, 5.0), 2), "weather": weather}

    def sale(self, store: int, arm: str, context: dict[str, Any]) -> float:
        """Return what was sold."""
        sky = [float(context["weather"] == weather) for weather in WEATHER]
        x = np.array([1.0, context["hour"], context["basket"], *sky])
        expected = float(self._coefficients[store, ARMS.index(arm)] @ x)
        return round(expected + float(self._rng.normal(scale=0.8)), 2)


def _run(address: str) -> None:
    world = World()
    waiting: deque[tuple[str, float]] = deque()
    while True:
        try:
            _simulate(address, world, waiting)
        except (OSError, http.client.HTTPException) as error:
            logger.info("the demo waits for the service: %s", error)
            time.sleep(1.0)


def _simulate(address: str, world: World, waiting: deque[tuple[str, float]]) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    while _ask(connection, "GET", "/readyz")[0] != 200:
        time.sleep(0.2)
    status, fleet = _ask(connection, "PUT", f"/v1/fleets/{FLEET}", DEFINITION)
    if status not in (200, 201):
        logger.warning("the demo cannot make its fleet: %s", fleet["error"]["message"])
        time.sleep(10.0)
        return
    for _ in range(max(FIRST - fleet["decisions"], 0) // 50):
        _visit_many(connection, world, waiting, 50)
    while True:
        _visit_many(connection, world, waiting, 1)
        time.sleep(PAUSE)


def _visit_many(
    connection: http.client.HTTPConnection, world: World, waiting: deque[tuple[str, float]], count: int
) -> None:
    visits = [world.visit() for _ in range(count)]
    asked = [{"task": f"store-{store:02d}", "context": context} for store, context in visits]
    status, answer = _ask(connection, "POST", f"/v1/fleets/{FLEET}/decisions/batch", {"decisions": asked})
    if status != 200:
        raise http.client.HTTPException(answer["error"]["message"])
    for (store, context), decision in zip(visits, answer["decisions"], strict=True):
        waiting.append((decision["id"], world.sale(store, decision["arm"], context)))
    due = max(len(waiting) - PENDING, 0)
    if due:
        rewards = [waiting.popleft() for _ in range(min(due, 500))]
        _ask(connection, "POST", "/v1/rewards", {"rewards": [{"id": one, "reward": value} for one, value in rewards]})


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"null")
