import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue, NotFinite, ShapeError
from posse_lab.datasets import Letter, Sarcos, load_letter, load_sarcos
from posse_lab.worlds.from_dataset import RegressionWorld, regress

FIELDS = ("tasks", "contexts", "expected", "rewards", "coefficients")


@pytest.fixture
def rows():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 3)) @ [[2.0, 0.5, 0.0], [0.0, 0.3, 0.1], [0.0, 0.0, 7.0]] + [5.0, -1.0, 0.2]
    Y = X @ rng.normal(size=(3, 2)) + rng.normal(size=(60, 2)) * [0.4, 3.0] + [2.0, 100.0]
    return X, Y


def world_of(rows, **settings):
    X, Y = rows
    return RegressionWorld(**{"name": "toy", "features": X, "targets": Y, "n_tasks": 4, **settings})


def test_the_same_seed_gives_the_same_draw_and_another_one_another(rows):
    one, same, other = (world_of(rows).draw(seed, horizon=30) for seed in (5, 5, 6))
    for field in FIELDS:
        assert_array_equal(getattr(one, field), getattr(same, field))
        assert (getattr(one, field) != getattr(other, field)).any(), field


def test_a_longer_horizon_only_adds_steps_at_the_end(rows):
    short, long = (world_of(rows).draw(3, horizon=horizon) for horizon in (25, 60))
    for field in FIELDS[:-1]:
        assert_array_equal(getattr(long, field)[:25], getattr(short, field))
    assert_array_equal(long.coefficients, short.coefficients)


def test_every_row_comes_once_standardised(rows):
    contexts = world_of(rows).draw(1, horizon=60).contexts

    expected = (rows[0] - rows[0].mean(axis=0)) / rows[0].std(axis=0)
    assert_allclose(contexts[np.lexsort(contexts.T)], expected[np.lexsort(expected.T)])


def test_a_horizon_beyond_the_rows_is_refused(rows):
    with pytest.raises(InvalidValue, match=r"at most 60, the rows of 'toy', since no context comes twice, got 61"):
        world_of(rows).draw(0, horizon=61)


def test_the_regression_is_that_of_numpy(rows):
    X, Y = (columns - columns.mean(axis=0) for columns in rows)
    fit = regress(X, Y)

    design = np.column_stack([np.ones(60), rows[0]])
    coefficients, squares, _, _ = np.linalg.lstsq(design, rows[1], rcond=None)
    noise_variance = squares / (60 - 4)
    variances = noise_variance[:, None] * np.diag(np.linalg.inv(design.T @ design))[1:]
    assert_allclose(fit.coefficients, coefficients[1:].T)
    assert_allclose(fit.noise_variance, noise_variance)
    assert_allclose(fit.variances, variances)


def test_rewards_follow_the_coefficients_and_the_residuals(rows):
    draw = world_of(rows).draw(2, horizon=60)
    sd = np.sqrt(world_of(rows).regression.noise_variance)

    assert_allclose(draw.expected, np.einsum("ti,kti->tk", draw.contexts, draw.coefficients[:, draw.tasks]), atol=1e-13)
    noise = (draw.rewards - draw.expected) / sd
    assert_allclose(noise[:, 0], noise[:, 1], atol=1e-9)
    assert_allclose(draw.prior.noise_variance, sd**2)


def test_tasks_scatter_as_the_prior_says(rows):
    # 4,000 tasks: the relative error of a variance is about 2.2 %, so 15 % is beyond five standard errors.
    world = world_of(rows, n_tasks=4000, heterogeneity=2.5)
    draw, fit = world.draw(0, horizon=1), world.regression

    assert_allclose(draw.coefficients.var(axis=1), 2.5 * fit.variances, rtol=0.15)
    assert_allclose(draw.prior.covariance, [np.diag(2.5 * variances) for variances in fit.variances])
    tolerance = 5 * np.sqrt(2.5 * fit.variances.max() / 4000)
    assert_allclose(draw.coefficients.mean(axis=1), fit.coefficients, atol=tolerance)
    assert_allclose(draw.prior.shared_precision, 1 / np.mean(fit.coefficients**2))


def test_no_heterogeneity_makes_tasks_identical(rows):
    world = world_of(rows, heterogeneity=0.0)
    assert_array_equal(world.draw(0, 5).coefficients, np.repeat(world.regression.coefficients[:, None], 4, axis=1))


def test_units_of_the_data_do_not_matter(rows):
    X, Y = rows
    one, other = world_of(rows).draw(4, 60), world_of((X * [100, 0.01, 3] + 7, Y * [0.1, 50] - 3)).draw(4, 60)
    assert_allclose(one.rewards, other.rewards, atol=1e-9)


