"""``posse service restore``: a copy takes the place of a database that nobody uses, whole or not at all."""

import os
import sqlite3
import stat

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, StorageMismatch, StorageUnavailable
from posse.storage import open_storage


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSSE_DATABASE", raising=False)

    def call(*arguments):
        return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)

    return call


def fleets(path="posse.db"):
    storage = open_storage(path)
    found = [row.name for row in storage.fleets()]
    storage.close()
    return found


def names(folder):
    """Files that are not SQLite's own, nor locks."""
    return sorted(name for name in os.listdir(folder) if not name.endswith((".lock", "-shm", "-wal")))


def make(path, name):
    storage = open_storage(path)
    storage.create_fleet(name, {"arms": ["a"], "time_to_live": None}, 1.0)
    storage.close()


def test_a_copy_comes_back(run, tmp_path):
    make("posse.db", "first")
    run("service", "backup", "copy.db")
    make("posse.db", "later")
    with pytest.raises(InvalidValue, match="--replace"):
        run("service", "restore", "copy.db")
    assert fleets() == ["first", "later"]
    done = run("service", "restore", "copy.db", "--replace", "--no-verify")
    assert "1 fleets" in done.output
    assert fleets() == ["first"]
    assert stat.S_IMODE(os.stat("posse.db").st_mode) == 0o600
    (aside,) = [name for name in os.listdir(tmp_path) if ".before-" in name]
    assert aside in done.output
    assert fleets(tmp_path / aside) == ["first", "later"]
    assert fleets("copy.db") == ["first"]


def test_a_new_place_needs_no_replacing(run):
    make("one.db", "only")
    run("service", "backup", "copy.db", "--database", "one.db")
    run("service", "restore", "copy.db", "--database", "two.db", "--no-verify")
    assert fleets("two.db") == ["only"]


def test_a_database_in_use_is_left_alone(run):
    make("posse.db", "first")
    run("service", "backup", "copy.db")
    storage = open_storage("posse.db")
    assert storage.lead()
    with pytest.raises(InvalidValue, match="a service uses"):
        run("service", "restore", "copy.db", "--replace")
    assert [row.name for row in storage.fleets()] == ["first"]
    storage.close()


@pytest.mark.parametrize("link", ["file", "folder", "nothing yet"])
def test_a_link_is_the_file_that_it_leads_to(run, tmp_path, link):
    """By the link's own name there is no lock, and none of what was written last."""
    (tmp_path / "disk").mkdir()
    if link == "folder":
        os.symlink("disk", "data")
        address = "data/real.db"
    else:
        address = "posse.db"
        os.symlink("disk/real.db", address)
    make("copied.db", "first")
    run("service", "backup", "copy.db", "--database", "copied.db")
    if link != "nothing yet":
        storage = open_storage("disk/real.db")
        storage.create_fleet("later", {"arms": ["a"], "time_to_live": None}, 1.0)
        assert storage.lead()
        with pytest.raises(InvalidValue, match="a service uses"):
            run("service", "restore", "copy.db", "--database", address, "--replace")
        storage.close()
    run("service", "restore", "copy.db", "--database", address, "--replace", "--no-verify")
    assert os.path.islink("data" if link == "folder" else address)
    assert fleets("disk/real.db") == fleets(address) == ["first"]
    if link != "nothing yet":
        (aside,) = [name for name in names("disk") if ".before-" in name]
        assert fleets(tmp_path / "disk" / aside) == ["later"]


@pytest.mark.parametrize("kind", ["none", "text", "damaged", "newer", "other"])
def test_what_is_no_copy_changes_nothing(run, tmp_path, kind):
    make("posse.db", "first")
    if kind == "text":
        (tmp_path / "copy.db").write_text("no database at all" * 1000)
    elif kind == "other":
        with sqlite3.connect("copy.db") as connection:
            connection.execute("CREATE TABLE x (y)")
        connection.close()
    elif kind != "none":
        run("service", "backup", "copy.db")
        if kind == "damaged":
            size = os.path.getsize("copy.db")
            with open("copy.db", "r+b") as file:
                file.seek(4096)
                file.write(os.urandom(size - 4096))
        else:
            with sqlite3.connect("copy.db") as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
    before = names(tmp_path)
    with pytest.raises((InvalidValue, StorageMismatch, StorageUnavailable)):
        run("service", "restore", "copy.db", "--replace")
    assert names(tmp_path) == before
    assert fleets() == ["first"]


def test_a_damaged_database_is_not_copied(run, tmp_path):
    storage = open_storage("posse.db")
    storage.create_fleet("stores", {"arms": ["a"] * 3000, "time_to_live": None}, 1.0)
    storage.close()
    size = os.path.getsize("posse.db")
    with open("posse.db", "r+b") as file:
        file.seek(size - 8192)
        file.write(os.urandom(8192))
    with pytest.raises((StorageMismatch, StorageUnavailable)):
        run("service", "backup", "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_postgres_has_its_own_tools(run):
    with pytest.raises(InvalidValue, match="pg_restore"):
        run("service", "restore", "copy.db", "--database", "postgresql://host/name")
