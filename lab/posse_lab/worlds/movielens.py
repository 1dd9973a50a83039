"""Worlds from MovieLens: users are contexts, kinds of films are arms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posse.checks import whole_number
from posse.errors import InvalidValue, MissingDependency
from posse.types import Array, BoolArray, IntArray
from posse_lab.worlds.factorisation import PENALTY, ROUNDS, factorise
from posse_lab.worlds.features import Scaling, with_intercept
from posse_lab.worlds.grouped import RecordedWorld, recorded_world
from posse_lab.worlds.population import PopulationWorld
from posse_lab.worlds.rows import checked_share, split_at_random

if TYPE_CHECKING:
    from posse_lab.datasets import MovieLens

MIXTURE_SEED = 0


def population_from_movielens(
    data: MovieLens,
    *,
    n_factors: int = 10,
    n_arms: int = 10,
    n_tasks: int = 10,
    heterogeneity: float = 1.0,
) -> PopulationWorld:
    r"""Return the paper's world: clusters of films are the arms' populations, users' factors are the contexts.

    Parameters
    ----------
    data : MovieLens
    n_factors : int
        Rank of the factorisation.
    n_arms : int
        Components of the Gaussian mixture of the films' factors. Mean and covariance of component k are the population
        of arm k; the component with most films is the first.
    n_tasks : int
    heterogeneity : float
        What the covariances are multiplied by.

    Notes
    -----
    Ratings are centred by the mean of their user and factorised where they are known, singular values split by square
    root. The noise has the standard deviation of the factorisation's error. Needs scikit-learn.
    """
    n_arms = whole_number(n_arms, "n_arms", at_least=1)
    n_movies = len(data.movie_ids)
    if n_movies < 2 * n_arms:
        raise InvalidValue(f"a mixture of {n_arms} components needs {2 * n_arms} films, but {n_movies} were rated")
    level = np.bincount(data.users, weights=data.ratings) / np.maximum(np.bincount(data.users), 1)
    factors = factorise(
        data.users,
        data.movies,
        data.ratings - level[data.users],
        shape=(len(data.user_ids), n_movies),
        n_factors=n_factors,
    )
    centres, covariance = _mixture(factors.columns, n_arms)
    return PopulationWorld(
        name=f"movielens {data.size}",
        contexts=factors.rows,
        centres=centres,
        covariance=covariance,
        noise_sd=np.full(n_arms, factors.rmse),
        n_tasks=n_tasks,
        heterogeneity=heterogeneity,
        checksum=data.sha256,
        details={
            "n_ratings": int(data.ratings.size),
            "n_movies": n_movies,
            "centred_by": "user",
            "penalty": PENALTY,
            "n_iterations": ROUNDS,
        },
    )


def recorded_movielens(
    data: MovieLens,
    *,
    n_factors: int = 10,
    n_arms: int = 10,
    n_groups: int = 10,
    training_share: float = 0.3,
    prior_share: float = 0.2,
    split_seed: int = 0,
) -> RecordedWorld:
    """Return the world in which an arm is a genre and pays a rating that this user really gave to a film of it.

    Parameters
    ----------
    data : MovieLens
    n_factors : int
        Rank of the factorisation that gives the users' features.
    n_arms : int
        The genres with most ratings; the first has most.
    n_groups : int
        Tasks, where the file says nothing about users: equal groups by the time of their first rating. Where it does,
        tasks are the groups of the file, gender and age, and this is not used.
    training_share : float
        Share of every user's ratings, chosen at random once, that the factors come from. No reward is among them.
    prior_share : float
        Share of the users, chosen at random once, that the prior is fitted to offline. They are not met.
    split_seed : int
        Chooses training ratings, rewards and users.

    Notes
    -----
    Ratings are centred by the mean of all training ratings, so users keep their own level. The reward of an arm is one
    of the user's other ratings in this genre, chosen at random once; what it is expected to pay is the mean of them
    all. Only users who have one in every genre are met, each once per run. Contexts are an intercept and the
    user's factors, standardised.
    """
    split_seed = whole_number(split_seed, "split_seed", at_least=0)
    n_arms = whole_number(n_arms, "n_arms", at_least=1)
    users, n_users = data.users, len(data.user_ids)
    first = training_part(users, training_share, split_seed)
    level = float(data.ratings[first].mean())
    factors = factorise(
        users[first],
        data.movies[first],
        data.ratings[first] - level,
        shape=(n_users, len(data.movie_ids)),
        n_factors=n_factors,
    )
    genres = _largest_genres(data, n_arms)
    rewards, expected = _ratings_by_genre(data, ~first, genres, split_seed)
    complete = np.flatnonzero(np.isfinite(rewards).all(axis=1))
    if complete.size < 2:
        raise InvalidValue(
            f"{complete.size} users have other ratings in each of the {n_arms} genres, but at least 2 are needed; ask "
            "for fewer arms or a smaller training_share"
        )
    chosen, others = split_at_random(complete.size, prior_share, "prior_share", split_seed)
    known, met = complete[chosen], complete[others]
    contexts = with_intercept(Scaling.of(factors.rows[known], "factor").apply(factors.rows))
    tasks, n_tasks, kind = _groups(data, n_groups)
    return recorded_world(
        f"movielens {data.size}", contexts, tasks, rewards - level, expected=expected - level, fit=known, met=met,
        n_tasks=n_tasks, checksum=data.sha256,
        details={
            "tasks": kind,
            "genres": [data.genres[genre] for genre in genres],
            "training_share": training_share,
            "prior_share": prior_share,
            "fit_rows": "users chosen at random, with other ratings in every genre",
            "met_rows": "the other users who have them",
            "n_fit_rows": int(known.size),
            "centred_by": "all training ratings",
            "penalty": PENALTY,
            "n_iterations": ROUNDS,
            "split_seed": split_seed,
            "prior": "evidence, fitted offline to users that are not met",
        },
    )  # fmt: skip


def training_part(users: IntArray, share: float, seed: int) -> BoolArray:
    """Return which ratings are for training: a share of every user's, rounded up, chosen at random."""
    checked_share(share, "training_share")
    key = np.random.default_rng([seed, 0]).random(users.size)
    order = np.lexsort((key, users))
    counts = np.bincount(users)
    place = np.arange(users.size) - (np.cumsum(counts) - counts)[users[order]]
    result = np.empty(users.size, dtype=np.bool_)
    result[order] = place < share * counts[users[order]]
    return result


