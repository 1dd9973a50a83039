import polars as pl

from posse.logs import check_log


def found(log):
    return {finding.code: finding for finding in check_log(log)}


def test_a_clean_log_has_one_row_per_decision(make_log):
    assert not {"decision-id-missing", "conflicting-rewards", "duplicate-decision-id"} & found(make_log()).keys()


def test_rows_that_occur_twice(make_log, spoiled, at_rows):
    finding = found(spoiled(at_rows("decision_id", [5, 9], pl.lit("decision-5")),
                            at_rows("reward", [5, 9], pl.lit(1.0))))["duplicate-decision-id"]  # fmt: skip

    assert (finding.severity, finding.rows, finding.example) == ("error", 2, "row 5, decision 'decision-5'")


def test_a_reward_that_comes_later_is_a_repetition_and_no_conflict(spoiled, at_rows):
    log = spoiled(at_rows("decision_id", [5, 9], pl.lit("d")), at_rows("reward", [9], pl.lit(None)))

    assert "duplicate-decision-id" in found(log)
    assert "conflicting-rewards" not in found(log)


def test_one_decision_with_two_rewards(spoiled, at_rows):
    log = spoiled(
        at_rows("decision_id", [5, 9, 11], pl.lit("d")),
        at_rows("reward", [5, 11], pl.lit(1.0)).cast(pl.Float64),
    )
    log = type(log)(log.frame.with_columns(at_rows("reward", [9], pl.lit(2.0))))

    finding = found(log)["conflicting-rewards"]
    assert (finding.severity, finding.rows, finding.example) == ("error", 3, "row 5, decision 'd'")
    assert "duplicate-decision-id" not in found(log)


def test_ids_that_are_missing_are_no_repetition(spoiled, at_rows):
    log = spoiled(at_rows("decision_id", [3, 4], pl.lit(None)))

    finding = found(log)["decision-id-missing"]
    assert (finding.severity, finding.rows, finding.example) == ("note", 2, "row 3")
    assert "duplicate-decision-id" not in found(log)
