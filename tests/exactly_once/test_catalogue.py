"""What changes the names of a catalogue happens as a whole or not at all, whichever exception comes from wherever."""

import numpy as np
import pytest

from posse import Catalogue

from .injecting import QUIET, places

NAMES = ("tea", "cocoa", "milk", "juice", "water")


def lived(seed, tasks, names):
    """A catalogue that has decided and learned, and has a decision that waits."""
    shop, rng = Catalogue(["x"], ["price"], seed=seed, clock=lambda: 1000.0), np.random.default_rng(seed)
    for row in range(12):
        eligible = {name: {"price": float(len(name))} for name in names}
        made = shop.decide(tasks[row % len(tasks)], rng.normal(size=1), eligible)
        if row != 5:
            shop.reward(made, float(rng.normal()))
    return shop


def state_of(shop):
    """Return what callers see of names and counts, and sums by name; fleet, arms and residuals must fit together."""
    fleet, residuals = shop._fleet, shop._residuals
    tasks, arms, sums = residuals.pairs
    pairs = {
        (fleet._tasks.label(task), shop._arms.label(arm)): np.round(own, 9).tolist()
        for task, arm, own in zip(tasks.tolist(), arms.tolist(), sums.T, strict=True)
    }
    assert len(pairs) == residuals.n_pairs == len(residuals._row)
    totals = np.stack([np.bincount(arms, weights=own, minlength=len(shop._arms)) for own in sums])
    np.testing.assert_allclose(residuals.totals(len(shop._arms)), totals, rtol=1e-9, atol=1e-12)
    assert set(shop._used) == set(shop._arms.numbers.values())
    stats = fleet.statistics
    learned = {
        task: np.round([*stats.moment[0, place], stats.count[0, place]], 9).tolist()
        for place, task in enumerate(fleet.tasks)
    }
    waiting = sorted(
        (fleet._tasks.label(int(ledger.task[row])), shop._arms.label(int(ledger.arm[row])))
        for ledger in fleet._ledgers()
        for row in np.flatnonzero(ledger.status == 0).tolist()
    )
    return shop.tasks, shop.arms, shop.n_rewards, shop.n_decisions, waiting, str(learned), str(sorted(pairs.items()))


CHANGES = {
    "merge": lambda shop, other: shop.merge(other),
    "forget": lambda shop, _: shop.forget("b"),
}


def change(tmp_path, what, **where):
    def pair():
        return lived(1, ("a", "b"), NAMES[:3]), lived(2, ("c", "b"), NAMES[2:])

    (before, _), (plain, other) = pair(), pair()
    CHANGES[what](plain, other)
    allowed, count, quiet = (state_of(before), state_of(plain)), 0, 0
    untouched = state_of(other)
    for injection in places(**where):
        shop, other = pair()
        injection.run(lambda: CHANGES[what](shop, other))  # noqa: B023
        found = state_of(shop)
        assert found in allowed, injection.raised
        if found == allowed[0]:
            CHANGES[what](shop, other)
        assert state_of(shop) == allowed[1]
        assert state_of(other) == untouched
        shop.save(tmp_path / "shop.posse")
        assert state_of(Catalogue.load(tmp_path / "shop.posse", clock=lambda: 1000.0)) == allowed[1]
        count += injection.fired
        quiet = 0 if injection.fired else quiet + 1
        if quiet == QUIET:
            break
    return count


@pytest.mark.slow
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_made_or_not(tmp_path, what):
    assert change(tmp_path, what, most=120, stride=31, dense=5, middle=60) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("what", CHANGES)
def test_every_place_of_every_change(tmp_path, what):
    assert change(tmp_path, what, most=250) >= 20
