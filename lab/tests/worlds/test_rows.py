import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue
from posse_lab.worlds.rows import not_among, require_every_class, size_of_share, split_at_random
from posse_lab.worlds.tables import rows_to_meet


def test_rows_come_once_in_an_order_of_the_seed():
    order = rows_to_meet("toy", 50, 4, 50)
    assert_array_equal(np.sort(order), np.arange(50))
    assert_array_equal(rows_to_meet("toy", 50, 4, 20), order[:20])
    assert (rows_to_meet("toy", 50, 5, 50) != order).any()


@pytest.mark.parametrize(("n_rows", "share", "size"), [(20_000, 0.3, 6000), (100, 0.29, 29), (7, 0.3, 2)])
def test_a_share_is_rounded_down(n_rows, share, size):
    assert size_of_share(n_rows, share, "share") == size


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5, -0.1])
def test_a_share_leaves_something_on_both_sides(share):
    with pytest.raises(InvalidValue, match="training_share to be"):
        size_of_share(100, share, "training_share")
    with pytest.raises(InvalidValue, match=r"training_share=0.3 of 3 rows leaves no rows on one side"):
        size_of_share(3, 0.3, "training_share")


def test_a_random_split_is_fixed_by_its_seed():
    one, others = split_at_random(100, 0.3, "share", 7)
    assert one.size == 30
    assert_array_equal(np.sort(np.concatenate([one, others])), np.arange(100))
    assert_array_equal(split_at_random(100, 0.3, "share", 7)[0], one)
    assert (split_at_random(100, 0.3, "share", 8)[0] != one).any()
    assert one.max() > 60  # not the first ones
    with pytest.raises(InvalidValue, match="split_seed to be at least 0"):
        split_at_random(100, 0.3, "share", -1)


def test_rows_that_occur_elsewhere_are_found():
    rows = np.random.default_rng(0).normal(size=(30, 4))
    others = np.vstack([rows[5:9], rows[:3] + 1e-12])
    assert_array_equal(np.flatnonzero(~not_among(rows, others)), [5, 6, 7, 8])


def test_a_missing_class_is_named():
    require_every_class(np.array([0, 1, 2]), ("A", "B", "C"), "them")
    with pytest.raises(InvalidValue, match="class 'B' has no row among the first 9 rows"):
        require_every_class(np.array([0, 2]), ("A", "B", "C"), "the first 9 rows")