def test_targets_may_keep_their_scale(rows):
    draws = [world_of(rows, scale_targets=scaled).draw(4, 60) for scaled in (False, True)]
    assert_allclose(draws[0].rewards, draws[1].rewards * rows[1].std(axis=0), atol=1e-9)


def test_settings_name_the_data_and_are_plain(rows):
    settings = world_of(rows, checksum="abc", heterogeneity=0.5).settings()
    assert settings == {
        "world": "regression",
        "data": "toy",
        "sha256": "abc",
        "n_rows": 60,
        "n_tasks": 4,
        "n_arms": 2,
        "n_features": 3,
        "heterogeneity": 0.5,
        "scale_targets": True,
    }
    assert json.loads(json.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"n_tasks": 0}, InvalidValue, "n_tasks to be at least 1"),
        ({"heterogeneity": -1.0}, InvalidValue, "heterogeneity to be at least 0"),
        ({"targets": np.ones((59, 2))}, ShapeError, "60 rows as features has, got 59"),
        ({"targets": np.ones(60)}, ShapeError, "targets to be a table"),
        ({"targets": np.empty((60, 0))}, ShapeError, "targets to be a table"),
        ({"targets": np.ones((60, 2))}, InvalidValue, "target 0 is constant"),
        ({"features": np.column_stack([np.arange(60.0), np.ones(60)])}, InvalidValue, "feature 1 is constant"),
        ({"features": np.full((60, 3), np.nan)}, NotFinite, "features to be finite"),
        ({"features": np.arange(60.0)[:, None] ** np.ones(2)}, InvalidValue, "collinear"),
    ],
)
def test_bad_input_is_one_clear_error(rows, change, error, words):
    with pytest.raises(error, match=words):
        world_of(rows, **change)


def test_a_feature_that_is_the_sum_of_others_is_refused(rows):
    X, Y = rows
    with pytest.raises(InvalidValue, match="collinear"):
        world_of((np.column_stack([X, X[:, 0] - 3 * X[:, 2]]), Y))


def test_too_few_rows_are_refused():
    with pytest.raises(InvalidValue, match="at least 5 rows for a regression on 3 features, got 4"):
        regress(np.ones((4, 3)), np.ones((4, 1)))


def test_sarcos_arms_are_standardised_torques():
    rng = np.random.default_rng(1)
    data = Sarcos(rng.normal(size=(50, 4)), rng.normal(size=(50, 7)) * 20, (), (), "test", Path("x"), "feed")
    world = RegressionWorld.from_sarcos(data, n_tasks=5, heterogeneity=2.0)

    assert (world.n_arms, world.n_features, world.n_tasks, world.n_rows) == (7, 4, 5, 50)
    assert world.settings()["data"] == "sarcos test"
    assert (world.regression.noise_variance < 1.2).all()


def test_letter_arms_are_one_against_the_rest():
    rng = np.random.default_rng(1)
    labels = np.arange(90) % 3
    data = Letter(rng.normal(size=(90, 2)) + labels[:, None], labels, (), ("A", "B", "C"), Path("x"), "feed")
    world = RegressionWorld.from_letter(data)

    assert (world.n_arms, world.n_tasks) == (3, 30)
    # One of three classes is always right: the indicators sum to 1, so centred coefficients sum to 0.
    assert_allclose(world.regression.coefficients.sum(axis=0), 0.0, atol=1e-12)
    assert world.settings()["scale_targets"] is False


def test_other_rows_may_be_met(rows):
    X, Y = rows
    world = world_of((X[:40], Y[:40]), contexts=X[40:])

    contexts = world.draw(1, horizon=20).contexts
    expected = (X[40:] - X[:40].mean(axis=0)) / X[:40].std(axis=0)
    assert_allclose(contexts[np.lexsort(contexts.T)], expected[np.lexsort(expected.T)])
    assert_array_equal(world.regression.coefficients, world_of((X[:40], Y[:40])).regression.coefficients)
    settings = world.settings()
    assert (settings["n_rows"], settings["n_fit_rows"]) == (20, 40)
    with pytest.raises(InvalidValue, match="at most 20, the rows of 'toy'"):
        world.draw(0, horizon=21)


def test_rows_to_meet_must_have_the_same_columns(rows):
    for contexts in (rows[0][:, :2], rows[0][0], np.empty((0, 3))):
        with pytest.raises(ShapeError, match="contexts to "):
            world_of(rows, contexts=contexts)


