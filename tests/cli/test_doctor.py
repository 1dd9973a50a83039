"""``posse service doctor``: what is wrong is found, and what is right is not called wrong."""

import json
import os
import time

import pytest
from typer.testing import CliRunner

from posse.cli.doctor import ERROR, OK, WARNING
from posse.cli.main import app
from posse.service.keys import new_key
from posse.storage import ClockRow, open_storage


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSSE_DATABASE", raising=False)

    def call(*arguments, status=0):
        done = CliRunner().invoke(app, ["service", "doctor", "--json", *map(str, arguments)], catch_exceptions=False)
        assert done.exit_code == status, done.output
        return {finding["what"]: finding for finding in json.loads(done.stdout)}

    return call


@pytest.fixture
def storage(tmp_path):
    opened = open_storage(tmp_path / "posse.db")
    yield opened
    opened.close()


def test_a_sound_deployment_is_sound(doctor, storage):
    storage.keep_clock(ClockRow(time.time()))
    found = doctor()
    assert {finding["level"] for finding in found.values()} <= {OK, WARNING}  # a small disk is no error
    assert found["database"]["level"] == found["file"]["level"] == found["clock"]["level"] == OK


def test_no_database_is_said(doctor):
    assert doctor(status=1)["database"]["level"] == ERROR


def test_settings_that_cannot_be_read_are_said(doctor, tmp_path):
    (tmp_path / "posse.toml").write_text("colour = 1")
    assert "colour" in doctor("--config", "posse.toml", status=1)["settings"]["found"]


def test_a_file_that_others_may_read_is_an_error(doctor, storage):
    os.chmod("posse.db", 0o644)
    assert doctor(status=1)["file"]["advice"] == "chmod 600 posse.db"


def test_a_cache_that_numba_cannot_write_to_and_so_ignores_is_said(doctor, storage, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "kernel.nbi").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    assert doctor()["compiled code"]["level"] == OK

    def read_only(dir):  # noqa: A002
        raise OSError(30, "Read-only file system", dir)

    monkeypatch.setattr("posse.cli.doctor.tempfile.TemporaryFile", read_only)
    found = doctor()["compiled code"]
    assert found["level"] == WARNING
    assert "cannot be written to, so Numba ignores it" in found["found"]


def test_a_clock_that_is_behind_is_an_error(doctor, storage):
    storage.keep_clock(ClockRow(time.time() + 5000))
    assert doctor(status=1)["clock"]["level"] == ERROR


def test_a_definition_that_makes_no_fleet_is_an_error(doctor, storage):
    storage.create_fleet("broken", {"arms": ["a"]}, 1.0)
    assert "makes no fleet" in doctor(status=1)["fleet broken"]["found"]


def test_keys_that_are_missing_or_expire(doctor, storage, tmp_path):
    (tmp_path / "posse.toml").write_text('host = "0.0.0.0"')
    assert doctor("--config", "posse.toml", status=1)["keys"]["level"] == ERROR
    now = time.time()
    for end in (now - 50, now + 3600):
        storage.add_key(new_key(["read"], "", now - 100, expires=end)[1])
    found = doctor("--config", "posse.toml")
    assert found["keys"]["found"] == "none of them has the scope admin"
    words = sorted(finding["found"] for what, finding in found.items() if what.startswith("key "))
    assert words[0].startswith("expires in")
    assert words[1] == "has expired"


def test_an_older_database_is_said(doctor, storage):
    with storage._writing() as session:
        session.run("PRAGMA user_version = 3")
    assert "version 3" in doctor(status=1)["database"]["found"]


def test_a_service_that_is_away_is_an_error(doctor, storage):
    assert doctor("--url", "http://127.0.0.1:1", status=1)["service"]["level"] == ERROR
