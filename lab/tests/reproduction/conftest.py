"""Results made by hand, small data sets in the official formats, and the command in this process."""

import zipfile

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from posse.cli.main import app
from posse.simulation import SimulationResult
from posse_lab.reproduction.lineup import lineup
from posse_lab.reproduction.reading import Reading

# Regret of a factor 1 by seed; every other seed has half of the sum, so that a wobble moves no mean.
LEVELS = np.array([80.0, 85.0, 95.0, 100.0, 105.0, 110.0, 135.0, 120.0])


@pytest.fixture
def result():
    """Make a result from the regret of each policy: an array with a row per seed and a column per step."""

    def make(curves, steps, *, tracked=None, expected=None, complete=True, world=None):
        rows = []
        for policy, table in curves.items():
            for seed, curve in enumerate(np.asarray(table, dtype=np.float64)):
                own = np.asarray((tracked or {}).get(policy, np.asarray(table) / 4)[seed], dtype=np.float64)
                row = {
                    "policy": policy,
                    "seed": seed,
                    "regret": float(curve[-1]),
                    "task_regret": np.array([own[-1], curve[-1] - own[-1]]),
                    "curve": curve,
                    "tracked_curve": own,
                }
                if expected is not None:
                    row["expected_curve"] = np.asarray(expected[policy][seed], dtype=np.float64)
                rows.append(row)
        settings = {
            "world": world or {"n_tasks": 2, "n_arms": 5},
            "horizon": int(steps[-1]),
            "policies": {policy: {} for policy in curves},
            "steps": [int(step) for step in steps],
            "track_task": 0,
            "appendix": expected is not None,
        }
        return SimulationResult.from_rows(
            rows, settings=settings, descriptions={}, version="0", complete=complete, order=list(curves)
        )

    return make


@pytest.fixture
def reading(result):
    """Make a reading of the whole line-up from factors; who is not named has regret 2 times the level of the seed.

    A factor is a number, or one per step; ``wobble`` multiplies the seeds of a policy by 1 ± its value in turn, which
    leaves its mean where it was and widens its intervals.
    """

    def make(factors, *, steps=(50, 100), source="made", label="", tracked=None, wobble=None):
        def table(policy, factor):
            shape = np.broadcast_to(np.asarray(factor, dtype=np.float64), (len(steps),))
            swing = np.where(np.arange(LEVELS.size) % 2, 1.0, -1.0) * (wobble or {}).get(policy, 0.0)
            return (LEVELS * (1 + swing))[:, None] * shape * (np.asarray(steps) / steps[-1])

        everyone = lineup(scheduled=True)
        assert set(factors) <= set(everyone), set(factors) - set(everyone)
        curves = {policy: table(policy, factors.get(policy, 2.0)) for policy in everyone}
        own = {policy: table(policy, (tracked or {}).get(policy, 0.5)) for policy in everyone}
        return Reading(result(curves, steps, tracked=own), source, label)

    return make


@pytest.fixture(scope="session")
def data_files(tmp_path_factory):
    """A data folder with a small file of every data set, in the official formats."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(11)
    _write_letter(root / "letter", rng)
    _write_sarcos(root / "sarcos", rng)
    _write_activity(root / "activity" / "S1_Dataset", rng)
    _write_movielens(root / "movielens", rng)
    return root


def _write_letter(folder, rng, n_rows=600):
    labels = np.arange(n_rows) % 26  # all letters among the first 30 %
    # Letters that are hard to tell apart: the easier they are, the longer the offline prior takes to find.
    X = np.clip(rng.integers(5, 10, (26, 16))[labels] + rng.integers(-6, 7, (n_rows, 16)), 0, 15)
    lines = [",".join([chr(65 + label), *map(str, row)]) for label, row in zip(labels, X, strict=True)]
    folder.mkdir(parents=True)
    (folder / "letter-recognition.data").write_text("\n".join(lines) + "\n")


def _write_sarcos(folder, rng, n_rows=400):
    X = rng.normal(size=(n_rows, 21))
    y = X @ rng.normal(size=(21, 7)) + 3 * np.sin(2 * X[:, :7]) + rng.normal(size=(n_rows, 7))
    folder.mkdir(parents=True)
    savemat(folder / "sarcos_inv_test.mat", {"sarcos_inv_test": np.column_stack([X, y])})


def _write_activity(folder, rng):
    folder.mkdir(parents=True)
    for trial in range(5):
        size = 60 + 10 * trial
        labels = np.arange(size) % 4 + 1
        moves = rng.normal(size=(size, 3)) + labels[:, None] * [0.3, -0.2, 0.5] * (1 + 0.2 * trial)
        table = np.column_stack(
            [
                np.arange(size) * 0.25,
                moves.round(5),
                rng.integers(1, 5, size),
                rng.normal(-60, 1, size).round(1),
                rng.uniform(0, 6, size).round(3),
                922 + rng.integers(0, 6, size) * 0.5,
                labels,
            ]
        )
        lines = [",".join(f"{cell:g}" if i in (4, 8) else f"{cell:.5f}" for i, cell in enumerate(row)) for row in table]
        (folder / f"d1p{trial + 1:02}{'MF'[trial % 2]}").write_text("\n".join(lines) + "\n")


def _write_movielens(folder, rng, n_users=220, n_movies=60):
    genres = np.array(["Action", "Comedy", "Drama", "Thriller"])
    of = rng.random((n_movies, 4)) < 0.5
    of[np.arange(n_movies), np.arange(n_movies) % 4] = True
    taste, kind = rng.normal(size=(n_users, 3)), rng.normal(size=(n_movies, 3))
    users, movies = np.nonzero(rng.random((n_users, n_movies)) < 0.5)
    liking = 3.4 + 0.7 * (taste[users] * kind[movies]).sum(axis=1) + 0.5 * rng.normal(size=users.size)
    stars = np.clip(liking.round(), 1, 5).astype(int)
    ages = ("1", "18", "25", "35", "45", "50", "56")
    members = {
        "ratings": [
            f"{u + 1}::{m + 1}::{s}::{978300000 + i}"
            for i, (u, m, s) in enumerate(zip(users, movies, stars, strict=True))
        ],
        "movies": [f"{m + 1}::Film {m + 1} (1990)::{'|'.join(genres[of[m]])}" for m in range(n_movies)],
        "users": [f"{u + 1}::{'FM'[u // 7 % 2]}::{ages[u % 7]}::3::12345" for u in range(n_users)],
    }
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "ml-1m.zip", "w") as archive:
        for name, lines in members.items():
            archive.writestr(f"ml-1m/{name}.dat", "\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def posse():
    """Run the command in this process; errors are raised."""
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    return call


@pytest.fixture(scope="session")
def files_of():
    """Return every file of a folder by its place in it."""
    return lambda root: {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


@pytest.fixture(scope="session")
def final_regret():
    """Return mean regret at the horizon by policy, straight from a result file."""

    def read(file, column="curve"):
        table = pl.read_parquet(file).with_columns(pl.col(column).list.last().alias("last"))
        return dict(table.group_by("policy").agg(pl.col("last").mean()).iter_rows())

    return read
