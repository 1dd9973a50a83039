"""Both clients against ``posse serve``, in a process of its own."""

import json
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import polars as pl
import pytest

from posse import FeatureSpec
from posse.client import Client, Health, ServiceError, ServiceUnavailable
from posse.logs import read_log
from posse_lab.servers.service import services

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with services(str(folder / "posse.db"), 1, folder) as (one,):
        yield one


@pytest.fixture
def client(make, service, monkeypatch):
    monkeypatch.delenv("POSSE_KEY", raising=False)
    return make(service.url, timeout=20.0, deadline=60.0)


@pytest.fixture
def name(client):
    """A fleet of its own for every test."""
    name = f"shops-{uuid4().hex[:8]}"
    client.create_fleet(name, ["tea", "cake"], ["hour"], evaluation_budget=0.1)
    yield name
    client.delete_fleet(name)


def reason(call):
    with pytest.raises(ServiceError) as caught:
        call()
    return caught.value.code


def test_a_fleet_is_made_once(client, name):
    fleet = client.fleet(name)
    assert (fleet.name, fleet.arms, fleet.retired_arms, fleet.decisions) == (name, ("tea", "cake"), (), 0)
    assert fleet.columns[-1] == "hour"
    assert fleet.definition["policy"] == "ebm-rand-ucb"
    assert abs(fleet.created.timestamp() - time.time()) < 60
    assert client.create_fleet(name, ["tea", "cake"], ["hour"], evaluation_budget=0.1) == fleet
    assert name in [one.name for one in client.fleets()]
    assert reason(lambda: client.create_fleet(name, ["tea"], ["hour"])) == "fleet_exists"
    assert reason(lambda: client.fleet("nowhere")) == "unknown_fleet"


def test_arms_come_and_go(client, name):
    assert client.add_arm(name, "ice/cream 50%").arms == ("tea", "cake", "ice/cream 50%")
    assert client.retire_arm(name, "ice/cream 50%").retired_arms == ("ice/cream 50%",)
    assert client.retire_arm(name, "ice/cream 50%").arms == ("tea", "cake")
    assert reason(lambda: client.add_arm(name, "tea")) == "arm_exists"
    assert client.add_arm(name, "ice/cream 50%").retired_arms == ()
    assert client.repair(name).state == "serving"


def test_a_decision_and_its_reward(client, name):
    decision = client.decide(name, "a/b ü", {"hour": 9.5}, eligible=["cake"])
    assert (decision.arm, decision.propensity, decision.probabilities, decision.fallback) == (
        "cake", 1.0, {"cake": 1.0}, False,
    )  # fmt: skip
    assert set(decision.mean) == set(decision.sd) == {"cake"}
    assert client.decision(decision.id).state == "pending"
    assert client.reward(decision, 2.5) is True
    assert client.reward(decision.id, 2.5) is False
    assert reason(lambda: client.reward(decision, 3.0)) == "reward_conflict"
    assert reason(lambda: client.reward("nothing", 3.0)) == "unknown_decision"

    row = client.decision(decision.id)
    assert (row.task, row.state, row.reward, row.context) == ("a/b ü", "rewarded", 2.5, {"hour": 9.5})
    assert row.reward_time >= row.time
    assert [one.id for one in client.history(name, "a/b ü")] == [decision.id]


def test_a_key_makes_it_the_same_decision(client, name):
    first = client.decide(name, "a", {"hour": 1.0}, key="order-1")
    assert client.decide(name, "a", {"hour": 1.0}, key="order-1") == first
    assert client.decide(name, "a", {"hour": 1.0}).id != first.id
    assert reason(lambda: client.decide(name, "a", {"hour": 2.0}, key="order-1")) == "key_reused"
    assert client.fleet(name).decisions == 2


def test_what_is_wrong_is_named(client, name):
    with pytest.raises(ServiceError, match="hour") as caught:
        client.decide(name, "a", {"hours": 9.5})
    assert (caught.value.status, caught.value.code) == (422, "invalid")
    assert not isinstance(caught.value, ServiceUnavailable)
    assert reason(lambda: client.decide(name, "a", {"hour": 1.0}, eligible=["jam"])) in ("unknown_arm", "invalid")


