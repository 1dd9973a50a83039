import numpy as np
import polars as pl
import pytest

from posse.logs import Log
from posse.logs.checks import view as measures
from posse.logs.checks.view import EDGES, measure


def raw_route(log):
    """The same numbers, row by row."""
    eligible, rows = log.eligible.to_list(), log.frame.select("arm", "probabilities").rows()
    counts = ("eligible", "stated", "positive", "hits", "expected", "variance", "taken")
    arms = {arm: dict.fromkeys(counts, 0) for arm in log.arms}
    levels = {}
    for offered, (arm, given) in zip(eligible, rows, strict=True):
        arms[arm]["taken"] += 1
        aligned = given is not None and len(given) == len(offered)
        sound = (
            aligned
            and abs(sum(given) - 1) < 1e-4
            and min(given, default=0) >= 0
            and len(set(offered)) == len(offered)
            and offered.count(arm) == 1
        )
        sums = {}
        for place, other in enumerate(offered):
            arms[other]["eligible"] += 1
            if aligned:
                p = given[place]
                arms[other]["stated"] += 1
                arms[other]["positive"] += p > 0
                if sound:
                    arms[other]["hits"] += other == arm
                    arms[other]["expected"] += p
                    arms[other]["variance"] += p * (1 - p)
                    level = int(np.searchsorted(EDGES, p, side="right"))
                    total, hit = sums.get(level, (0.0, False))
                    sums[level] = (total + p, hit or other == arm)
        for level, (total, hit) in sums.items():
            hits, expected, variance = levels.get(level, (0, 0.0, 0.0))
            levels[level] = (hits + hit, expected + total, variance + total * (1 - total))
    return arms, levels


@pytest.mark.parametrize("entries", [7, 4_000_000])
def test_sums_over_rows_and_arms(make_log, monkeypatch, entries):
    monkeypatch.setattr(measures, "ENTRIES", entries)
    rows = make_log(n_rows=120).frame.to_dicts()
    rows[3] |= {"arm": "arm-3", "eligible": ["arm-0", "arm-1"], "probabilities": [0.5, 0.5]}  # not eligible
    rows[4] |= {"eligible": ["arm-0", "arm-0"], "arm": "arm-0", "probabilities": [0.5, 0.5]}  # twice
    rows[5] |= {"probabilities": [0.25]}
    rows[6] |= {"probabilities": None}
    rows[7] |= {"eligible": [], "probabilities": []}
    rows[8] |= {"eligible": None, "probabilities": [0.25, 0.25, 0.25, 0.25]}
    rows[9] |= {"eligible": None, "probabilities": [0.0, 0.25, 0.25, 0.25]}  # sums to less
    log = Log(rows)

    result = measure(log)
    arms, levels = raw_route(log)

    for row in result.arms.iter_rows(named=True):
        assert {key: row[key] for key in arms[row["label"]]} == pytest.approx(arms[row["label"]])
    assert result.arms["label"].to_list() == log.arms
    for row in result.levels.iter_rows(named=True):
        assert (row["hits"], row["expected"], row["variance"]) == pytest.approx(levels.get(row["level"], (0, 0, 0)))
    assert set(result.levels["level"]) == set(levels)
    stated = [
        given[offered.to_list().index(arm)]
        if given is not None and len(given) == len(offered) and arm in offered
        else None
        for offered, arm, given in zip(log.eligible, log.frame["arm"], log.frame["probabilities"], strict=True)
    ]
    assert result.rows["stated"].to_list() == stated
    assert result.rows["n_chosen"][:10].to_list() == [1, 1, 1, 0, 2, 1, 1, 0, 1, 1]
    assert result.rows["sound"][:10].to_list() == [True] * 3 + [False] * 5 + [True, False]


def test_labels_may_be_numbers():
    given = {"eligible": [[7, 8], [8]], "probabilities": [[0.25, 0.75], [1.0]]}
    log = Log({"task": [1, 1], "arm": [7, 8], "reward": [0, 0], **given})

    result = measure(log)

    assert result.arms.select("label", "eligible", "taken", "expected").rows() == [(7, 1, 1, 0.25), (8, 2, 1, 1.75)]
    assert result.rows["stated"].to_list() == [0.25, 1.0]
    assert result.rows.schema["n_zero"] == pl.Int64
