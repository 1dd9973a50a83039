"""What is old fades once, whichever exception comes from wherever between the tick and who looks next."""

import numpy as np
import pytest

from posse import Posse

from .injecting import QUIET, places

HOUR = 3600.0


class Clock:
    now = 1e6

    def __call__(self):
        return self.now


def fleet_of(clock, *, background):
    fleet = Posse(
        arms=["red", "green"], features=["a"], seed=3, clock=clock, drift=1.0, refresh_growth=1e9, background=background
    )
    n = 24
    rng = np.random.default_rng(5)
    fleet.learn_many(
        {"task": [f"t{row % 8}" for row in range(n)], "arm": ["red", "green"] * (n // 2), "a": rng.normal(size=n),
         "reward": rng.normal(size=n)}
    )  # fmt: skip
    fleet.refresh()
    return fleet


def fade(monkeypatch, **where):
    monkeypatch.setattr("posse.engine.store.FEW_PAIRS", 0)
    clock = Clock()
    at_once, later = (fleet_of(clock, background=background) for background in (False, True))
    count, quiet = 0, 0
    for injection in places(**where):
        clock.now += 3 * HOUR
        at_once.decide(f"t{injection.place % 8}", [0.5], eligible=["red"])
        injection.run(lambda: later.decide(f"t{injection.place % 8}", [0.5], eligible=["red"]))  # noqa: B023
        made = [fleet.decide("t1", [0.5], eligible=["red"]) for fleet in (at_once, later)]
        if injection.place % 3 == 0:
            for fleet, decision in zip((at_once, later), made, strict=True):
                fleet.reward(decision, 1.0)
        if injection.place % 5 == 0:
            for name in ("count", "moment", "gram"):
                mine, theirs = getattr(at_once.statistics, name), getattr(later.statistics, name)
                np.testing.assert_allclose(theirs, mine, rtol=1e-9, err_msg=f"{name} after {injection.raised!r}")
        count += injection.fired
        quiet = 0 if injection.fired else quiet + 1
        if quiet == QUIET:
            break
    while later.refreshing:
        pass
    return count


def test_what_is_old_fades_once(monkeypatch):
    assert fade(monkeypatch, most=70, stride=4) >= 8


@pytest.mark.slow
def test_what_is_old_fades_once_wherever_it_is_interrupted(monkeypatch):
    assert fade(monkeypatch, most=150) >= 25
