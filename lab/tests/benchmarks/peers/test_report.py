import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse_lab.benchmarks.peers import ours
from posse_lab.benchmarks.peers.entry import RECOMMENDED, TUNED


def bar(report, words):
    return next(one for one in report.bars if words in one.what)


def test_the_fastest_peer_is_taken_for_each_bar_without_its_input(report):
    # river decides fastest, in 11 us; both together Vowpal Wabbit as tuned: 14 + 10.
    decide, between, included = report.bars[2:5]

    assert_allclose(decide.measured, 11.0 / 2.0)
    assert "river" in decide.what
    assert_allclose(between.measured, 24.0 / (2.0 + 1.5))
    assert_allclose(included.measured, 25.0 / (2.0 + 20.0))
    assert "Vowpal Wabbit" in between.what
    assert "Vowpal Wabbit" in included.what
    assert [one.at_least for one in report.bars[:5]] == [5.0] * 5
    assert [one.met for one in report.bars[2:5]] == [True, True, False]


def test_from_an_array_the_input_counts(report):
    decide, both = report.bars[:2]
    own = report.own(ours.TS).latency
    fastest = min(row.latency.decide_built.best for row in report.peers)
    together = min(row.latency.decide_built.best + row.latency.update_built.best for row in report.peers)

    assert_allclose(decide.measured, fastest / own.decide_built.best)
    assert_allclose(both.measured, together / (own.decide_built.best + own.update_built.best))


def test_task_blocks_are_held_against_both_configurations(report):
    between, included = (
        bar(report, "task blocks over ebmTS, between"),
        bar(report, "task blocks over ebmTS, refreshes included"),
    )

    # With all tasks known; the faster configuration counts, 7.5 ms. ebmTS takes 3 us, and 20 us with its refreshes.
    assert_allclose([between.measured, included.measured], [2500.0, 375.0])
    assert (between.at_least, between.met, included.met) == (500.0, True, False)
    regrets = [bar(report, f"task blocks, {name}") for name in (RECOMMENDED, TUNED)]
    assert_allclose([one.measured for one in regrets], [120 / 240, 120 / 150])
    assert [one.at_most for one in regrets] == [0.6, 0.6]
    assert [one.met for one in regrets] == [True, False]


def test_without_peers_nothing_is_measured_but_posse(report):
    alone = replace(report, rows=report.rows[:3], blocks=None)

    assert [one.measured for one in alone.bars] == [None] * 5
    assert {one.note for one in alone.bars} == {"no peer was run"}
    assert all("the fastest peer" in one.what for one in alone.bars)
    assert alone.peers == []


def test_a_row_sums_up_its_seeds(report):
    row = report.own(ours.TS)

    assert_allclose(row.mean, np.mean(row.regret))
    assert_allclose(row.standard_error, np.std(row.regret, ddof=1) / np.sqrt(3))
    assert replace(row, regret=[1.0]).standard_error is None
    assert row.name == "posse ebmTS"
    assert report.rows[3].name == "Vowpal Wabbit pooled, recommended"


def test_the_report_is_plain_and_whole(report):
    said = json.loads(json.dumps(report.to_dict(), allow_nan=False))

    assert [row["library"] for row in said["rows"]] == [row.library for row in report.rows]
    first, other = said["rows"][0], said["rows"][3]
    assert first["own_ratio"] == 1.0
    assert_allclose(other["own_ratio"], report.rows[0].mean / report.rows[3].mean)
    low, high = other["own_ratio_interval"]
    assert low <= other["own_ratio"] <= high
    assert_allclose(other["latency"]["decide_built"]["best"], 13e-6)
    assert said["blocks"]["rows"][1]["ratio"] == {"ebmTS": 0.8, "ebmUCB": pytest.approx(100 / 150)}
    assert said["parsed"]["best"] == 4e-6
    assert len(said["bars"]) == 9
    assert said["skipped"]["mabwiser"].endswith("pip install '.[peers]' in posse's folder")
