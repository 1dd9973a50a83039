import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, MissingData
from posse_lab.benchmarks import SETTINGS, measure, plan, summarise
from posse_lab.benchmarks.markdown import regret_markdown
from posse_lab.benchmarks.regret import Ratio, ordinary_regret, ratio_of, seeds_of

STEPS = 60  # enough to run every method; what the ratios are is the benchmark's business


@pytest.fixture(scope="module")
def results():
    names = ["balanced", "scaled", "no-odd", "odd"]
    worlds = plan(names).worlds
    return {name: measure(replace(SETTINGS[name], horizon=STEPS), worlds[name], seeds=3) for name in names}


@pytest.fixture(scope="module")
def everyday():
    names = ["always-0", "clicks-5", "offset-0", "offset-10", "arms-100"]
    worlds = plan(names).worlds
    return {name: measure(replace(SETTINGS[name], horizon=STEPS), worlds[name], seeds=2) for name in names}


@pytest.fixture(scope="module")
def report(results):
    return summarise(results, {"letter": "no file"})


def test_a_row_agrees_with_the_result_it_came_from(results, report):
    row, result = report.rows[0], results["balanced"]

    assert (row.setting, row.seeds, row.horizon) == ("balanced", 3, STEPS)
    assert set(row.methods) == set(result.policies)
    for name, method in row.methods.items():
        assert_allclose(method.regret, result.regret_of(name).mean())
    compared = result.compare("evidence UCB", "paper ebmUCB")
    assert (row.to_paper.ratio, row.to_paper.interval) == (compared.ratio, compared.ratio_interval)
    assert (row.to_paper.at_most, row.to_known.at_most) == (0.90, 1.08)


def test_rivals_are_tuned_on_the_seeds_that_are_shown(report):
    for row in report.rows:
        for chosen, family in ((row.known, "known"), (row.tuned, "LinUCB")):
            regrets = {name: row.methods[name].regret for name in row.methods if name.startswith(family)}
            assert regrets[chosen] == min(regrets.values())
            assert len(regrets) == {"known": 2, "LinUCB": 6}[family]
        assert row.to_known.second == row.known


def test_every_method_of_the_table_is_there(report):
    assert {name.rsplit(" ", 1)[0] for name in report.rows[0].methods} == {
        "paper", "evidence", "known", "fixed", "LinUCB", "pooled",
    }  # fmt: skip
    assert report.rows[0].methods["evidence UCB"].words.startswith("exploration 0.4")


def test_settings_are_paired_across_worlds(results):
    # Who knows the population knows it in any units, so the same streams lead to the same decisions.
    one, other = (results[name].regret_of("known 0.3") for name in ("balanced", "scaled"))
    assert_allclose(one, other)
    none, odd = (ordinary_regret(results[name], "evidence UCB") for name in ("no-odd", "odd"))
    assert none.shape == odd.shape == (3,)
    assert (none < results["no-odd"].regret_of("evidence UCB")).all()


def test_checks_compare_what_they_say(results, report):
    units, *odd = report.checks

    assert_allclose(units.first_regret, results["scaled"].regret_of("evidence UCB").mean())
    assert (units.at_least, units.at_most) == (0.9, 1.1)
    assert [check.at_most for check in odd] == [1.05, 1.05, None, 1.03]
    robust = np.stack(list(results["odd"].regret_of("robust UCB", "task_regret")))[:, 2:].sum(axis=1)
    assert_allclose(odd[0].first_regret, robust.mean())
    assert_allclose(odd[0].second_regret, ordinary_regret(results["no-odd"], "evidence UCB").mean())
    assert_allclose(odd[1].second_regret, ordinary_regret(results["no-odd"], "robust UCB").mean())
    assert_allclose(odd[3].first_regret, results["no-odd"].regret_of("robust UCB").mean())


@pytest.mark.parametrize(
    ("at_least", "at_most", "met"),
    [(None, None, None), (None, 0.5, True), (None, 0.49, False), (0.4, 0.6, True), (0.51, 0.6, False)],
)
def test_a_promise_is_kept_up_to_its_bar(at_least, at_most, met):
    a = np.array([1.0, 2.0, 3.0])
    assert ratio_of("x", "a", "b", a, 2 * a, at_least=at_least, at_most=at_most).met is met


def test_a_row_keeps_its_promise_if_every_ratio_does(report):
    row = report.rows[0]
    good, bad = (Ratio("x", "a", "b", 1.0, 1.0, value, (value, value), 3, at_most=1.0) for value in (0.9, 1.1))
    free = replace(good, at_most=None)

    assert replace(row, to_paper=good, to_known=good).met is True
    assert replace(row, to_paper=good, to_known=bad).met is False
    assert replace(row, to_paper=good, to_known=free).met is True
    assert replace(row, to_paper=free, to_known=free).met is None


def test_the_report_is_plain_and_whole(report):
    said = json.loads(json.dumps(report.to_dict()))

    assert [row["setting"] for row in said["rows"]] == ["balanced", "scaled"]
    assert len(said["rows"][0]["ratios"]) == 6
    assert len(said["checks"]) == 5
    assert said["skipped"] == {"letter": "no file"}


