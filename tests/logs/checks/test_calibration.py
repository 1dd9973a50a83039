import math

import numpy as np
import polars as pl
import pytest

from posse.logs import Log, check_log
from posse.logs.checks.overlap import LIMIT, distance

NAMES = {"propensity-calibration", "weights-mean-high", "weights-mean-low"}


def found(log):
    return {finding.code: finding for finding in check_log(log) if finding.code in NAMES}


def logged(drawn, stated, n_rows=1000, seed=0, known=True):
    """A log whose arms were drawn with one distribution while another was written down."""
    rng = np.random.default_rng(seed)
    arms = rng.choice(len(drawn), size=n_rows, p=drawn)
    return Log(
        {
            "task": rng.integers(20, size=n_rows),
            "arm": arms,
            "eligible": [list(range(len(drawn)))] * n_rows,
            "probabilities": [list(stated)] * n_rows if known else [None] * n_rows,
            "propensity": np.asarray(stated)[arms],
            "reward": rng.normal(size=n_rows),
        }
    )


def test_by_hand():
    assert distance(hits=10, expected=10.0, variance=0.0) == 0.0
    assert distance(hits=50, expected=20.0, variance=15.0) == pytest.approx(30 / math.sqrt(25))
    assert distance(hits=0, expected=30.0, variance=90.0) == pytest.approx(3.0)


def test_small_numbers_do_not_deceive():
    # One decision at probability 0.001 in one row would be 32 standard errors of a normal distribution.
    assert distance(hits=1, expected=0.001, variance=0.001) < LIMIT
    # Twelve where one was expected happen by chance once in 10^10.
    assert distance(hits=12, expected=1.0, variance=1.0) > LIMIT


def test_a_clean_log_is_calibrated(make_log):
    assert found(make_log()) == {}
    assert found(logged([0.7, 0.2, 0.1], [0.7, 0.2, 0.1])) == {}
    assert found(logged([0.7, 0.2, 0.1], [0.7, 0.2, 0.1], known=False)) == {}


def test_probabilities_of_another_policy(make_log):
    finding = found(logged([0.6, 0.2, 0.2], [0.4, 0.3, 0.3]))["propensity-calibration"]

    assert finding.severity == "error"
    # Expected 400 of 1000, drawn about 600: 200 / sqrt(240 + 67) = 11.4 standard errors.
    assert finding.message.startswith("arm 0: taken ")
    assert "but the probabilities add up to 400.0 (1" in finding.message
    assert "4 more like it" in finding.message


def test_probabilities_that_are_right_on_average_only():
    # Half of the rows say 0.9 and half 0.1 of an arm that was drawn with 0.5: its sum is right, its levels are not.
    rng = np.random.default_rng(1)
    n_rows = 400
    arms = rng.integers(2, size=n_rows)
    first = np.where(np.arange(n_rows) % 2, 0.9, 0.1)
    given = np.column_stack([first, 1 - first])
    log = Log(
        {
            "task": rng.integers(20, size=n_rows),
            "arm": arms,
            "eligible": [[0, 1]] * n_rows,
            "probabilities": given.tolist(),
            "propensity": given[np.arange(n_rows), arms],
            "reward": rng.normal(size=n_rows),
        }
    )

    finding = found(log)["propensity-calibration"]
    assert finding.message.startswith("arms with probabilities from 0.9 to 0.95: taken ")


def test_probabilities_in_another_order_than_the_arms(make_log):
    frame = make_log(n_rows=2000).frame
    log = Log(frame.with_columns(pl.col("probabilities").list.reverse(), propensity=pl.lit(None)))

    assert "propensity-calibration" in found(log)


def test_propensities_that_are_too_small():
    finding = found(logged([0.5, 0.5], [0.25, 0.25], known=False))["weights-mean-high"]

    assert finding.severity == "error"
    assert finding.message.startswith("the mean of 1 / propensity is 4, but it cannot be more than the 2 eligible arms")


def test_propensities_that_are_too_large():
    finding = found(logged([0.25] * 4, [0.9] * 4, known=False))["weights-mean-low"]

    assert finding.severity == "warning"
    assert finding.message.startswith("the mean of 1 / propensity is 1.11, but 4 arms were eligible")


def test_few_rows_are_not_judged_by_their_mean():
    assert found(logged([0.5, 0.5], [0.25, 0.25], n_rows=99, known=False)) == {}
    assert found(logged([0.5, 0.5], [0.25, 0.25], n_rows=100, known=False)) != {}
