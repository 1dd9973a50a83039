"""Storages of older and newer versions."""

import pytest

from posse.errors import StorageMismatch
from posse.storage import ACCEPTED, SAME, open_storage
from posse.storage import migrations as folder

LAST = folder.FIRST + len(folder.migrations("sqlite")) - 1
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


@pytest.mark.parametrize("migrate", [True, False])
def test_storage_of_an_unreleased_version_is_refused_and_left_alone(storage, open_one, make, migrate):
    storage.write([[make.decision("a")]])
    with storage._writing() as session:
        session.run("PRAGMA user_version = 6" if storage.BINARY == "blob" else "UPDATE schema_version SET version = 6")
    with pytest.raises(StorageMismatch, match="posse service ingest") as caught:
        open_one(migrate=migrate)
    assert "\n" not in str(caught.value)
    assert storage.schema_version() == 6
    assert storage.decision("a").task == "north"


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


def test_a_running_process_goes_on_while_another_upgrades(storage, open_one, make, newer):
    """A step adds; so processes can be replaced one after another."""
    storage.write([[make.decision("a")], [make.decision("b")]])
    assert storage.lead()
    newer(["ALTER TABLE decisions ADD COLUMN later INTEGER", "CREATE TABLE later (id INTEGER)"])
    new = open_one()
    assert new.schema_version() == LAST + 1
    for number, one in enumerate((storage, new, storage, new)):
        written = one.write([[make.decision(f"n{number}")], [make.reward("ab"[number // 2], float(number // 2))]])
        kinds = [outcome.kind for [outcome] in written.outcomes]
        assert kinds == [ACCEPTED, SAME if number % 2 else ACCEPTED]
    assert storage.changes("stores", 0) == new.changes("stores", 0)
    assert storage.fleet("stores") == new.fleet("stores")
    assert storage.lead()
    storage.close()
    assert new.lead()
