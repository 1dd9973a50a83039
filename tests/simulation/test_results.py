import json

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

from posse._version import __version__
from posse.environments import SyntheticWorld
from posse.errors import ResultFileError, SettingsDiffer, UnknownPolicy
from posse.simulation import SimulationResult, simulate

WORLD = SyntheticWorld(n_tasks=3, n_arms=2, n_features=2, noise_sd=[0.5, 1.5])


@pytest.fixture(scope="module")
def result():
    policies = {"LinUCB": "lin-ucb", "random": "random"}
    return simulate(WORLD, policies, horizon=50, seeds=[3, 1, 8], checkpoints=5, appendix=True, track_task=2)


@pytest.fixture
def saved(result, tmp_path):
    path = tmp_path / "result.parquet"
    result.save(path)
    return path


def test_what_is_saved_is_what_is_loaded(result, saved):
    loaded = SimulationResult.load(saved)
    assert_frame_equal(loaded.table, result.table, check_exact=True)
    assert loaded.settings == json.loads(json.dumps(result.settings))
    assert loaded.descriptions == result.descriptions
    assert (loaded.version, loaded.complete, loaded.seeds) == (__version__, True, [1, 3, 8])
    assert str(loaded.compare("LinUCB", "random")) == str(result.compare("LinUCB", "random"))
    assert [path.name for path in saved.parent.iterdir()] == ["result.parquet"]


def test_settings_seeds_and_version_are_inside_the_file(saved):
    header = json.loads(pl.read_parquet_metadata(saved)["posse"])
    assert header["version"] == __version__
    assert header["seeds"] == [1, 3, 8]
    assert header["complete"] is True
    assert header["settings"]["world"] == WORLD.settings()
    assert header["settings"]["horizon"] == 50
    assert list(header["settings"]["policies"]) == ["LinUCB", "random"]
    assert header["descriptions"]["LinUCB"].startswith("exploration 1, constant")
    # Any Parquet reader gets the table.
    assert pl.read_parquet(saved).columns[:4] == ["policy", "seed", "regret", "task_regret"]


def test_curves(result):
    curves = result.curves
    assert curves.columns == ["policy", "seed", "step", "regret", "tracked_regret"]
    assert curves.height == 2 * 3 * 5
    one = curves.filter((pl.col("policy") == "random") & (pl.col("seed") == 8))
    assert one["step"].to_list() == [10, 20, 30, 40, 50]
    assert (one["regret"].diff().drop_nulls() >= 0).all()
    final = result.table.filter((pl.col("policy") == "random") & (pl.col("seed") == 8)).row(0, named=True)
    assert one["regret"][-1] == pytest.approx(final["regret"])
    assert one["tracked_regret"][-1] == pytest.approx(final["task_regret"][2])


def test_the_summary_is_sorted_and_adds_up(result):
    summary = result.summary
    assert summary["policy"].to_list() == ["LinUCB", "random"]
    for row in summary.iter_rows(named=True):
        regret = result.regret_of(row["policy"])
        assert row["seeds"] == 3
        assert row["settings"] == result.descriptions[row["policy"]]
        assert row["regret"] == pytest.approx(regret.mean())
        assert row["standard_error"] == pytest.approx(regret.std(ddof=1) / np.sqrt(3))
        assert row["median"] == pytest.approx(np.median(regret))
        tracked = [tasks[2] for tasks in result.regret_of(row["policy"], "task_regret")]
        assert row["tracked_task"] == pytest.approx(np.mean(tracked))
        assert row["expected_regret"] == pytest.approx(result.regret_of(row["policy"], "expected_regret").mean())


def test_regret_of_is_ordered_by_seed(result):
    by_seed = dict(result.table.filter(pl.col("policy") == "random").select("seed", "regret").iter_rows())
    assert_allclose(result.regret_of("random"), [by_seed[1], by_seed[3], by_seed[8]])
    with pytest.raises(UnknownPolicy, match=r"'LinTS'.*'LinUCB', 'random'"):
        result.regret_of("LinTS")