def test_markdown_has_a_line_for_every_row_and_check(report):
    lines = regret_markdown(report).splitlines()

    assert sum("balanced, N=10" in line for line in lines) == 2
    assert sum("robust UCB" in line for line in lines) == 3
    assert "Not run: letter (no file)" in lines
    for line in lines:
        if line.startswith("|---"):
            columns = line.count("|")
        elif line.startswith(("| setting", "| regret")):
            header = line.count("|")
        elif line.startswith("|"):
            assert line.count("|") == columns == header


def test_everyday_rows_are_compared_with_their_best_rival(everyday):
    rows = {row.setting: row for row in summarise(everyday).everyday}

    assert list(rows) == ["always-0", "clicks-5", "offset-0", "offset-10", "arms-100"]
    for name, count in (("always-0", 2), ("clicks-5", 6)):
        row = rows[name]
        rivals = {rival: row.methods[rival].regret for rival in SETTINGS[name].rivals}
        assert len(rivals) == count
        assert rivals[row.rival] == min(rivals.values())
        first, _, second = row.ratios
        assert (first.first, first.second, first.at_most) == ("evidence UCB", row.rival, SETTINGS[name].bar_rival)
        assert (second.first, second.second, second.at_most) == ("evidence TS", row.rival, None)
        assert_allclose(first.ratio, row.methods["evidence UCB"].regret / rivals[row.rival])
        assert row.met is first.met
    assert (rows["arms-100"].rival, rows["arms-100"].ratios, rows["arms-100"].met) == (None, (), None)


def test_offsets_are_compared_with_no_offset(everyday):
    checks = summarise(everyday).checks

    assert [check.setting for check in checks] == ["offset-10"] * 3
    for check, name in zip(checks, ("evidence UCB", "evidence RandUCB", "evidence TS"), strict=True):
        assert check.first == f"{name}, rewards around 10"
        assert (check.at_least, check.at_most) == (0.97, 1.03)
        assert_allclose(check.first_regret, everyday["offset-10"].regret_of(name).mean())
        assert_allclose(check.second_regret, everyday["offset-0"].regret_of(name).mean())


def test_everyday_rows_are_written_as_the_others_are(everyday):
    report = summarise(everyday)
    said = json.loads(json.dumps(report.to_dict()))
    lines = [line for line in regret_markdown(report).splitlines() if line.startswith("|")]

    assert [row["setting"] for row in said["everyday"]] == [row.setting for row in report.everyday]
    assert said["everyday"][0]["rival"] == report.everyday[0].rival
    assert len(said["everyday"][0]["ratios"]) == 3
    assert sum(row.title in line for row in report.everyday for line in lines) >= 5
    assert len({line.count("|") for line in lines[:7]}) == 1


def test_other_seeds_can_be_asked_for():
    setting, world = replace(SETTINGS["no-odd"], horizon=20), plan(["no-odd"]).worlds["no-odd"]
    later = measure(setting, world, seeds=2, first_seed=7)
    alone = measure(setting, world, seeds=1, first_seed=8)

    assert later.seeds == [7, 8]
    assert_allclose(later.regret_of("evidence UCB")[1], alone.regret_of("evidence UCB")[0])
    with pytest.raises(InvalidValue, match="first_seed to be at least 0"):
        measure(setting, world, seeds=1, first_seed=-1)


def test_an_interrupted_run_continues(tmp_path):
    setting, world = replace(SETTINGS["no-odd"], horizon=20), plan(["no-odd"]).worlds["no-odd"]
    first = measure(setting, world, seeds=1, out=tmp_path)
    both = measure(setting, world, seeds=2, out=tmp_path)
    again = measure(setting, world, seeds=2)

    assert (tmp_path / "no-odd.parquet").is_file()
    assert (len(first.seeds), both.seeds) == (1, [0, 1])
    assert both.table.equals(again.table)


def test_a_setting_brings_along_what_it_is_compared_with():
    assert list(plan(["scaled"]).worlds) == ["balanced", "scaled"]
    assert list(plan(["odd", "d8"]).worlds) == ["d8", "no-odd", "odd"]


def test_without_data_the_rest_is_planned_with_a_reason(monkeypatch):
    monkeypatch.delenv("POSSE_DATA", raising=False)
    planned = plan()

    assert set(planned.skipped) == {"sarcos", "letter"}
    assert "POSSE_DATA" in planned.skipped["sarcos"]
    assert len(planned.worlds) == len(SETTINGS) - 2


def test_data_that_was_asked_for_by_name_must_be_there(tmp_path):
    with pytest.raises(MissingData, match=r"sarcos_inv_test\.mat"):
        plan(["sarcos"], tmp_path)


def test_an_unknown_setting_is_refused_with_a_hint():
    with pytest.raises(InvalidValue, match=r"no setting 'balance'; did you mean 'balanced'\? The settings are"):
        plan(["balance"])


def test_worlds_from_data_use_fewer_seeds():
    assert [seeds_of(SETTINGS["sarcos"], seeds) for seeds in (5, 100)] == [5, 20]
    assert seeds_of(SETTINGS["balanced"], 100) == 100
    with pytest.raises(InvalidValue, match="seeds to be at least 1"):
        seeds_of(SETTINGS["balanced"], 0)
