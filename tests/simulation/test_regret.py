"""Both definitions of regret on a world small enough to do by hand.

Two tasks that arrive with chances 0.25 and 0.75, two arms, one feature. Coefficients: arm 0 has 1 and -1, arm 1 has 2
and 0 (in task 0 and 1). Contexts 1, 2, -1. So the means are, by (task, arm)::

    step   x   task 0        task 1        gap of the worse arm: task 0, task 1
    1      1    1,  2        -1, 0          1 (arm 0), 1 (arm 0)
    2      2    2,  4        -2, 0          2 (arm 0), 2 (arm 0)
    3     -1   -1, -2         1, 0          1 (arm 1), 1 (arm 1)
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.environments import Draw
from posse.errors import InvalidValue
from posse.policies import Played
from posse.simulation.regret import expected_regret, realised_regret

STEPS = np.array([1, 3])


@pytest.fixture
def draw():
    coefficients = np.array([[[1.0], [-1.0]], [[2.0], [0.0]]])
    tasks, contexts = np.array([0, 1, 1]), np.array([[1.0], [2.0], [-1.0]])
    expected = np.einsum("td,ktd->tk", contexts, coefficients[:, tasks])
    return Draw(
        tasks=tasks,
        contexts=contexts,
        expected=expected,
        rewards=expected + 100.0,  # noise is no part of regret
        coefficients=coefficients,
        prior=None,
        arrival_probabilities=np.array([0.25, 0.75]),
    )


PLAYED = Played(arms=np.array([0, 1, 1]), everywhere=np.array([[0, 1], [0, 1], [0, 1]]))


def test_realised_regret_by_hand(draw):
    regret = realised_regret(draw, PLAYED, STEPS, track_task=1)
    # Task 0 pulls arm 0 (gap 1); task 1 pulls arm 1 at x = 2 (best, gap 0) and at x = -1 (gap 1).
    assert regret.total == pytest.approx(2.0)
    assert_allclose(regret.tasks, [1.0, 1.0])
    assert_allclose(regret.curve, [1.0, 2.0])
    assert_allclose(regret.tracked, [0.0, 1.0])


def test_expected_regret_by_hand(draw):
    regret = expected_regret(draw, PLAYED, STEPS, track_task=1)
    # Task 0 would pull arm 0 throughout: gaps 1, 2, 0. Task 1 would pull arm 1: gaps 0, 0, 1.
    assert_allclose(regret.tasks, [0.25 * 3, 0.75 * 1])
    assert regret.total == pytest.approx(1.5)
    assert_allclose(regret.curve, [0.25, 1.5])
    assert_allclose(regret.tracked, [0.0, 0.75])


def test_a_task_that_never_arrives_has_no_realised_regret(draw):
    alone = Draw(
        tasks=np.zeros(3, dtype=np.int64),
        contexts=draw.contexts,
        expected=draw.contexts @ draw.coefficients[:, 0].T,
        rewards=draw.rewards,
        coefficients=draw.coefficients,
        prior=None,
        arrival_probabilities=np.array([1.0, 0.0]),
    )
    assert_allclose(realised_regret(alone, PLAYED, STEPS, track_task=1).tasks, [2.0, 0.0])


def test_expected_regret_needs_coefficients(draw):
    unknown = Draw(
        tasks=draw.tasks,
        contexts=draw.contexts,
        expected=draw.expected,
        rewards=draw.rewards,
        coefficients=None,
        prior=None,
        arrival_probabilities=draw.arrival_probabilities,
    )
    with pytest.raises(InvalidValue, match="coefficients"):
        expected_regret(unknown, PLAYED, STEPS, track_task=0)
    assert realised_regret(unknown, PLAYED, STEPS, track_task=0).total == pytest.approx(2.0)
