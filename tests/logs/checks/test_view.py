import polars as pl

from posse.logs import Log
from posse.logs.checks.view import View

LOG = Log(
    {
        "decision_id": ["d", None, "f", "g"],
        "task": [1] * 4,
        "arm": ["x", "y", "x", "x"],
        "eligible": [["x", "y"]] * 4,
        "probabilities": [[0.5, 0.5], [0.75, 0.25], None, None],
        "propensity": [0.5, None, None, 2.0],
        "reward": [1.0] * 4,
    }
)


def test_probabilities_stand_in_for_propensities():
    view = View(LOG)

    assert view.propensity.to_list() == [0.5, 0.25, None, 2.0]
    assert view.usable.to_list() == [True, True, False, False]


def test_a_finding_counts_rows_and_shows_the_first():
    view = View(LOG)

    for mask in ([None, True, True, False], [False] * 4, [True] * 4):
        view.add("c", "note", "m", pl.Series(mask), "w")

    found = [(finding.rows, finding.example) for finding in view.findings]
    assert found == [(2, "row 1"), (4, "row 0, decision 'd'")]


def test_features_are_those_of_the_log_or_those_asked_for():
    log = Log({"task": [1], "arm": [1], "reward": [1.0], "context": [{"a": 1, "b": 2}]})

    assert View(log).features == ["a", "b"]
    assert View(log, ["b", "c", "b"]).features == ["b", "c"]
