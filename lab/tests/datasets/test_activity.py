import hashlib
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import DamagedData, DataFileError, InvalidValue, MissingData
from posse_lab.datasets import load_activity
from posse_lab.datasets.activity import ROOMS


def room(folder, number=1):
    return folder / "activity" / f"S{number}_Dataset"


@pytest.fixture
def published(monkeypatch, activity_folder):
    """The generated trials of room 1, as if they were the published ones."""
    content = b"".join((room(activity_folder) / name).read_bytes() for name in ("d1p01M", "d1p02F", "d1p03F"))
    known = replace(ROOMS[1], sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(ROOMS, 1, known)
    return activity_folder


def test_rows_come_as_they_stand_and_files_by_name(activity_folder, activity_trials):
    data = load_activity(activity_folder, verify=False)

    tables = [activity_trials[name] for name in ("d1p01M", "d1p02F", "d1p03F")]
    assert data.trial_names == ("d1p01M", "d1p02F", "d1p03F")
    assert_array_equal(data.X, np.concatenate(tables)[:, :8])
    assert_array_equal(data.labels, np.concatenate(tables)[:, 8] - 1)
    assert_array_equal(data.trials, [0] * 7 + [1] * 4 + [2] * 9)
    assert (data.labels.dtype, data.trials.dtype) == (np.int64, np.int64)
    assert data.X.flags.c_contiguous
    assert (data.room, data.file) == (1, room(activity_folder))
    assert data.names == ("time", "frontal", "vertical", "lateral", "antenna", "rssi", "phase", "frequency")
    assert data.classes == ("sit on bed", "sit on chair", "lying", "ambulating")


def test_the_other_room_is_read_alone(activity_folder, activity_trials):
    data = load_activity(activity_folder, 2, verify=False)

    assert (data.room, data.trial_names) == (2, ("d2p01F", "d2p02M"))
    assert_array_equal(data.X[:5], activity_trials["d2p01F"][:, :8])


def test_other_line_ends_are_read_too(activity_folder, activity_trials):
    file = room(activity_folder) / "d1p01M"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    assert_array_equal(load_activity(activity_folder, verify=False).X[:7], activity_trials["d1p01M"][:, :8])


def test_the_checksum_is_of_all_trials_end_to_end(published):
    data = load_activity(published)

    assert data.sha256 == ROOMS[1].sha256


def test_trials_that_were_not_published_are_refused(published):
    file = room(published) / "d1p02F"
    file.write_text(file.read_text().replace(",", ",0", 1))

    with pytest.raises(DamagedData, match=r"S1_Dataset is not the published file: expected SHA-256 .*verify=False"):
        load_activity(published)


def test_a_missing_trial_is_refused(published):
    (room(published) / "d1p02F").unlink()

    words = r"is not the published file: .*uci\.edu/dataset/427.*posse lab data fetch activity"
    with pytest.raises(DamagedData, match=words):
        load_activity(published)
    assert load_activity(published, verify=False).trial_names == ("d1p01M", "d1p03F")
    assert ROOMS[1].check(published).state == "damaged"


def test_a_trial_too_many_is_refused(published):
    (room(published) / "d1p99M").write_bytes((room(published) / "d1p01M").read_bytes())

    with pytest.raises(DamagedData, match="is not the published file"):
        load_activity(published)


@pytest.mark.parametrize("what", ["nothing", "folder", "readme"])
def test_a_folder_without_trials_says_where_to_get_them(tmp_path, what):
    if what != "nothing":
        room(tmp_path, 2).mkdir(parents=True)
    if what == "readme":
        (room(tmp_path, 2) / "README.txt").write_text("")

    words = r"no trial files in .*S2_Dataset; get .*uci\.edu/dataset/427.*posse lab data fetch activity --data .*"
    with pytest.raises(MissingData, match=words):
        load_activity(tmp_path, 2)
    assert ROOMS[2].check(tmp_path).state == "missing"


def test_without_a_folder_the_error_says_what_to_set(monkeypatch):
    monkeypatch.delenv("POSSE_DATA", raising=False)

    with pytest.raises(
        MissingData, match=r"POSSE_DATA=DIR; or fetch it with: posse lab data fetch activity --data DIR"
    ):
        load_activity()


GOOD = "0.5,0.27203,1.0082,-0.082102,1,-63.5,2.4252,924.25,1"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (GOOD.rpartition(",")[0], "8 numbers"),
        (GOOD + ",1", "8 numbers"),
        (GOOD.replace("0.27203", "x"), "8 numbers"),
        (GOOD.replace("0.27203", ""), "8 numbers"),
        (GOOD.replace("0.27203", "nan"), "8 numbers"),
        (GOOD.replace("0.27203", "1_0"), "8 numbers"),
        (GOOD.replace("0.27203", "1e999"), "finite numbers"),
        (GOOD.replace(",1,-63.5", ",5,-63.5"), "antenna 1 to 4"),
        (GOOD.replace(",1,-63.5", ",0,-63.5"), "antenna 1 to 4"),
        (GOOD.replace(",1,-63.5", ",1.5,-63.5"), "antenna 1 to 4"),
        (GOOD[:-1] + "5", "activity 1 to 4"),
        (GOOD[:-1] + "0", "activity 1 to 4"),
        ("-" + GOOD, "a time of at least"),
        ("", "8 numbers"),
        ("\xff", "8 numbers"),
    ],
)
def test_the_first_bad_row_is_named(activity_folder, bad, words):
    file = room(activity_folder) / "d1p03F"
    lines = file.read_text().splitlines()
    lines[4] = lines[6] = bad
    file.write_text("\n".join(lines))

    with pytest.raises(DamagedData, match=rf"d1p03F, row 5: expected .*{words}.*; get it again from https"):
        load_activity(activity_folder, verify=False)


