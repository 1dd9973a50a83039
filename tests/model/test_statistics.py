import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue, NotFinite, PosseError, ShapeError, UnknownArm, UnknownTask
from posse.model import Statistics

FIELDS = ("gram", "moment", "sum_of_squares", "count")
generated = settings(max_examples=40, derandomize=True, deadline=None)


@st.composite
def logs(draw):
    n_tasks, n_arms, d = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    n = draw(st.integers(0, 15))
    numbers = st.floats(-10, 10, width=32)
    return {
        "task": draw(arrays(np.int64, n, elements=st.integers(0, n_tasks - 1))),
        "arm": draw(arrays(np.int64, n, elements=st.integers(0, n_arms - 1))),
        "context": draw(arrays(np.float64, (n, d), elements=numbers)),
        "reward": draw(arrays(np.float64, n, elements=numbers)),
        "n_tasks": n_tasks,
        "n_arms": n_arms,
    }


def rows(log, which):
    return {name: value[which] if isinstance(value, np.ndarray) else value for name, value in log.items()}


def assert_same(got, expected):
    for name in FIELDS:
        # Sums of at most 15 numbers below 100, in another order: 1e-12 at most, also where they cancel.
        assert_allclose(getattr(got, name), getattr(expected, name), rtol=1e-9, atol=1e-11, err_msg=name)


