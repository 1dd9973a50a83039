import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue, MissingDependency
from posse_lab.datasets import load_movielens
from posse_lab.worlds import population_from_movielens, recorded_movielens
from posse_lab.worlds.factorisation import factorise
from posse_lab.worlds.movielens import training_part

PAPER = {"n_factors": 3, "n_arms": 2, "n_tasks": 4}
REAL = {"n_factors": 3, "n_arms": 3}


def test_contexts_are_the_users_factors(movielens):
    data = movielens()
    world = population_from_movielens(data, **PAPER)

    level = np.array([data.ratings[data.users == user].mean() for user in range(60)])
    factors = factorise(data.users, data.movies, data.ratings - level[data.users], shape=(60, 50), n_factors=3)
    assert_allclose(world.contexts, factors.rows, atol=1e-12)
    assert_allclose(world.noise_sd, [factors.rmse] * 2)
    assert (world.n_arms, world.n_tasks, world.n_features, world.n_rows) == (2, 4, 3, 60)


def test_arms_are_clusters_of_films(movielens):
    data = movielens()
    world = population_from_movielens(data, **{**PAPER, "n_arms": 1})

    # One component is the mean and the covariance of all films, plus what keeps it from being singular.
    level = np.bincount(data.users, weights=data.ratings) / np.bincount(data.users)
    films = factorise(data.users, data.movies, data.ratings - level[data.users], shape=(60, 50), n_factors=3).columns
    assert_allclose(world.centres[0], films.mean(axis=0))
    assert_allclose(world.covariance[0], np.cov(films.T, bias=True), atol=1e-5)
    assert_allclose(world.draw(0, 5).prior.covariance, world.covariance)


def test_two_calls_give_identical_arrays(movielens):
    one, same = (population_from_movielens(movielens(), **PAPER) for _ in range(2))
    for name in ("contexts", "centres", "covariance", "noise_sd"):
        assert_array_equal(getattr(one, name), getattr(same, name))


def test_no_heterogeneity_makes_tasks_identical(movielens):
    world = population_from_movielens(movielens(), **PAPER, heterogeneity=0.0)
    assert_array_equal(world.draw(0, 5).coefficients, np.repeat(world.centres[:, None], 4, axis=1))


