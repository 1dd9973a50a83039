"""Every combination of a fleet follows its log: late rewards, corrections, erased tasks, snapshots, a second process.

Family of rewards x drift x features of tasks x features of arms x absent reward, as in tests/fleet/test_matrix.py, for
fleets whose decisions are in a database.
"""

import itertools
import json
import time

import numpy as np
import pytest

from posse.service.definition import new_definition
from posse.service.live_fleet import LiveFleet
from posse.service.settings import Limits
from posse.service.verify import Verification
from posse.storage import NewDecision, NewReward, open_storage
from posse.storage.rows import ACCEPTED

ARMS = {"red": {"price": 1.0}, "green": {"price": 2.0}, "blue": {"price": 1.2}}
TASKS = ("north", "south", "east", "west", "centre")
HOUR, START, TIME_TO_LIVE = 3600.0, 1.8e9, 30 * 3600.0
CELLS = [*itertools.product(("number", "binary", "count", "revenue"), (None, 2.0, "learn"), *[(False, True)] * 3)]


def named(cell):
    """Return a combination with its name."""
    names = ("", "", "task features", "arm features", "absent reward")
    words = [cell[0], *([f"drift {cell[1]}"] if cell[1] else [])]
    words += [name for name, has in zip(names[2:], cell[2:], strict=True) if has]
    return pytest.param(cell, id=", ".join(words))


class Logged:
    """A fleet in a database, and rows that are written to it."""

    def __init__(self, storage, cell):
        family, drift, task_features, arm_features, absent = cell
        self.storage, self.family, self.drift, self.absent = storage, family, drift, absent
        given = {
            "arms": list(ARMS), "features": ["x"], "intercept": True, "policy": "ebm-rand-ucb", "prior": None,
            "exploration": None, "floor": 0.0, "evaluation_budget": 0.0, "refresh_growth": 0.3, "robust": False,
            "time_to_live": TIME_TO_LIVE, "absent_reward": 0.0 if absent else None, "count_pending": True,
            "retention": None, "rewards": family,
        }  # fmt: skip
        given |= {"drift": drift} if drift else {}
        given |= {"task_features": ["size"]} if task_features else {}
        given |= {"arm_features": ["price"], "arms": ARMS} if arm_features else {}
        storage.create_fleet("f", new_definition(given, Limits()), START)
        self.rng, self.now, self.waiting, self.rewarded, self.made = np.random.default_rng(5), START, {}, {}, 0
        if task_features:
            self.know({"north": 1.0, "south": 2.0, "east": 1.5})

    def about(self, arm):
        """Return what a decision says of the arm taken."""
        return {}

    def know(self, sizes):
        lines = [
            (task, json.dumps({"task": task, "features": {"size": size}}).encode()) for task, size in sizes.items()
        ]
        assert self.storage.know_tasks("f", lines, self.now)

    def value(self, arm):
        mean = (len(arm) - 4.0) * 0.5
        if self.family == "number":
            return float(mean + 0.5 * self.rng.normal())
        if self.family == "revenue":
            return float(self.rng.random() < 0.5) * float(self.rng.lognormal(3.0 + mean, 0.5))
        return float(
            self.rng.random() < 0.5 + 0.2 * mean if self.family == "binary" else self.rng.poisson(np.exp(mean))
        )

    def write(self, steps):
        """Decisions, and rewards that come out of order; some never come."""
        for _ in range(steps):
            self.now += HOUR
            self.made += 1
            name, task, arm = f"d{self.made}", str(self.rng.choice(TASKS)), str(self.rng.choice([*ARMS]))
            body = json.dumps({"context": {"x": float(self.rng.normal()), **self.about(arm)}})
            self.accept([NewDecision("f", name, self.now, task, arm, 0.5, body, "p", "v")])
            self.waiting[name] = (task, arm)
            for other in [one for one in self.waiting if int(one[1:]) % 6 and self.rng.random() < 0.3]:
                task, arm = self.waiting.pop(other)
                self.rewarded[other] = (task, arm, value := self.value(arm))
                self.accept([NewReward(other, value, self.now)])

    def accept(self, group):
        assert {outcome.kind for outcome in self.storage.write([group]).outcomes[0]} == {ACCEPTED}

    def live(self, **settings):
        return LiveFleet(self.storage, self.storage.fleet("f"), **settings)


@pytest.fixture
def storage(tmp_path):
    storage = open_storage(str(tmp_path / "posse.db"))
    yield storage
    storage.close()


def publish(logged, live):
    """Do what a service does between requests: estimates end, and others are told of populations and changes."""
    until = time.monotonic() + 60.0
    while live.replica.refreshing:
        assert time.monotonic() < until
        time.sleep(1e-4)
    if live.replica.shares_population:  # others follow the log to the same one
        live.replica.refresh()
    live.publish_drift(lambda data: logged.storage.add_drift("f", data))
    live.publish(lambda data: logged.storage.add_population("f", data))
    live.follow()


def assert_same_beliefs(first, second):
    assert first.applied == second.applied
    assert sorted(first.replica.tasks) == sorted(second.replica.tasks)
    assert first.replica.n_rewards == pytest.approx(second.replica.n_rewards, rel=1e-9)
    for task in [*first.replica.tasks, "nowhere"]:
        one, other = (live.replica.expected(task, [0.4]) for live in (first, second))
        for mine, theirs in ((one.mean, other.mean), (one.sd, other.sd)):
            np.testing.assert_allclose([*mine.values()], [*theirs.values()], rtol=1e-6, atol=1e-9)
            assert np.isfinite([*mine.values()]).all()


