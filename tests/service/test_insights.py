"""What the page leads with: made beside requests, from the log and the fleet, and said to be missing where it is."""

import numpy as np
import pytest

from posse.errors import InvalidValue
from posse.fleet.replica import Replica
from posse.report import make_report
from posse.service import insights, jobs
from posse.service.export import read_rows
from posse.service.jobs import run_job


@pytest.fixture(scope="module")
def shop(service):
    """A service with a fleet whose arms differ by weather, and one task that is unlike the others."""
    service.make_fleet(floor=0.1)
    rng = np.random.default_rng(5)
    for _ in range(12):
        asked = [
            {
                "task": f"store-{k}",
                "context": {"hour": float(rng.uniform(-1, 1)), "weather": str(rng.choice(["sun", "rain"]))},
            }
            for k in range(20)
            for _ in range(2)
        ]
        made = service.post("/v1/fleets/stores/decisions/batch", json={"decisions": asked}).json()["decisions"]
        rewards = []
        for ask, one in zip(asked, made, strict=True):
            good = "coffee" if ask["context"]["weather"] == "rain" else "cake"
            mean = float(one["arm"] == good) + (4.0 if (ask["task"], one["arm"]) == ("store-3", "coffee") else 0.0)
            rewards.append({"id": one["id"], "reward": float(mean + rng.normal(0, 0.3))})
        assert service.post("/v1/rewards", json={"rewards": rewards}).status_code == 200
    return service


def made_of(service, wait_for, fleet="stores"):
    def ready():
        found = service.read(f"/v1/fleets/{fleet}/insights")
        return found if found["state"] != "making" else None

    return wait_for(ready, 60)


@pytest.mark.slow
def test_insights_are_those_of_the_report(shop, wait_for, tmp_path):
    found = made_of(shop, wait_for)
    storage, live = shop.runtime.storage, shop.live()
    rows = storage.decisions("stores", limit=1000)
    live.replica.freeze()(tmp_path / "fleet")
    report = make_report(Replica.load(tmp_path / "fleet"), read_rows([rows]))
    assert (found["state"], found["rows"], found["decisions"], found["rewards"]) == ("ready", 480, 480, 480)
    assert found["confidence"] == 0.9
    ways = {way.way: way for way in report.gains.ways}
    assert [told["over"] for told in found["gains"]] == ["random", "one-arm"]
    for told in found["gains"]:
        way = ways[told["over"]]
        if way.refusals:
            assert (told["gain"], len(told["refusals"])) == (None, len(way.refusals))
            continue
        assert told["gain"]["value"] == pytest.approx(-way.uplift.value, rel=1e-6)
        assert told["gain"]["low"] == pytest.approx(-way.uplift.high, rel=1e-6)
        assert told["refusals"] == []
    assert found["gains"][0]["gain"]["low"] > 0  # it beats random play by far
    assert [one["task"] for one in found["unusual"]] == ["store-3"]
    assert [one["task"] for one in found["tasks"] if one["unusual"]] == ["store-3"]
    assert sum(one["best_in"] for one in found["arms"]) == 20
    best = {(one["feature"], one["value"]): one["arm"] for one in found["segments"]}
    assert (best["weather", "rain"], best["weather", "sun"]) == ("coffee", "cake")
    for entry in found["over_time"]["entries"]:
        assert sum(entry["shares"]) == pytest.approx(1.0, abs=1e-3)
        assert entry["low"] < entry["earned"] < entry["high"]
    rewards = [row.reward for row in rows if row.arm == "coffee"]
    told = next(one for one in found["arms"] if one["arm"] == "coffee")
    assert told["mean_reward"] == pytest.approx(np.mean(rewards))
    assert told["share"] == pytest.approx(len(rewards) / 480)
    task = next(one for one in found["tasks"] if one["task"] == "store-7")
    assert (task["decisions"], task["rewards"]) == (24, 24)
    assert task["mean_reward"] == pytest.approx(np.mean([row.reward for row in rows if row.task == "store-7"]))


def test_the_report_is_the_page_of_posse_report(shop, wait_for):
    made_of(shop, wait_for)
    answer = shop.get("/v1/fleets/stores/report")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert 'class="headline"' in answer.text
    assert "store-3" in answer.text