def test_without_scikit_learn_it_is_named(movielens, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.mixture", None)
    with pytest.raises(MissingDependency, match=r"scikit-learn: pip install scikit-learn"):
        population_from_movielens(movielens(), **PAPER)


def test_training_ratings_are_a_share_of_every_users(movielens):
    users = np.random.default_rng(0).permutation(np.repeat(np.arange(5), [1, 10, 20, 0, 33]))
    part = training_part(users, 0.3, 0)
    assert_array_equal(np.bincount(users[part], minlength=5), [1, 3, 6, 0, 10])
    assert_array_equal(training_part(users, 0.3, 0), part)
    assert (training_part(users, 0.3, 1) != part).any()
    own = np.flatnonzero(users == 4)
    assert not part[own[:10]].all()  # not the first ones


def users_met(data, world):
    """The user and the ratings behind every row, found by the ratings, which are all different."""
    held_in = training_part(data.users, 0.3, 0)
    level = data.ratings[held_in].mean()
    distance = np.abs(data.ratings - (world.rewards + level)[:, :, None])
    found = distance.argmin(axis=2)
    assert distance.min(axis=2).max() < 1e-9
    return found, held_in, level


@pytest.mark.parametrize("groups", [True, False])
def test_every_reward_is_a_real_rating_that_no_factor_has_seen(movielens, groups):
    data = movielens(groups=groups)
    world = recorded_movielens(data, **REAL, n_groups=3)
    found, held_in, level = users_met(data, world)

    assert not held_in[found].any()
    users = data.users[found]
    assert (users == users[:, :1]).all()
    assert len(set(users[:, 0])) == world.n_rows  # each once
    counts = data.movie_genres[data.movies].sum(axis=0)
    genres = np.argsort(-counts, kind="stable")[:3]
    assert world.settings()["genres"] == [data.genres[genre] for genre in genres]
    for arm, genre in enumerate(genres):
        assert data.movie_genres[data.movies[found[:, arm]], genre].all()
        for row, user in enumerate(users[:, 0]):
            own = (data.users == user) & ~held_in & data.movie_genres[data.movies, genre]
            assert_allclose(world.expected[row, arm], data.ratings[own].mean() - level)
    if groups:
        assert_array_equal(world.tasks, users[:, 0] % 2)


def test_recorded_contexts_are_factors_on_the_scale_of_the_users_of_the_prior(movielens):
    data = movielens()
    world = recorded_movielens(data, **REAL)
    found, held_in, level = users_met(data, world)
    met = data.users[found[:, 0]]

    factors = factorise(
        data.users[held_in], data.movies[held_in], data.ratings[held_in] - level, shape=(60, 50), n_factors=3
    ).rows
    genres = [data.genres.index(name) for name in world.settings()["genres"]]
    seen = np.array([data.movie_genres[data.movies[~held_in & (data.users == user)]].any(axis=0) for user in range(60)])
    known = np.setdiff1d(np.flatnonzero(seen[:, genres].all(axis=1)), met)
    assert known.size == world.settings()["n_fit_rows"]
    scaled = (factors[met] - factors[known].mean(axis=0)) / factors[known].std(axis=0)
    assert_allclose(world.contexts, np.column_stack([np.ones(len(met)), scaled]), atol=1e-9)


def test_the_rating_is_chosen_among_all(movielens):
    data = movielens()
    found, held_in, _ = users_met(data, recorded_movielens(data, **REAL))
    # Were it always the first of the file, every rank would be 0.
    ranks = [np.sum((data.users[:rating] == data.users[rating]) & ~held_in[:rating]) for rating in found[:, 0]]
    assert np.mean(ranks) > 2


def test_groups_by_the_first_rating_are_equal(movielens):
    data = movielens(groups=False)
    world = recorded_movielens(data, **REAL, n_groups=3)
    users = data.users[users_met(data, world)[0][:, 0]]

    start = np.array([data.times[data.users == user].min() for user in range(60)])
    rank = start.argsort().argsort()
    assert_array_equal(world.tasks, rank[users] // 20)


def test_other_ratings_do_not_reach_the_contexts(movielens):
    data = movielens()
    held_in = training_part(data.users, 0.3, 0)
    changed = replace(data, ratings=np.where(held_in, data.ratings, data.ratings[::-1].copy()))
    one, other = (recorded_movielens(values, **REAL) for values in (data, changed))
    assert_array_equal(one.contexts, other.contexts)
    assert (one.rewards != other.rewards).any()


def test_the_prior_is_fitted_to_users_who_are_not_met(movielens):
    data = movielens()
    world = recorded_movielens(data, **REAL)
    met = np.unique(data.users[users_met(data, world)[0]])

    held_in = training_part(data.users, 0.3, 0)
    mine = np.isin(data.users, met) & ~held_in
    other = recorded_movielens(replace(data, ratings=np.where(mine, 1.0, data.ratings)), **REAL)
    assert_array_equal(other.prior.covariance, world.prior.covariance)
    assert_array_equal(other.prior.noise_variance, world.prior.noise_variance)
    settings = world.settings()
    # A fifth of the users that qualify, rounded down.
    assert settings["n_fit_rows"] == (settings["n_fit_rows"] + world.n_rows) // 5


def test_bad_input_is_one_clear_error(movielens):
    data = movielens()
    with pytest.raises(InvalidValue, match="n_arms to be at most 5, the number of genres, got 10"):
        recorded_movielens(data)
    with pytest.raises(InvalidValue, match="a mixture of 30 components needs 60 films, but 50 were rated"):
        population_from_movielens(data, n_factors=3, n_arms=30)
    with pytest.raises(InvalidValue, match="training_share to be less than 1"):
        recorded_movielens(data, **REAL, training_share=1.0)
    with pytest.raises(InvalidValue, match="split_seed to be at least 0"):
        recorded_movielens(data, **REAL, split_seed=-1)
    bare = replace(data, movie_genres=data.movie_genres & (np.arange(5) != 3))
    with pytest.raises(InvalidValue, match="0 users have other ratings in each of the 5 genres"):
        recorded_movielens(bare, n_factors=3, n_arms=5)


@pytest.mark.slow
def test_the_real_file(real_folder):
    data = load_movielens(real_folder, "1m")
    world, recorded = population_from_movielens(data), recorded_movielens(data)

    assert (world.n_tasks, world.n_arms, world.n_features, world.n_rows) == (10, 10, 10, 6040)
    assert 0.7 < world.noise_sd[0] < 0.85
    assert (recorded.n_tasks, recorded.n_arms, recorded.n_features) == (14, 10, 11)
    assert recorded.n_rows > 3000
    level = data.ratings[training_part(data.users, 0.3, 0)].mean()
    stars = recorded.rewards + level
    assert_allclose(stars, stars.round(), atol=1e-12)
    assert set(stars.round().ravel()) == {1.0, 2.0, 3.0, 4.0, 5.0}
    # Of a single rating the mean of all is the best guess: it must be closer to it than the mean over users is.
    assert np.var(stars - level - recorded.expected) < np.var(stars, axis=0).mean()
