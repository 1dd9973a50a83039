import pickle

import numpy as np
import pytest

from posse.errors import DataFileError, InvalidValue
from posse.logs.npz import read_npz, write_npz

ARRAYS = {
    "n_rounds": 3,
    "context": np.array([[0.5], [1.0], [2.0]]),
    "task": np.array(["a", "é", "😀"]),
    "action": np.array([2, 0, 1]),
    "position": None,
}


def test_arrays_come_back_and_numpy_reads_them(tmp_path):
    path = tmp_path / "feedback.npz"
    write_npz(ARRAYS, path)

    back = read_npz(path)

    assert "position" not in back
    assert int(back["n_rounds"]) == 3
    assert back["task"].tolist() == ["a", "é", "😀"]
    with np.load(path, allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["context"], ARRAYS["context"])


def test_nothing_is_pickled(tmp_path):
    with pytest.raises(InvalidValue, match=r"task cannot be written to \.npz: it must be numbers or text"):
        write_npz({"task": np.array(["a", 1], dtype=object)}, tmp_path / "feedback.npz")
    with pytest.raises(InvalidValue, match="a text ends in a null character"):
        write_npz({"task": ["a\0"]}, tmp_path / "feedback.npz")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "bad.npz", task=np.array([{"a": 1}], dtype=object))
    (tmp_path / "pickled.npz").write_bytes(pickle.dumps(ARRAYS))
    for name in ("bad.npz", "pickled.npz"):
        with pytest.raises(DataFileError, match=r"cannot read .*npz as \.npz"):
            read_npz(tmp_path / name)


def test_flipped_bits_are_one_clear_error_or_nothing(tmp_path):
    path = tmp_path / "feedback.npz"
    write_npz(ARRAYS, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            back = read_npz(path)
        except DataFileError:
            continue
        # What the zip's checksums do not cover, such as dates; a key may have another name.
        if "context" in back:
            np.testing.assert_array_equal(back["context"], ARRAYS["context"])


def test_damaged_files_are_one_clear_error(tmp_path):
    path = tmp_path / "feedback.npz"
    write_npz(ARRAYS, path)
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataFileError, match="cannot read"):
            read_npz(path)
    np.save(tmp_path / "one.npy", np.arange(3))
    with pytest.raises(DataFileError, match=r"cannot read .*one\.npy as \.npz: File is not a zip file"):
        read_npz(tmp_path / "one.npy")
