"""Files of any size, in batches: the same sums as all rows at once, and an interrupted fit that goes on."""

import signal

import numpy as np
import polars as pl
import pytest

from posse import FeatureSpec, Posse, batches
from posse.errors import DamagedFile, InvalidValue, MissingData
from posse.features import numeric
from posse.fleet import streaming


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(batches, "ROWS", 64)


@pytest.fixture
def folder(tmp_path, table):
    rows = table(500, n_tasks=20)
    (tmp_path / "rows" / "more").mkdir(parents=True)
    cuts = [0, 10, 20, 300, 310, 500]  # small files, and some larger than a batch
    names = ["a.parquet", "b.parquet", "c.parquet", "d.parquet", "more/e.parquet"]
    for name, first, last in zip(names, cuts, cuts[1:], strict=False):
        rows[first:last].write_parquet(tmp_path / "rows" / name)
    rows.write_parquet(tmp_path / "all.parquet")
    return tmp_path / "rows", rows


def new_fleet(**settings):
    return Posse(arms=["red", "green", "blue"], features=["a", "b"], seed=7, **settings)


def test_a_folder_in_batches_gives_the_same_fleet_to_the_last_bit(folder, small_batches, snapshot, differences):
    path, rows = folder
    once, streamed = new_fleet(), new_fleet()
    assert once.learn_many(rows) == streamed.learn_many(path) == 500
    assert differences(snapshot(once), snapshot(streamed)) == []


@pytest.mark.parametrize("form", ["pattern", "large file", "iterator", "csv"])
def test_every_form_of_many_rows_gives_the_same_sums(folder, form, small_batches, tmp_path):
    path, rows = folder
    source = {
        "pattern": str(path / "**" / "*.parquet"),
        "large file": tmp_path / "all.parquet",
        "iterator": iter([rows[:100], rows[100:].to_arrow()]),
        "csv": tmp_path / "csv",
    }[form]
    if form == "csv":
        source.mkdir()
        rows.write_csv(source / "rows.csv")
    once, streamed = new_fleet(), new_fleet()
    once.learn_many(rows)
    assert streamed.learn_many(source) == 500
    for mine, other in zip(streamed.statistics.sums, once.statistics.sums, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_progress_counts_rows_and_knows_the_end(folder, small_batches):
    seen = []
    new_fleet().learn_many(folder[0], progress=seen.append)
    assert [one.total for one in seen] == [500] * len(seen)
    assert seen[-1].rows == 500
    assert seen[-1].left == 0.0
    assert len(seen) > 5


class Stopped(Exception):
    pass


def test_an_interrupted_fit_continues_to_the_same_fleet(
    folder, small_batches, tmp_path, monkeypatch, snapshot, differences
):
    path, rows = folder
    monkeypatch.setattr(streaming, "SECONDS", -1.0)
    monkeypatch.setattr(streaming, "SHARE", 0)
    checkpoint = tmp_path / "fit.checkpoint"

    def stop(now):
        if now.rows > 200:
            raise Stopped

    with pytest.raises(Stopped):
        new_fleet().learn_many(path, checkpoint=checkpoint, progress=stop)
    assert checkpoint.exists()
    with pytest.raises(DamagedFile, match="fit"):
        Posse.load(checkpoint)  # its population knows nothing of its sums
    seen, again = [], new_fleet()
    assert again.learn_many(path, checkpoint=checkpoint, progress=seen.append) == 500
    assert seen[0].rows > 64, "the rows before the checkpoint are not read again"
    once = new_fleet()
    once.learn_many(rows)
    assert differences(snapshot(once), snapshot(again)) == []


def test_a_batch_that_was_learned_when_somebody_interrupts_is_not_learned_again(
    folder, small_batches, tmp_path, monkeypatch, snapshot, differences
):
    path, rows = folder
    checkpoint, learn, calls = tmp_path / "fit.checkpoint", Posse.learn_many, []

    def interrupted(self, table, **settings):
        found = learn(self, table, **settings)
        calls.append(table)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)  # as one that came in compiled code, when all was done
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Posse, "learn_many", interrupted)
        with pytest.raises(KeyboardInterrupt) as stopped:
            new_fleet().learn_many(path, checkpoint=checkpoint)
    again, once = new_fleet(), new_fleet()
    assert again.learn_many(path, checkpoint=checkpoint) == 500
    assert again.n_rewards == 500
    assert f"rows are in {checkpoint}" in stopped.value.__notes__[0]
    once.learn_many(rows)
    assert differences(snapshot(once), snapshot(again)) == []


