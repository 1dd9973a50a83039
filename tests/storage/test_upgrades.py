"""Storages of every version there ever was are brought up to date, with all that is in them, while others use them."""

import json

import psycopg
import pytest

from posse.service.definition import new_definition
from posse.service.live_fleet import LiveFleet
from posse.service.schemas import Definition
from posse.service.settings import Limits
from posse.service.verify import Verification
from posse.storage import ACCEPTED, SAME, KeyRow
from posse.storage import migrations as folder

VERSIONS = range(1, len(folder.migrations("sqlite")) + 1)
SINCE = {"count_pending": 2, "reward_events": 6, "reward_window": 6}
"""The version with which a definition got a word."""

FLEET = """
INSERT INTO fleets (name, definition, time_to_live, created, number, tasks, decisions, rewards, pending, changes)
VALUES (?, ?, 1000.0, 12.5, 3, 1, 3, 2, 1, 2)
"""
DECISION = """
INSERT INTO decisions (id, fleet, number, time, state, change, reward, reward_time, task, arm, propensity, policy,
  version, key, digest, body)
VALUES (?, 1, ?, ?, ?, ?, ?, ?, 'north', 'cake', 0.25, 'ebm-rand-ucb', '0.1', ?, ?, ?)
"""


def body(hour):
    return json.dumps(
        {"context": {"hour": hour}, "eligible": ["cake"], "probabilities": [1.0], "mean": [0.0], "sd": [1.0]}
    )


@pytest.fixture
def old(address, open_one, monkeypatch):
    """Make a storage as a posse of some version left it."""

    def made(version):
        if address.startswith("postgres"):
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("DROP SCHEMA posse CASCADE")
        given = Definition(arms=["cake", "coffee"], features=["hour"]).model_dump()
        definition = new_definition(given, Limits())
        definition = {name: value for name, value in definition.items() if SINCE.get(name, 1) <= version}
        known = folder.migrations
        with monkeypatch.context() as patched:
            patched.setattr(folder, "migrations", lambda dialect: known(dialect)[:version])
            storage = open_one()
            assert storage.schema_version() == version
            with storage._writing() as session:
                session.run(FLEET, "stores", json.dumps(definition))
                for number, (state, change, reward) in enumerate([(1, 1, 2.0), (1, 2, -1.0), (0, None, None)], 1):
                    when = None if reward is None else 130.0
                    session.run(
                        DECISION, f"d{number}", number, 100.0 + number, state, change, reward, when, f"key-{number}",
                        f"digest-{number}", body(float(number)),
                    )  # fmt: skip
                session.run(
                    "INSERT INTO tasks (fleet, task, folded, first_time, decisions, rewards) "
                    "VALUES (1, 'north', 'north', 101.0, 3, 2)"
                )
                session.run(
                    "INSERT INTO activity (fleet, minute, decisions, rewards, reward_sum) VALUES (1, 2, 3, 2, 1.0)"
                )
                session.run(
                    "INSERT INTO keys (id, label, scopes, digest, created) VALUES ('k1', 'me', 'read admin', 'ab', 1.5)"
                )
            storage.close()

    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_all_is_there_after_an_upgrade_and_goes_on(old, open_one, make, version):
    old(version)
    storage = open_one()
    assert storage.schema_version() == VERSIONS[-1]
    row = storage.fleet("stores")
    assert row[2:] == (12.5, 1, 3, 2, 1, 2, 0)
    assert [one.reward for one in storage.decisions("stores")] == [2.0, -1.0, None]
    assert [(one.number, one.reward, one.old) for one in storage.changes("stores", 0)] == [
        (1, 2.0, None),
        (2, -1.0, None),
    ]
    assert storage.keys() == [KeyRow("k1", "me", ("read", "admin"), "ab", 1.5)]
    assert storage.audit() == []
    again = make.decision("other", "north", key="key-1", digest="digest-1", time=500.0)
    [[outcome]] = storage.write([[again]]).outcomes
    assert (outcome.kind, outcome.decision.id) == (SAME, "d1")
    storage.write([[make.reward("d3", 4.0)], [make.reward("d1", 3.0, corrects=True)]])
    live = LiveFleet(storage, storage.fleet("stores"))
    assert live.replica.n_rewards == 3
    found = Verification(storage, storage.fleet("stores"), live.replica).all()
    assert (found.different, found.rewards) == (0, 3)


def test_whoever_runs_goes_on_while_another_upgrades(storage, open_one, make, monkeypatch):
    """A step adds; so processes can be replaced one after another."""
    storage.write([[make.decision("a")], [make.decision("b")]])
    assert storage.lead()
    known = folder.migrations
    step = ["ALTER TABLE decisions ADD COLUMN later INTEGER", "CREATE TABLE later (id INTEGER)"]
    monkeypatch.setattr(folder, "migrations", lambda dialect: [*known(dialect), step])
    newer = open_one()
    assert newer.schema_version() == VERSIONS[-1] + 1
    for number, one in enumerate((storage, newer, storage, newer)):
        written = one.write([[make.decision(f"n{number}")], [make.reward("ab"[number // 2], float(number // 2))]])
        kinds = [outcome.kind for [outcome] in written.outcomes]
        assert kinds == [ACCEPTED, SAME if number % 2 else ACCEPTED]
    assert storage.changes("stores", 0) == newer.changes("stores", 0)
    assert storage.fleet("stores") == newer.fleet("stores")
    assert storage.lead()
    storage.close()
    assert newer.lead()
