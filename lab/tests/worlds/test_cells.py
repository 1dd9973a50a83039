import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue
from posse_lab.worlds.cells import Cells

ROWS = np.random.default_rng(0).normal(size=(640, 3)) * [1.0, 5.0, 2.0]
WHOLE = np.random.default_rng(1).integers(0, 5, size=(500, 2)).astype(float)


def test_cells_cover_everything_and_are_equally_full():
    cells = Cells.of(ROWS, 32)

    assert cells.n_cells == 32
    assert_array_equal(np.bincount(cells.assign(ROWS)), np.full(32, 20))


def test_other_rows_have_cells_too():
    cells = Cells.of(ROWS, 8)
    others = np.random.default_rng(2).normal(size=(1000, 3)) * 100

    labels = cells.assign(others)
    assert labels.min() >= 0
    assert labels.max() < 8
    assert_array_equal(labels[::-1], cells.assign(others[::-1]))


def test_the_same_rows_in_any_order_give_the_same_cells():
    for rows in (ROWS, WHOLE):
        # Sums in another order differ in their last digits, which decides only between columns that are equally wide.
        order = np.random.default_rng(3).permutation(len(rows))
        assert Cells.of(rows, 16) == Cells.of(rows[order], 16)


def test_the_widest_column_is_split_at_its_median():
    cell, column, threshold = Cells.of(ROWS, 2).splits[0]
    assert (cell, column) == (0, 1)
    assert (ROWS[:, 1] <= threshold).sum() == 320


def test_the_fullest_cell_is_split():
    # 70 ones and 30 others: the first split parts them, the next splits the ones by the second column.
    rows = np.column_stack([np.repeat([0.0, 9.0], [70, 30]), np.arange(100) % 2])
    assert Cells.of(rows, 3).splits == ((0, 0, 0.0), (0, 1, 0.0))


def test_equal_rows_are_never_parted():
    cells = Cells.of(WHOLE, 12)
    labels = cells.assign(WHOLE)
    for row in np.unique(WHOLE, axis=0):
        assert len(np.unique(labels[(row == WHOLE).all(axis=1)])) == 1
    assert np.bincount(labels).min() > 0


def test_values_at_the_end_do_not_leave_a_cell_empty():
    # More than half of the values are the largest one, so the median itself would not part them.
    rows = np.array([[1.0], [2.0], [7.0], [7.0], [7.0], [7.0], [7.0]])
    assert Cells.of(rows, 2).splits == ((0, 0, 2.0),)


def test_more_cells_than_different_rows_are_refused():
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 2.0], [3.0, 4.0]])
    assert Cells.of(rows, 3).n_cells == 3
    with pytest.raises(InvalidValue, match="n_cells to be at most 3, the number of different rows, got 4"):
        Cells.of(rows, 4)
    with pytest.raises(InvalidValue, match="n_cells to be at least 1"):
        Cells.of(rows, 0)


def test_rounding_does_not_make_equal_values_differ():
    # The standard deviation of 0.1, 0.1, 0.1 is not exactly 0.
    with pytest.raises(InvalidValue, match="at most 1"):
        Cells.of(np.full((3, 1), 0.1), 2)
