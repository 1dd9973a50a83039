"""Small data sets in the shapes of the real ones, and the real ones where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from posse_lab.datasets import Activity, Letter, MovieLens, Sarcos


def make_activity(sizes=(60, 200, 90, 150, 120, 300), incomplete=(5,), unused_antenna=False, seed=0):
    """Trials of these sizes, rows out of order; the incomplete ones, the largest among them, lack an activity."""
    rng = np.random.default_rng(seed)
    X, labels, trials = [], [], []
    for trial, size in enumerate(sizes):
        own = np.arange(size) % (3 if trial in incomplete else 4)
        columns = rng.normal(size=(size, 8)) + own[:, None] * [0, 1, -1, 0.5, 0, 2, 0, 0] * (1 + 0.3 * trial)
        columns[:, 0] = np.arange(size) * 0.25
        columns[:, 4] = rng.integers(1, 4, size)
        if unused_antenna:
            columns[-1, 4] = 4
        order = rng.permutation(size)
        X.append(columns[order])
        labels.append(own[order])
        trials.append(np.full(size, trial))
    names = tuple(f"d1p{trial:02}F" for trial in range(len(sizes)))
    return Activity(
        X=np.concatenate(X), labels=np.concatenate(labels), trials=np.concatenate(trials), trial_names=names,
        names=("time", "frontal", "vertical", "lateral", "antenna", "rssi", "phase", "frequency"),
        classes=("bed", "chair", "lying", "ambulating"), room=1, file=Path("x"), sha256="ac71",
    )  # fmt: skip


def make_letter(n_rows=400, seed=1):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n_rows)
    X = rng.integers(0, 12, size=(n_rows, 6)) + labels[:, None] + rng.random((n_rows, 6)) * 1e-6
    return Letter(X, labels, (), ("A", "B", "C"), Path("x"), "1e77")


def make_sarcos(n_rows=400, part="test", seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 9)) * np.arange(1, 10)
    y = X[:, :3] * np.sin(X[:, 1:4]) + rng.normal(size=(n_rows, 3)) * 0.1 + [10, -5, 0]
    return Sarcos(X, y, (), (), part, Path("x"), f"5a2c {part}")


def make_movielens(n_users=60, n_movies=50, groups=True, seed=3):
    """Ratings that are all different, so that one tells whose it is and of which film."""
    rng = np.random.default_rng(seed)
    users, movies = np.nonzero(rng.random((n_users, n_movies)) < rng.uniform(0.4, 0.9, (n_users, 1)))
    taste, kind = rng.normal(size=(n_users, 3)), rng.normal(size=(n_movies, 3))
    stars = 3 + 0.6 * (taste[users] * kind[movies]).sum(axis=1) + rng.normal(size=users.size) * 0.3
    ratings = np.round(stars) + np.arange(users.size) * 1e-6
    genres = rng.random((n_movies, 5)) < [0.5, 0.1, 0.4, 0.6, 0.3]
    genres[:5] |= np.eye(5, dtype=bool)
    return MovieLens(
        users=users, movies=movies, ratings=ratings, times=rng.integers(10**8, 10**9, users.size),
        user_ids=np.arange(n_users) + 1, movie_ids=np.arange(n_movies) * 2 + 1, genres=("a", "b", "c", "d", "e"),
        movie_genres=genres, user_groups=("F", "M") if groups else None,
        user_group=np.arange(n_users) % 2 if groups else None, size="1m" if groups else "10m", file=Path("x"),
        sha256="f11a",
    )  # fmt: skip


@pytest.fixture
def activity():
    return make_activity


@pytest.fixture
def letter():
    return make_letter


@pytest.fixture
def sarcos():
    return make_sarcos


@pytest.fixture
def movielens():
    return make_movielens


@pytest.fixture(scope="session")
def real_folder():
    folder = os.environ.get("POSSE_DATA")
    if not folder:
        pytest.skip("POSSE_DATA is not set, so there are no real files to read")
    return Path(folder)