@pytest.mark.slow
def test_insights_are_made_again_when_there_is_news_and_not_before(shop, wait_for, monkeypatch):
    first = made_of(shop, wait_for)
    assert shop.read("/v1/fleets/stores/insights")["made"] == first["made"]
    monkeypatch.setattr(insights, "PAUSE", 0.0)
    monkeypatch.setattr(insights, "CALM", 0)
    assert shop.read("/v1/fleets/stores/insights")["made"] == first["made"]
    shop.reward(shop.decide("store-1"), 1.0)
    wait_for(lambda: shop.read("/v1/fleets/stores/insights")["decisions"] == 481, 60)


@pytest.mark.slow
def test_insights_explain_what_the_log_cannot_show(shop, wait_for):
    shop.make_fleet("young")
    shop.reward(shop.decide(fleet="young"), 1.0)
    found = made_of(shop, wait_for, "young")
    assert (found["state"], found["problem"]) == ("empty", "1 rewards are too few to tell; wait for 10 or more")
    answer = shop.get("/v1/fleets/young/report")
    assert (answer.status_code, answer.json()["state"]) == (202, "empty")
    shop.make_fleet("sure", policy="ebm-ucb")  # takes the best arm with probability 1: the log cannot tell
    for k in range(30):
        shop.reward(shop.decide(f"t{k % 6}", fleet="sure"), float(k % 3))
    found = made_of(shop, wait_for, "sure")
    random = found["gains"][0]
    assert (random["over"], random["gain"], random["probability"]) == ("random", None, None)
    assert "what helps" in random["refusals"][0]


def test_a_situation_is_looked_at_and_nothing_is_decided(shop, shape):
    before = shop.counts()
    context = {"hour": 0.2, "weather": "rain"}
    answer = shop.post("/v1/fleets/stores/expected", json={"task": "store-5", "context": context})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["known"] is True
    table = shop.live().replica.expected_many(["store-5"], [context])
    for told, row in zip(found["arms"], table.iter_rows(named=True), strict=True):
        assert told["arm"] == row["arm"]
        for name in ("mean", "low", "high", "probability_best"):
            assert told[name] == pytest.approx(row[name], rel=1e-9)
    assert max(found["arms"], key=lambda arm: arm["mean"])["arm"] == "coffee"
    assert sum(arm["probability"] for arm in found["arms"]) == pytest.approx(1)
    stranger = shop.post("/v1/fleets/stores/expected", json={"task": "nobody", "context": context}).json()
    assert stranger["known"] is False
    assert shop.counts() == before
    shape(shop.post("/v1/fleets/stores/expected", json={"task": "t", "context": {"hour": 1}}), 422, "invalid")


def test_access_lists_the_scopes_of_a_key(shop):
    assert shop.read("/v1/access")["scopes"] == ["decide", "reward", "read", "admin"]


@pytest.mark.slow
def test_a_failure_of_the_worker_process_is_reported(tmp_path, shop, wait_for, monkeypatch):
    for name, data in ((jobs.FLEET, b"not a fleet"), (jobs.ABOUT, b"{"), (jobs.LOG, b"")):
        (tmp_path / name).write_bytes(data)
    with pytest.raises(RuntimeError, match="JSONDecodeError"):
        run_job({"job": "insight", "folder": str(tmp_path)})
    (tmp_path / jobs.ABOUT).write_text('{"fleet": "stores", "counts": {}}')
    with pytest.raises(InvalidValue, match="fleet"):
        run_job({"job": "insight", "folder": str(tmp_path)})
    monkeypatch.setattr("posse.service.jobs.LONGEST", 0.0)
    with pytest.raises(InvalidValue, match="given up"):
        run_job({"job": "insight", "folder": str(tmp_path)})
    shop.make_fleet("slow")
    for _ in range(10):
        shop.reward(shop.decide(fleet="slow"), 1.0)
    found = made_of(shop, wait_for, "slow")
    assert (found["state"], found["gains"]) == ("failed", [])
    assert "given up" in found["problem"]
    answer = shop.get("/v1/fleets/slow/report")
    assert (answer.status_code, answer.json()["state"]) == (202, "failed")
