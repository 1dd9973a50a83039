"""The demo's history: as a service would have made it, once, and learned as its log says."""

import json
import time

import pytest

from posse.fleet.replica import Replica
from posse.report import make_report
from posse.service.demo import make_history
from posse.service.demo.business import DEFINITION, FLEET, LATE, NEW_ARM, NEW_OFFER, OPENING, STORES, UNUSUAL, WEEKS
from posse.service.demo.history import DAY, _Past, announcement
from posse.service.export import read_rows
from posse.service.live_fleet import LiveFleet
from posse.service.settings import Limits
from posse.storage import open_storage

FEW = 4.0  # customers in an hour: enough to see everything, and quick


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request, tmp_path):
    return str(tmp_path / "posse.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def rows_of(storage):
    found, last = [], 0
    while rows := storage.decisions(FLEET, after=last, limit=1000):
        found += rows
        last = rows[-1].number
    return found


@pytest.mark.slow
def test_four_weeks_are_written_once_and_learned_as_the_log_says(database, start):
    storage = open_storage(database)
    now = time.time()
    made = make_history(storage, Limits(), now, customers=FEW)
    rows = rows_of(storage)
    assert made.made
    assert made.decisions == len(rows) > 1000
    assert f"{len(rows):,} decisions" in announcement(made, 1.0)
    times = [row.time for row in rows]
    assert times == sorted(times)
    assert now - 7 * WEEKS * DAY <= times[0] < now - (7 * WEEKS - 2) * DAY
    assert now - DAY < times[-1] < now
    assert all(row.time < row.reward_time <= now for row in rows if row.reward is not None)

    first = {row.arm: row.time for row in reversed(rows)}
    assert first[NEW_ARM] > times[0] + (NEW_OFFER - 1) * DAY
    assert {row.task for row in rows} == set(STORES)
    opened = next(row.time for row in rows if row.task == LATE)
    assert opened > times[0] + (OPENING - 1) * DAY

    again = make_history(storage, Limits(), now, customers=FEW)
    assert (again.made, again.decisions) == (False, len(rows))
    assert "no history is written" in announcement(again, 0.0)
    storage.close()

    service = start(database)
    found = service.read(f"/v1/fleets/{FLEET}/verify")
    assert (found["different"], found["tasks"]) == (0, len(STORES))
    assert found["rewards"] == sum(row.reward is not None for row in rows)
    # The visitors' own request finds the fleet that it would make.
    assert service.put(f"/v1/fleets/{FLEET}", json=DEFINITION).status_code == 200
    assert service.read(f"/v1/fleets/{FLEET}")["arms"] == [*DEFINITION["arms"], NEW_ARM]
    assert service.decide(UNUSUAL, json.loads(rows[-1].body)["context"], fleet=FLEET)["arm"]


@pytest.mark.slow
def test_the_story_is_there_to_be_found(tmp_path):
    storage = open_storage(str(tmp_path / "posse.db"))
    make_history(storage, Limits())
    live = LiveFleet(storage, storage.fleet(FLEET))
    live.replica.freeze()(tmp_path / "fleet")
    report = make_report(Replica.load(tmp_path / "fleet"), read_rows([rows_of(storage)]))
    storage.close()
    # 4.4 to 5.2 usual differences away in four histories; chance would put one of 20 stores at 3.2.
    assert [one.task for one in report.unusual] == [UNUSUAL]
    (random,) = [way for way in report.gains.ways if way.way == "random"]
    assert random.uplift.high < 0


def test_a_history_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    storage = open_storage(str(tmp_path / "posse.db"))
    days = iter(range(3))

    def fail(_self, _end):
        next(days)

    monkeypatch.setattr(_Past, "_end_day", fail)
    with pytest.raises((StopIteration, RuntimeError)):
        make_history(storage, Limits(), customers=1.0)
    assert storage.fleet(FLEET) is None
    storage.close()
