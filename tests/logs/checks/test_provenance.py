import polars as pl

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