def test_time_must_not_run_backwards_within_a_trial(activity_folder):
    file = room(activity_folder) / "d1p01M"
    later = GOOD.replace("0.5,", "8.5,", 1)
    file.write_text("\n".join([GOOD, later, later, GOOD]))

    with pytest.raises(DamagedData, match=r"d1p01M, row 4: expected a time of at least 8\.5, but 0\.5 came"):
        load_activity(activity_folder, verify=False)


def test_an_empty_trial_is_refused(activity_folder):
    (room(activity_folder) / "d1p02F").write_text("")

    with pytest.raises(DamagedData, match=r"d1p02F is empty: .*posse lab data fetch activity"):
        load_activity(activity_folder, verify=False)


def test_a_trial_that_cannot_be_read_is_our_error(activity_folder):
    (room(activity_folder) / "d1p02F").unlink()
    (room(activity_folder) / "d1p02F").mkdir()

    with pytest.raises(DataFileError, match=r"cannot read .*d1p02F"):
        load_activity(activity_folder, verify=False)


@pytest.mark.parametrize("number", [0, 3, "1", True, None])
def test_an_unknown_room_is_refused(activity_folder, number):
    with pytest.raises(InvalidValue, match="room must be 1 or 2"):
        load_activity(activity_folder, number)


def test_the_real_files(real_folder):
    rooms = [load_activity(real_folder, number) for number in (1, 2)]

    # As shared/data/README.md counts them.
    assert [len(data.X) for data in rooms] == [52482, 22646]
    assert [len(data.trial_names) for data in rooms] == [60, 27]
    counts = sum(np.bincount(data.labels, minlength=4) for data in rooms)
    assert counts.tolist() == [16406, 4911, 51520, 2291]
    assert rooms[0].trial_names[0] == "d1p01M"
    assert rooms[0].trial_names[-1] == "d1p60F"
    assert [np.unique(data.X[:, 4]).tolist() for data in rooms] == [[1, 2, 3, 4], [1, 2, 3]]
    assert max(data.X[:, 0].max() for data in rooms) == 1739.4
    # Its checksum of all 87 files, which are those of both rooms end to end.
    both = b"".join(ROOMS[number].content(data.file) for number, data in zip((1, 2), rooms, strict=True))
    assert hashlib.sha256(both).hexdigest() == "ef48556ad239d2aa1efb9730f4e2f0ad275c66de3d6a5d1e037708b115d83dfe"
