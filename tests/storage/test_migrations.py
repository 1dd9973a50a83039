"""Storages of older and newer versions."""

import pytest

from posse.errors import StorageMismatch
from posse.storage import migrations as folder
from posse.storage import open_storage

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
    with pytest.raises(StorageMismatch, match=r"version 1, .* needs 2.*migrate"):
        open_one(migrate=False)
    upgraded = open_one()
    assert upgraded.schema_version() == 2
    assert upgraded._read("SELECT note FROM keys") == []
    assert upgraded.decision("a").task == "north"
    assert open_one(migrate=False).schema_version() == 2


def test_step_that_fails_leaves_the_storage_as_it_was(storage, open_one, monkeypatch, newer, make):
    newer(["CREATE TABLE half (x INTEGER)", "THIS IS NO STATEMENT"])
    with pytest.raises(StorageMismatch):
        open_one()
    assert storage.schema_version() == 1
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
    assert storage.schema_version() == 2


def test_empty_place_is_refused_without_migrating(tmp_path):
    with pytest.raises(StorageMismatch, match="migrate=True"):
        open_storage(tmp_path / "none.db", migrate=False)
    assert list(tmp_path.iterdir()) == []
