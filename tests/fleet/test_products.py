"""What is summed over all pairs is summed in slices, and reads pairs with rewards only."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse import Posse
from posse.engine.sums_snapshot import SLICE_BYTES
from posse.fleet import products
from posse.fleet.products import products_of, slice_rows, squares_of
from posse.model.belief import feature_squares


def test_sums_of_the_last_refresh_are_those_of_all_pairs(fleet_of, monkeypatch, tmp_path):
    fleet = fleet_of(400)
    stats = fleet.statistics
    quick = products_of(fleet)
    assert quick.sums is not fleet._engine.store.memory.evidence.measures
    fleet.save(tmp_path / "fleet.posse")
    monkeypatch.setattr(products, "slice_rows", lambda d: 4)  # 15 pairs: several slices, the last not full
    slow = products_of(Posse.load(tmp_path / "fleet.posse"))
    for found in (quick, slow):
        assert found.rewards == 400
        assert_allclose(np.triu(found.sums)[:3, :3], np.triu(stats.gram.sum(axis=(0, 1))), rtol=1e-12)
        assert_allclose(found.sums[:3, 3], stats.moment.sum(axis=(0, 1)), rtol=1e-9)
        assert_allclose(found.sums[3, 3], stats.sum_of_squares.sum(), rtol=1e-12)


@pytest.mark.parametrize("prior", ["evidence", "paper"])
def test_slices_let_go_of_the_lock(fleet_of, monkeypatch, prior, counted_lock):
    fleet = fleet_of(400, prior=prior)
    expected = feature_squares(fleet._engine.store.belief)
    monkeypatch.setattr(products, "slice_rows", lambda d: 4)
    fleet._engine.store.memory.evidence.measures[:] = 0.0  # as after loading: nothing is at hand
    fleet._lock = counted_lock(fleet._lock)
    assert_allclose(squares_of(fleet), expected, rtol=1e-12)
    assert fleet._lock.taken == 1 + 4  # 15 pairs


def test_a_slice_is_a_few_megabytes_however_wide_its_rows():
    assert [slice_rows(d) * 4 * d * (d + 1) <= SLICE_BYTES for d in (1, 10, 100, 500)] == [True] * 4
    assert slice_rows(100_000) == 1


def test_squares_are_read_from_pairs_with_rewards_only(fleet_of):
    """Arrays have room for many times as many pairs; memory that nobody touched must stay so."""
    fleet = fleet_of(400)
    belief = fleet._engine.store.belief
    before = feature_squares(belief)
    belief.sums.gram[fleet._engine.store.n_slots :] = np.nan
    assert_allclose(feature_squares(belief), before, rtol=0)
    borrowing = fleet.borrowing("t1")
    assert np.isfinite(borrowing.borrowed).all()
    assert fleet.export("t1")["arms"]["red"]["borrowed"] == borrowing.borrowed[0]


def test_the_busiest_task_may_be_forgotten_while_it_is_looked_for(fleet_of, monkeypatch):
    fleet = fleet_of(90)
    first = fleet.overview(1).tasks[0].task
    real = squares_of

    def forget_first(asked):
        monkeypatch.setattr("posse.fleet.views.squares_of", real)
        fleet.forget(first)
        return real(asked)

    monkeypatch.setattr("posse.fleet.views.squares_of", forget_first)
    assert first not in [entry.task for entry in fleet.overview(2).tasks]
