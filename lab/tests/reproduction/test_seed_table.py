"""Measurements by seed: extended, and the same bytes however they came about."""

import math

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from posse._version import __version__
from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, ResultFileError, SettingsDiffer
from posse.simulation import simulate
from posse_lab.reproduction.seed_table import SeedTable, measure_seeds

SETTINGS = {"sizes": (2, 3), "noise": 0.5}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "table.parquet"


@pytest.fixture
def measuring():
    """A measurement of two rows per seed, the seeds it was asked for, and the seed at which it fails."""
    asked, stop = [], [None]

    def measure(seed):
        asked.append(seed)
        if seed == stop[0]:
            raise KeyboardInterrupt
        return [{"name": name, "value": math.sin(seed + 1) * scale} for name, scale in (("b", 1.0), ("a", 2.0))]

    return measure, asked, stop


def test_rows_of_every_seed_in_order(measuring, file):
    measure, asked, _ = measuring
    made = measure_seeds(measure, SETTINGS, file=file, seeds=3)

    assert asked == [0, 1, 2]
    assert made.seeds == [0, 1, 2]
    assert made.version == __version__
    assert made.table.columns == ["seed", "name", "value"]
    assert made.table["seed"].to_list() == [0, 0, 1, 1, 2, 2]
    assert made.table["name"].to_list() == ["b", "a"] * 3
    assert made.table["value"].to_list() == [math.sin(seed + 1) * scale for seed in range(3) for scale in (1.0, 2.0)]


def test_the_file_holds_what_was_measured(measuring, file):
    made = measure_seeds(measuring[0], SETTINGS, file=file, seeds=3)
    kept = SeedTable.load(file)

    assert_frame_equal(kept.table, made.table, check_exact=True)
    assert kept.settings == {"sizes": [2, 3], "noise": 0.5}
    assert kept.version == __version__


def test_a_failure_leaves_what_was_there(measuring, file):
    measure, asked, stop = measuring
    measure_seeds(measure, SETTINGS, file=file, seeds=2)
    before = file.read_bytes()
    stop[0] = 3
    with pytest.raises(KeyboardInterrupt):
        measure_seeds(measure, SETTINGS, file=file, seeds=6)
    assert file.read_bytes() == before

    stop[0] = None
    asked.clear()
    assert measure_seeds(measure, SETTINGS, file=file, seeds=6).seeds == list(range(6))
    assert asked == [2, 3, 4, 5]


def test_a_finished_file_is_read_and_not_touched(measuring, file):
    measure, asked, _ = measuring
    first = measure_seeds(measure, SETTINGS, file=file, seeds=3)
    before, written = file.read_bytes(), file.stat().st_mtime_ns
    asked.clear()
    again = measure_seeds(measure, SETTINGS, file=file, seeds=3)

    assert asked == []
    assert_frame_equal(first.table, again.table, check_exact=True)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, written)


def test_more_seeds_extend_the_file(measuring, file, tmp_path):
    measure, asked, _ = measuring
    measure_seeds(measure, SETTINGS, file=file, seeds=[4, 1])
    asked.clear()
    measure_seeds(measure, SETTINGS, file=file, seeds=5)

    assert asked == [0, 2, 3]
    other = tmp_path / "other.parquet"
    measure_seeds(measure, SETTINGS, file=other, seeds=5)
    assert file.read_bytes() == other.read_bytes()


def test_one_worker_and_two_write_the_same_bytes(tmp_path):
    def measure(seed):
        import time

        time.sleep(0.2 if seed == 0 else 0.0)  # so that it is not the first to finish
        return [{"value": math.sin(seed), "place": place} for place in range(3)]

    for workers in (1, 2):
        measure_seeds(measure, SETTINGS, file=tmp_path / f"{workers}.parquet", seeds=5, workers=workers)
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()


