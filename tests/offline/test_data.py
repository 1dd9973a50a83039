import numpy as np
import pytest
from numpy.testing import assert_array_equal

from posse.errors import InvalidValue, NotFinite, ShapeError, UnknownArm
from posse.offline import LoggedBandit

PLAIN = {
    "tasks": [0, 1, 0],
    "arms": [0, 1, 1],
    "contexts": [[1.0], [2.0], [3.0]],
    "rewards": [1.0, 0.0, 2.0],
    "propensities": [0.5, 0.25, 1.0],
}
LOGGED = [[0.5, 0.5], [0.75, 0.25], [0.0, 1.0]]


def test_what_is_left_out_is_filled_in():
    data = LoggedBandit(**PLAIN)

    assert data.task_labels == (0, 1)
    assert data.arm_labels == (0, 1)
    assert data.eligible.all()
    assert data.supported.all()
    assert data.eligible.shape == (3, 2)


def test_arms_without_rows_are_there_if_the_log_says_so():
    assert LoggedBandit(**PLAIN, eligible=np.ones((3, 4), bool)).n_arms == 4
    assert LoggedBandit(**PLAIN, arm_labels="abc").arm_labels == ("a", "b", "c")


def test_an_arm_of_probability_zero_is_not_supported():
    data = LoggedBandit(**PLAIN, probabilities=LOGGED)

    assert_array_equal(data.supported, [[True, True], [True, True], [False, True]])


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"propensities": [0.5, 0.0, 1.0]}, InvalidValue, "above 0 and at most 1, but 0 came in row 1"),
        ({"propensities": [0.5, 0.5, 1.5]}, InvalidValue, "1.5 came in row 2"),
        ({"propensities": [0.5, np.nan, 1.0]}, NotFinite, "propensities to be finite"),
        ({"rewards": [1.0, np.inf, 1.0]}, NotFinite, "rewards to be finite"),
        ({"rewards": [1.0, 2.0]}, ShapeError, r"rewards must have shape \(3,\)"),
        ({"contexts": [[1.0]]}, ShapeError, r"contexts must have shape \(3, n_features\)"),
        ({"arms": [0, 1, 2], "arm_labels": (0, 1)}, UnknownArm, "arm 2 at row 2 is unknown"),
        ({"eligible": [[True, True], [True, False], [True, True]]}, InvalidValue, "row 1 took arm 1, which was not"),
        ({"probabilities": [[0.5, 0.6], [0.75, 0.25], [0, 1]]}, InvalidValue, "row 0 add up to 1.1"),
        ({"probabilities": [[1.5, -0.5], [0.75, 0.25], [0, 1]]}, InvalidValue, "must not be negative"),
        ({"probabilities": [[0.5, 0.5], [0.6, 0.4], [0, 1]]}, InvalidValue, "row 1 has propensity 0.25, but .* 0.4"),
        (
            {"probabilities": LOGGED, "eligible": [[True, False], [True, True], [True, True]]},
            InvalidValue,
            "0 for arms that are not eligible",
        ),
        ({"groups": {"side": ["a", "b"]}}, ShapeError, "group 'side'"),
        ({"tasks": [], "arms": []}, InvalidValue, "tasks is empty"),
        ({"tasks": [0.5, 1.0, 1.0]}, InvalidValue, "whole numbers"),
    ],
)
def test_rows_that_contradict_themselves_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        LoggedBandit(**{**PLAIN, **changes})


def test_tasks_are_numbered_as_they_appear():
    data = LoggedBandit(**{**PLAIN, "tasks": [4, 1, 4]}, task_labels="abcdefg").in_order_of_appearance()

    assert_array_equal(data.tasks, [0, 1, 0])
    assert data.task_labels == ("e", "b")
