from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue
from posse.model import Statistics, estimate_prior, posterior
from posse_lab.datasets import load_activity
from posse_lab.worlds import activity_protocol, recorded_activity
from posse_lab.worlds.features import Components, Scaling

SMALL = {"n_tasks": 4, "n_components": 5}
KEPT = (1, 2, 3, 4)  # sizes 200, 90, 150, 120; trial 5 is larger, but has three activities only


def raw_route(data, use_time=True):
    """Training and test rows, standardised columns and labels of every kept trial, in plain loops."""
    parts = {"train": [], "test": []}
    for task, trial in enumerate(KEPT):
        own = [row for row in range(len(data.X)) if data.trials[row] == trial]
        own.sort(key=lambda row: data.X[row, 0])
        size = int(0.3 * len(own) + 1e-9)
        parts["train"] += [(task, row) for row in own[:size]]
        parts["test"] += [(task, row) for row in own[size:]]
    numeric = [0, 1, 2, 3, 5, 6, 7] if use_time else [1, 2, 3, 5, 6, 7]
    columns = {
        part: np.array([[*data.X[row, numeric], *(data.X[row, 4] == [1, 2, 3])] for _, row in rows], dtype=float)
        for part, rows in parts.items()
    }
    mean, sd = columns["train"].mean(axis=0), columns["train"].std(axis=0)
    return {
        part: (
            (columns[part] - mean) / sd,
            np.array([task for task, _ in rows]),
            data.labels[[row for _, row in rows]],
        )
        for part, rows in parts.items()
    }


def sorted_rows(table):
    return table[np.lexsort(table.T)]


@pytest.mark.parametrize("use_time", [True, False])
def test_scores_are_components_of_the_training_rows(activity, use_time):
    data = activity()
    world = activity_protocol(data, **SMALL, use_time=use_time)

    hand = raw_route(data, use_time)
    components = Components.of(hand["train"][0], 5)
    assert_allclose(sorted_rows(world.contexts), sorted_rows(components.apply(hand["test"][0])), atol=1e-9)
    assert world.n_rows == 140 + 63 + 105 + 84


def test_training_rows_are_never_met(activity):
    data = activity()
    hand = raw_route(data)
    met = {row.tobytes() for row in recorded_activity(data, **SMALL).contexts.round(9)[:, 1:]}
    components = Components.of(hand["train"][0], 5)
    assert met.isdisjoint({row.tobytes() for row in components.apply(hand["train"][0]).round(9)})
    assert len(met) == 140 + 63 + 105 + 84


def test_later_rows_change_nothing_that_was_fitted(activity):
    data = activity()
    X = data.X.copy()
    for trial in KEPT:
        own = np.flatnonzero(data.trials == trial)
        late = own[data.X[own, 0] > np.quantile(data.X[own, 0], 0.5)]
        X[late, 1:4] += 50
    one, other = (activity_protocol(replace(data, X=values), **SMALL) for values in (data.X, X))
    assert_array_equal(one.coefficients, other.coefficients)
    assert (one.contexts != other.contexts).any()
    one, other = (recorded_activity(replace(data, X=values), **SMALL) for values in (data.X, X))
    assert_array_equal(one.prior.covariance, other.prior.covariance)


def test_coefficients_are_posterior_means(activity):
    data = activity()
    world = activity_protocol(data, **SMALL, heterogeneity=0.7)

    columns, tasks, labels = raw_route(data)["train"]
    X = Components.of(columns, 5).apply(columns)
    arm = np.repeat(np.arange(4), len(X))
    reward = np.concatenate([(labels == k) - np.mean(labels == k) for k in range(4)])
    stats = Statistics.from_data(
        task=np.tile(tasks, 4), arm=arm, context=np.tile(X, (4, 1)), reward=reward, n_tasks=4, n_arms=4
    )
    prior = estimate_prior(stats).prior
    fitted = posterior(stats, prior)
    shared = fitted.shared_mean[:, None]
    assert_allclose(world.coefficients, shared + np.sqrt(0.7) * (fitted.mean - shared), atol=1e-9)
    assert_allclose(world.noise_sd**2, prior.noise_variance)
    assert_allclose(world.prior.covariance, 0.7 * prior.covariance, atol=1e-12)


