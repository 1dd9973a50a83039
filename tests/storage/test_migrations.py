"""Storages of older and newer versions."""

import json

import psycopg
import pytest

from posse.errors import StorageMismatch
from posse.storage import migrations as folder
from posse.storage import open_storage

LAST = len(folder.migrations("sqlite"))
STEP = ["ALTER TABLE keys ADD COLUMN note TEXT", "UPDATE keys SET note = label"]


@pytest.fixture
def newer(monkeypatch):
    """A posse that knows one more step; returns a function that sets it."""
    known = folder.migrations

    def learn(step):
        monkeypatch.setattr(folder, "migrations", lambda dialect: [*known(dialect), step])

    return learn


def test_older_storage_is_brought_up_to_date(storage, open_one, make, newer):
    storage.write([[make.decision("a")]])
    newer(STEP)
    with pytest.raises(StorageMismatch, match=rf"version {LAST}, .* needs {LAST + 1}.*migrate"):
        open_one(migrate=False)
    upgraded = open_one()
    assert upgraded.schema_version() == LAST + 1
    assert upgraded._read("SELECT note FROM keys") == []
    assert upgraded.decision("a").task == "north"
    assert open_one(migrate=False).schema_version() == LAST + 1


def test_fleets_from_before_decisions_counted(address, open_one, make, monkeypatch):
    """Their decisions did not count while they waited, so their rewards replace nothing; new ones do."""
    known = folder.migrations
    if address.startswith("postgres"):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP SCHEMA posse CASCADE")
    definition = make.DEFINITION | {"absent_reward": -0.25}
    insert = "INSERT INTO fleets (name, definition, time_to_live, created, number, tasks, decisions, pending) VALUES "
    decision = (
        "INSERT INTO decisions (id, fleet, number, time, task, arm, propensity, policy, version, digest, body) "
        "VALUES ('old', 1, 1, 100.0, 'north', 'cake', 0.25, 'ebm-ts', '0.7', '', '{}')"
    )
    with monkeypatch.context() as patched:
        patched.setattr(folder, "migrations", lambda dialect: known(dialect)[:1])
        before = open_one()
        with before._writing() as session:
            session.run(insert + "(?, ?, ?, ?, 1, 1, 1, 1)", "stores", json.dumps(definition), 1000.0, 12.5)
            session.run(decision)
        before.close()
    storage = open_one()
    assert storage.fleet("stores").definition == definition | {
        "count_pending": True, "reward_events": "once", "reward_window": None,
    }  # fmt: skip
    storage.write([[make.decision("new")]])
    storage.write([[make.reward("old", 1.0)], [make.reward("new", 2.0)]])
    found = [(change.kind, change.reward, change.old) for change in storage.changes("stores", 0)]
    assert found == [("decision", -0.25, None), ("reward", 1.0, None), ("reward", 2.0, -0.25)]


def test_step_that_fails_leaves_the_storage_as_it_was(storage, open_one, monkeypatch, newer, make):
    newer(["CREATE TABLE half (x INTEGER)", "THIS IS NO STATEMENT"])
    with pytest.raises(StorageMismatch):
        open_one()
    assert storage.schema_version() == LAST
    monkeypatch.undo()
    with pytest.raises(StorageMismatch):
        storage._read("SELECT * FROM half")
    assert open_one().fleet("stores").created == 12.5


def test_newer_storage_is_refused_and_left_alone(storage, open_one, newer, monkeypatch):
    newer(STEP)
    open_one().close()
    monkeypatch.undo()
    for migrate in (True, False):
        with pytest.raises(StorageMismatch, match="newer posse"):
            open_one(migrate=migrate)
    assert storage.schema_version() == LAST + 1


def test_empty_place_is_refused_without_migrating(tmp_path):
    with pytest.raises(StorageMismatch, match="migrate=True"):
        open_storage(tmp_path / "none.db", migrate=False)
    assert list(tmp_path.iterdir()) == []
