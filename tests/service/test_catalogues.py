"""Catalogues over HTTP: arms come with the request, propensities are exact, and the log gives back what was learned."""

import json
import sqlite3

import numpy as np

from posse import Catalogue
from posse.fleet.catalogue_replica import CatalogueReplica
from posse.logs import read_log
from posse.offline import Limits, Logged, Rule, evaluate

SHOP = {
    "kind": "catalogue",
    "features": ["evening"],
    "arm_features": ["price", {"kind": "one_hot", "name": "colour", "categories": ["red", "blue"]}],
}


def make(service, fleet="shop", **changes):
    answer = service.put(f"/v1/fleets/{fleet}", json=SHOP | changes)
    assert answer.status_code == 201, answer.text
    return answer.json()


def menu(rng, n=6, first=0):
    return {
        f"arm-{first + i}": {"price": float(rng.integers(1, 9)), "colour": ["red", "blue"][int(rng.integers(2))]}
        for i in range(n)
    }


def choose(service, task, evening, eligible, fleet="shop", **rest):
    body = {"task": task, "context": {"evening": evening}, "eligible": eligible, **rest}
    answer = service.post(f"/v1/fleets/{fleet}/choices", json=body, headers=rest.pop("headers", None))
    assert answer.status_code == 200, answer.text
    return answer.json()["places"]