def test_batches(client, name):
    asked = [{"task": f"t{i}", "context": {"hour": float(i)}, "eligible": ["tea", "cake"]} for i in range(20)]
    decisions = client.decide_many(name, asked, key="batch-1")
    assert [one.task for one in decisions] == [one["task"] for one in asked]
    assert [one.id for one in client.decide_many(name, asked, key="batch-1")] == [one.id for one in decisions]

    rewards = [(one, float(i)) for i, one in enumerate(decisions)]
    assert client.reward_many(rewards[:5]) == (5, 0)
    assert client.reward_many(rewards) == (15, 5)
    assert client.reward_many({decisions[3].id: 3.0}) == (0, 1)
    with pytest.raises(ServiceError) as caught:
        client.reward_many([(decisions[0], 0.0), ("nothing", 1.0)])
    assert "rewards.1" in caught.value.field
    assert client.decide_many(name, []) == []
    fleet = client.fleet(name)
    assert (fleet.tasks, fleet.decisions, fleet.rewards, fleet.pending) == (20, 20, 20, 0)


@pytest.fixture
def busy(client, name):
    """A fleet with 12 tasks of 3 decisions, the first two of which are rewarded."""
    for turn in range(3):
        decisions = client.decide_many(name, [{"task": f"t{i:02}", "context": {"hour": i}} for i in range(12)])
        if turn < 2:
            client.reward_many([(one, 1.0 + turn) for one in decisions])
    return name


def test_tasks_are_listed_shown_and_erased(client, busy):
    rows = list(client.tasks(busy, page=5))
    assert [row.task for row in rows] == [f"t{i:02}" for i in range(12)]
    assert {(row.decisions, row.rewards) for row in rows} == {(3, 2)}
    assert [row.task for row in client.tasks(busy, "T1")] == ["t10", "t11"]

    task = client.task(busy, "t07")
    assert (task.task, task.decisions, task.rewards, task.columns) == ("t07", 3, 2, client.fleet(busy).columns)
    assert [arm.arm for arm in task.arms] == ["tea", "cake"]
    for arm in task.arms:
        assert len(arm.mean) == len(arm.sd) == len(arm.population_mean) == len(task.columns)
        assert 0 <= arm.own_share <= 1
    assert sum(arm.rewards for arm in task.arms) == 2

    history = list(client.history(busy, "t07", page=2))
    assert [row.state for row in history] == ["pending", "rewarded", "rewarded"]
    assert [row.reward for row in history] == [None, 2.0, 1.0]
    exported = client.export(busy, "t07")
    assert "t07" in json.dumps(exported)

    client.erase(busy, "t07")
    assert reason(lambda: client.task(busy, "t07")) == "unknown_task"
    assert reason(lambda: client.erase(busy, "t07")) == "unknown_task"
    assert len(list(client.tasks(busy))) == 11


def test_what_the_tasks_have_in_common(client, busy):
    population = client.population(busy)
    assert population.policy == "ebm-rand-ucb"
    assert population.columns == client.fleet(busy).columns
    size = len(population.columns)
    for arm in population.arms:
        assert len(arm.mean) == size
        assert [len(row) for row in arm.covariance] == [size] * size
    assert sum(arm.rewards for arm in population.arms) == 24


def test_what_waits_and_what_happened(client, busy):
    pending = client.pending(busy, limit=5)
    assert (len(pending.pending), pending.total) == (5, 12)
    assert pending.pending[0].age >= pending.pending[-1].age >= 0

    activity = client.activity(busy)
    assert activity.stretch >= 60
    assert sum(one.decisions for one in activity.activity) == 36
    assert sum(one.rewards for one in activity.activity) == 24


def test_the_value_of_the_policy_or_why_there_is_none(client, busy):
    value = client.value(busy, baseline="arm:tea")
    assert value.rewards == 24
    assert value.refusal or value.policy.low <= value.policy.value <= value.policy.high


def test_a_situation_is_looked_at_and_insights_are_asked_for(client, busy):
    row = client.history(busy, next(iter(client.tasks(busy))).task)
    before = client.fleet(busy).decisions
    last = next(iter(row))
    arms = client.expected(busy, last.task, last.context)
    assert [arm.arm for arm in arms] == list(client.fleet(busy).arms)
    assert all(arm.low < arm.mean < arm.high for arm in arms)
    assert sum(arm.probability_best for arm in arms) == pytest.approx(1.0)
    assert client.fleet(busy).decisions == before
    assert client.insights(busy)["state"] in ("making", "ready")


