import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from posse_lab.plotting.labels import spread_within


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12))
def test_labels_stay_inside_apart_and_in_order(heights):
    placed = spread_within(heights, gap=5.0, low=0.0, high=100.0)

    order = np.argsort(heights, kind="stable")
    assert np.diff(np.array(placed)[order]).min(initial=np.inf) >= 5.0 - 1e-9
    assert min(placed) >= -1e-9
    assert max(placed) <= 100 + 1e-9


def test_labels_with_room_do_not_move():
    assert spread_within([10.0, 50.0, 30.0], gap=5.0, low=0.0, high=100.0) == [10.0, 50.0, 30.0]


def test_labels_without_room_keep_their_distance():
    placed = spread_within([1.0] * 5, gap=5.0, low=0.0, high=10.0)

    assert placed == [0.0, 5.0, 10.0, 15.0, 20.0]