def test_progress_counts_what_is_there_and_then_every_seed(measuring, file):
    told = []
    measure_seeds(measuring[0], SETTINGS, file=file, seeds=2, progress=told.append)
    assert told == [0, 1, 1]
    told.clear()
    measure_seeds(measuring[0], SETTINGS, file=file, seeds=5, progress=told.append)
    assert told == [2, 1, 1, 1]
    assert sum(told) == 5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sizes": (2, 4), "noise": 0.5}, r"sizes: \[2, 3\] there, \[2, 4\] now"),
        ({"sizes": (2, 3), "noise": 0.6}, "noise: 0.5 there, 0.6 now"),
        ({"sizes": (2, 3)}, "noise: 0.5 there, null now"),
        ({"sizes": (2, 3), "noise": 0.5, "more": 1}, "more: null there, 1 now"),
    ],
)
def test_a_file_of_other_settings_is_left_alone(measuring, file, settings, words):
    measure, asked, _ = measuring
    measure_seeds(measure, SETTINGS, file=file, seeds=2)
    before = file.read_bytes()
    asked.clear()
    with pytest.raises(SettingsDiffer, match=words):
        measure_seeds(measure, settings, file=file, seeds=3)
    assert file.read_bytes() == before
    assert asked == []


def test_tuples_and_lists_are_the_same_settings(measuring, file):
    measure_seeds(measuring[0], SETTINGS, file=file, seeds=1)
    measure_seeds(measuring[0], {"sizes": [2, 3], "noise": 0.5}, file=file, seeds=2)

    assert SeedTable.load(file).seeds == [0, 1]


def test_a_file_of_another_version_is_left_alone(measuring, file):
    made = measure_seeds(measuring[0], SETTINGS, file=file, seeds=2)
    SeedTable(made.table, {"sizes": [2, 3], "noise": 0.5}, "0.0.0-other").save(file)
    before = file.read_bytes()
    with pytest.raises(SettingsDiffer, match=r"0\.0\.0-other"):
        measure_seeds(measuring[0], SETTINGS, file=file, seeds=3)
    assert file.read_bytes() == before


def test_a_folder_that_is_not_there(measuring, tmp_path):
    measure, asked, _ = measuring
    with pytest.raises(ResultFileError, match="nowhere"):
        measure_seeds(measure, SETTINGS, file=tmp_path / "nowhere" / "table.parquet", seeds=2)
    assert asked == []


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1], "two"])
def test_bad_seeds(measuring, file, seeds):
    with pytest.raises(InvalidValue, match="seed"):
        measure_seeds(measuring[0], SETTINGS, file=file, seeds=seeds)
    assert not file.exists()


def test_bad_workers_are_named(measuring, file):
    with pytest.raises(InvalidValue, match="workers"):
        measure_seeds(measuring[0], SETTINGS, file=file, seeds=3, workers=0)


# ---- files


@pytest.mark.parametrize("content", [b"", b"PAR1", b"seed,value\n", b"PAR1" + b"\x00" * 400 + b"PAR1"], ids=repr)
def test_a_damaged_file(file, content):
    file.write_bytes(content)
    with pytest.raises(ResultFileError, match=r"table\.parquet"):
        SeedTable.load(file)


def test_a_file_cut_short(measuring, file):
    measure_seeds(measuring[0], SETTINGS, file=file, seeds=4)
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ResultFileError, match=r"table\.parquet"):
        SeedTable.load(file)


def test_no_file(file):
    with pytest.raises(ResultFileError, match="no result file"):
        SeedTable.load(file)


def test_a_file_of_another_kind_says_which(file):
    simulate(SyntheticWorld(n_tasks=2, n_arms=2, n_features=1), ["random"], horizon=5, seeds=1, out=file)
    with pytest.raises(ResultFileError, match=r"'posse\.measurement/1', got 'posse\.simulation/1'"):
        SeedTable.load(file)


def test_a_table_of_somebody_else(file):
    pl.DataFrame({"seed": [1]}).write_parquet(file)
    with pytest.raises(ResultFileError, match="no posse header"):
        SeedTable.load(file)


def test_a_table_without_seeds(file):
    SeedTable(pl.DataFrame({"value": [1.0]}), SETTINGS, __version__).save(file)
    with pytest.raises(ResultFileError, match="columns seed are missing"):
        SeedTable.load(file)


def test_a_damaged_file_is_not_continued(measuring, file):
    file.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(ResultFileError):
        measure_seeds(measuring[0], SETTINGS, file=file, seeds=2)
    assert file.read_bytes() == b"PAR1 and nothing more"
