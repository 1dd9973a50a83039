import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue, ShapeError, UnknownTask
from posse.model import Prior
from posse_lab.worlds import FittedWorld

RNG = np.random.default_rng(5)
ROWS, TASKS = RNG.normal(size=(90, 2)), np.repeat([0, 1, 2], [50, 10, 30])
COEFFICIENTS = RNG.normal(size=(4, 3, 2))


def world_of(**settings):
    given = {"name": "toy", "contexts": ROWS, "tasks": TASKS, "coefficients": COEFFICIENTS, "noise_sd": 0.3}
    return FittedWorld(**{**given, **settings})


def test_a_row_brings_its_own_task_along():
    draw = world_of().draw(3, 90)

    assert_allclose(draw.arrival_probabilities, [5 / 9, 1 / 9, 3 / 9])
    own = {row.tobytes(): task for row, task in zip(ROWS, TASKS, strict=True)}
    assert [own.pop(row.tobytes()) for row in draw.contexts] == draw.tasks.tolist()


def test_coefficients_are_the_same_in_every_seed_and_the_noise_is_not():
    one, other = world_of().draw(0, 90), world_of().draw(1, 90)
    assert_array_equal(one.coefficients, COEFFICIENTS)
    assert_array_equal(other.coefficients, COEFFICIENTS)
    noise = one.rewards - one.expected
    assert_allclose(one.expected, np.einsum("ti,kti->tk", one.contexts, COEFFICIENTS[:, one.tasks]), atol=1e-12)
    assert_allclose(noise[:, 0], noise[:, 3], atol=1e-12)
    assert not np.allclose(noise, other.rewards - other.expected)
    # 90 normal numbers with standard deviation 0.3: four standard errors of their variance.
    assert abs(noise[:, 0].var() - 0.09) < 4 * 0.09 * np.sqrt(2 / 90)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"coefficients": COEFFICIENTS[0]}, ShapeError, "to have axes"),
        ({"contexts": ROWS[:, :1]}, ShapeError, "contexts have 1 features, but the coefficients have 2"),
        ({"tasks": TASKS[:80]}, ShapeError, "tasks to have 90 entries, one per row, got 80"),
        ({"tasks": TASKS + 1}, UnknownTask, "task 3 at row 60 is unknown"),
        ({"tasks": np.where(TASKS == 1, 0, TASKS)}, InvalidValue, "task 1 has no rows to meet"),
        ({"tasks": np.minimum(TASKS, 1)}, InvalidValue, "task 2 has no rows to meet"),
        ({"noise_sd": [0.1, 0.2]}, ShapeError, "noise_sd to be one number or have length 4"),
        ({"prior": Prior.isotropic(n_arms=3, n_features=2)}, ShapeError, "the prior is for 3 arms"),
    ],
)
def test_bad_input_is_one_clear_error(change, error, words):
    with pytest.raises(error, match=words):
        world_of(**change)