def test_the_log_is_saved_as_it_is_read(client, busy, tmp_path):
    lines = client.log(busy, tmp_path / "log.jsonl")
    table = client.log(busy, str(tmp_path / "log.parquet"))
    assert read_log(lines).frame.height == 36
    frame = pl.read_parquet(table)
    assert frame["reward"].drop_nulls().len() == 24
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.jsonl", "log.parquet"]


def test_health(client, name):
    health = client.health()
    assert health == Health(ready=True, fleets=health.fleets, leading=True)
    assert health.fleets >= 1


@pytest.mark.slow
def test_keys_are_asked_for_and_taken(make, tmp_path, monkeypatch):
    monkeypatch.delenv("POSSE_KEY", raising=False)
    database = str(tmp_path / "keyed.db")
    program = [sys.executable, "-m", "posse"]
    made = subprocess.run(
        [*program, "service", "keys", "create", "--scope", "read", "--database", database],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    key = next(word for word in made.stdout.split() if word.startswith("posse_"))
    with services(database, 1, tmp_path) as (one,):
        assert reason(make(one.url).fleets) == "key_required"
        assert reason(make(one.url, key="posse_wrong").fleets) == "key_invalid"
        assert make(one.url, key=key).fleets() == []
        monkeypatch.setenv("POSSE_KEY", key)
        assert make(one.url).fleets() == []


@pytest.mark.slow
def test_a_service_that_stops_and_comes_back(tmp_path):
    database = str(tmp_path / "posse.db")
    with services(database, 1, tmp_path) as (one,):
        client = Client(one.url, timeout=20.0, retries=1, backoff=0.01, fallback="cake", pause=0.2)
        client.create_fleet("shops", ["tea", "cake"], ["hour"])
        first = client.decide("shops", "a", {"hour": 1.0})
        assert not first.fallback
    assert client.decide("shops", "a", {"hour": 1.0}).fallback
    with pytest.raises(ServiceUnavailable):
        client.reward(first, 1.0)
    client.close()

    with services(database, 1, tmp_path) as (one,), Client(one.url, timeout=20.0) as again:
        assert again.reward(first, 1.0) is True
        assert again.fleet("shops").decisions == 1
    assert Path(database).is_file()


def test_what_is_known_about_tasks_and_arms(client, name):
    other = f"{name}-known"
    known = {"task_features": FeatureSpec(["size"]), "arm_features": ["price"]}
    client.create_fleet(other, {"tea": {"price": 2.0}, "cake": None}, ["hour"], **known)
    assert client.set_task_features(other, {"store-1": {"size": 2.0}, "store-2": {"size": 1.0}}) == 2
    assert client.add_arm(other, "pie", {"price": 3.0}).arms == ("tea", "cake", "pie")
    assert client.task(other, "store-1").features == {"size": 2.0}
    assert client.population(other).effects == {"task": {"size": 0.0}, "arm": {"price": 0.0}}


def test_a_catalogue_chooses_among_the_arms_that_come(client, name):
    other = f"{name}-shop"
    client.create_catalogue(other, ["hour"], FeatureSpec(["price"]), interactions=False)
    arms = {"tea": {"price": 2.0}, "cake": {"price": 3.0}, "pie": {"price": 1.0}}
    places = client.choose(other, "store-1", {"hour": 3.0}, arms, k=2, key="page")
    assert len({place.arm for place in places}) == 2
    assert client.choose(other, "store-1", {"hour": 3.0}, arms, k=2, key="page") == places
    assert client.reward(places[0], 1.0)


def test_a_ranking_has_a_decision_per_place(client, name):
    places = client.rank(name, "store-1", {"hour": 3.0}, 2, key="page")

    assert sorted(place.arm for place in places) == ["cake", "tea"]
    assert places[1].propensity == 1
    assert client.rank(name, "store-1", {"hour": 3.0}, 2, key="page") == places
    assert client.reward_many([(places[0], 1.0), (places[1], 0.0)]).new == 2
