import numpy as np
import pytest

from posse_lab.benchmarks import drift as bench
from posse_lab.benchmarks.drift import RESTART, SWAPPED, WORLDS, measure_drift, play_swap, report_of
from posse_lab.benchmarks.drifting_clicks import play_clicks


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(bench, "HALF_LIVES", (100,))
    play, swap = bench.play_world, bench.play_swap
    monkeypatch.setattr(bench, "play_world", lambda settings, drift, seed: play(settings, drift, seed, horizon=60))
    monkeypatch.setattr(
        bench, "play_swap", lambda moved, drift, seed, **rest: swap(moved, drift, seed, steps=60, **rest)
    )
    clicks = bench.clicks_of
    monkeypatch.setattr(bench, "clicks_of", lambda seed: clicks(seed, steps=60))


def test_every_world_and_method_is_measured(short):
    told = []
    report = measure_drift(seeds=2, first_seed=5, advance=told.append)
    assert told == [1, 1]
    assert report.data["seeds"] == 2
    assert report.data["worlds"].keys() == WORLDS.keys()
    assert set(report.data["worlds"]["nothing changes"]) == {"none", "100 steps", "learn"}
    for swaps in (report.data["swaps"], report.data["clicks"]):
        assert swaps.keys() == SWAPPED.keys()
        assert RESTART in swaps["everywhere"]
    assert report.data["noticed"] == [None, None]
    assert len(report.bars) == len(WORLDS) + 6


def test_nothing_differs_before_the_swap_and_a_fresh_start_is_one():
    everywhere, nowhere, fresh = (
        play_swap(moved, None, 3, steps=400, restart=restart)
        for moved, restart in ((20, False), (0, False), (20, True))
    )
    assert everywhere[0] == nowhere[0] == fresh[0]
    assert everywhere[1] > fresh[1] > nowhere[1]


def test_bars_hold_learned_drift_against_the_best_fixed_setting():
    worlds = {"w": {"none": 300.0, "100 steps": 200.0, "learn": 210.0}}
    swaps = {
        "nowhere": {"none": (1.0, 3.0), "learn": (2.0, 3.0)},
        "everywhere": {"none": (1.0, 50.0), "learn": (1.0, 6.0), RESTART: (1.0, 5.0)},
        "in a quarter of the tasks": {"none": (1.0, 20.0), "learn": (1.0, 11.0)},
    }
    bars = report_of(1, worlds, swaps, {}).bars
    assert np.allclose([bar.measured for bar in bars], [1.05, 1.25, 1.2, 0.55])
    assert [bar.met for bar in bars] == [True, False, True, False]


def test_clicks_swap_as_numbers_do_and_what_is_noticed_is_told():
    none, learned = (play_clicks(20, drift, 3, steps=1600) for drift in (None, "learn"))
    assert none.regret[0] == learned.regret[0]
    assert (none.noticed, none.early, none.tasks) == (None, 0, 0)
    assert learned.early == 0
    assert 0 < learned.noticed < 400
    assert learned.regret[1] < none.regret[1]