def _ratings_by_genre(data: MovieLens, part: BoolArray, genres: IntArray, seed: int) -> tuple[Array, Array]:
    """Return one rating of every user in every genre and the mean of them all, from ``part``; NaN where none is."""
    order = np.random.default_rng([seed, 1]).permutation(np.flatnonzero(part))
    users, movies, ratings = data.users[order], data.movies[order], data.ratings[order]
    one = np.full((len(data.user_ids), len(genres)), np.nan)
    mean = one.copy()
    for arm, genre in enumerate(genres):
        here = np.flatnonzero(data.movie_genres[movies, genre])
        found, first = np.unique(users[here], return_index=True)
        one[found, arm] = ratings[here][first]
        total = np.bincount(users[here], weights=ratings[here])
        mean[found, arm] = total[found] / np.bincount(users[here])[found]
    return one, mean


def _largest_genres(data: MovieLens, n_arms: int) -> IntArray:
    counts = np.bincount(data.movies, minlength=len(data.movie_ids)) @ data.movie_genres
    if n_arms > len(data.genres):
        raise InvalidValue(f"expected n_arms to be at most {len(data.genres)}, the number of genres, got {n_arms}")
    return np.argsort(-counts, kind="stable")[:n_arms]


def _groups(data: MovieLens, n_groups: int) -> tuple[IntArray, int, str]:
    """Return the task of every user, the number of tasks and what they are."""
    if data.user_group is not None and data.user_groups is not None:
        return data.user_group, len(data.user_groups), "gender and age"
    n_groups = whole_number(n_groups, "n_groups", at_least=1)
    n_users = len(data.user_ids)
    start = np.full(n_users, np.iinfo(np.int64).max)
    np.minimum.at(start, data.users, data.times.astype(np.int64))
    groups = np.empty(n_users, dtype=np.int64)
    groups[np.argsort(start, kind="stable")] = np.arange(n_users) * n_groups // n_users
    return groups, n_groups, f"{n_groups} equal groups by the time of the first rating"


def _mixture(points: Array, n_components: int) -> tuple[Array, Array]:
    """Return means and covariances of a Gaussian mixture, the heaviest component first."""
    try:
        from sklearn.mixture import GaussianMixture  # type: ignore[import-untyped]  # it ships no types
    except ImportError:
        raise MissingDependency("a Gaussian mixture of films needs scikit-learn: pip install scikit-learn") from None
    mixture = GaussianMixture(n_components, covariance_type="full", max_iter=1000, random_state=MIXTURE_SEED)
    # One thread: the systems of each component are tiny, and the number of cores must not change a result.
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        mixture.fit(points)
    order = np.argsort(-mixture.weights_, kind="stable")
    return np.asarray(mixture.means_[order]), np.asarray(mixture.covariances_[order])
