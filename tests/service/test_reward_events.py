"""Several rewards of one decision, and corrections: what is learned is what the log says, also rebuilt."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.client import Client


def sums(service, fleet="stores"):
    """What was learned, by task and arm."""
    replica = service.live(fleet).replica
    _, learned = replica.learned(sorted(replica.tasks))
    return {pair: [np.array(part, copy=True) for part in each] for pair, each in learned.items()}


def expected(service, fleet="stores"):
    """The same by the log as it is exported."""
    found, replica = {}, service.live(fleet).replica
    absent = service.live(fleet).definition["absent_reward"]
    for line in service.get(f"/v1/fleets/{fleet}/log").text.splitlines():
        row = json.loads(line)
        value = absent if row["reward"] is None else row["reward"]
        if value is not None:
            x = replica.features.encode(row["context"])
            place = found.setdefault((row["task"], row["arm"]), [0.0, 0.0, 0.0])
            place[0] += x * value
            place[1] += value**2
            place[2] += 1
    return found


def require_same(service):
    learned, logged = sums(service), expected(service)
    assert set(learned) >= set(logged)
    for pair, (moment, squares, count) in logged.items():
        _, m, s, n = learned[pair]
        assert_allclose(m, moment, rtol=1e-9, atol=1e-9)
        assert_allclose(s, squares, rtol=1e-9, atol=1e-9)
        assert n == count
    verified = service.read("/v1/fleets/stores/verify")
    assert (verified["different"], verified["rewards"]) == (0, sum(each[2] for each in logged.values()))


def play(service, rng, n, rainy):
    for step in range(n):
        decision = service.decide(f"store-{step % 3}", {**rainy, "hour": float(step % 7)})
        for event in range(rng.integers(0, 4)):
            body = {"reward": float(np.round(rng.normal(), 3)), "event": f"e{event}"}
            for _ in range(2):  # whatever is sent twice counts once
                answer = service.post(f"/v1/decisions/{decision['id']}/reward", json=body)
                assert answer.status_code == 200, answer.text
        if step % 5 == 0:
            fixed = service.put(f"/v1/decisions/{decision['id']}/reward", json={"reward": 0.25})
            assert fixed.status_code in (200, 409)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"absent_reward": -0.5}], ids=["plain", "pending counts"])
@pytest.mark.parametrize("kind", ["sum", "last"])
def test_learned_is_what_the_log_says(start, rainy, kind, settings):
    service = start()
    service.make_fleet(reward_events=kind, **settings)
    play(service, np.random.default_rng(3), 40, rainy)
    require_same(service)
    service.snapshot()
    play(service, np.random.default_rng(4), 20, rainy)
    require_same(service)
    service.stop()
    # From the snapshot and what came after it; and then from the log alone.
    again = start()
    require_same(again)
    assert again.post("/v1/fleets/stores/repair").status_code == 200
    require_same(again)


def test_a_wrong_reward_leaves_nothing_behind_in_a_fleet_that_is_built_anew(start, rainy):
    service = start()
    service.make_fleet()
    decisions = [service.decide("north", rainy) for _ in range(5)]
    for decision in decisions:
        service.reward(decision, 9e8)
    for decision in decisions:
        service.put(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.0, "instead_of": 9e8})
    service.post("/v1/fleets/stores/repair")
    require_same(service)
    found = sums(service)
    assert sum(float(each[2]) for each in found.values()) == 5.0


def test_a_correction_is_answered_and_traced(service, shape, rainy):
    service.make_fleet("traced")
    decision = service.decide(fleet="traced")
    place = f"/v1/decisions/{decision['id']}/reward"
    shape(service.put(place, json={"reward": 2.0}), 409, "not_rewarded")
    service.reward(decision, 3.0)
    assert service.put(place, json={"reward": 2.0, "instead_of": 3.0}).json() == {
        "id": decision["id"], "reward": 2.0, "new": True,
    }  # fmt: skip
    assert service.put(place, json={"reward": 2.0}).json()["new"] is False
    error = shape(service.put(place, json={"reward": 5.0, "instead_of": 3.0}), 409, "reward_conflict")
    assert "has the reward 2.0" in error["message"]
    shape(service.put("/v1/decisions/none/reward", json={"reward": 2.0}), 404, "unknown_decision")
    trace = service.read(f"/v1/decisions/{decision['id']}/rewards")
    assert trace["reward"] == 2.0
    assert [(one["kind"], one["value"], one["before"], one["reward"]) for one in trace["events"]] == [
        ("reward", 3.0, None, 3.0), ("correction", 2.0, 3.0, 2.0),
    ]  # fmt: skip
    assert service.read(f"/v1/decisions/{decision['id']}")["reward"] == 2.0
    assert service.counts("traced")["rewards"] == 1


def test_events_without_names_cannot_be_added_up(service, shape):
    service.make_fleet("adding", reward_events="sum")
    decision = service.decide(fleet="adding")
    error = shape(service.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1}), 422, "event_required")
    assert error["field"] == "event"
    many = {"rewards": [{"id": decision["id"], "reward": 1.0, "event": "a"}, {"id": decision["id"], "reward": 2.0}]}
    assert shape(service.post("/v1/rewards", json=many), 422, "event_required")["field"] == "rewards.1.event"
    assert service.counts("adding")["rewards"] == 0
    many["rewards"][1]["event"] = "b"
    assert service.post("/v1/rewards", json=many).json() == {"new": 2, "same": 0}
    assert service.read(f"/v1/decisions/{decision['id']}")["reward"] == 3.0


@pytest.mark.parametrize(
    "wrong", [{"reward_events": "twice"}, {"reward_window": 5.0}, {"reward_events": "sum", "reward_window": 0}]
)
def test_definitions_that_make_no_sense_are_refused(service, shape, stores, wrong):
    shape(service.put("/v1/fleets/senseless", json=stores | wrong), 422, "invalid")


@pytest.mark.slow
def test_two_processes_learn_events_alike(postgres_url, start, wait_for, rainy):
    one, other = start(postgres_url), start(postgres_url)
    one.make_fleet(reward_events="sum")
    rng = np.random.default_rng(5)
    for step in range(20):
        decision = (one, other)[step % 2].decide(f"store-{step % 3}", rainy)
        for event in range(3):
            teller = (one, other)[event % 2]
            body = {"reward": float(rng.normal()), "event": str(event)}
            assert teller.post(f"/v1/decisions/{decision['id']}/reward", json=body).status_code == 200
        if step % 4 == 0:
            other.put(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.5})

    last = one.runtime.storage.fleet("stores").changes
    wait_for(lambda: min(one.live().applied, other.live().applied) >= last)
    for service in (one, other):
        require_same(service)


@pytest.mark.slow
def test_the_client_corrects_and_names_events(serve):
    served = serve()
    with Client(served.url) as client:
        served.make_fleet(reward_events="sum")
        decision = client.decide("stores", "store-1", {"hour": 9.5, "weather": "rain"})
        assert client.reward(decision, 1.0, event="a")
        assert not client.reward(decision, 1.0, event="a")
        assert client.reward(decision.id, 2.0, event="b")
        assert client.decision(decision.id).reward == 3.0
        assert client.correct(decision, 2.5, instead_of=3.0)
        assert client.decision(decision.id).reward == 2.5
        other = client.decide("stores", "store-2", {"hour": 9.5, "weather": "rain"})
        assert client.reward_many([(other, 1.0, "a"), (other.id, 2.0, "b"), (other, 1.0, "a")]) == (2, 1)
        assert client.decision(other.id).reward == 3.0


def test_an_arm_feature_called_drift_forbids_no_correction(service):
    service.make_fleet(
        arms={"coffee": {"drift": 1.0}, "cake": {"drift": 2.0}}, features=["hour"], arm_features=["drift"]
    )
    decision = service.decide(context={"hour": 9.5})
    service.reward(decision, 3.0)
    corrected = service.put(f"/v1/decisions/{decision['id']}/reward", json={"reward": 2.0})
    assert corrected.status_code == 200, corrected.text
    assert service.read(f"/v1/decisions/{decision['id']}")["reward"] == 2.0
