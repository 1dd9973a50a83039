"""Plans, and runs that continue where they were stopped."""

from dataclasses import replace

import pytest

from posse.errors import (
    DamagedData,
    InvalidValue,
    MissingData,
    MissingDependency,
    ResultFileError,
    SettingsDiffer,
)
from posse_lab.reproduction.experiment import load_run
from posse_lab.reproduction.registry import EXPERIMENTS, chosen
from posse_lab.reproduction.run import Plan, execute, plan, read_manifest, result_file


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("POSSE_DATA", raising=False)


def tiny_plan():
    """Both kinds of runs, two and three files, in a second or two."""
    features = {"horizon": "20", "n_features": "[1, 2]"}
    coverage = {"steps": "[10, 20]", "noise_sds": "[1.0]", "n_contexts": "2"}
    plans = [
        plan(chosen([name]), quick=True, overrides=own)
        for name, own in (("features", features), ("coverage", coverage))
    ]
    overrides = {name: own for each in plans for name, own in each.overrides.items()}
    return Plan([run for each in plans for run in each.runs], {}, True, overrides)


def quiet(*_):
    pass


def run_all(planned, out, *, seeds=2, workers=1, begin=quiet, advance=quiet):
    execute(planned, out=out, seeds=seeds, workers=workers, begin=begin, advance=advance)


# ---- plans


def test_runs_come_in_the_order_of_the_report():
    planned = plan(chosen(["bounds", "sparse", "tasks"]), quick=True)

    assert [(experiment.name, run.key) for experiment, run in planned.runs] == [
        ("sparse", "1-of-3"),
        ("sparse", "2-of-3"),
        ("sparse", "2-of-8"),
        ("tasks", "n-2"),
        ("tasks", "n-5"),
        ("bounds", "horizons"),
        ("bounds", "tasks"),
        ("bounds", "lemmas"),
        ("bounds", "growth"),
    ]
    assert planned.skipped == {}


def test_each_override_goes_to_those_that_have_it():
    planned = plan(chosen(["balanced", "coverage"]), overrides={"horizon": "123", "n_contexts": "4", "n_arms": "3"})
    runs = {run.key: run for _, run in planned.runs}

    assert runs["balanced"].horizon == 123
    assert runs["balanced"].world.n_arms == 3
    assert runs["intervals"].settings["n_contexts"] == 4
    assert runs["intervals"].settings["n_arms"] == 3


def test_a_setting_that_none_has():
    with pytest.raises(InvalidValue, match="no setting 'horizont' here; there are horizon, n_arms"):
        plan(chosen(["balanced"]), overrides={"horizont": "5"})
    with pytest.raises(InvalidValue, match="no setting 'jumps'"):
        plan(chosen(["balanced", "tasks"]), overrides={"jumps": "[1]"})


def test_a_value_that_does_not_fit_one_of_several():
    with pytest.raises(InvalidValue, match="'n_tasks' must look like 10"):
        plan(chosen(["balanced", "tasks"]), overrides={"n_tasks": "[4, 5]"})


@pytest.mark.parametrize("name", ["sarcos", "activity", "movielens", "letter"])
def test_missing_data_are_an_error_if_nothing_else_was_asked_for(name, tmp_path):
    with pytest.raises(MissingData, match=f"posse lab data fetch {name}"):
        plan(chosen([name]), data=tmp_path, quick=True)
    with pytest.raises(MissingData, match="POSSE_DATA"):
        plan(chosen([name]), quick=True)


def test_missing_data_are_skipped_among_several_and_the_reason_is_told(tmp_path):
    planned = plan(chosen(["balanced", "sarcos", "letter"]), data=tmp_path, quick=True)

    assert [experiment.name for experiment, _ in planned.runs] == ["balanced"]
    assert list(planned.skipped) == ["sarcos", "letter"]
    for name, reason in planned.skipped.items():
        assert f"posse lab data fetch {name} --data {tmp_path}" in reason


def test_a_library_that_is_not_installed_is_treated_alike():
    def needs(settings, data):
        raise MissingDependency("pip install it")

    odd = replace(EXPERIMENTS["letter"], name="odd", runs=needs)
    with pytest.raises(MissingDependency):
        plan([odd])
    assert plan([odd, EXPERIMENTS["balanced"]], quick=True).skipped == {"odd": "pip install it"}


def test_files_that_were_not_published_are_no_missing_files(data_files):
    with pytest.raises(DamagedData, match="verify"):
        plan(chosen(["letter", "balanced"]), data=data_files, quick=True)


def test_the_data_folder_may_come_from_the_environment(data_files, monkeypatch):
    monkeypatch.setenv("POSSE_DATA", str(data_files))
    planned = plan(chosen(["activity"]), quick=True, overrides={"verify": "false"})

    assert [run.key for _, run in planned.runs] == ["protocol", "heterogeneity", "real-rewards"]
    protocol, other, real = (run.world.settings() for _, run in planned.runs)
    assert (protocol["heterogeneity"], other["heterogeneity"]) == (1.0, 4.0)
    assert real["world"] == "recorded"