def test_meeting_the_fitted_rows_is_what_happens_without_others(rows):
    one, same = world_of(rows).draw(5, 60), world_of(rows, contexts=rows[0]).draw(5, 60)
    for field in FIELDS:
        assert_array_equal(getattr(one, field), getattr(same, field))


def test_golden_numbers():
    """A draw written down: whoever changes the stream must change this test, and say so in the changelog."""
    standard = np.random.default_rng(8).standard_normal((60, 5))
    X = standard[:, :3] * [2.0, 0.3, 7.0] + [5.0, -1.0, 0.2]
    Y = X[:, :2] + X[:, 1:] * [0.5, 0.1] + standard[:, 3:] * [0.4, 3.0]
    draw = world_of((X, Y), heterogeneity=0.37).draw(seed=7, horizon=5)
    assert_array_equal(draw.tasks, [1, 0, 0, 0, 0])
    assert_array_equal(draw.contexts[4], [-0.05879259887663552, 0.8928059707620025, -0.3526635198863211])
    assert_array_equal(draw.coefficients[1, 2], [-0.01843237377580946, -0.19329847294649202, 0.20141696218211128])
    assert_array_equal(draw.rewards[4], [0.034945183479171076, 0.06811868827684017])
    assert_array_equal(draw.prior.noise_variance, [0.03839130600129344, 1.0254085251168235])
    assert_array_equal(
        np.diag(draw.prior.covariance[0]), [0.00023678309657142557, 0.00023995828990259116, 0.00023998904077860456]
    )


def test_sarcos_is_fitted_on_one_file_and_met_on_the_other(sarcos):
    test, new = sarcos(150), sarcos(500, "train", seed=9)
    train = replace(new, X=np.vstack([test.X[:60], new.X]), y=np.vstack([test.y[:60], new.y]))
    world = RegressionWorld.from_sarcos(test, contexts=train)

    assert world.n_rows == 500  # without those of the test file
    contexts = world.draw(0, 500).contexts * test.X.std(axis=0) + test.X.mean(axis=0)
    assert_allclose(contexts[np.lexsort(contexts.T)], new.X[np.lexsort(new.X.T)])
    assert_array_equal(world.regression.coefficients, RegressionWorld.from_sarcos(test).regression.coefficients)
    settings = world.settings()
    assert settings["fit_rows"] == "sarcos test"
    assert settings["met_rows"] == "sarcos train without the rows of sarcos test"
    assert (settings["sha256"], settings["met_sha256"], settings["n_fit_rows"]) == ("5a2c test", "5a2c train", 150)
    with pytest.raises(InvalidValue, match="every row of sarcos test is in sarcos test too"):
        RegressionWorld.from_sarcos(test, contexts=test)


def test_letter_is_fitted_on_the_first_rows_and_met_on_the_others(letter):
    data = letter()
    world = RegressionWorld.from_letter(data, training_share=0.3)

    first = replace(data, X=data.X[:120], labels=data.labels[:120])
    assert_array_equal(world.regression.coefficients, RegressionWorld.from_letter(first).regression.coefficients)
    contexts = world.draw(0, 280).contexts * data.X[:120].std(axis=0) + data.X[:120].mean(axis=0)
    assert_allclose(contexts[np.lexsort(contexts.T)], data.X[120:][np.lexsort(data.X[120:].T)])
    settings = world.settings()
    assert (settings["fit_rows"], settings["met_rows"]) == ("the first 120", "the others")
    assert settings["training_share"] == 0.3
    with pytest.raises(InvalidValue, match="training_share to be less than 1"):
        RegressionWorld.from_letter(data, training_share=1)
    with pytest.raises(InvalidValue, match="class 'B' has no row among the first 120 rows"):
        RegressionWorld.from_letter(replace(data, labels=np.sort(data.labels)), training_share=0.3)


def test_worlds_of_the_real_files(real_folder):
    sarcos, letter = (
        RegressionWorld.from_sarcos(load_sarcos(real_folder)),
        RegressionWorld.from_letter(load_letter(real_folder)),
    )
    split = RegressionWorld.from_letter(load_letter(real_folder), training_share=0.3)
    assert (split.n_rows, split.settings()["n_fit_rows"]) == (14_000, 6000)

    assert sarcos.draw(0, 4000).coefficients.shape == (7, 30, 21)
    assert letter.draw(0, 4000).coefficients.shape == (26, 30, 16)
    # The torques are nearly linear in the movements; a letter is not.
    assert (sarcos.regression.noise_variance < 0.3).all()
    assert (letter.regression.noise_variance < 0.04).all()
