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


def fleet_of(clock, *, background, rewards):
    fleet = Posse(
        arms=["red", "green"], features=["a"], seed=3, clock=clock, drift=1.0, refresh_growth=1e9, rewards=rewards,
        background=background,
    )  # fmt: skip
    n = 24
    rng = np.random.default_rng(5)
    fleet.learn_many(
        {"task": [f"t{row % 8}" for row in range(n)], "arm": ["red", "green"] * (n // 2), "a": rng.normal(size=n),
         "reward": rng.normal(size=n) if rewards == "number" else rng.integers(2, size=n)}
    )  # fmt: skip
    fleet.refresh()
    return fleet


def sums_of(fleet):
    """Return what rewards add up to; of clicks what does not depend on where their sites were made."""
    if fleet.rewards == "number":
        stats = fleet.statistics
        return stats.count, stats.moment, stats.gram
    store = fleet._engine.store
    rows = store.sites.parts.rows
    weights = [rows.weight[first : first + kept].sum() for first, kept in zip(rows.first, rows.kept, strict=True)]
    return [field[: store.n_slots] for field in (*store.plain_sums(), np.array(weights))]


def fade(monkeypatch, rewards, **where):
    """Let two fleets fade, the sums of one at once; exceptions come in the other, whose sums of numbers fade later."""
    monkeypatch.setattr("posse.engine.store.FEW_PAIRS", 0)
    clock = Clock()
    at_once, later = (fleet_of(clock, background=background, rewards=rewards) for background in (False, True))
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
            for mine, theirs in zip(sums_of(at_once), sums_of(later), strict=True):
                # What is left of rows whose features have faded away depends on where their sites were.
                np.testing.assert_allclose(theirs, mine, rtol=1e-9, atol=1e-6, err_msg=repr(injection.raised))
        count += injection.fired
        quiet = 0 if injection.fired else quiet + 1
        if quiet == QUIET:
            break
    while later.refreshing:
        pass
    return count


@pytest.mark.parametrize("rewards", ["number", "binary"])
def test_what_is_old_fades_once(monkeypatch, rewards):
    assert fade(monkeypatch, rewards, most=70, stride=4) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["number", "binary"])
def test_what_is_old_fades_once_wherever_it_is_interrupted(monkeypatch, rewards):
    assert fade(monkeypatch, rewards, most=150) >= 25
