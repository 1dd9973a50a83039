"""The matrix of encoded contexts, put together in blocks."""

import numpy as np
import pytest

from posse.features.parts import ROWS_AT_ONCE, Dense, Marks, assemble


@pytest.mark.parametrize("n_rows", [0, 1, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 3])
@pytest.mark.parametrize("lowest", [-1, 0])
def test_blocks_leave_no_seam(n_rows, lowest):
    rng = np.random.default_rng(5)
    x, flag = rng.normal(size=n_rows), rng.normal(size=n_rows)
    places = rng.integers(lowest, 3, size=n_rows)
    expected = np.zeros((n_rows, 6))
    expected[:, 0] = 1.0
    expected[:, 1], expected[:, 2] = x, flag
    for row, place in enumerate(places):
        if place >= 0:
            expected[row, 3 + place] = 1.0

    result = assemble([(1, Dense((x, flag))), (3, Marks(places))], n_rows, 6, intercept=True)

    np.testing.assert_array_equal(result, expected)


def test_without_an_intercept():
    x = np.array([2.0, 3.0])
    np.testing.assert_array_equal(assemble([(0, Dense((x,)))], 2, 1, intercept=False), [[2.0], [3.0]])
