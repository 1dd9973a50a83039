"""``posse service keys``: keys are made, listed and revoked, and shown once."""

import json
import re
import sqlite3

import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.errors import InvalidValue, UnknownLabel
from posse.service.keys import KeyRing
from posse.storage import open_storage


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSSE_DATABASE", raising=False)

    def call(*arguments, **rest):
        return CliRunner().invoke(app, ["service", "keys", *map(str, arguments)], catch_exceptions=False, **rest)

    return call


def stored(path="posse.db"):
    storage = open_storage(path)
    rows = storage.keys()
    storage.close()
    return rows


def test_a_key_is_printed_once_and_works(run, tmp_path):
    done = run("create", "--scope", "decide", "-s", "reward", "--label", "the shop")
    key = done.stdout.strip()
    assert re.fullmatch(r"posse_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
    assert "not shown again" in done.stderr
    (row,) = stored()
    assert (row.scopes, row.label) == (("decide", "reward"), "the shop")
    assert KeyRing([row]).find(key) == row

    listed = run("list").stdout
    assert row.id in listed
    assert "the shop" in listed
    assert "decide, reward" in listed
    assert key not in listed
    assert row.digest not in listed
    assert key.split("_", 2)[2].encode() not in (tmp_path / "posse.db").read_bytes()


def test_a_revoked_key_is_gone(run, tmp_path):
    one, other = (run("create", "--scope", "read").stdout.strip() for _ in range(2))
    done = run("revoke", one.split("_")[1])
    assert "is revoked" in done.stdout
    assert [row.id for row in stored()] == [other.split("_")[1]]
    with pytest.raises(UnknownLabel, match="posse service keys list"):
        run("revoke", one.split("_")[1])
    with sqlite3.connect(tmp_path / "posse.db") as connection:
        assert connection.execute("SELECT count(*) FROM keys WHERE digest <> ''").fetchone() == (1,)
    connection.close()


def test_a_key_may_be_for_some_fleets_and_expire(run):
    run("create", "--scope", "read", "--fleet", "stores", "-f", "north", "--expires", "90d")
    (row,) = stored()
    assert row.fleets == ("north", "stores")
    assert row.expires - row.created == pytest.approx(90 * 86400)
    listed = run("list", env={"COLUMNS": "200"}).stdout
    assert "north, stores" in listed
    assert "never" in listed  # used


@pytest.mark.parametrize("wrong", [["--expires", "soon"], ["--fleet", "a b"], ["--expires", "0s"]])
def test_a_key_with_a_wrong_end_or_fleet_is_not_made(run, tmp_path, wrong):
    with pytest.raises(InvalidValue, match="expected"):
        run("create", "--scope", "read", *wrong)
    assert not (tmp_path / "posse.db").exists()


def test_a_key_is_rotated(run):
    old = run("create", "--scope", "read", "--label", "me", "--fleet", "stores").stdout.strip().split("_")[1]
    done = run("rotate", old, "--grace", "2h")
    new = done.stdout.strip()
    assert f"key {old} is good until" in done.stderr
    rows = {row.id: row for row in stored()}
    assert rows[new.split("_")[1]][1:3] == ("me", ("read",))
    assert rows[new.split("_")[1]].fleets == ("stores",)
    assert rows[old].expires - rows[new.split("_")[1]].created == pytest.approx(7200, abs=5)
    with pytest.raises(UnknownLabel, match="posse service keys list"):
        run("rotate", "none")


def test_what_was_done_to_keys_is_in_the_audit_log(run):
    one = run("create", "--scope", "read").stdout.strip().split("_")[1]
    run("rotate", one)
    run("revoke", one)
    found = [json.loads(line) for line in run("audit", "--json").stdout.splitlines()]
    assert [(row["action"], row["target"]) for row in found] == [
        ("keys revoke", one), ("keys rotate", one), ("keys create", one)
    ]  # fmt: skip
    assert {row["actor"] for row in found} == {"command line"}
    assert "keys revoke" in run("audit", env={"COLUMNS": "200"}).stdout


def test_without_keys_it_says_how_to_make_one(run):
    assert "posse service keys create" in run("list").stdout


def test_the_database_may_be_named_in_three_ways(run, tmp_path):
    run("create", "--scope", "read", "--database", tmp_path / "one.db")
    run("create", "--scope", "read", env={"POSSE_DATABASE": str(tmp_path / "two.db")})
    (tmp_path / "posse.toml").write_text('database = "three.db"\nhost = "0.0.0.0"\n')
    run("create", "--scope", "read", "--config", tmp_path / "posse.toml")
    for name in ("one.db", "two.db", "three.db"):
        assert len(stored(tmp_path / name)) == 1
    assert not (tmp_path / "posse.db").exists()


@pytest.mark.parametrize("scopes", [["root"], ["read", "write"], ["ADMIN"]])
def test_scopes_that_are_none_make_no_key(run, tmp_path, scopes):
    with pytest.raises(InvalidValue, match="decide, reward, read, admin"):
        run("create", *(part for scope in scopes for part in ("--scope", scope)))
    assert not (tmp_path / "posse.db").exists()


def test_a_key_without_a_scope_is_refused(run):
    done = run("create")
    assert done.exit_code == 2
    assert "scope" in done.stderr


def test_a_label_that_cannot_be_shown_is_refused(run):
    with pytest.raises(InvalidValue, match="label"):
        run("create", "--scope", "read", "--label", "a\x1b[31m")


def test_labels_are_shown_as_they_are(run):
    run("create", "--scope", "read", "--label", "[bold]x[/bold]")
    assert "[bold]x[/bold]" in run("list").stdout


@pytest.mark.parametrize("command", [[], ["create"], ["list"], ["revoke"], ["rotate"], ["audit"]])
def test_help_says_what_is_expected(run, command):
    text = re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", run(*command, "--help").stdout))
    assert "key" in text
    if command == ["create"]:
        assert "decide, reward, read or admin" in text
        assert "--label" in text
