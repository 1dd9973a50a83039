"""What changes the names of a catalogue happens as a whole or not at all, whichever exception comes from wherever."""

import numpy as np
import pytest

from posse import Catalogue
from posse.fleet.ledger import PENDING

from .test_posse import Interrupted, OutOfMemory

NAMES = ("tea", "cocoa", "milk", "juice", "water")


def lived(seed, tasks, names, **settings):
    """A catalogue that has decided and learned, and has a decision that waits."""
    shop, rng = Catalogue(["x"], ["price"], seed=seed, clock=lambda: 1000.0, **settings), np.random.default_rng(seed)
    for row in range(12):
        eligible = {name: {"price": float(len(name))} for name in names}
        made = shop.decide(tasks[row % len(tasks)], rng.normal(size=1), eligible)
        if row != 5:
            shop.reward(made, float(rng.normal()) if shop.rewards == "number" else float(rng.integers(2)))
    return shop


def state_of(shop):
    """Return what callers see of names and counts, and sums by name."""
    fleet = shop.fleet
    fleet.core.ensure_fresh()  # whoever is interrupted leaves estimates to the next who looks
    said = fleet.core.residuals.arrays()
    (owner, sums), of_arms = (said[f"residuals.{name}"] for name in ("owner", "sums")), said["residuals.arms"]
    now = sums[:, :2] * np.exp(of_arms[owner[:, 1], 3] - sums[:, 2])[:, None]
    pairs = {
        (fleet.names.tasks.label(task), shop.labels.label(arm)): np.round(own, 9).tolist()
        for (task, arm), own in zip(owner.tolist(), now, strict=True)
    }
    totals = np.stack([np.bincount(owner[:, 1], weights=own, minlength=len(shop.labels)) for own in now.T], axis=1)
    np.testing.assert_allclose(of_arms[:, :2], totals, rtol=1e-9, atol=1e-12)
    stats = fleet.statistics
    learned = {
        task: np.round([*stats.moment[0, place], stats.count[0, place]], 9).tolist()
        for place, task in enumerate(fleet.tasks)
    }
    waiting = sorted(
        (fleet.names.tasks.label(int(ledger.task[at])), shop.labels.label(int(ledger.arm[at])))
        for ledger in fleet.ledgers
        for at in ledger.places(ledger.status[ledger.live] == PENDING)
    )
    return shop.tasks, shop.arms, shop.n_rewards, shop.n_decisions, waiting, str(learned), str(sorted(pairs.items()))


def other_than(shop):
    """Return another reward than the second decision has."""
    ledger = shop.fleet.ledgers.own
    return float(ledger.reward[ledger.head + 1] < 0.5)


ROW = {"task": ["new"], "arm": ["new"], "x": [1.0], "price": [2.0], "reward": [1.0]}
CHANGES = {
    "merge": lambda shop, other: shop.merge(other),
    "forget": lambda shop, _: shop.forget("b"),
    "reward": lambda shop, _: shop.reward(f"{shop.fleet.ledgers.own.prefix}-6", 1.0),
    "correct": lambda shop, _: shop.correct(f"{shop.fleet.ledgers.own.prefix}-2", other_than(shop)),
    "learn": lambda shop, _: shop.learn_many(ROW),
    "decide": lambda shop, _: shop.decide("new", [0.5], {"cocoa": [1.0], "new": [2.0]}),
}
LONG = ("merge", "forget")  # changes of many places
KINDS = {"numbers": {}, "clicks that drift": {"rewards": "binary", "drift": 1.0}}


def change(tmp_path, kind, what, way, places):
    def pair():
        return lived(1, ("a", "b"), NAMES[:3], **KINDS[kind]), lived(2, ("c", "b"), NAMES[2:], **KINDS[kind])

    (before, _), (plain, other) = pair(), pair()
    CHANGES[what](plain, other)
    allowed, count = (state_of(before), state_of(plain)), 0
    assert allowed[0] != allowed[1]
    untouched = state_of(other)
    for place in places:
        (shop, other), failure = pair(), way(place)
        failure.run(lambda: CHANGES[what](shop, other))  # noqa: B023
        if not failure.fired:
            break
        if shop.fleet.refresh_problem is not None:
            shop.refresh()  # sites of clicks are made again whenever the population is learned
        found = state_of(shop)
        assert found in allowed, place
        if found == allowed[0]:
            CHANGES[what](shop, other)
        assert state_of(shop) == allowed[1]
        assert state_of(other) == untouched
        shop.save(tmp_path / "shop.posse")
        assert state_of(Catalogue.load(tmp_path / "shop.posse", clock=lambda: 1000.0)) == allowed[1]
        count += 1
    return count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("way", [OutOfMemory, Interrupted])
def test_a_change_is_made_or_not(tmp_path, kind, what, way):
    stride = 2 if way is OutOfMemory else 101
    assert change(tmp_path, kind, what, way, range(1, 12 * stride, stride)) >= 2 * (what in LONG)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("way", [OutOfMemory, Interrupted])
def test_every_place_of_every_change(tmp_path, kind, what, way):
    stride = 1 if way is OutOfMemory else 17
    assert change(tmp_path, kind, what, way, range(1, 150 * stride, stride)) >= 10 * (what in LONG)
