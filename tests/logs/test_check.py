import re
from pathlib import Path

import numpy as np
import pytest

import posse.logs
from posse.logs import Log, check_log
from posse.logs.findings import SEVERITIES


@pytest.mark.slow
def test_clean_logs_raise_no_alarm(make_log):
    # 200 logs of other sizes and policies; one in a hundred may be unlucky.
    alarms = []
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        log = make_log(seed, n_rows=int(rng.integers(100, 400)), n_tasks=int(rng.integers(5, 50)),
                       n_arms=int(rng.integers(2, 7)), missing=float(rng.uniform(0, 0.05)))  # fmt: skip
        alarms += [(seed, finding.code) for finding in check_log(log) if finding.severity != "note"]
    assert len(alarms) <= 2, alarms


def test_the_worst_comes_first(make_log):
    rows = make_log(missing=0.2).frame.to_dicts()
    rows[3]["propensity"] = 2.0

    severities = [finding.severity for finding in check_log(Log(rows))]

    assert set(severities) == set(SEVERITIES)
    assert severities == sorted(severities, key=SEVERITIES.index)


def test_an_empty_log_says_nothing():
    (finding,) = check_log(Log({"task": [], "arm": [], "reward": []}))

    assert (finding.code, finding.severity, finding.rows, finding.example) == ("empty", "error", 0, None)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"eligible": [[]], "probabilities": [[]], "propensity": [0.0]},
        {"eligible": [[2]], "probabilities": [[float("nan")]], "propensity": [float("nan")]},
        {"reward": [None], "context": [{"x": None}], "time": [0]},
        {"reward": [float("nan")], "context": [{"x": float("nan"), "y": "z"}], "time": [0], "reward_time": [0]},
    ],
)
def test_even_the_smallest_logs_can_be_checked(columns):
    log = {"task": [1], "arm": [1], "reward": [1.0], **columns}

    assert all(finding.what_to_do for finding in check_log(Log(log)))


def test_every_finding_is_a_sentence_and_says_what_to_do(make_log):
    rows = make_log(missing=0.2).frame.to_dicts()
    rows[3] |= {"propensity": None, "probabilities": None, "decision_id": "decision-4", "time": None}

    for finding in check_log(Log(rows)):
        assert finding.message
        assert finding.what_to_do
        assert finding.rows > 0
        assert not finding.message.endswith(".")


def test_every_code_is_documented():
    package = Path(posse.logs.__file__).parent
    sources = "".join(file.read_text() for file in package.rglob("*.py"))
    codes = set(re.findall(r'(?:add|Finding|_note)\([^()]*?"([a-z]+(?:-[a-z]+)+)"', sources))
    codes |= {"arm-no-overlap", "arm-rarely-eligible", "arm-never-taken"}
    codes |= {"dsjson-dangling", "dsjson-skipped", "dsjson-dropped"}
    page = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()

    assert len(codes) > 35
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []
