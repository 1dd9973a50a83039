"""What the simulated customers buy: stores differ and have much in common, and not everything stays as it was."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

FLEET = "stores"
NEW_ARM = "smoothie"
ARMS = ("coffee", "croissant", "sandwich")
MARGIN = {"coffee": 1.6, "croissant": 1.4, "sandwich": 2.8, NEW_ARM: 2.4}  # euros earned when it is bought
WEATHER = ("sun", "cloud", "rain")
DAYS = ("weekday", "weekend")
OPEN, CLOSE = 7, 21  # hours

STORES = (
    "Airport", "Bridge Street", "Castle Hill", "Church Lane", "City Hall", "College", "Garden Row", "High Street",
    "Hospital", "Market Square", "Mill Road", "Museum", "North Gate", "Old Town", "Park Avenue", "Queen Street",
    "Station", "University", "West End", "Riverside",
)  # fmt: skip
UNUSUAL, LATE = "Airport", "Riverside"  # travellers, who are not like the others; and a store that opens later

WEEKS = 4
NEW_TASTE = 10  # the day from which on a rival sells cheaper sandwiches
NEW_OFFER = 15  # the day from which on there are smoothies
OPENING = 18  # of the late store

DEFINITION: dict[str, Any] = {
    "arms": list(ARMS),
    "features": [
        {"kind": "numeric", "name": "hour", "center": 13.0, "spread": 4.0},
        {"kind": "one_hot", "name": "weather", "categories": list(WEATHER)},
        {"kind": "one_hot", "name": "day", "categories": list(DAYS)},
    ],
    "evaluation_budget": 0.01,
    "time_to_live": 7 * 86_400.0,
}

# Expected margin in euros: constant, hour, sun, cloud, rain, weekday, weekend.
TASTE = {
    "coffee": (0.80, -0.35, -0.10, 0.00, 0.15, 0.05, -0.05),  # in the morning, and when it rains
    "croissant": (0.62, -0.22, 0.00, 0.02, 0.00, -0.10, 0.25),  # on weekends
    "sandwich": (1.00, 0.28, 0.05, 0.00, -0.05, 0.10, -0.15),  # at lunch and later
    NEW_ARM: (0.62, 0.08, 0.55, -0.05, -0.30, 0.00, 0.05),  # when the sun shines
}
TRAVELLERS = {"coffee": (-0.55, 0.30), "croissant": (-0.35, 0.1), "sandwich": (1.15, -0.1), NEW_ARM: (0.1, 0.0)}
CHEAPER = -0.45  # euros that a sandwich is worth less from NEW_TASTE on
SPREAD = (0.08, 0.06, 0.05, 0.04, 0.05, 0.04, 0.05)  # between stores


class Visit(NamedTuple):
    """A customer in a store."""

    store: str
    context: dict[str, Any]


class Business:
    """Who comes in, and what is earned.

    Parameters
    ----------
    seed : int
        Of customers; the stores are always the same.
    """

    def __init__(self, seed: int = 7) -> None:
        self._rng = np.random.default_rng(seed)
        rng = np.random.default_rng(2026)
        own = rng.normal(size=(len(STORES), len(TASTE), len(SPREAD))) * np.array(SPREAD)
        self._taste = np.array(list(TASTE.values())) + own
        for arm, moved in enumerate(TRAVELLERS.values()):
            self._taste[STORES.index(UNUSUAL), arm, : len(moved)] += moved
        self._arm = {arm: place for place, arm in enumerate(TASTE)}
        busy = rng.uniform(0.4, 1.6, len(STORES))
        busy[-1] = 0.3
        self._busy = busy / busy.sum()

    def weather(self) -> str:
        """Return the weather of a day."""
        return WEATHER[int(self._rng.choice(len(WEATHER), p=(0.4, 0.35, 0.25)))]

    def customers(self, mean: float) -> int:
        """Return how many customers come."""
        return int(self._rng.poisson(mean))

    def visit(self, day: int, hour: float, weather: str, weekend: bool) -> Visit:
        """Return who comes in; a store that is not open yet sends its customers elsewhere."""
        store = STORES[int(self._rng.choice(len(STORES), p=self._busy))]
        if store == LATE and day < OPENING:
            store = "Bridge Street"
        return Visit(store, {"hour": round(hour, 2), "weather": weather, "day": DAYS[weekend]})

    def sale(self, visit: Visit, arm: str, day: int) -> float:
        """Return what was earned: the margin of the arm if it was bought, else nothing."""
        sky = [float(visit.context["weather"] == weather) for weather in WEATHER]
        week = [float(visit.context["day"] == name) for name in DAYS]
        x = np.array([1.0, (visit.context["hour"] - 13.0) / 4.0, *sky, *week])
        expected = float(self._taste[STORES.index(visit.store), self._arm[arm]] @ x)
        if arm == "sandwich" and day >= NEW_TASTE:
            expected += CHEAPER
        return MARGIN[arm] if self._rng.random() < expected / MARGIN[arm] else 0.0

    def delay(self) -> float:
        """Return after how many seconds it is known what was earned."""
        return 60.0 + float(self._rng.exponential(1500.0))

    def is_reported(self) -> bool:
        """Whether it becomes known at all."""
        return bool(self._rng.random() < 0.97)

    def moment(self) -> float:
        """Return a part of an hour."""
        return float(self._rng.random())