def live_in(service, steps, seed=0):
    """Decide among arms that come and go, and reward by their price, colour and evening."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        eligible, evening = menu(rng, first=step // 5), float(rng.integers(2))
        (decision,) = choose(service, f"store-{rng.integers(5)}", evening, eligible)
        about = eligible[decision["arm"]]
        value = 1.0 - 0.2 * about["price"] + evening * (about["colour"] == "red") + 0.2 * rng.normal()
        service.reward(decision, float(value))


def beliefs(service):
    catalogue = service.live("shop").replica.catalogue
    eligible = menu(np.random.default_rng(9), 12)
    found = [catalogue.expected(task, [1.0], eligible) for task in ("store-1", "store-3", "new")]
    return np.array([[*one.mean.values(), *one.sd.values()] for one in found])


def without_snapshots(service, path):
    with sqlite3.connect(service.settings.database) as source, sqlite3.connect(path) as target:
        source.backup(target)
        target.execute("DELETE FROM snapshot_parts")
        target.execute("DELETE FROM snapshots")
    return str(path)


def test_a_choice_is_counted_as_a_decision_for_its_arm(start):
    service = start()
    make(service)
    (decision,) = choose(service, "t", 1.0, menu(np.random.default_rng(0)))
    assert f'posse_arm_decisions_total{{arm="{decision["arm"]}",fleet="shop"}} 1.0' in service.get("/metrics").text


def test_what_was_learned_comes_back_from_the_log_and_from_a_snapshot(start, wait_for, tmp_path):
    service = start()
    made = make(service)
    assert made["columns"][:3] == ["intercept", "price", "colour=red"]
    assert service.put("/v1/fleets/shop", json=SHOP).status_code == 200
    live_in(service, 80)
    found = beliefs(service)
    assert np.ptp(found[0, :12]) > 0.5  # it has learned something
    again = start(without_snapshots(service, tmp_path / "copy.db"))
    np.testing.assert_allclose(beliefs(again), found, rtol=1e-9)
    service.runtime.upkeep.write_snapshot(service.live("shop"))
    live_in(service, 10, seed=1)
    found = beliefs(service)
    assert service.read("/v1/fleets/shop/verify")["different"] == 0
    database = service.settings.database
    service.stop()
    np.testing.assert_allclose(beliefs(start(database)), found, rtol=1e-9)


def test_it_believes_what_the_library_does(start):
    service = start()
    make(service)
    live_in(service, 40)
    rows = [
        json.loads(line) for line in service.get("/v1/fleets/shop/log", params={"format": "jsonl"}).text.splitlines()
    ]
    served = service.live("shop").replica.catalogue
    library = Catalogue(features=served.features, arm_features=served.arm_features)
    names = ("task", "arm", "reward", "context", "eligible", "arm_features")
    library.learn_many({name: [row[name] for row in rows] for name in names})
    eligible = menu(np.random.default_rng(3))
    mine = service.live("shop").replica.catalogue.expected("store-1", [1.0], eligible)
    theirs = library.expected("store-1", [1.0], eligible)
    np.testing.assert_allclose(list(mine.mean.values()), list(theirs.mean.values()), rtol=1e-9)
    np.testing.assert_allclose(list(mine.sd.values()), list(theirs.sd.values()), rtol=1e-9)


def test_propensities_are_those_of_the_draws_and_the_log_has_what_evaluation_needs(start):
    service = start()
    make(service)
    live_in(service, 30)
    eligible = menu(np.random.default_rng(2), 4)
    replica = service.live("shop").replica
    read = replica.catalogue.menu(eligible)
    drawn = [replica.choose("store-1", [1.0], read)[0] for _ in range(4000)]
    for arm in eligible:
        expected = drawn[0].probabilities[arm]
        seen = np.mean([decision.arm == arm for decision in drawn])
        assert abs(seen - expected) < 5 * np.sqrt(0.25 / 4000)  # steps change little; five standard errors
    places = choose(service, "store-1", 1.0, eligible, k=3)
    assert len({place["arm"] for place in places}) == 3
    assert abs(sum(places[0]["probabilities"].values()) - 1) < 1e-9
    row = service.read(f"/v1/decisions/{places[1]['id']}")
    assert row["context"] == {"evening": 1.0}
    assert row["arm_features"]["price"] == [eligible[arm]["price"] for arm in row["probabilities"]]
    assert len(row["probabilities"]) == 3


def test_another_rule_is_evaluated_by_an_export(start, tmp_path):
    service = start()
    make(service, evaluation_budget=0.5)
    live_in(service, 150)
    values = []
    for kind in ("jsonl", "parquet"):
        path = tmp_path / f"log.{kind}"
        path.write_bytes(service.get("/v1/fleets/shop/log", params={"format": kind}).content)
        log = read_log(path)
        assert log.features == ["evening"]
        assert log.arm_features == ["price", "colour"]
        cheap = Rule(lambda task, context, arms: min(arms, key=lambda arm: (arms[arm]["price"], arm)), "cheap")
        # The service draws from a stream of its own: one row may carry much of the weight of so short a log.
        limits = Limits(min_effective_rows=1, max_weight_share=1.0, mean_weight_chance=0.0)
        found = evaluate(log, cheap, against=Logged(), limits=limits)
        values.append([found.estimate(name, "snips").value for name in ("cheap", "logged")])
    assert values[0] == values[1]
    assert values[0][0] != values[0][1]


def test_the_same_request_again_gets_the_same_decision(start):
    service = start()
    make(service)
    body = {"task": "t", "context": {"evening": 1}, "eligible": menu(np.random.default_rng(2), 4)}
    first, again = (
        service.post("/v1/fleets/shop/choices", json=body, headers={"idempotency-key": "once"}).json() for _ in range(2)
    )
    assert first == again
    body["k"] = 2
    answer = service.post("/v1/fleets/shop/choices", json=body, headers={"idempotency-key": "once"})
    assert answer.status_code == 409


def test_an_erased_task_is_gone_from_what_others_have_learned(start, tmp_path):
    service = start()
    make(service)
    live_in(service, 40)
    assert service.delete("/v1/fleets/shop/tasks/store-1").status_code == 204
    found = beliefs(service)
    again = start(without_snapshots(service, tmp_path / "copy.db"))
    np.testing.assert_allclose(beliefs(again), found, rtol=1e-9)


def test_a_corrected_reward_is_as_if_it_had_been_so_from_the_start(start, wait_for):
    service = start()
    for name in ("wrong", "right"):
        make(service, name)
    arms = {"tea": {"price": 3.0, "colour": "red"}, "cocoa": {"price": 4.0, "colour": "blue"}}
    made = {}
    for step in range(12):
        for name in ("wrong", "right"):
            (decision,) = choose(service, f"t{step % 3}", step / 12, {"tea": arms["tea"]}, fleet=name)
            wrong = 30.0 if (name, step) == ("wrong", 4) else float(step)
            service.reward(decision, wrong)
            made[name, step] = decision["id"]
    answer = service.put(f"/v1/decisions/{made['wrong', 4]}/reward", json={"reward": 4.0})
    assert answer.status_code == 200

    def believed(name):
        found = service.live(name).replica.catalogue.expected("t1", {"evening": 0.5}, arms)
        return np.array([*found.mean.values(), *found.sd.values()])

    wait_for(lambda: np.allclose(believed("wrong"), believed("right"), rtol=1e-9))


def test_clicks_are_served_as_probabilities_and_follow_a_world_that_drifts(start, tmp_path):
    service = start()
    settings = {"rewards": "binary", "drift": "learn", "absent_reward": 0.0, "count_pending": False}
    made = make(service, **settings)
    assert {name: made["definition"][name] for name in settings} == settings
    assert service.put("/v1/fleets/shop", json=SHOP | settings).status_code == 200
    rng = np.random.default_rng(0)
    for _ in range(20):
        (decision,) = choose(service, "t", 1.0, menu(rng))
        service.reward(decision, float(rng.integers(2)))
        believed = service.live("shop").replica.catalogue.expected("t", [1.0], menu(rng))
        assert all(0 < mean < 1 for mean in believed.mean.values())
    assert service.live("shop").replica.n_rewards == 0  # until their time is over
    answer = service.put("/v1/fleets/late", json=SHOP | {"absent_reward": 0.0})
    assert answer.status_code == 422
    assert "count_pending=False" in answer.json()["error"]["message"]


def test_what_makes_no_sense_is_refused(start):
    service = start()
    make(service)
    service.make_fleet()

    def refused(method, path, **body):
        answer = service.request(method, path, json=body)
        assert answer.status_code == 422, answer.text
        return answer.json()["error"]

    for changes, word in (
        ({"arm_features": None}, "expected arm_features"),
        ({"arms": ["a"]}, "without arms"),
        ({"reward_events": "last"}, "without reward_events"),
        ({"robust": True}, "without robust"),
        ({"rewards": "revenue"}, "in a catalogue, got 'revenue'"),
        ({"values": {"a": 2.0}}, "without values"),
        ({"costs": {"a": 2.0}}, "without costs"),
        ({"arm_features": ["evening"]}, "'evening' in both"),
        ({"arm_features": [{"kind": "numeric", "name": "price", "scale": "standard"}]}, "scaling"),
    ):
        assert word in refused("PUT", "/v1/fleets/bad", **SHOP | changes)["message"]
    asked = {"task": "t", "context": {"evening": 1}, "eligible": {"a": {"price": 1, "colour": "red"}}}
    path = "/v1/fleets/shop/choices"
    assert refused("POST", path, **asked | {"k": 2})["field"] == "k"
    assert refused("POST", path, **asked | {"eligible": {"a": {"price": 1}}})["field"] == "eligible"
    assert refused("POST", path, **asked | {"eligible": {}})["field"] == "eligible"
    assert refused("POST", path, **asked | {"context": {}})["field"] == "context"
    assert "fixed arms" in refused("POST", "/v1/fleets/stores/choices", **asked)["message"]
    ask = {"task": "t", "context": {"evening": 1}}
    assert "choices" in refused("POST", "/v1/fleets/shop/decisions", **ask)["message"]
    assert refused("POST", "/v1/fleets/shop/arms", arm="tea")["field"] == "fleet"
    assert service.counts("shop")["decisions"] == 0


def test_old_arms_are_dropped_alike_everywhere():
    spec = {"features": Catalogue(["x"], ["price"]).features, "arm_features": Catalogue(["x"], ["price"]).arm_features}
    one, other = (CatalogueReplica.new(**spec, interactions=True, max_arms=5, seed=seed) for seed in (1, 2))
    rng = np.random.default_rng(0)
    rows = [{"x": float(rng.normal()), "price": float(i % 7)} for i in range(40)]
    tasks, arms = [f"t{i % 3}" for i in range(40)], [f"a{i % 7}" for i in range(40)]
    rewards = rng.normal(size=40).tolist()
    one.learn(tasks, arms, rows, rewards, applied=40)
    for i in range(40):
        other.choose("t1", [0.1], other.catalogue.menu({"new": {"price": 1.0}}))  # decisions are nobody else's
        other.learn(tasks[i : i + 1], arms[i : i + 1], rows[i : i + 1], rewards[i : i + 1], applied=i + 1)
    assert one.catalogue.arms == other.catalogue.arms
    assert one.applied == other.applied
    eligible = {f"a{i}": {"price": float(i)} for i in range(7)}
    assert one.catalogue.expected("t1", [0.3], eligible) == other.catalogue.expected("t1", [0.3], eligible)
