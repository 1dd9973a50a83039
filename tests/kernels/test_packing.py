import numpy as np
import pytest

from posse.kernels.packing import diagonal_places, side, whole_matrices, whole_matrix

SIZES = [1, 2, 3, 7, 20]


def symmetric(d, n=5):
    half = np.random.default_rng(d).normal(size=(n, d, d))
    return half + half.transpose(0, 2, 1)


@pytest.mark.parametrize("d", SIZES)
def test_a_triangle_says_how_many_rows_its_matrix_has(d):
    assert side(d * (d + 1) // 2) == d
    assert side(0) == 0


@pytest.mark.parametrize("d", SIZES)
def test_upper_triangles_become_whole_to_the_last_bit(d):
    matrices = symmetric(d)
    triangles = matrices[:, *np.triu_indices(d)]

    whole = whole_matrices(triangles)

    assert whole.tobytes() == matrices.tobytes()
    assert whole_matrix(triangles[3]).tobytes() == matrices[3].tobytes()


def test_a_whole_matrix_stays_as_it_is():
    matrix = symmetric(3)[0]

    assert whole_matrix(matrix) is matrix


def test_no_triangles_are_no_matrices():
    assert whole_matrices(np.empty((0, 6))).shape == (0, 3, 3)


@pytest.mark.parametrize("d", SIZES)
def test_the_diagonal_is_found_in_a_triangle(d):
    matrix = symmetric(d)[0]

    assert matrix[np.triu_indices(d)][diagonal_places(d)].tolist() == np.diagonal(matrix).tolist()