@pytest.mark.parametrize("drift", [30.0, "learn"])
def test_an_interrupted_fit_of_a_world_that_changes_continues(folder, small_batches, tmp_path, monkeypatch, drift):
    path, rows = folder
    monkeypatch.setattr(streaming, "SECONDS", -1.0)
    monkeypatch.setattr(streaming, "SHARE", 0)
    checkpoint, clock = tmp_path / "fit.checkpoint", lambda: 1.8e9

    def stop(now):
        if now.rows > 200:
            raise Stopped

    with pytest.raises(Stopped):
        new_fleet(drift=drift, clock=clock).learn_many(path, checkpoint=checkpoint, progress=stop)
    with pytest.raises(InvalidValue, match="drift of this fleet"):
        new_fleet().learn_many(path, checkpoint=checkpoint)
    again, once = new_fleet(drift=drift, clock=clock), new_fleet(drift=drift, clock=clock)
    assert again.learn_many(path, checkpoint=checkpoint) == once.learn_many(rows) == 500
    for mine, other in zip(again.statistics.sums, once.statistics.sums, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    assert again.fades


def test_a_checkpoint_of_something_else_is_refused(folder, small_batches, tmp_path, monkeypatch):
    path, rows = folder
    monkeypatch.setattr(streaming, "SECONDS", -1.0)
    monkeypatch.setattr(streaming, "SHARE", 0)
    checkpoint = tmp_path / "fit.checkpoint"
    new_fleet().learn_many(path, checkpoint=checkpoint)
    with pytest.raises(InvalidValue, match="another fit"):
        new_fleet().learn_many(tmp_path / "all.parquet", checkpoint=checkpoint)
    with pytest.raises(InvalidValue, match="arms, features, policy"):
        new_fleet(policy="ebm-ts").learn_many(path, checkpoint=checkpoint)
    fleet = new_fleet()
    fleet.learn_many(rows[:5])
    with pytest.raises(InvalidValue, match="learned already"):
        fleet.learn_many(path, checkpoint=checkpoint)
    assert fleet.n_rewards == 5


def test_scaling_is_that_of_all_rows(folder, small_batches):
    path, rows = folder
    spec = FeatureSpec([numeric("a", scale="standard"), "b"])
    fleet = Posse(arms=["red", "green", "blue"], features=spec, seed=7)
    fleet.learn_many(path)
    scaled = fleet.features.features[0]
    assert scaled.center == pytest.approx(rows["a"].mean(), abs=1e-8)
    assert scaled.spread == pytest.approx(rows["a"].std(ddof=0), rel=1e-8)


def test_an_error_in_a_later_batch_says_what_was_learned(folder, small_batches, tmp_path):
    path, rows = folder
    bad = rows[:5].with_columns(arm=pl.lit("violet"))
    bad.write_parquet(path / "z.parquet")
    fleet = new_fleet()
    with pytest.raises(KeyError) as caught:
        fleet.learn_many(path)
    assert "the first 500 rows were learned" in caught.value.__notes__[0]
    assert fleet.n_rewards == 500


def test_nothing_there(tmp_path):
    with pytest.raises(MissingData, match="folder or a glob pattern"):
        new_fleet().learn_many(tmp_path)
    with pytest.raises(MissingData):
        new_fleet().learn_many(str(tmp_path / "*.parquet"))
