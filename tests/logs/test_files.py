import gzip
import json
import os
import stat

import polars as pl
import pytest

from posse.errors import DataFileError, InvalidValue, MissingData
from posse.logs import Log, files, read_log, write_log
from posse.logs.files import recognise, replacing

LOG = Log(
    {
        "decision_id": ["d", "e"],
        "task": ["a", "b"],
        "arm": ["x", "y"],
        "eligible": [["x", "y"]] * 2,
        "propensity": [0.5, 0.25],
        "reward": [1.0, 0.0],
        "context": [{"n": 1.5}, {"n": 2.0}],
    }
)


@pytest.mark.parametrize(
    "name", ["log.jsonl", "log.ndjson", "LOG.JSONL.GZ", "log.v2.ndjson.gz", "log.parquet", "log.pq"]
)
def test_the_name_says_the_format(tmp_path, name):
    write_log(LOG, tmp_path / name)

    assert read_log(tmp_path / name) == LOG
    start = (tmp_path / name).read_bytes()[:4]
    assert start[:2] == b"\x1f\x8b" if name.lower().endswith(".gz") else start == (b"PAR1" if ".p" in name else b'{"de')


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_content_says_it_where_the_name_does_not(tmp_path, kind):
    write_log(LOG, tmp_path / "log", kind)

    assert recognise(tmp_path / "log") == kind
    assert read_log(tmp_path / "log") == LOG


def test_gzip_is_seen_whatever_the_name(tmp_path):
    write_log(LOG, tmp_path / "log.jsonl")
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))

    assert read_log(tmp_path / "packed.jsonl") == LOG


@pytest.mark.parametrize("name", ["log.jsonl", "log.dsjson", "log"])
def test_dsjson_is_recognised_and_asks_for_the_task(tmp_path, name):
    line = {"EventId": "1", "a": [1, 2], "p": [0.5, 0.5], "c": {"Shared": {"store": "s"}, "_multi": [{}, {}]}}
    (tmp_path / name).write_text(json.dumps(line | {"_label_cost": -1, "_labelIndex": 0}))

    with pytest.raises(InvalidValue, match=r"is dsjson, which has no tasks: say where .* task='Shared.store'"):
        read_log(tmp_path / name)
    assert read_log(tmp_path / name, task="Shared.store").frame.select("task", "arm", "reward").row(0) == ("s", "1", 1)


def test_no_features_and_no_rows_in_parquet(tmp_path):
    for log in (Log({"task": [1], "arm": [2], "reward": [None]}), Log(LOG.frame[:0])):
        write_log(log, tmp_path / "log.parquet")
        assert read_log(tmp_path / "log.parquet") == log


def test_an_empty_text_is_an_empty_log(tmp_path):
    write_log(Log(LOG.frame[:0]), tmp_path / "log.jsonl")

    assert read_log(tmp_path / "log.jsonl").n_rows == 0


def test_the_same_log_is_the_same_bytes(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_log(LOG, tmp_path / name)

    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_a_parquet_file_of_something_else_is_one_clear_error(tmp_path):
    path = tmp_path / "log.parquet"
    pl.DataFrame({"x": [1]}).write_parquet(path)
    with pytest.raises(DataFileError, match=r"log\.parquet: a log needs the columns task, arm, reward"):
        read_log(path)
    pl.DataFrame({"task": ["a", "b"], "arm": ["x", "y"], "reward": ["1", "2"]}).write_parquet(path)
    with pytest.raises(DataFileError, match=r"log\.parquet, row 0: reward must be a number, but '1' came"):
        read_log(path)


def test_damaged_parquet_is_one_clear_error(tmp_path):
    path = tmp_path / "log.parquet"
    write_log(LOG, path)
    whole = path.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataFileError, match="cannot read"):
            read_log(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.csv", b"task,arm\n", r"cannot tell the format of .*log\.csv; name it \.jsonl"),
        ("log", b"", "cannot tell the format"),
        ("log.gz", b"\x1f\x8bbroken", "cannot read"),
        ("log.jsonl", b"[1, 2]", "line 1: an object was expected"),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DataFileError, match=words):
        read_log(tmp_path / name)


def test_what_was_asked_for_wrongly(tmp_path):
    with pytest.raises(MissingData, match=r"no log .*absent\.jsonl; give the path of a file"):
        read_log(tmp_path / "absent.jsonl")
    with pytest.raises(MissingData, match="no log"):
        read_log(tmp_path)
    with pytest.raises(InvalidValue, match="cannot tell the format of"):
        write_log(LOG, tmp_path / "log.csv")
    with pytest.raises(InvalidValue, match="format to be one of 'jsonl', 'parquet', got 'csv'"):
        write_log(LOG, tmp_path / "log.csv", "csv")
    with pytest.raises(DataFileError, match=r"there is no folder .*; make it first"):
        write_log(LOG, tmp_path / "no" / "log.jsonl")
    with pytest.raises(DataFileError, match="it is a folder; name a file"):
        write_log(LOG, tmp_path, "jsonl")
    write_log(LOG, tmp_path / "log.jsonl")
    for where in ({"task": "Shared.store"}, {"arms": "id"}):
        with pytest.raises(InvalidValue, match="task and arms say where dsjson has them"):
            read_log(tmp_path / "log.jsonl", **where)


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    write_log(LOG, path)
    before = path.read_bytes()
    os.link(path, tmp_path / "reader")  # whoever has the old file open keeps it
    write_log(Log(LOG.frame[:1]), path)
    assert read_log(path).n_rows == 1
    assert (tmp_path / "reader").read_bytes() == before
    (tmp_path / "reader").replace(path)

    def fail(log, stream):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_jsonl", fail)
    with pytest.raises(DataFileError, match=r"cannot write .*log\.jsonl: No space left on device"):
        write_log(Log(LOG.frame[:1]), path)

    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["log.jsonl"]


def test_nothing_is_left_behind_when_anything_goes_wrong(tmp_path):
    def stop():
        with replacing(tmp_path / "x") as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert os.listdir(tmp_path) == []


def test_other_programs_can_read_the_lines(tmp_path):
    write_log(LOG, tmp_path / "log.jsonl")

    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [record["context"] for record in records] == [{"n": 1.5}, {"n": 2.0}]


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.parquet"])
def test_a_log_that_is_written_is_for_its_owner_alone(tmp_path, name):
    path, before = tmp_path / name, os.umask(0o000)
    try:
        write_log(LOG, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o640)
        write_log(LOG, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("family", ["number", "binary", "count"])
@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.parquet"])
def test_a_file_says_what_rewards_are(tmp_path, name, family):
    write_log(Log(LOG.frame, rewards=family), tmp_path / name)

    assert read_log(tmp_path / name).rewards == family
    if name == "log.jsonl":
        # Readers from before there were families read numbers, and name the key as one that they do not know.
        (first, _) = map(json.loads, (tmp_path / name).read_text().splitlines())
        assert (first["reward"], first.get("reward_family", "number")) == (1.0, family)
        assert ("reward_family" in first) == (family != "number")
