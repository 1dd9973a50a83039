import numpy as np
import pytest

from posse.kernels.packing import pack, unpack


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_upper_triangles_row_after_row(d):
    rng = np.random.default_rng(d)
    matrices = rng.normal(size=(5, d, d))
    rows = np.array([4, 0, 0, 2])
    out = np.full((4, d * (d + 1) // 2), np.nan)

    pack(matrices, rows, out)

    upper = np.triu_indices(d)
    assert (out == matrices[rows][:, *upper]).all()


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_what_was_packed_comes_back_to_the_last_bit(d):
    rng = np.random.default_rng(d)
    half = rng.normal(size=(6, d, d))
    matrices = half + half.transpose(0, 2, 1)
    rows = np.array([5, 1, 3])
    packed, back = np.empty((3, d * (d + 1) // 2)), np.full((3, d, d), np.nan)

    pack(matrices, rows, packed)
    unpack(packed, back)

    assert back.tobytes() == matrices[rows].tobytes()


def test_rows_beyond_the_packed_ones_are_left_alone():
    out = np.full((3, 2, 2), 7.0)

    unpack(np.array([[1.0, 2.0, 3.0]]), out)

    assert out[0].tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert (out[1:] == 7.0).all()


def test_nothing_to_pack():
    out = np.empty((0, 3))

    pack(np.ones((2, 2, 2)), np.empty(0, dtype=np.int64), out)
    unpack(out, np.empty((0, 2, 2)))
