"""Result files: a table and a header in one Parquet file, replaced at once or not at all."""

import json
import os

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from posse.errors import ResultFileError, SettingsDiffer
from posse.simulation.files import read_result, require_folder, require_same_run, write_result

TABLE = pl.DataFrame({"seed": [0, 1], "value": [0.1, float("nan")], "curve": [[1.0, 2.0], [3.0]]})
HEADER = {"posse": "toy/1", "version": "9", "settings": {"sizes": [1, 2], "word": "é"}}
ASKED = {"kind": "toy/1", "keys": ("version", "settings"), "columns": ("seed", "value")}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "result.parquet"


def test_what_is_written_is_read(file):
    write_result(file, TABLE, HEADER)
    table, header = read_result(file, **ASKED)

    assert_frame_equal(table, TABLE, check_exact=True)
    assert header == HEADER


def test_paths_may_be_text(file):
    write_result(str(file), TABLE, HEADER)
    assert read_result(str(file), **ASKED)[1] == HEADER


def test_the_same_content_is_the_same_bytes(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        write_result(tmp_path / name, TABLE, HEADER)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_file_is_replaced_and_nothing_else_is_left(file):
    write_result(file, TABLE, HEADER)
    write_result(file, TABLE.head(1), HEADER | {"version": "10"})

    table, header = read_result(file, **ASKED)
    assert (table.height, header["version"]) == (1, "10")
    assert os.listdir(file.parent) == [file.name]


def test_a_failed_write_leaves_the_old_file(file, monkeypatch):
    write_result(file, TABLE, HEADER)
    before = file.read_bytes()

    def full(self, target, **settings):
        target.write_bytes(b"half of it")
        raise OSError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(ResultFileError, match=r"cannot write .*result\.parquet: No space left"):
        write_result(file, TABLE.head(1), HEADER)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_an_interrupted_write_leaves_the_old_file(file, monkeypatch):
    write_result(file, TABLE, HEADER)
    before = file.read_bytes()

    def stopped(self, target, **settings):
        target.write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "write_parquet", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_result(file, TABLE.head(1), HEADER)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    missing = tmp_path / "no" / "result.parquet"
    with pytest.raises(ResultFileError, match=rf"the folder {missing.parent} does not exist; make it first"):
        write_result(missing, TABLE, HEADER)
    with pytest.raises(ResultFileError, match="make it first"):
        require_folder(missing)
    require_folder(tmp_path / "result.parquet")


def test_a_target_that_is_a_folder(tmp_path):
    (tmp_path / "result.parquet").mkdir()
    with pytest.raises(ResultFileError, match="cannot write"):
        write_result(tmp_path / "result.parquet", TABLE, HEADER)
    assert os.listdir(tmp_path) == ["result.parquet"]


# ---- reading


def test_no_file(file):
    with pytest.raises(ResultFileError, match=rf"no result file {file}"):
        read_result(file, **ASKED)
    with pytest.raises(ResultFileError, match="no result file"):
        read_result(file.parent, **ASKED)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"seed,value\n0,1\n", b"PAR1" + b"\xff" * 99 + b"PAR1"], ids=repr)
def test_a_file_that_is_no_table(file, content):
    file.write_bytes(content)
    with pytest.raises(ResultFileError, match=r"cannot read .*result\.parquet as a Parquet file"):
        read_result(file, **ASKED)


def test_a_damaged_middle(file):
    write_result(file, TABLE, HEADER)
    content = bytearray(file.read_bytes())
    content[4:60] = b"\x5a" * 56
    file.write_bytes(bytes(content))
    with pytest.raises(ResultFileError, match=r"result\.parquet"):
        read_result(file, **ASKED)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "expected format 'toy/1', got 'no posse header'"),
        ("[1, 2]", "expected format 'toy/1', got 'no posse header'"),
        ("{}", "expected format 'toy/1', got None"),
        (json.dumps(HEADER | {"posse": "toy/2"}), "expected format 'toy/1', got 'toy/2'"),
        ("not json", "cannot read"),
        (json.dumps({"posse": "toy/1"}), "header lacks settings, version"),
        (json.dumps({"posse": "toy/1", "version": "9"}), "header lacks settings"),
    ],
)
def test_a_header_of_something_else(file, header, words):
    TABLE.write_parquet(file, metadata=None if header is None else {"posse": header})
    with pytest.raises(ResultFileError, match=words):
        read_result(file, **ASKED)


def test_columns_that_are_missing_are_named(file):
    write_result(file, TABLE.select("curve"), HEADER)
    with pytest.raises(ResultFileError, match="columns seed, value are missing"):
        read_result(file, **ASKED)


def test_what_was_not_asked_for_may_be_there(file):
    write_result(file, TABLE, HEADER | {"more": 1})
    assert read_result(file, **ASKED)[1]["more"] == 1


# ---- continuing


def test_the_same_run_may_go_on():
    # Tuples come back from disk as lists.
    assert require_same_run("f", version=("1", "1"), settings=({"a": [1, [2]]}, {"a": (1, (2,))})) is None


def test_another_version_may_not():
    with pytest.raises(SettingsDiffer, match=r"f was written by posse 1, this is 2; choose another file or delete it"):
        require_same_run("f", version=("1", "2"), settings=({}, {}))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"a": 1}, {"a": 2}, r"\(a: 1 there, 2 now\)"),
        ({"a": {"b": {"c": "x"}}}, {"a": {"b": {"c": "y"}}}, r'\(a\.b\.c: "x" there, "y" now\)'),
        ({"a": 1}, {}, r"\(a: 1 there, null now\)"),
        ({}, {"a": 1}, r"\(a: null there, 1 now\)"),
        ({"a": [1, 2]}, {"a": (1, 3)}, r"\(a: \[1, 2\] there, \[1, 3\] now\)"),
        ({"a": list(range(50))}, {"a": 0}, r"a: \[0, 1, 2, .{20,30}\.\.\. there, 0 now"),
    ],
)
def test_differences_are_named(old, new, words):
    with pytest.raises(SettingsDiffer, match=words):
        require_same_run("f", version=("1", "1"), settings=(old, new))


def test_three_differences_are_enough():
    old, new = dict.fromkeys("abcde", 0), dict.fromkeys("abcde", 1)
    with pytest.raises(SettingsDiffer) as caught:
        require_same_run("f", version=("1", "1"), settings=(old, new))
    assert str(caught.value).count("there,") == 3


def test_what_differs_is_called_by_its_name():
    with pytest.raises(SettingsDiffer, match="holds a run with other settings"):
        require_same_run("f", version=("1", "1"), settings=({"a": 1}, {"a": 2}))
    with pytest.raises(SettingsDiffer, match="holds a run of other policies"):
        require_same_run("f", version=("1", "1"), settings=({"a": 1}, {"a": 2}), what="policies")