@pytest.mark.parametrize("cell", [named(cell) for cell in CELLS])
def test_every_combination_follows_its_log(storage, cell):
    logged = Logged(storage, cell)
    live = logged.live()
    for _ in range(4):
        logged.write(12)
        live.follow()
    publish(logged, live)
    assert_same_beliefs(live, logged.live(from_log=True))

    # A snapshot, an erased task, something else known, time that is over; whoever starts goes on from the snapshot.
    assert live.write_snapshot(lambda job: job(), logged.now)
    assert logged.storage.erase("f", "south") is not None
    for rows in (logged.waiting, logged.rewarded):
        for name in [name for name, row in rows.items() if row[0] == "south"]:
            del rows[name]
    if cell[2]:
        logged.know({"west": 0.7})
    logged.storage.expire("f", logged.now - TIME_TO_LIVE)
    logged.write(10)
    live.follow()
    publish(logged, live)
    assert_same_beliefs(live, logged.live())
    assert_same_beliefs(live, logged.live(from_log=True))
    if not logged.drift:
        counted = len(logged.rewarded) + (len(logged.waiting) if logged.absent else 0)
        assert live.replica.n_rewards == counted


@pytest.mark.parametrize("cell", [named(cell) for cell in CELLS])
def test_a_reward_of_every_combination_is_corrected(storage, cell):
    logged = Logged(storage, cell)
    live = logged.live()
    logged.write(30)
    live.follow()
    logged.now += HOUR
    corrected = {name: row for name, row in logged.rewarded.items() if int(name[1:]) % 3 == 0}
    assert corrected
    for name, (task, arm, value) in corrected.items():
        other = value + 1.0 if logged.family != "binary" else 1.0 - value
        logged.rewarded[name] = (task, arm, other)
        logged.accept([NewReward(name, other, logged.now, corrects=True)])
    live.follow()
    publish(logged, live)
    assert_same_beliefs(live, logged.live(from_log=True))
    if logged.family == "number" and not logged.drift:
        statistics = live.replica.statistics
        for place, task in enumerate(live.replica.tasks):
            for number, arm in enumerate(ARMS):
                own = [value for of, chosen, value in logged.rewarded.values() if (of, chosen) == (task, arm)]
                assert statistics.sum_of_squares[number, place] == pytest.approx(np.square(own).sum(), abs=1e-9)


class LoggedCatalogue(Logged):
    """A catalogue in a database."""

    def __init__(self, storage, family, drift, absent):
        self.storage, self.family, self.drift, self.absent = storage, family, drift, absent
        given = {
            "kind": "catalogue", "features": ["x"], "arm_features": ["price"], "interactions": True, "max_arms": 100,
            "intercept": True, "exploration": None, "floor": 0.0, "evaluation_budget": 0.0, "refresh_growth": 0.3,
            "time_to_live": TIME_TO_LIVE, "absent_reward": 0.0 if absent else None, "count_pending": not absent,
            "retention": None, "rewards": family, "drift": drift,
        }  # fmt: skip
        storage.create_fleet("f", new_definition(given, Limits()), START)
        self.rng, self.now, self.waiting, self.rewarded, self.made = np.random.default_rng(5), START, {}, {}, 0

    def about(self, arm):
        return ARMS[arm]

    def expire(self):
        """Let decisions go whose time is over, or learn what they were held for."""
        if not self.absent:
            self.storage.expire("f", self.now - TIME_TO_LIVE)
            return
        for name in self.storage.waiting("f", self.now - TIME_TO_LIVE, 1000):
            self.accept([NewReward(name, 0.0, self.now, expiring=True)])


def assert_same_catalogues(first, second):
    assert first.applied == second.applied
    one, other = (live.replica.catalogue for live in (first, second))
    assert (one.tasks, one.arms) == (other.tasks, other.arms)
    assert one.n_rewards == pytest.approx(other.n_rewards, rel=1e-9)
    assert one.residual_sd == other.residual_sd
    for task in [*one.tasks, "nowhere"]:
        mine, theirs = (each.expected(task, [0.4], ARMS) for each in (one, other))
        np.testing.assert_allclose([*mine.mean.values()], [*theirs.mean.values()], rtol=1e-9)
        np.testing.assert_allclose([*mine.sd.values()], [*theirs.sd.values()], rtol=1e-9)


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("drift", [None, 2.0, "learn"])
@pytest.mark.parametrize("family", ["number", "binary", "count"])
def test_every_catalogue_follows_its_log(storage, family, drift, absent):
    logged = LoggedCatalogue(storage, family, drift, absent)
    live = logged.live()
    for _ in range(5):
        logged.write(12)
        logged.expire()
        live.follow()
    publish(logged, live)
    assert live.replica.n_rewards > 0
    assert_same_catalogues(live, logged.live(from_log=True))
    found = Verification(storage, storage.fleet("f"), live.replica).all()
    assert found.different == 0, found.words()
    assert found.rewards > 0

    # A snapshot, an erased task, a corrected reward; whoever starts goes on from the snapshot.
    assert live.write_snapshot(lambda job: job(), logged.now)
    logged.write(10)
    live.follow()
    assert_same_catalogues(live, logged.live())
    assert logged.storage.erase("f", "south") is not None
    name = next(name for name, row in logged.rewarded.items() if row[0] != "south")
    value = logged.rewarded[name][2]
    logged.accept([NewReward(name, 1.0 - value if value in (0.0, 1.0) else 1.0, logged.now, corrects=True)])
    live.follow()
    live.relearn()
    assert "south" not in live.replica.tasks
    assert_same_catalogues(live, logged.live(from_log=True))
