"""``posse lab bench soak``: it finds nothing where nothing is lost, and notices memory that grows."""

import pytest

from posse_lab.benchmarks.soak import QUICK, growth, measure_soak


@pytest.mark.slow
def test_a_short_soak_loses_nothing():
    report = measure_soak(QUICK)
    assert report.data["answers"] > 50
    assert set(report.data["done"]) >= {"kill", "export"}
    assert [bar.met for bar in report.bars][:2] == [True, True], report.notes


def test_memory_that_grows_is_seen_within_a_life():
    assert growth([[100 + i % 2 for i in range(200)]]) == pytest.approx(0.0, abs=0.02)
    assert growth([[100 + i for i in range(200)]]) > 0.4
    assert growth([[100 + i] for i in range(40)]) is None


def test_memory_that_grows_is_seen_from_life_to_life():
    def lives(step):
        return [[i + 100 + step * life for i in range(30)] for life in range(6)]

    assert growth(lives(0)) == 0.0
    assert growth(lives(20)) > 0.3
