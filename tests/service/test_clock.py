"""Clocks that jump, of this machine and of a shared database: nothing is refused or let go because of them."""

import math
import time

import pytest

from posse.service import clock as module
from posse.service.clock import LONG_STOP, SETTLE_SECONDS, TOLERANCE, SteadyClock
from posse.storage import ClockRow, open_storage

DAY = 86_400.0
NOON = 1.8e9


class Times:
    """A clock that can be set, and one that cannot."""

    def __init__(self):
        self.wall, self.steady = NOON, 50.0

    def go(self, seconds):
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def times():
    return Times()


@pytest.fixture
def clock(times):
    return SteadyClock(lambda: times.wall, lambda: times.steady)


def go(times, clock, seconds, step=10.0):
    for _ in range(math.ceil(seconds / step)):
        times.go(step)
        clock.look()


def test_it_follows_a_clock_that_is_put_right_a_little(times, clock):
    for step in (30.0, -45.0, 0.5):
        go(times, clock, 100)
        times.wall += step
        clock.look()
        assert clock() == times.wall
        assert not clock.held
    assert (clock.leeway, clock.off, clock.problem) == (0.0, 0.0, None)


def test_time_does_not_go_back_while_the_answer_of_a_database_is_on_its_way(times, clock):
    """A reward would be older than its decision."""
    told = []
    for late in (0.0, 0.2, 0.01, 0.5, 0.0):
        times.go(0.001)
        clock.look(times.wall - late)
        told += [clock(), clock()]
    assert told == sorted(told)
    go(times, clock, 100)
    assert clock() == times.wall


@pytest.mark.parametrize("jump", [40 * DAY, -40 * DAY, TOLERANCE + 1])
def test_a_jump_for_a_while_is_not_followed(times, clock, caplog, jump):
    times.wall += jump
    clock.look()
    go(times, clock, SETTLE_SECONDS - 20)
    assert clock.held
    assert clock() == pytest.approx(times.wall - jump)
    assert clock.off == pytest.approx(jump)
    assert clock.leeway == math.inf
    assert "2027-01-15" in clock.problem  # noon
    said = clock.problem
    go(times, clock, 10)
    assert clock.problem == said  # one jump is one finding
    times.wall -= jump
    clock.look()
    assert not clock.held
    assert clock() == times.wall
    assert clock.leeway == clock.allowance(DAY) == 0.0
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_clock_that_stays_where_it_jumped_to_is_believed(times, clock):
    times.wall += 40 * DAY
    clock.look()
    go(times, clock, SETTLE_SECONDS)
    assert not clock.held
    assert clock() == times.wall
    # Decisions from before seem 40 days older than they are, until they are as old as that anyway.
    assert clock.leeway == clock.allowance(DAY) == pytest.approx(40 * DAY)
    go(times, clock, DAY, step=600.0)
    assert clock.allowance(DAY) == 0.0
    assert clock.allowance(2 * DAY) == pytest.approx(40 * DAY)
    # It was the jump that was wrong, and whoever looked after it put it back: nothing seems older than it is.
    times.wall -= 40 * DAY
    go(times, clock, SETTLE_SECONDS + 10)
    assert not clock.held
    assert clock() == times.wall
    assert clock.leeway == 0.0


def test_a_clock_that_jumps_about_is_not_believed(times, clock):
    for _ in range(10):
        times.wall += DAY
        go(times, clock, SETTLE_SECONDS - 20)
        assert clock.held
    assert clock() == pytest.approx(NOON + 10 * (SETTLE_SECONDS - 20))
    go(times, clock, 40)
    assert not clock.held


def test_a_start_goes_on_where_the_last_one_ended(times, clock):
    clock.resume(ClockRow(NOON - LONG_STOP + 10, NOON - DAY, 500.0))
    assert not clock.held
    assert clock() == NOON
    assert clock.allowance(2 * DAY) == 500.0
    assert clock.kept == ClockRow(NOON, NOON - DAY, 500.0)
    clock.resume(None)
    assert not clock.held


def test_a_start_far_ahead_of_the_last_one_is_doubted(times, clock):
    clock.resume(ClockRow(NOON - 40 * DAY))
    assert clock.held
    assert clock() == NOON  # most likely it was stopped for so long
    go(times, clock, SETTLE_SECONDS)
    assert not clock.held
    assert clock.allowance(DAY) == 0.0  # time has passed, and nothing seems older than it is


def test_a_start_far_ahead_that_is_put_right_is_believed_at_once(times, clock):
    clock.resume(ClockRow(NOON - 40 * DAY))
    go(times, clock, 60)
    times.wall -= 40 * DAY - 3600
    clock.look()
    assert not clock.held
    assert clock() == times.wall


def test_a_start_behind_the_last_one_is_doubted(times, clock):
    """As on a machine without a battery, until NTP answers."""
    times.wall = 100.0
    clock.resume(ClockRow(NOON))
    assert clock.held
    assert clock() == NOON  # not before what the log has
    go(times, clock, 30)
    assert clock() == pytest.approx(NOON + 30)
    times.wall = NOON + 7200.0
    clock.look()
    assert not clock.held
    assert clock() == times.wall
    assert clock.leeway == 0.0


