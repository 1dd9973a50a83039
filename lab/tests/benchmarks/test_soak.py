"""``posse lab bench soak``: it notices what is lost, and finds nothing where nothing is."""

import pytest

from posse_lab.benchmarks.soak import QUICK, Soak, measure_soak


@pytest.mark.slow
def test_a_short_soak_loses_nothing():
    found = measure_soak(QUICK)
    assert found.pairs > 50
    assert set(found.done) >= {"kill", "erase"}
    assert [bar.met for bar in found.bars()][:4] == [True] * 4, found.wrong


def test_memory_that_grows_is_seen_within_a_life():
    flat = Soak(memory=[(i, 1, 100 + i % 2) for i in range(200)])
    assert flat.growth == pytest.approx(0.0, abs=0.02)
    grown = Soak(memory=[(i, 1, 100 + i) for i in range(200)])
    assert grown.growth > 0.4
    assert [bar.met for bar in grown.bars()][-1] is False
    assert Soak(memory=[(i, i, 100 + i) for i in range(40)]).growth is None


def test_memory_that_grows_is_seen_from_life_to_life():
    def lives(step):
        return Soak(memory=[(i, life, i + 100 + step * life) for life in range(6) for i in range(30)])

    assert lives(0).growth == 0.0
    assert lives(20).growth > 0.3


def test_what_is_wrong_breaks_a_promise():
    assert [bar.met for bar in Soak(lost=1, twice=1, different=1, wrong=["500"]).bars()][:4] == [False] * 4
