"""``posse service backup``: whole copies, for their owner alone."""

import os
import stat

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, StorageMismatch
from posse.storage import open_storage


@pytest.fixture
def back_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSSE_DATABASE", raising=False)

    def call(*arguments):
        return CliRunner().invoke(app, ["service", "backup", *map(str, arguments)], catch_exceptions=False)

    return call


def test_a_copy_is_whole_and_private_while_the_database_is_in_use(tmp_path, back_up):
    storage = open_storage(tmp_path / "posse.db")
    storage.create_fleet("stores", {"arms": ["a"], "time_to_live": None}, 1.0)
    before = os.umask(0o000)
    try:
        assert "copy.db has" in back_up("copy.db").output
    finally:
        os.umask(before)
    storage.create_fleet("later", {"arms": ["a"], "time_to_live": None}, 1.0)
    storage.close()
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    copy = open_storage(tmp_path / "copy.db")
    assert [row.name for row in copy.fleets()] == ["stores"]
    copy.close()


def test_what_cannot_be_copied_leaves_nothing_behind(tmp_path, back_up):
    with pytest.raises(InvalidValue, match=r"no database posse\.db"):
        back_up("copy.db")
    (tmp_path / "posse.db").write_text("hello, this is no database at all" * 100)
    with pytest.raises(StorageMismatch, match="not an SQLite database"):
        back_up("copy.db")
    with pytest.raises(InvalidValue, match="pg_dump"):
        back_up("copy.db", "--database", "postgresql://host/name")
    assert os.listdir(tmp_path) == ["posse.db"]


def test_nothing_is_written_over(tmp_path, back_up):
    open_storage(tmp_path / "posse.db").close()
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(InvalidValue, match="there already"):
        back_up("copy.db")
    assert (tmp_path / "copy.db").read_text() == "mine"
