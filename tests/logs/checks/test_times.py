import polars as pl
import pytest

from posse.logs import Log, check_log


def found(log):
    return {finding.code: finding for finding in check_log(log) if finding.code.startswith("time-")}


def test_a_clean_log_is_in_order(make_log):
    assert found(make_log()) == {}


def test_no_times_or_some(spoiled, at_rows):
    some = found(spoiled(at_rows("time", [2, 3], pl.lit(None))))
    none = found(spoiled(pl.lit(None).alias("time")))

    assert (some["time-missing"].severity, some["time-missing"].rows) == ("warning", 2)
    assert (none["time-missing"].severity, none["time-missing"].rows) == ("note", 600)
    assert "time-not-ordered" not in some


@pytest.mark.parametrize(("back", "severity"), [([300], "note"), (list(range(300, 320)), "warning")])
def test_rows_out_of_order(spoiled, at_rows, back, severity):
    finding = found(spoiled(at_rows("time", back, pl.col("time").first())))["time-not-ordered"]

    assert (finding.severity, finding.rows, finding.example) == (
        severity,
        len(back),
        "row 300, decision 'decision-300'",
    )


def test_gaps_do_not_hide_disorder(make_log):
    times = [1.0, None, 3.0, None, 2.0, 3.0]
    log = Log({"task": [1] * 6, "arm": [1, 2] * 3, "reward": [1.0, 2.0] * 3, "time": times})

    assert (found(log)["time-not-ordered"].rows, found(log)["time-not-ordered"].example) == (1, "row 4")
