import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse_lab.benchmarks.peers.entry import RECOMMENDED, TUNED


def bars(report):
    return report.report().bars


def bar(report, words):
    return next(one for one in bars(report) if words in one.what)


def test_the_fastest_peer_is_taken_for_each_bar_without_its_input(report):
    # river decides fastest, in 11 us; both together Vowpal Wabbit as tuned: 14 + 10.
    decide, between, included = bars(report)[2:5]

    assert_allclose(decide.measured, 11.0 / 2.0)
    assert "river" in decide.what
    assert_allclose(between.measured, 24.0 / (2.0 + 1.5))
    assert_allclose(included.measured, 25.0 / (2.0 + 20.0))
    assert "Vowpal Wabbit" in between.what
    assert "Vowpal Wabbit" in included.what
    assert [one.at_least for one in bars(report)[:5]] == [5.0] * 5
    assert [one.met for one in bars(report)[2:5]] == [True, True, False]


def test_from_an_array_the_input_counts(report):
    decide, both = bars(report)[:2]
    own = report.rows[0].latency
    fastest = min(row.latency.decide_built.best for row in report.rows[3:])
    together = min(row.latency.decide_built.best + row.latency.update_built.best for row in report.rows[3:])

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

    assert [one.measured for one in bars(alone)] == [None] * 5
    assert {one.note for one in bars(alone)} == {"no peer was run"}
    assert all("the fastest peer" in one.what for one in bars(alone))


def test_a_row_sums_up_its_seeds(report):
    row = report.rows[0]

    assert_allclose(row.mean, np.mean(row.regret))
    assert_allclose(row.standard_error, np.std(row.regret, ddof=1) / np.sqrt(3))
    assert replace(row, regret=[1.0]).standard_error is None
    assert row.name == "posse ebmTS"
    assert report.rows[3].name == "Vowpal Wabbit pooled, recommended"


def test_the_report_is_plain_and_whole(report):
    made = report.report()
    said = json.loads(json.dumps(made.data, allow_nan=False))

    assert [row["library"] for row in said["rows"]] == [row.library for row in report.rows]
    assert_allclose(said["rows"][3]["latency"]["decide_built"]["best"], 13e-6)
    assert said["blocks"]["rows"][1]["ratio"] == {"ebmTS": 0.8, "ebmUCB": pytest.approx(100 / 150)}
    assert said["parsed"]["best"] == 4e-6
    assert len(made.bars) == 9
    assert said["skipped"]["mabwiser"].endswith("pip install './lab[peers]'")
    entries, blocks = made.tables
    assert [cells[0] for cells in entries.rows[:3]] == ["posse ebmTS", "posse ebmUCB", "posse Posse, with ids"]
    assert entries.rows[3][1] == "12"
    assert len(blocks.rows) == 4
    assert any("Tuned on another seed" in line for line in made.notes)