# With a service, on both databases.

FORGETFUL = {"time_to_live": 3600.0, "retention": 7200.0}


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    return str(tmp_path / "posse.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def ahead(address, monkeypatch):
    """Set by how many seconds the clock that counts is ahead; that of a machine does not if a database is shared."""
    by = [0.0]
    if address.startswith("postgres"):
        from posse.storage.postgres import PostgresStorage

        now = PostgresStorage.now
        monkeypatch.setattr(PostgresStorage, "now", lambda self: now(self) + by[0])

    def set_to(seconds):
        by[0] = seconds

    def wall():
        return time.time() + (DAY if address.startswith("postgres") else by[0])

    set_to.wall = wall
    return set_to


@pytest.fixture
def serve_here(start, address, ahead):
    return lambda: start(address, clock=SteadyClock(ahead.wall))


def let_go(service):
    """Let go what is old by now, as the process that learns does every few seconds."""
    engine = service.runtime
    engine.upkeep.periods.clear()
    rows = {row.name: row for row in engine.storage.progress()}
    for live in engine.roster.all():
        engine.upkeep.expire(live, rows[live.name], engine.clock())
        engine.upkeep.prune(live, engine.clock())


def begin(service):
    """Fleets that wait, that count what is missing, and that learn at the deadline; return a decision of each."""
    late = {"absent_reward": 0.0}
    made = {}
    for name, more in {"waits": {}, "counts": late, "holds": late | {"count_pending": False}}.items():
        service.make_fleet(name, **FORGETFUL, **more)
        service.reward(service.decide(fleet=name), 1.0)
        made[name] = [service.decide(fleet=name) for _ in range(3)]
        service.snapshot(name)
    return made


def states(service):
    return {name: service.counts(name) for name in ("waits", "counts", "holds")}


@pytest.mark.slow
def test_a_jump_of_forty_days_harms_nothing(serve_here, ahead, wait_for, shape):
    service = serve_here()
    made = begin(service)
    before = states(service)
    ahead(40 * DAY)
    wait_for(lambda: service.runtime.steady.held)
    let_go(service)
    assert states(service) == before
    assert "decisions do not expire" in service.read("/readyz")["clock"]
    assert any("the clock jumped" in text for text in service.read("/v1/fleets/waits/population")["findings"])
    assert "posse_clock_held 1.0" in service.get("/metrics").text
    for decisions in made.values():
        assert service.reward(decisions[0], 2.0)["new"] is True
        batch = {"rewards": [{"id": decisions[1]["id"], "reward": 3.0}]}
        assert service.post("/v1/rewards", json=batch).json()["new"] == 1
    extra = service.decide(fleet="waits")
    ahead(0.0)
    wait_for(lambda: not service.runtime.steady.held)
    let_go(service)
    assert service.read("/readyz")["clock"] is None
    assert "posse_clock_held 0.0" in service.get("/metrics").text
    for name, decisions in made.items():
        # The same again is the same, not too late.
        assert service.reward(decisions[0], 2.0)["new"] is False
        assert service.reward(decisions[2], 2.0)["new"] is True
        assert service.counts(name)["rewards"] == before[name]["rewards"] + 3
    row = service.runtime.storage.decision(extra["id"])
    expected = time.time()
    assert abs(row.time - expected) < 60


@pytest.mark.slow
def test_a_clock_that_was_wrong_before_is_believed_in_the_end(serve_here, ahead, wait_for, monkeypatch, shape):
    monkeypatch.setattr(module, "SETTLE_SECONDS", 1.5)
    service = serve_here()
    made = begin(service)
    before = states(service)
    ahead(40 * DAY)
    wait_for(lambda: service.runtime.steady.held)
    wait_for(lambda: not service.runtime.steady.held)
    let_go(service)
    # What was made before seems 40 days old, and is not.
    assert states(service) == before
    for decisions in made.values():
        assert service.reward(decisions[0], 2.0)["new"] is True
        assert service.reward(decisions[0], 2.0)["new"] is False
    assert service.decide(fleet="waits")
    # An hour later its time is over, though.
    service.runtime.steady._settled -= 3601.0
    service.runtime.clock = lambda: service.runtime.steady() + 3601.0
    let_go(service)
    assert service.counts("waits")["pending"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("off", [40 * DAY, -40 * DAY])
def test_a_start_with_a_wrong_clock_harms_nothing(serve_here, ahead, address, wait_for, monkeypatch, off):
    service = serve_here()
    made = begin(service)
    before = states(service)
    wait_for(lambda: service.runtime.storage.clock())
    service.stop()
    ahead(off)
    again = serve_here()
    assert again.runtime.steady.held
    let_go(again)
    assert states(again) == before
    decision = again.decide(fleet="waits")
    assert again.reward(made["waits"][0], 2.0)["new"] is True
    storage = open_storage(address)
    assert storage.decision(decision["id"]).time >= storage.decision(made["waits"][0]["id"]).time
    storage.close()
    ahead(0.0)
    wait_for(lambda: not again.runtime.steady.held)
    let_go(again)
    assert again.reward(made["waits"][1], 2.0)["new"] is True