def test_sums_worked_by_hand():
    # Arm 1 of task 2 sees (2, -1) -> 3 and (0, 5) -> -2; arm 0 of task 0 sees (1, 1) -> 7.
    stats = Statistics.from_data(
        task=[2, 0, 2],
        arm=[1, 0, 1],
        context=[[2.0, -1.0], [1.0, 1.0], [0.0, 5.0]],
        reward=[3.0, 7.0, -2.0],
        n_tasks=3,
        n_arms=2,
    )

    assert (stats.n_arms, stats.n_tasks, stats.n_features) == (2, 3, 2)
    assert_array_equal(stats.gram[1, 2], [[4.0, -2.0], [-2.0, 26.0]])
    assert_array_equal(stats.moment[1, 2], [6.0, -13.0])
    assert_array_equal(stats.sum_of_squares, [[49.0, 0.0, 0.0], [0.0, 0.0, 13.0]])
    assert_array_equal(stats.count, [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    assert_array_equal(stats.gram[0, 1], 0.0)


@generated
@given(logs())
def test_sums_equal_those_over_the_rows_of_each_arm_and_task(log):
    stats = Statistics.from_data(**log)

    for arm in range(log["n_arms"]):
        for task in range(log["n_tasks"]):
            mine = (log["arm"] == arm) & (log["task"] == task)
            X, y = log["context"][mine], log["reward"][mine]
            assert_allclose(stats.gram[arm, task], X.T @ X, rtol=1e-12, atol=1e-11)
            assert_allclose(stats.moment[arm, task], X.T @ y, rtol=1e-12, atol=1e-11)
            assert_allclose(stats.sum_of_squares[arm, task], y @ y, rtol=1e-12, atol=1e-11)
            assert stats.count[arm, task] == y.size


@generated
@given(logs(), st.integers(0, 15))
def test_two_halves_add_up_to_the_whole(log, cut):
    first = Statistics.from_data(**rows(log, slice(None, cut)))
    second = Statistics.from_data(**rows(log, slice(cut, None)))

    assert_same(first + second, Statistics.from_data(**log))


@generated
@given(logs(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(log, random):
    order = list(range(log["task"].size))
    random.shuffle(order)

    assert_same(Statistics.from_data(**rows(log, np.array(order, dtype=int))), Statistics.from_data(**log))


@generated
@given(logs())
def test_adding_nothing_changes_nothing(log):
    stats = Statistics.from_data(**log)
    nothing = Statistics.zeros(n_tasks=stats.n_tasks, n_arms=stats.n_arms, n_features=stats.n_features)

    for name in FIELDS:
        assert_array_equal(getattr(stats + nothing, name), getattr(stats, name))


def test_adding_leaves_both_sides_as_they_were():
    one = Statistics.from_data(task=[0], arm=[0], context=[[2.0]], reward=[3.0], n_tasks=1, n_arms=1)

    both = one + one

    assert_array_equal(both.gram, [[[[8.0]]]])
    assert_array_equal(one.gram, [[[[4.0]]]])


def test_copy_shares_no_array():
    stats = Statistics.from_data(task=[0], arm=[0], context=[[2.0]], reward=[3.0], n_tasks=1, n_arms=1)
    copy = stats.copy()

    for name in FIELDS:
        assert not np.shares_memory(getattr(copy, name), getattr(stats, name))
    assert_same(copy, stats)


def test_discounted_counts_are_allowed():
    stats = Statistics.from_data(task=[0], arm=[0], context=[[2.0]], reward=[3.0], n_tasks=1, n_arms=1)

    faded = Statistics(*(0.25 * field for field in stats.sums))

    assert_array_equal(faded.count, [[0.25]])


def test_any_array_layout_and_number_type_is_taken():
    context = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2))
    plain = Statistics.from_data(
        task=[0, 1, 0], arm=[0, 0, 0], context=context.tolist(), reward=[1, 2, 3], n_tasks=2, n_arms=1
    )

    odd = Statistics.from_data(
        task=np.array([0, 1, 0], dtype=np.uint8),
        arm=np.zeros(6, dtype=np.int32)[::2],
        context=context,
        reward=np.array([1, 2, 3], dtype=np.int16),
        n_tasks=np.int64(2),
        n_arms=1,
    )

    assert_same(odd, plain)
    assert all(field.dtype == np.float64 and field.flags.c_contiguous for field in odd.sums)


def test_log_without_rows_is_allowed():
    stats = Statistics.from_data(task=[], arm=[], context=np.empty((0, 2)), reward=[], n_tasks=3, n_arms=2)

    assert stats.gram.shape == (2, 3, 2, 2)
    assert stats.count.sum() == 0


GOOD = {
    "task": [0, 1],
    "arm": [0, 0],
    "context": [[1.0, 2.0], [3.0, 4.0]],
    "reward": [1.0, 2.0],
    "n_tasks": 2,
    "n_arms": 1,
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"task": [0, 2]}, UnknownTask, "task 2 at row 1 is unknown; the tasks are 0 to 1"),
        ({"task": [-1, 0]}, UnknownTask, "task -1 at row 0 is unknown; the tasks are 0 to 1"),
        ({"arm": [0, 1]}, UnknownArm, "arm 1 at row 1 is unknown; the arms are 0 to 0"),
        ({"arm": [0, -1]}, UnknownArm, "arm -1 at row 1 is unknown; the arms are 0 to 0"),
        ({"task": [0.0, 1.0]}, InvalidValue, "task to be whole numbers from 0 to 1, got type float64"),
        ({"arm": [True, False]}, InvalidValue, "arm to be whole numbers from 0 to 0, got type bool"),
        ({"task": ["a", "b"]}, InvalidValue, "task to be whole numbers"),
        ({"task": [[0], [1]]}, ShapeError, "task to have one axis, got shape (2, 1)"),
        ({"task": [[0], [0, 1]]}, InvalidValue, "task"),
        ({"task": [0]}, ShapeError, "equally many rows, but they have 1, 2, 2 and 2"),
        ({"arm": [0, 0, 0]}, ShapeError, "equally many rows, but they have 2, 3, 2 and 2"),
        ({"reward": [1.0]}, ShapeError, "equally many rows, but they have 2, 2, 2 and 1"),
        ({"reward": [[1.0], [2.0]]}, ShapeError, "equally many rows, but they have 2, 2, 2 and (2, 1)"),
        ({"context": [1.0, 2.0]}, ShapeError, "context to have shape (rows, features), got shape (2,)"),
        (
            {"context": np.empty((2, 0))},
            ShapeError,
            "to have shape (rows, features), got shape (2, 0)",
        ),
        ({"context": [[1.0, 2.0], [3.0]]}, InvalidValue, "context to be an array of numbers, got list"),
        ({"context": [[1.0, 2.0], [3.0, np.nan]]}, NotFinite, "context to be finite, got nan at index (1, 1)"),
        (
            {"context": [[1.0, -np.inf], [3.0, 4.0]]},
            NotFinite,
            "to be finite, got -inf at index (0, 1)",
        ),
        ({"context": np.full((2, 2), 1.0 + 2.0j)}, InvalidValue, "context to be an array of numbers"),
        ({"reward": [1.0, np.nan]}, NotFinite, "reward to be finite, got nan at index 1"),
        ({"reward": [np.inf, 1.0]}, NotFinite, "reward to be finite, got inf at index 0"),
        ({"reward": ["good", "bad"]}, InvalidValue, "reward to be an array of numbers"),
        ({"n_tasks": 0}, InvalidValue, "n_tasks to be at least 1, got 0"),
        ({"n_arms": 1.5}, InvalidValue, "n_arms to be a whole number of at least 1, got 1.5"),
    ],
)
def test_bad_rows_get_one_clear_error(change, error, message):
    with pytest.raises(error) as caught:
        Statistics.from_data(**{**GOOD, **change})

    assert message in str(caught.value)
    assert isinstance(caught.value, PosseError)
    assert isinstance(caught.value, KeyError if error in (UnknownTask, UnknownArm) else ValueError)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"gram": np.zeros((2, 3, 3))}, ShapeError, "gram to have axes (arm, task, feature, feature)"),
        (
            {"gram": np.zeros((1, 2, 3, 4))},
            ShapeError,
            "to have shape (1, 2, 3, 3), got shape (1, 2, 3, 4)",
        ),
        ({"moment": np.zeros((1, 2, 4))}, ShapeError, "moment to have shape (1, 2, 3), got shape (1, 2, 4)"),
        ({"sum_of_squares": np.zeros(2)}, ShapeError, "sum_of_squares to have shape (1, 2), got shape (2,)"),
        ({"count": np.zeros((2, 1))}, ShapeError, "count to have shape (1, 2), got shape (2, 1)"),
        ({"count": [[1.0, -1.0]]}, InvalidValue, "must not be negative"),
        ({"sum_of_squares": [[-0.5, 1.0]]}, InvalidValue, "must not be negative"),
        (
            {"gram": np.full((1, 2, 3, 3), np.nan)},
            NotFinite,
            "to be finite, got nan at index (0, 0, 0, 0)",
        ),
        ({"moment": np.full((1, 2, 3), np.inf)}, NotFinite, "moment to be finite, got inf at index (0, 0, 0)"),
    ],
)
def test_bad_fields_get_one_clear_error(change, error, message):
    fields = {
        "gram": np.zeros((1, 2, 3, 3)),
        "moment": np.zeros((1, 2, 3)),
        "sum_of_squares": np.zeros((1, 2)),
        "count": np.zeros((1, 2)),
    }

    with pytest.raises(error) as caught:
        Statistics(**{**fields, **change})

    assert message in str(caught.value)
    assert isinstance(caught.value, PosseError)


def test_statistics_of_other_shapes_do_not_add():
    small = Statistics.zeros(n_tasks=2, n_arms=1, n_features=3)
    large = Statistics.zeros(n_tasks=4, n_arms=1, n_features=3)

    with pytest.raises(ShapeError) as caught:
        _ = small + large

    assert "(1, 2, 3) and (1, 4, 3)" in str(caught.value)


def test_only_statistics_add_to_statistics():
    with pytest.raises(TypeError):
        _ = Statistics.zeros(n_tasks=2, n_arms=1, n_features=3) + 1


@pytest.mark.parametrize("name", ["n_tasks", "n_arms", "n_features"])
@pytest.mark.parametrize("value", [0, -3, 2.0, True, "2", None])
def test_sizes_of_empty_statistics_are_whole_numbers_from_one(name, value):
    with pytest.raises(InvalidValue, match=name):
        Statistics.zeros(**{"n_tasks": 2, "n_arms": 2, "n_features": 2, name: value})
