import polars as pl
import pytest

from posse.logs import Log, check_log

NAMES = {
    "propensity-missing",
    "propensity-not-recorded",
    "propensity-out-of-range",
    "propensity-differs",
    "probabilities-length",
    "probabilities-negative",
    "probabilities-sum",
    "eligible-empty",
    "eligible-duplicated",
    "arm-not-eligible",
}


def found(log):
    return {finding.code: finding for finding in check_log(log) if finding.code in NAMES}


def row_of(values, dtype):
    return pl.lit(pl.Series([values], dtype=dtype).implode().list.first())


def test_a_clean_log_has_none_of_it(make_log):
    assert found(make_log()) == {}


def test_32_bit_probabilities_with_few_digits_are_fine(make_log):
    frame = make_log().frame.with_columns(
        pl.col("probabilities").cast(pl.List(pl.Float32)), pl.col("propensity").round(6)
    )

    assert found(Log(frame)) == {}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0.0, "propensity-out-of-range"),
        (-0.25, "propensity-out-of-range"),
        (1.25, "propensity-out-of-range"),
        (float("nan"), "propensity-out-of-range"),
        (float("inf"), "propensity-out-of-range"),
        (0.0625, "propensity-differs"),
    ],
)
def test_a_propensity_that_is_wrong(spoiled, at_rows, value, code):
    log = spoiled(at_rows("propensity", [7], pl.lit(value)))

    finding = found(log)[code]
    assert (finding.severity, finding.rows, finding.example) == ("error", 1, "row 7, decision 'decision-7'")


def test_a_propensity_that_is_missing(spoiled, at_rows):
    known = found(spoiled(at_rows("propensity", [7], pl.lit(None))))
    unknown = found(spoiled(at_rows("propensity", [7], pl.lit(None)), at_rows("probabilities", [7], pl.lit(None))))

    assert {code: (finding.severity, finding.rows) for code, finding in known.items()} == {
        "propensity-not-recorded": ("note", 1)
    }
    assert {code: (finding.severity, finding.rows) for code, finding in unknown.items()} == {
        "propensity-missing": ("error", 1)
    }


def changed(make_log, row, **values):
    """A clean log with one row replaced."""
    rows = make_log().frame.to_dicts()
    rows[row] |= values
    return Log(rows)


def test_probabilities_of_another_length(make_log):
    log = changed(
        make_log, 3, arm="arm-0", eligible=["arm-0", "arm-1"], probabilities=[0.5, 0.25, 0.25], propensity=0.5
    )

    assert {code: finding.rows for code, finding in found(log).items()} == {"probabilities-length": 1}


@pytest.mark.parametrize("values", [[1.5, -0.5], [float("nan"), 0.5], [0.5, float("inf")]])
def test_probabilities_that_are_scores(make_log, values):
    log = changed(make_log, 3, arm="arm-0", eligible=["arm-0", "arm-1"], probabilities=values, propensity=None)

    assert found(log)["probabilities-negative"].example == "row 3, decision 'decision-3'"
    assert "probabilities-sum" not in found(log)


def test_probabilities_that_do_not_sum_to_one(make_log):
    log = changed(make_log, 3, arm="arm-0", eligible=["arm-0", "arm-1"], probabilities=[0.5, 0.499], propensity=0.5)

    finding = found(log)["probabilities-sum"]
    assert (finding.severity, finding.rows) == ("error", 1)
    assert "but from 0.999 to 0.999" in finding.message


def test_no_eligible_arm(make_log):
    log = changed(make_log, 3, eligible=[], probabilities=[])

    assert found(log)["eligible-empty"].rows == 1
    assert "arm-not-eligible" not in found(log)


def test_an_eligible_arm_twice(make_log):
    log = changed(
        make_log, 3, arm="arm-0", eligible=["arm-0", "arm-0", "arm-1"], probabilities=[0.25, 0.25, 0.5], propensity=0.25
    )

    assert {code: finding.rows for code, finding in found(log).items()} == {"eligible-duplicated": 1}


def test_an_arm_that_was_not_eligible(make_log):
    log = changed(make_log, 3, arm="arm-3", eligible=["arm-0", "arm-1"], probabilities=[0.5, 0.5], propensity=0.5)

    finding = found(log)["arm-not-eligible"]
    assert (finding.severity, finding.rows, finding.example) == ("error", 1, "row 3, decision 'decision-3'")


def test_where_eligible_is_unknown_every_arm_is(make_log):
    log = Log(make_log().frame.with_columns(eligible=pl.lit(None), probabilities=pl.lit(None)))

    assert found(log) == {}
