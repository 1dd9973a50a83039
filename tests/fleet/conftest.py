"""Small fleets, tables and snapshots that the tests of a fleet share."""

import dataclasses
import itertools
import json
import secrets

import numpy as np
import polars as pl
import pytest

from posse import FeatureSpec, Posse
from posse.core.state import N_SLOTS, N_TASKS
from posse.core.store import COUNT, DECAY, DECAY_AT, FIRST, MOMENT, NEXT, PRECISION, totals_at
from posse.fleet.file import state_of
from posse.fleet.ledger import COLUMNS
from posse.model import Prior

ARMS = ("red", "green", "blue")


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


class CountedLock:
    """A lock that counts how often it was taken."""

    def __init__(self, lock):
        self.lock, self.taken = lock, 0

    def __enter__(self):
        self.taken += 1
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


@pytest.fixture
def counted_lock():
    return CountedLock


def make_table(n_rows, seed=0, *, n_tasks=5, arms=ARMS, task_names=None):
    """Rows of a world in which tasks differ, contexts ``a`` and ``b``."""
    rng = np.random.default_rng([seed, 1])
    world = np.random.default_rng(0)  # the same tasks whatever the seed
    coefficients = world.normal(size=(len(arms), 1, 3)) + 0.5 * world.normal(size=(len(arms), max(n_tasks, 50), 3))
    tasks, pulled = rng.integers(n_tasks, size=n_rows), rng.integers(len(arms), size=n_rows)
    X = np.column_stack([np.ones(n_rows), rng.normal(size=(n_rows, 2))])
    rewards = np.einsum("ni,ni->n", X, coefficients[pulled, tasks]) + 0.3 * rng.normal(size=n_rows)
    names = task_names or [f"t{task}" for task in range(n_tasks)]
    return pl.DataFrame(
        {
            "task": [names[task] for task in tasks],
            "arm": [arms[arm] for arm in pulled],
            "a": X[:, 1],
            "b": X[:, 2],
            "reward": rewards,
        }
    )


def make_fleet(rows=60, *, arms=ARMS, seed=7, clock=None, table_seed=0, **settings):
    """A fleet with features ``a`` and ``b`` and an intercept that has learned a few rows."""
    fleet = Posse(arms=arms, features=FeatureSpec(["a", "b"]), seed=seed, clock=clock or Clock(), **settings)
    if rows:
        fleet.learn_many(make_table(rows, table_seed, arms=arms))
    return fleet


def make_prior(n_arms=3, d=3, seed=5):
    """A population away from zeros, ones and identities."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_arms, d, d))
    return Prior(
        covariance=root @ root.transpose(0, 2, 1),
        noise_variance=0.2 + rng.random(n_arms),
        shared_precision=0.1 + rng.random((n_arms, d)),
    )


def decisions_of(header, arrays):
    """Return what is stored about every decision, whichever ledger it stands in: a loaded fleet begins a new one."""
    rows = []
    for number, ledger in enumerate(header["ledgers"]):
        columns = [arrays[f"ledger{number}.{name}"] for name in COLUMNS]
        rows += [tuple(column[row].tobytes() for column in columns) for row in range(ledger["size"])]
    return sorted(rows)


def take_snapshot(fleet):
    """Return everything that a file would hold, to the last bit, and the number that the next decision draws."""
    header, arrays = state_of(fleet)
    decisions = decisions_of(header, arrays)
    header = {name: value for name, value in header.items() if name not in ("ledgers", "origins")}
    arrays = {name: array for name, array in arrays.items() if not name.startswith("ledger")}
    # A slot without rewards, which a change that failed may have claimed, is as good as none.
    at = totals_at(fleet.core.n_features) + COUNT
    used = arrays["core.store.sums"][:, at] > 0
    for name in ("owner", "sums", "row_ends", "plain"):
        if len(arrays[f"core.store.{name}"]) == used.size:
            arrays[f"core.store.{name}"] = arrays[f"core.store.{name}"][used]
    arrays["core.numbers"][N_SLOTS] = used.sum()
    # So is a number of a task that was reserved for it and is not taken.
    n_tasks = int(arrays["core.numbers"][N_TASKS])
    assert (arrays["core.store.owner"][:, 0] < n_tasks).all()
    for name in ("known", "given", "weight"):
        array, stranger = arrays[f"core.store.{name}"][:n_tasks], arrays[f"core.store.{name}"][-1:]
        assert (arrays[f"core.store.{name}"][n_tasks:] == stranger).all()
        arrays[f"core.store.{name}"] = np.concatenate([array, stranger])
    del arrays["core.free_slots"]
    return {
        "decisions": decisions,
        "header": json.dumps(header, sort_keys=True),
        "next": fleet.stream.next(),
        "arms": fleet.arms,
        "ready": fleet.features.ready,
    } | {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def list_differences(one, other):
    """Return the names of what differs between two snapshots."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def new_clock():
    return Clock


@pytest.fixture(scope="session")
def table():
    return make_table


@pytest.fixture(scope="session")
def fleet_of():
    return make_fleet


@pytest.fixture(scope="session")
def population():
    return make_prior


@pytest.fixture(scope="session")
def snapshot():
    return take_snapshot


@pytest.fixture(scope="session")
def differences():
    return list_differences


@pytest.fixture
def same_prefixes(monkeypatch):
    """Fleets made after a call of this have the same ids as those made after the call before."""

    def restart():
        numbers = itertools.count()
        monkeypatch.setattr(secrets, "token_hex", lambda n=None: f"{next(numbers):012x}")

    restart()
    return restart


@pytest.fixture(scope="session")
def exactly():
    """Return all numbers of an answer as text, to the last digit: its repr shows people a few."""

    def plain(value):
        if dataclasses.is_dataclass(value):
            return [plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
        if isinstance(value, list | tuple):
            return [plain(entry) for entry in value]
        if isinstance(value, dict):
            return {key: plain(entry) for key, entry in value.items()}
        return value.tolist() if isinstance(value, np.ndarray) else value

    return lambda value: repr(plain(value))


def sums_of_sites(fleet):
    """Return by pair of clicks or counts its slot, its rows, and what these add up to.

    That is their sites as gram matrix, moment and precisions, and the weights that they have.
    """
    store, d, found = fleet.core.state.store, fleet.features.n_features, {}
    for task in fleet.tasks:
        for arm, name in enumerate(fleet.arms):
            slot, rows = store.slot[fleet.names.tasks.get(task), arm], []
            row = store.row_ends[slot, FIRST] if slot >= 0 else -1
            while row >= 0:
                rows.append(row)
                row = store.row_links[row, NEXT]
            if rows:
                weight = np.exp(store.pairs[slot, totals_at(d) + DECAY] - store.row_values[rows, DECAY_AT])
                X, w, h = store.row_context[rows], *(weight * store.row_values[rows, at] for at in (PRECISION, MOMENT))
                found[task, name] = slot, rows, ((X * w[:, None]).T @ X, h @ X, w.sum(), weight.sum())
    return found


@pytest.fixture(scope="session")
def site_sums():
    return sums_of_sites