def test_no_heterogeneity_makes_tasks_identical(activity):
    coefficients = activity_protocol(activity(), **SMALL, heterogeneity=0.0).coefficients
    assert_array_equal(coefficients, np.repeat(coefficients[:, :1], 4, axis=1))
    assert (coefficients != 0).any()


def test_the_right_activity_pays_one(activity):
    data = activity()
    world = recorded_activity(data, **SMALL)

    columns, tasks, labels = raw_route(data)["test"]
    hand = np.column_stack([Components.of(raw_route(data)["train"][0], 5).apply(columns), tasks, labels])
    ours = np.column_stack([world.contexts[:, 1:], world.tasks, world.rewards.argmax(axis=1)])
    assert_allclose(sorted_rows(ours), sorted_rows(hand), atol=1e-9)
    assert_array_equal(np.sort(world.rewards, axis=1), np.tile([0.0, 0, 0, 1], (world.n_rows, 1)))
    assert (world.contexts[:, 0] == 1).all()
    assert world.prior.n_features == 6


def test_the_largest_complete_trials_are_kept(activity):
    settings = activity_protocol(activity(), **SMALL).settings()
    assert settings["trials"] == ["d1p01F", "d1p02F", "d1p03F", "d1p04F"]
    settings = activity_protocol(activity(), n_tasks=2, n_components=5).settings()
    assert settings["trials"] == ["d1p01F", "d1p03F"]


def test_an_antenna_that_comes_later_has_no_column(activity):
    # Room 2 has three antennas; a fourth that only later rows know cannot be standardised.
    world = recorded_activity(activity(unused_antenna=True), **SMALL)
    assert world.n_features == 6


def test_bad_input_is_one_clear_error(activity):
    data = activity()
    with pytest.raises(InvalidValue, match="n_tasks to be at most 5, the trials in which each of the 4 activities"):
        activity_protocol(data)
    with pytest.raises(InvalidValue, match="n_tasks to be at least 1"):
        recorded_activity(data, n_tasks=0)
    with pytest.raises(InvalidValue, match="n_components to be at most 9"):
        recorded_activity(data, n_tasks=4, n_components=10)
    with pytest.raises(InvalidValue, match="heterogeneity to be at least 0"):
        activity_protocol(data, **SMALL, heterogeneity=-1)
    with pytest.raises(InvalidValue, match="training_share to be less than 1"):
        activity_protocol(data, **SMALL, training_share=1.0)
    with pytest.raises(InvalidValue, match=r"training_share=0.001 of .* leaves no rows"):
        activity_protocol(data, **SMALL, training_share=0.001)
    late = replace(data, labels=np.where(data.X[:, 0] > 10, data.labels, data.labels % 3))
    with pytest.raises(InvalidValue, match="class 'ambulating' has no row among the training rows"):
        activity_protocol(late, **SMALL, training_share=0.1)


def test_the_real_file(real_folder):
    data = load_activity(real_folder)
    world, recorded = activity_protocol(data), recorded_activity(data)

    assert (world.n_tasks, world.n_arms, world.n_features, world.n_rows) == (16, 4, 8, 27_657)
    assert (recorded.n_tasks, recorded.n_arms, recorded.n_features, recorded.n_rows) == (16, 4, 9, 27_657)
    assert_array_equal(recorded.contexts[:, 1:], world.contexts)
    names = world.settings()["trials"]
    assert (names[0], names[-1], len(names)) == ("d1p37M", "d1p53F", 16)
    # In the order of the scripts, half of the trials have no chair in their first 30 %, the others none afterwards.
    chair = np.bincount(recorded.tasks, weights=recorded.rewards[:, 1])
    assert (chair == 0).sum() == 8


def test_scaling_comes_from_the_training_rows(activity):
    data = activity()
    hand = raw_route(data)
    scaling = Scaling.of(hand["train"][0], "column")
    assert_allclose(scaling.mean, 0, atol=1e-12)
    assert np.abs(hand["test"][0].mean(axis=0)).max() > 0.5  # time, at least, goes on