def test_part_of_the_seeds(result):
    part = result.only_seeds([8, 1])
    assert part.seeds == [1, 8]
    assert part.table.height == 4


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ResultFileError, match=r"nothing\.parquet"):
        SimulationResult.load(tmp_path / "nothing.parquet")
    with pytest.raises(ResultFileError):
        SimulationResult.load(tmp_path)


def test_a_folder_that_is_not_there(result, tmp_path):
    with pytest.raises(ResultFileError, match="nowhere"):
        result.save(tmp_path / "nowhere" / "result.parquet")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ResultFileError, match=r"result\.parquet"):
        SimulationResult.load(saved)


def test_damaged_bytes(saved):
    """A file with zeros over one stretch or another is refused, or was hit where it does not matter."""
    whole = saved.read_bytes()
    refused = 0
    for first in range(0, len(whole), max(1, len(whole) // 40)):
        damaged = bytearray(whole)
        damaged[first : first + 16] = bytes(len(damaged[first : first + 16]))
        saved.write_bytes(damaged)
        try:
            SimulationResult.load(saved)
        except ResultFileError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize("content", [b"policy,seed\na,1\n", b"PAR1PAR1", b"\x89PNG\r\n", b"{}"], ids=repr)
def test_a_file_of_another_kind(tmp_path, content):
    path = tmp_path / "foreign.parquet"
    path.write_bytes(content)
    with pytest.raises(ResultFileError, match=r"foreign\.parquet"):
        SimulationResult.load(path)


HEADER = {
    "posse": "posse.simulation/1",
    "version": "0",
    "complete": True,
    "settings": {},
    "descriptions": {},
    "seeds": [1],
}


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"posse": "not json"},
        {"posse": "[]"},
        {"posse": json.dumps(HEADER | {"posse": "posse.simulation/9"})},
        {"other": json.dumps(HEADER)},
    ],
    ids=["none", "no json", "a list", "another format", "another key"],
)
def test_a_parquet_file_of_somebody_else(result, tmp_path, metadata):
    path = tmp_path / "foreign.parquet"
    result.table.write_parquet(path, metadata=metadata)
    with pytest.raises(ResultFileError, match=r"foreign\.parquet"):
        SimulationResult.load(path)


@pytest.mark.parametrize("missing", ["version", "complete", "settings", "descriptions"])
def test_a_header_that_lacks_something(result, tmp_path, missing):
    path = tmp_path / "damaged.parquet"
    header = {key: value for key, value in HEADER.items() if key != missing}
    result.table.write_parquet(path, metadata={"posse": json.dumps(header)})
    with pytest.raises(ResultFileError, match=r"damaged\.parquet"):
        SimulationResult.load(path)


@pytest.mark.parametrize("column", ["policy", "regret", "task_regret"])
def test_a_table_that_lacks_a_column(result, tmp_path, column):
    path = tmp_path / "damaged.parquet"
    result.table.drop(column).write_parquet(path, metadata={"posse": json.dumps(HEADER)})
    with pytest.raises(ResultFileError, match=column):
        SimulationResult.load(path)


def test_a_seed_that_lacks_a_policy_cannot_be_continued(tmp_path):
    path = tmp_path / "run.parquet"
    whole = simulate(WORLD, ["lin-ucb", "random"], horizon=20, seeds=2, out=path)
    torn = SimulationResult(whole.table.head(3), whole.settings, whole.descriptions, whole.version, complete=False)
    torn.save(path)
    before = path.read_bytes()
    with pytest.raises(ResultFileError, match="lacks a policy"):
        simulate(WORLD, ["lin-ucb", "random"], horizon=20, seeds=2, out=path)
    assert path.read_bytes() == before


def test_a_run_of_another_version_is_not_continued(tmp_path):
    path = tmp_path / "run.parquet"
    run = simulate(WORLD, ["random"], horizon=20, seeds=2, out=path)
    SimulationResult(run.table, run.settings, run.descriptions, "0.0.0-other", complete=False).save(path)
    before = path.read_bytes()
    with pytest.raises(SettingsDiffer, match=r"0\.0\.0-other"):
        simulate(WORLD, ["random"], horizon=20, seeds=3, out=path)
    assert path.read_bytes() == before
