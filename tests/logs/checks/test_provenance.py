import polars as pl
import pytest

from posse.logs import Finding, Log, check_log

NAMES = {"tasks-single-row", "few-tasks", "several-policies", "several-versions", "unknown-columns", "made-up"}


def found(log):
    return {finding.code: finding for finding in check_log(log) if finding.code in NAMES}


def test_a_clean_log_comes_from_one_policy(make_log):
    assert found(make_log()) == {}


def test_tasks_with_one_row(spoiled, at_rows):
    new = pl.format("new-{}", pl.int_range(pl.len()))
    log = spoiled(at_rows("task", [3, 8], new))
    log = Log(log.frame.with_columns(at_rows("task", [10, 11], pl.lit("pair"))))

    finding = found(log)["tasks-single-row"]

    assert (finding.severity, finding.rows, finding.example) == ("note", 2, "row 3, decision 'decision-3'")
    assert finding.message == "tasks with one row: 2 of 23"


def test_few_tasks(make_log):
    assert found(make_log(n_tasks=9))["few-tasks"].severity == "note"
    assert "there is one task" in found(make_log(n_tasks=1))["few-tasks"].message
    assert "few-tasks" not in found(make_log(n_tasks=10))


def test_several_policies_and_versions(spoiled, at_rows):
    log = spoiled(at_rows("policy", [3, 8], pl.lit("random")), at_rows("version", [5], pl.lit(None)))

    policies, versions = found(log)["several-policies"], found(log)["several-versions"]
    assert (policies.severity, policies.rows) == ("note", 2)
    assert policies.message == "2 policies wrote this log: 'ebm-ts', 'random'"
    assert (versions.rows, versions.message) == (1, "2 versions wrote this log: '0.1.0', unknown")


def test_columns_that_no_log_has(make_log):
    finding = found(Log(make_log().frame.with_columns(colour=1, propensty=2)))["unknown-columns"]

    assert (finding.severity, finding.rows) == ("note", 600)
    assert finding.message == "not read, since no log has them: 'colour', 'propensty'"


def test_notes_of_an_import_are_repeated(make_log):
    note = Finding("made-up", "warning", "something was lost", 3, None, "nothing")

    assert found(Log(make_log().frame, notes=(note,)))["made-up"] == note


def findings(log):
    return {finding.code: finding for finding in check_log(log)}


def test_a_clean_log_has_one_row_per_decision(make_log):
    assert not {"decision-id-missing", "conflicting-rewards", "duplicate-decision-id"} & findings(make_log()).keys()


def test_rows_that_occur_twice(make_log, spoiled, at_rows):
    finding = findings(spoiled(at_rows("decision_id", [5, 9], pl.lit("decision-5")),
                            at_rows("reward", [5, 9], pl.lit(1.0))))["duplicate-decision-id"]  # fmt: skip

    assert (finding.severity, finding.rows, finding.example) == ("error", 2, "row 5, decision 'decision-5'")


def test_a_reward_that_comes_later_is_a_repetition_and_no_conflict(spoiled, at_rows):
    log = spoiled(at_rows("decision_id", [5, 9], pl.lit("d")), at_rows("reward", [9], pl.lit(None)))

    assert "duplicate-decision-id" in findings(log)
    assert "conflicting-rewards" not in findings(log)


def test_one_decision_with_two_rewards(spoiled, at_rows):
    log = spoiled(
        at_rows("decision_id", [5, 9, 11], pl.lit("d")),
        at_rows("reward", [5, 11], pl.lit(1.0)).cast(pl.Float64),
    )
    log = type(log)(log.frame.with_columns(at_rows("reward", [9], pl.lit(2.0))))

    finding = findings(log)["conflicting-rewards"]
    assert (finding.severity, finding.rows, finding.example) == ("error", 3, "row 5, decision 'd'")
    assert "duplicate-decision-id" not in findings(log)


def test_ids_that_are_missing_are_no_repetition(spoiled, at_rows):
    log = spoiled(at_rows("decision_id", [3, 4], pl.lit(None)))

    finding = findings(log)["decision-id-missing"]
    assert (finding.severity, finding.rows, finding.example) == ("note", 2, "row 3")
    assert "duplicate-decision-id" not in findings(log)


def test_a_clean_log_is_in_order(make_log):
    assert not [code for code in findings(make_log()) if code.startswith("time-")]


def test_no_times_or_some(spoiled, at_rows):
    some = findings(spoiled(at_rows("time", [2, 3], pl.lit(None))))
    none = findings(spoiled(pl.lit(None).alias("time")))

    assert (some["time-missing"].severity, some["time-missing"].rows) == ("warning", 2)
    assert (none["time-missing"].severity, none["time-missing"].rows) == ("note", 600)
    assert "time-not-ordered" not in some


@pytest.mark.parametrize(("back", "severity"), [([300], "note"), (list(range(300, 320)), "warning")])
def test_rows_out_of_order(spoiled, at_rows, back, severity):
    finding = findings(spoiled(at_rows("time", back, pl.col("time").first())))["time-not-ordered"]

    assert (finding.severity, finding.rows, finding.example) == (
        severity,
        len(back),
        "row 300, decision 'decision-300'",
    )


def test_gaps_do_not_hide_disorder(make_log):
    times = [1.0, None, 3.0, None, 2.0, 3.0]
    log = Log({"task": [1] * 6, "arm": [1, 2] * 3, "reward": [1.0, 2.0] * 3, "time": times})

    assert (findings(log)["time-not-ordered"].rows, findings(log)["time-not-ordered"].example) == (1, "row 4")