def test_contexts_of_sarcos_come_from_the_training_file_where_it_is(data_files, tmp_path):
    """The training file has the rows of the test file and 150 more, and only those are met."""
    import shutil

    import numpy as np
    from scipy.io import loadmat, savemat

    shutil.copytree(data_files / "sarcos", tmp_path / "sarcos")
    alone = plan(chosen(["sarcos"]), data=tmp_path, quick=True, overrides={"verify": "false"})
    rows = loadmat(tmp_path / "sarcos" / "sarcos_inv_test.mat")["sarcos_inv_test"]
    more = np.random.default_rng(0).normal(size=(150, 28))
    savemat(tmp_path / "sarcos" / "sarcos_inv.mat", {"sarcos_inv": np.vstack([more, rows])})
    both = plan(chosen(["sarcos"]), data=tmp_path, quick=True, overrides={"verify": "false"})

    assert [run.world.n_rows for _, run in alone.runs] == [400, 400, 280]
    assert [run.world.n_rows for _, run in both.runs] == [150, 150, 150]


def test_the_plan_tells_which_experiment_it_is_at(tmp_path):
    told = []
    plan(chosen(["balanced", "letter", "tasks"]), data=tmp_path, quick=True, begin=told.append)

    assert told == ["balanced", "tasks", "letter"]


# ---- runs


def test_where_results_lie(tmp_path):
    assert result_file(tmp_path, "sparse", "1-of-3") == tmp_path / "results" / "sparse" / "1-of-3.parquet"


def test_every_run_leaves_its_file_and_nothing_else(tmp_path, files_of):
    told, done = [], []
    run_all(tiny_plan(), tmp_path, begin=told.append, advance=done.append)

    assert {name for name in files_of(tmp_path) if name.endswith(".parquet")} == {
        "results/features/d-1.parquet",
        "results/features/d-2.parquet",
        "results/coverage/intervals.parquet",
        "results/coverage/radius.parquet",
        "results/coverage/opposed.parquet",
    }
    assert told == ["features d-1", "features d-2", "coverage intervals", "coverage radius", "coverage opposed"]
    assert done == [0, 1, 1] * 5
    for file in (tmp_path / "results").rglob("*.parquet"):
        assert load_run(file).complete
        assert load_run(file).seeds == [0, 1]


def test_the_runs_of_an_experiment_are_listed_before_the_first_begins(tmp_path):
    def stop(name):
        raise KeyboardInterrupt

    assert read_manifest(tmp_path, "features") == ([], "posse lab reproduce features")
    with pytest.raises(KeyboardInterrupt):
        run_all(tiny_plan(), tmp_path, begin=stop)
    keys, command = read_manifest(tmp_path, "features")
    assert keys == ["d-1", "d-2"]
    assert command == "posse lab reproduce features --quick --seeds 2 --set horizon=20 --set 'n_features=[1, 2]'"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"runs": 3}', "\udcff"])
def test_a_list_of_runs_that_is_damaged(tmp_path, content):
    (tmp_path / "results" / "tasks").mkdir(parents=True)
    (tmp_path / "results" / "tasks" / "runs.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ResultFileError, match=r"runs\.json is damaged .*run posse lab reproduce tasks again"):
        read_manifest(tmp_path, "tasks")


def test_an_experiment_with_one_run_is_told_once(tmp_path):
    told = []
    run_all(plan(chosen(["balanced"]), overrides={"horizon": "10"}), tmp_path, seeds=1, begin=told.append)

    assert told == ["balanced"]
    assert (tmp_path / "results" / "balanced" / "balanced.parquet").is_file()


def test_a_second_run_adds_nothing_and_two_workers_write_the_same_bytes(tmp_path, files_of):
    planned = tiny_plan()
    run_all(planned, tmp_path / "a", seeds=3)
    before, done = files_of(tmp_path / "a"), []
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "a").rglob("*.parquet")}
    run_all(planned, tmp_path / "a", seeds=3, advance=done.append)
    run_all(planned, tmp_path / "b", seeds=3, workers=2)

    assert done == [3] * 5
    assert files_of(tmp_path / "a") == before == files_of(tmp_path / "b")
    assert {file: file.stat().st_mtime_ns for file in written} == written


@pytest.mark.parametrize("calls", [1, 2, 5, 8, 11, 13])
def test_a_run_that_was_stopped_continues_to_the_same_bytes(tmp_path, files_of, calls):
    """Every file is told 0, 1, 1: the calls stop before the first seed of all, within files, and between them."""
    planned, told = tiny_plan(), []

    def stop(seeds):
        told.append(seeds)
        if len(told) == calls:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(planned, tmp_path / "stopped", advance=stop)
    finished = (calls - 1) // 3
    assert sum(load_run(file).complete for file in (tmp_path / "stopped").rglob("*.parquet")) == finished
    run_all(planned, tmp_path / "stopped")
    run_all(planned, tmp_path / "straight")

    assert files_of(tmp_path / "stopped") == files_of(tmp_path / "straight")


def test_other_settings_do_not_overwrite_results(tmp_path, files_of):
    run_all(plan(chosen(["features"]), overrides={"horizon": "20", "n_features": "1"}), tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(SettingsDiffer, match="horizon: 20 there, 30 now"):
        run_all(plan(chosen(["features"]), overrides={"horizon": "30", "n_features": "1"}), tmp_path)
    assert files_of(tmp_path) == before


def test_features_and_jumps_of_different_lengths_are_named():
    with pytest.raises(InvalidValue, match="jumps"):
        plan(chosen(["sparse"]), overrides={"n_features": "[3, 4]"})
