"""Sudden changes of one task or of all, and how rarely there is a false alarm."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posse.core.noticing import (
    ALL_TASKS,
    LARGEST_STEP,
    QUIET,
    START,
    TASK_ALARM,
    Believed,
    Detectors,
    OfFamily,
    OfNumbers,
)
from posse.families import linked_family_of

NOISE = 0.5


def likelihoods_of(family: str) -> OfNumbers | OfFamily:
    return OfNumbers() if family == "number" else OfFamily(linked_family_of(family))


def drawn(rng: np.random.Generator, family: str, predictor: np.ndarray) -> np.ndarray:
    if family == "number":
        return np.asarray(predictor + math.sqrt(NOISE) * rng.normal(size=predictor.shape))
    mean = linked_family_of(family).mean_of(predictor)
    return np.asarray(rng.random(mean.shape) < mean if family == "binary" else rng.poisson(mean), dtype=float)


def notice(
    family: str, rewards: np.ndarray, tasks: np.ndarray, mean: float = 0.0, sd: float = 0.1, new_sd: float = 0.9
) -> tuple[list[int | None], Detectors]:
    """Return what each reward shows, where every task is believed to have the predictor ``mean``."""
    likelihoods, before = likelihoods_of(family), Believed(mean, sd, mean, new_sd, np.zeros(1), np.eye(1), NOISE)
    detectors = Detectors(likelihoods.n_alternatives)
    detectors.since = QUIET
    found = [
        detectors.note(task, likelihoods.surprises(float(reward), before))
        for task, reward in zip(tasks.tolist(), rewards, strict=True)
    ]
    return found, detectors


def test_a_task_that_jumps_is_noticed_and_the_others_are_left_alone() -> None:
    rng, tasks = np.random.default_rng(0), np.tile(np.arange(20), 30)
    rewards = drawn(rng, "number", np.where(tasks == 3, 2.5, 0.0))
    found, _ = notice("number", rewards, tasks)
    assert set(found) == {None, 3}
    assert found.index(3) < 20 * 15


@pytest.mark.parametrize("family", ["binary", "count"])
@pytest.mark.parametrize("by", [-2.5, 2.0])
def test_a_task_whose_clicks_change_is_noticed_and_the_others_are_left_alone(family: str, by: float) -> None:
    # A click where one in four was expected says 0.3 nats at most, and 8 are asked for.
    tasks = np.tile(np.arange(20), 100)
    rewards = drawn(np.random.default_rng(0), family, np.where(tasks == 3, -1.0 + by, -1.0))
    found, _ = notice(family, rewards, tasks, mean=-1.0, sd=0.2, new_sd=1.0)
    assert set(found) == {None, 3}
    assert found.index(3) < 20 * 60


def test_a_jump_of_all_tasks_is_noticed_within_a_few_dozen_rewards() -> None:
    rng = np.random.default_rng(1)
    rewards = drawn(rng, "number", np.where(rng.random(60) < 0.5, 2.0, -2.0))
    found, _ = notice("number", rewards, rng.integers(20, size=60))
    assert found.index(ALL_TASKS) < 36
    assert set(found[: found.index(ALL_TASKS)]) == {None}


@pytest.mark.parametrize("family", ["binary", "count"])
@pytest.mark.parametrize("by", [-2.0, 1.5])
def test_a_change_of_all_clicks_is_noticed(family: str, by: float) -> None:
    rng = np.random.default_rng(1)
    tasks = rng.integers(50, size=400)
    rewards = drawn(np.random.default_rng(0), family, np.full(400, -1.0 + by))
    found, _ = notice(family, rewards, tasks, mean=-1.0, sd=0.2, new_sd=1.0)
    assert found.index(ALL_TASKS) < 150
    assert set(found[: found.index(ALL_TASKS)]) == {None}


@pytest.mark.parametrize(
    "family", ["number", pytest.param("binary", marks=pytest.mark.slow), pytest.param("count", marks=pytest.mark.slow)]
)
def test_false_alarms_are_as_rare_as_the_bound_says(family: str) -> None:
    # Where predictions are right, a sum reaches h from a new low with a probability of e^-h at most (Wald). Bounds are
    # at least 2 + log(1000 + n), so 30 runs of 4,000 rewards have 30 log(5000 / 1000) e^-2 = 6.5 alarms at most on
    # average, if every reward were a new low; Poisson, 14 or more of them would come once in 200.
    rng, alarms = np.random.default_rng(2), 0
    for _ in range(30):
        tasks = rng.integers(20, size=4000)
        predictor = -1.0 + (0.1 if family == "number" else 0.2) * rng.normal(size=4000)
        found, _ = notice(
            family, drawn(rng, family, predictor), tasks, mean=-1.0, sd=0.1 if family == "number" else 0.2
        )
        alarms += sum(one is not None for one in found)
    assert alarms <= 13
    assert math.log(START) + TASK_ALARM > 8.9


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binary", "count"])
@pytest.mark.parametrize("off", [-0.1, 0.0, 0.1])
@pytest.mark.parametrize("mean", [-4.0, -1.0])
def test_clicks_that_are_predicted_a_little_wrong_are_no_change(family: str, off: float, mean: float) -> None:
    # Sums fall as long as predictions are off by less than half of a shift: 1 for all tasks, 1.5 for one of them.
    rng = np.random.default_rng(2)
    tasks = rng.integers(20, size=4000)
    rewards = drawn(np.random.default_rng(4), family, np.full(4000, mean + off))
    found, _ = notice(family, rewards, tasks, mean=mean, sd=0.2, new_sd=1.0)
    assert ALL_TASKS not in found
    assert sum(one is not None for one in found) <= (1 if off else 0)


@pytest.mark.parametrize(("family", "rewards"), [("number", [0.0, 1e6, 0.0]), ("count", [1.0, 1e9, 2.0])])
def test_one_outlier_is_no_change(family: str, rewards: list[float]) -> None:
    found, detectors = notice(family, np.array(rewards), np.zeros(3, dtype=int), sd=0.3)
    assert found == [None] * 3
    assert max(detectors.world_sums) <= 2 * LARGEST_STEP
    assert all(total <= LARGEST_STEP for sums in detectors.task_sums for total in sums.values())


def test_a_task_of_which_nothing_is_known_cannot_have_changed() -> None:
    for sd, noticed in ((1.0, False), (0.3, True)):
        found, _ = notice("binary", np.zeros(12), np.full(12, 7), mean=3.0, sd=sd, new_sd=1.0)
        assert (7 in found) == noticed


def test_one_task_alone_is_no_change_of_all() -> None:
    # It may add a few nats only to the sum over all tasks, whatever it does.
    found, detectors = notice("number", np.tile([4.0, -4.0], 50), np.zeros(100, dtype=int), new_sd=0.1)
    assert ALL_TASKS not in found
    assert detectors.world_sums[0] <= 3.0


def test_sums_that_are_saved_go_on_to_the_bit() -> None:
    rng = np.random.default_rng(5)
    tasks = rng.integers(6, size=300)
    rewards = drawn(rng, "binary", np.full(300, 0.5))
    likelihoods, before = likelihoods_of("binary"), Believed(-0.3, 0.2, -0.3, 1.0, np.zeros(1), np.eye(1), 1.0)
    whole, parts = Detectors(2), Detectors(2)
    for n, (task, reward) in enumerate(zip(tasks.tolist(), rewards.tolist(), strict=True)):
        if n == 150:
            saved, parts = parts.state(), Detectors(2)
            parts.restore(saved)
        surprises = likelihoods.surprises(reward, before)
        assert whole.note(task, surprises) == parts.note(task, surprises)
    for name, array in whole.state().items():
        assert np.array_equal(array, parts.state()[name])


def test_nothing_is_said_about_all_tasks_before_the_population_is_known() -> None:
    likelihoods, before = OfNumbers(), Believed(0.0, 0.1, 0.0, 0.9, np.zeros(1), np.eye(1), NOISE)
    detectors = Detectors(1)
    found = [detectors.note(n % 50, likelihoods.surprises((-2.0) ** (n % 2), before)) for n in range(2 * QUIET)]
    assert ALL_TASKS not in found[:QUIET]
    assert ALL_TASKS in found[QUIET:]
