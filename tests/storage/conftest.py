"""Storages of both kinds, and entries to write."""

from itertools import count

import pytest

from posse.storage import NewDecision, NewReward, open_storage

KINDS = ("sqlite", "postgres")


@pytest.fixture(params=KINDS)
def address(request, tmp_path):
    """Where an empty storage is."""
    return str(tmp_path / "posse.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def open_one(address):
    """Open the storage, as another process would; all are closed at the end."""
    opened = []

    def again(**settings):
        opened.append(open_storage(address, **settings))
        return opened[-1]

    yield again
    for storage in opened:
        storage.close()


@pytest.fixture
def empty(open_one):
    return open_one()


DEFINITION = {"arms": ["coffee", "cake"], "time_to_live": 1000, "floor": 0.05, "seed": None, "note": "Größe"}


@pytest.fixture
def storage(empty):
    """A storage with the fleet "stores"."""
    assert empty.create_fleet("stores", DEFINITION, 12.5)
    return empty


@pytest.fixture
def sweep():
    """Remove all that was deleted, some rows at a time; returns how many slices there were."""

    def sweep(storage, limit=100):
        slices = 0
        while storage.sweep(limit):
            slices += 1
            assert slices < 1000
        return slices

    return sweep


class Make:
    """Entries whose ids are a, b, c, ... unless they are told."""

    DEFINITION = DEFINITION

    def __init__(self):
        self._numbers = count()

    def decision(self, name=None, task="north", *, fleet="stores", time=100.0, arm="cake", key=None, digest="", **rest):
        settings = {
            "propensity": 0.25,
            "body": '{"context": {"hour": 9.5}}',
            "policy": "ebm-ts",
            "version": "0.7",
        } | rest
        name = name or f"id-{next(self._numbers)}"
        return NewDecision(fleet=fleet, id=name, time=time, task=task, arm=arm, key=key, digest=digest, **settings)

    def reward(self, name, value=1.5, time=130.0, **rest):
        return NewReward(name, value, time, **rest)


@pytest.fixture
def make():
    return Make()


def kinds(written):
    return [[outcome.kind for outcome in group] for group in written.outcomes]


@pytest.fixture
def write(storage):
    """Write groups of one entry each, or lists; say what became of them."""

    def written(*groups, to=storage):
        done = kinds(to.write([group if isinstance(group, list) else [group] for group in groups]))
        return [what[0] if not isinstance(group, list) else what for group, what in zip(groups, done, strict=True)]

    return written
