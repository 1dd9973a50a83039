import numpy as np
import polars as pl
import pytest

from posse.logs import Log, check_log

NAMES = {
    "no-choice",
    "deterministic-logging",
    "zero-probabilities",
    "arm-no-overlap",
    "arm-rarely-eligible",
    "arm-never-taken",
    "tiny-propensities",
}


def found(log):
    return {finding.code: finding for finding in check_log(log) if finding.code in NAMES}


def logged(given, arms, **columns):
    n_rows = len(arms)
    return Log(
        {
            "task": [row % 10 for row in range(n_rows)],
            "arm": arms,
            "eligible": [list(range(len(given[0])))] * n_rows,
            "probabilities": given,
            "propensity": [row[arm] for row, arm in zip(given, arms, strict=True)],
            "reward": [float(row % 3) for row in range(n_rows)],
            **columns,
        }
    )


def test_a_clean_log_overlaps_with_every_policy(make_log):
    assert found(make_log()) == {}


def test_logging_without_chance():
    log = logged([[1.0, 0.0], [0.0, 1.0]] * 20, [0, 1] * 20)

    finding = found(log)["deterministic-logging"]
    assert (finding.severity, finding.rows) == ("error", 40)
    alone = Log(log.frame.with_columns(probabilities=pl.lit(None)))
    assert set(found(alone)) == {"deterministic-logging"}


def test_rows_with_one_arm_do_not_hide_it():
    log = logged([[1.0, 0.0], [0.0, 1.0]] * 20, [0, 1] * 20)
    rows = log.frame.to_dicts()
    rows[0] |= {"eligible": [0], "probabilities": [1.0], "propensity": 1.0}

    assert found(Log(rows))["deterministic-logging"].rows == 39


def test_no_choice_at_all():
    log = Log({"task": [1, 2], "arm": [1, 2], "eligible": [[1], [2]], "propensity": [1.0, 1.0], "reward": [1.0, 2.0]})

    assert (found(log)["no-choice"].severity, found(log)["no-choice"].rows) == ("error", 2)


@pytest.mark.parametrize(("closed", "severity"), [(1, "note"), (30, "warning")])
def test_rows_in_which_an_arm_could_not_be_taken(closed, severity):
    rest = 200 - closed
    log = logged([[1.0, 0.0]] * closed + [[0.5, 0.5]] * rest, [0] * closed + [row % 2 for row in range(rest)])

    finding = found(log)["zero-probabilities"]
    assert (finding.severity, finding.rows) == (severity, closed)


def test_arms_that_could_never_be_taken():
    log = logged([[0.5, 0.5, 0.0]] * 40, [0, 1] * 20)

    finding = found(log)["arm-no-overlap"]
    assert (finding.severity, finding.rows) == ("warning", 40)
    assert finding.message == "arms with probability 0 wherever they are eligible: 2"
    assert "arm-never-taken" not in found(log)


def test_arms_that_were_eligible_once():
    rows = logged([[0.5, 0.5]] * 40, [0, 1] * 20).frame.to_dicts()
    rows[7] |= {"eligible": [0, 1, 9], "probabilities": [0.25, 0.5, 0.25]}

    finding = found(Log(rows))["arm-rarely-eligible"]
    assert (finding.severity, finding.rows, finding.example) == ("warning", 1, "row 7")


def test_arms_that_were_never_taken():
    log = logged([[0.5, 0.375, 0.125]] * 40, [0, 1] * 20)

    finding = found(log)["arm-never-taken"]
    assert (finding.severity, finding.rows) == ("warning", 40)
    assert finding.message == "arms that were never taken: 2"


def test_a_row_that_decides_everything():
    given = [[0.5, 0.5]] * 99 + [[0.99, 0.01]]
    log = logged(given, [0, 1] * 49 + [0, 1])

    # Its weight is 100, the others have 2 each: 100 of 298.
    finding = found(log)["tiny-propensities"]
    assert (finding.severity, finding.rows, finding.example) == ("warning", 1, "row 99")
    assert finding.message == "one row (propensity 0.01) has 34% of the weight of all 100"


def test_weights_of_large_logs_may_be_large():
    rng = np.random.default_rng(0)
    arms = (rng.uniform(size=5000) < 0.01).astype(int)

    assert found(logged([[0.99, 0.01]] * 5000, arms.tolist())) == {}
