"""A service with several fleets starts and learns its log whatever raises while it loads them and looks after them."""

import json

import pytest

from posse.service import upkeep as module
from posse.service.live_fleet import LiveFleet
from posse.service.runtime import Runtime
from posse.service.settings import Settings
from posse.service.verify import Verification
from posse.storage import NewDecision, NewReward

from .injecting import ERRORS, places
from .test_service import KINDS, Logged

# Ctrl-C comes to the main thread only.
COMES = tuple(error for error in ERRORS if error is not KeyboardInterrupt)
NAMES = ("f", "one", "two")
ROUNDS = 8


class Rounds:
    """Stands for the event that ends the thread that looks after fleets: after some rounds, without waiting."""

    def __init__(self):
        self.waited, self.over = 0, False

    def is_set(self):
        return self.over or self.waited > ROUNDS

    def wait(self, seconds):
        self.waited += 1
        return self.is_set()

    def set(self):
        self.over = True


class World(Logged):
    """Three fleets of one kind in one database; the last has no snapshot."""

    def __init__(self, folder, kind):
        super().__init__(folder, **KINDS[kind])
        for name in NAMES[1:]:
            self.storage.create_fleet(name, self.row.definition, 1.0)
        self.grow(12)
        for name in NAMES[:2]:
            LiveFleet(self.storage, self.storage.fleet(name)).write_snapshot(lambda job: job(), 1.0)
        self.grow(3)

    def grow(self, n):
        """As much in every fleet; return what was written last."""
        written = []
        for name in NAMES:
            groups = []
            for _ in range(n):
                self.made += 1
                new = self.decision(name)
                groups.append([new])
                if self.made % 3:
                    groups.append([NewReward(new.id, self.value(), self.made + 1.0)])
            written.append(self.storage.write(groups))
        return written

    def decision(self, name):
        body = json.dumps({"context": self.context()})
        task, arm = f"t{self.rng.integers(6)}", ("red", "green")[self.rng.integers(2)]
        return NewDecision(name, f"d{self.made}", float(self.made), task, arm, 0.5, body, "p", "v")

    def check_engine(self, runtime):
        assert runtime.ready
        fleets = {live.name: live for live in runtime.roster.all()}
        assert set(fleets) == set(NAMES)
        for name, live in fleets.items():
            row = self.storage.fleet(name)
            assert live.applied == row.changes, name
            found = Verification(self.storage, row, live.replica, live.contexts).all()
            assert found.different == 0, name
            if self.fades:
                continue
            assert found.rewards == live.replica.n_rewards, name
            assert live.replica.n_rewards == self.storage.rewards_up_to(name, live.applied)


def start(world, path, injection):
    """Run what the keeper does, on this thread, with one exception in it; then what a request makes it learn."""
    # Another process cannot have the file: closed and opened again, as over a restart.
    world.storage.close()
    runtime = Runtime(Settings(database=str(path), snapshot_seconds=1e-9))
    runtime.ending = Rounds()
    runtime.upkeep.warm = lambda: None
    runtime.open()
    world.storage = runtime.storage
    try:
        injection.run(runtime.upkeep.run)
        assert injection.raised is None
        if runtime.upkeep.repairer is not None:
            runtime.upkeep.repairer.join()
        for name in runtime.roster.troubled():
            runtime.repair(name, from_log=False)  # as the keeper does after a pause
        world.check_engine(runtime)
        for written in world.grow(1):
            runtime.learn_written(written)
        world.check_engine(runtime)
        for live in runtime.roster.all():
            if not world.catalogue:
                assert live.replica.propose("t1", {"a": 0.5}).arm in ("red", "green")
    finally:
        runtime.writer.close()


def inject(tmp_path, monkeypatch, kind, **where):
    # A snapshot is written in every round.
    monkeypatch.setattr(module, "CALM", 0)
    world, count = World(tmp_path, kind), 0
    try:
        for injection in places(**where, errors=COMES):
            injection.place += 1  # the first call is what everything is in
            start(world, tmp_path / "posse.db", injection)
            count += injection.fired
    finally:
        world.storage.close()
    return count


@pytest.mark.slow
def test_a_service_starts_whatever_raises(tmp_path, monkeypatch):
    assert inject(tmp_path, monkeypatch, "ebm-ts", most=2400, stride=200) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_service_of_every_kind_starts_whatever_raises(tmp_path, monkeypatch, kind):
    assert inject(tmp_path, monkeypatch, kind, most=2400, stride=23) >= 80
