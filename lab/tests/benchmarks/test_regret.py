import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, MissingData
from posse_lab.benchmarks.regret import measure, ordinary_regret, plan, seeds_of, summarise
from posse_lab.benchmarks.settings import SETTINGS

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


def bar(report, *words):
    (found,) = [bar for bar in report.bars if all(word in bar.what for word in words)]
    return found


def test_ratios_and_regrets_are_those_of_the_results(results, report):
    result, first = results["balanced"], bar(report, "balanced: evidence UCB over paper ebmUCB")
    compared = result.compare("evidence UCB", "paper ebmUCB")
    assert (first.measured, first.interval) == (compared.ratio, compared.ratio_interval)
    assert first.at_most == 0.90
    assert bar(report, "balanced: evidence UCB over known").at_most == 1.08
    row = report.data["rows"][0]
    assert (row["setting"], row["seeds"], row["horizon"]) == ("balanced", 3, STEPS)
    for name, method in row["methods"].items():
        assert_allclose(method["regret"], result.regret_of(name).mean())
    assert row["methods"]["evidence UCB"]["settings"].startswith("exploration 0.4")
    assert json.loads(json.dumps(report.data))["skipped"] == {"letter": "no file"}


def test_rivals_are_tuned_on_the_seeds_that_are_shown(results, report):
    for family, count in (("known", 2), ("LinUCB", 6)):
        regrets = {name: results["balanced"].regret_of(name).mean() for name in results["balanced"].policies}
        regrets = {name: value for name, value in regrets.items() if name.startswith(family)}
        assert len(regrets) == count
        assert bar(report, f"balanced: evidence UCB over {min(regrets, key=regrets.get)}")


def test_settings_are_paired_across_worlds(results):
    # Who knows the population knows it in any units, so the same streams lead to the same decisions.
    one, other = (results[name].regret_of("known 0.3") for name in ("balanced", "scaled"))
    assert_allclose(one, other)
    none, odd = (ordinary_regret(results[name], "evidence UCB") for name in ("no-odd", "odd"))
    assert none.shape == odd.shape == (3,)
    assert (none < results["no-odd"].regret_of("evidence UCB")).all()


def test_checks_compare_what_they_say(results, report):
    units = bar(report, "other units")
    scaled, balanced = (results[name].regret_of("evidence UCB").mean() for name in ("scaled", "balanced"))
    assert_allclose(units.measured, scaled / balanced)
    assert (units.at_least, units.at_most) == (0.9, 1.1)
    robust = np.stack(list(results["odd"].regret_of("robust UCB", "task_regret")))[:, 2:].sum(axis=1)
    plain = ordinary_regret(results["no-odd"], "evidence UCB")
    assert_allclose(report.bars[-4].measured, robust.mean() / plain.mean())
    assert [bar.at_most for bar in report.bars[-4:]] == [1.05, 1.05, None, 1.03]


def test_everyday_rewards_are_compared_with_their_best_rival(everyday):
    report = summarise(everyday)
    assert [row[0] for row in report.tables[0].rows] == list(everyday)
    for name in ("always-0", "clicks-5"):
        result = everyday[name]
        best = min(SETTINGS[name].rivals, key=lambda rival: result.regret_of(rival).mean())
        first = bar(report, f"{name}: evidence UCB over {best}")
        assert_allclose(first.measured, result.regret_of("evidence UCB").mean() / result.regret_of(best).mean())
        assert first.at_most == SETTINGS[name].bar_rival
        assert bar(report, f"{name}: evidence TS over {best}").at_most is None


def test_offsets_are_compared_with_no_offset(everyday):
    for name in ("evidence UCB", "evidence RandUCB", "evidence TS"):
        check = bar(summarise(everyday), f"{name}, rewards around 10 over")
        far, near = (everyday[one].regret_of(name).mean() for one in ("offset-10", "offset-0"))
        assert_allclose(check.measured, far / near)
        assert (check.at_least, check.at_most) == (0.97, 1.03)


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
