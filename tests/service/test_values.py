"""Fleets behind the API that know what rewards are worth."""

import json

import pytest

from posse import Posse
from posse.client import Client
from posse.logs import read_log

DEFINITION = {
    "arms": ["coffee", "sandwich"], "features": ["hour"], "rewards": "binary",
    "values": {"coffee": 1.6, "sandwich": 2.8}, "costs": {"coffee": 0.05},
}  # fmt: skip


def make(service, name, **change):
    found = service.put(f"/v1/fleets/{name}", json=DEFINITION | change)
    assert found.status_code == 201, found.text
    return found.json()


def test_decisions_go_by_the_money_and_the_log_keeps_the_prices(service, tmp_path):
    found = make(service, "shops")
    assert found["definition"]["values"] == DEFINITION["values"]
    assert found["definition"]["costs"] == {"coffee": 0.05, "sandwich": 0.0}
    decision = service.decide("t", {"hour": 9}, fleet="shops")
    beside = Posse(
        DEFINITION["arms"], ["hour"], rewards="binary", values=DEFINITION["values"], costs=DEFINITION["costs"], seed=1
    ).decide("t", [9])
    assert decision["worth"] == beside.worth
    assert decision["probabilities"] == beside.probabilities
    looked = service.post("/v1/fleets/shops/expected", json={"task": "t", "context": {"hour": 9}}).json()["arms"]
    assert {arm["arm"]: arm["worth"] for arm in looked} == pytest.approx(decision["worth"])
    own = service.decide("t", {"hour": 9}, fleet="shops", values={"coffee": 9.0}, costs={"sandwich": 0.1})
    assert own["worth"] == pytest.approx(
        {"coffee": 9 * own["mean"]["coffee"] - 0.05, "sandwich": 2.8 * own["mean"]["sandwich"] - 0.1}
    )
    service.reward(own, True)
    row = service.read(f"/v1/decisions/{own['id']}")
    assert row["worth"] == pytest.approx(own["worth"])
    for form in ("jsonl", "parquet"):
        path = tmp_path / f"log.{form}"
        path.write_bytes(service.get(f"/v1/fleets/shops/log?format={form}").content)
        frame = read_log(path).frame
        assert frame["values"].to_list() == [[1.6, 2.8], [9.0, 2.8]]
        assert frame["costs"].to_list() == [[0.05, 0.0], [0.05, 0.1]]


def test_prices_change_with_the_arms_and_nothing_is_forgotten(service, shape):
    make(service, "changing")
    path = "/v1/fleets/changing"
    for step in range(20):
        service.reward(service.decide("t", {"hour": step}, fleet="changing"), step % 2)
    rewards = service.live("changing").replica.n_rewards
    assert service.post(f"{path}/arms", json={"arm": "coffee", "value": 50.0}).status_code == 200
    decision = service.decide("t", {"hour": 3}, fleet="changing", explore=False)
    assert decision["arm"] == "coffee"
    assert decision["worth"]["coffee"] == pytest.approx(50 * decision["mean"]["coffee"] - 0.05)
    assert service.live("changing").replica.n_rewards == rewards
    shape(service.post(f"{path}/arms", json={"arm": "coffee"}), 409, "arm_exists")
    assert "expected the value" in shape(service.post(f"{path}/arms", json={"arm": "cake"}), 422, "invalid")["message"]
    service.post(f"{path}/arms", json={"arm": "cake", "value": 2.0, "cost": 0.2})
    service.delete(f"{path}/arms/sandwich")
    found = service.read(path)["definition"]
    assert found["values"] == {"coffee": 50.0, "sandwich": 2.8, "cake": 2.0}
    assert set(service.decide("t", {"hour": 3}, fleet="changing")["worth"]) == {"coffee", "cake"}
    assert service.put(path, json=DEFINITION).status_code == 200  # what it was made as
    other = DEFINITION | {"values": {"coffee": 1.0, "sandwich": 1.0}}
    shape(service.put(path, json=other), 409, "fleet_exists")


def test_prices_are_there_after_a_restart_and_a_repair(start, tmp_path):
    service = start(tmp_path / "s.db")
    make(service, "again")
    for step in range(10):
        service.reward(service.decide("t", {"hour": step}, fleet="again"), step % 2)
    service.post("/v1/fleets/again/arms", json={"arm": "cake", "value": 2.0, "cost": 0.2})
    service.post("/v1/fleets/again/arms", json={"arm": "coffee", "value": 3.0})
    before = service.live("again").replica.worth.to_json()
    service.post("/v1/fleets/again/repair", json={})
    assert service.live("again").replica.worth.to_json() == before
    service.stop()
    service = start(tmp_path / "s.db")
    assert service.live("again").replica.worth.to_json() == before
    assert service.decide("t", {"hour": 1}, fleet="again")["worth"].keys() == {"coffee", "sandwich", "cake"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": {"coffee": 1.0}}, "expected a value of every arm, got none of 'sandwich'"),
        ({"values": {"coffee": 1.0, "sandwich": -1.0}}, "greater than or equal to 0"),
        ({"values": {"coffee": 1.0, "sandwich": 1.0, "tea": 1.0}}, "no arm 'tea'"),
        ({"costs": {"tea": 1.0}}, "no arm 'tea'"),
        ({"costs": {"coffee": "much"}}, "valid number"),
    ],
)
def test_bad_prices_of_a_definition_are_refused(service, shape, change, words):
    error = shape(service.put("/v1/fleets/none", json=DEFINITION | change), None, None)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("prices", "field"),
    [({"values": {"tea": 1.0}}, "values"), ({"costs": {"tea": 1.0}}, "costs"), ({"values": {"coffee": -1}}, None)],
)
def test_bad_prices_of_a_request_are_refused(service, shape, prices, field):
    if service.get("/v1/fleets/refusing").status_code == 404:
        make(service, "refusing")
    body = {"task": "t", "context": {"hour": 1}} | prices
    error = shape(service.post("/v1/fleets/refusing/decisions", json=body), None, None)
    assert field is None or error["field"] == field


def test_a_fleet_without_prices_answers_as_before(service):
    make(service, "bare", values=None, costs=None)
    decision = service.decide("t", {"hour": 9}, fleet="bare")
    assert "worth" not in decision
    assert "values" not in service.read("/v1/fleets/bare")["definition"]
    assert "values" not in json.loads(service.get("/v1/fleets/bare/log?format=jsonl").text.splitlines()[0])


def test_rows_that_were_exported_are_taken_in_with_their_prices(service):
    make(service, "from"), make(service, "to")
    service.reward(service.decide("t", {"hour": 9}, fleet="from"), True)
    row = json.loads(service.get("/v1/fleets/from/log?format=jsonl").text.splitlines()[0])
    row["decision_id"] = "elsewhere-1"
    assert service.post("/v1/fleets/to/log", json={"rows": [row]}).status_code == 200
    again = json.loads(service.get("/v1/fleets/to/log?format=jsonl").text.splitlines()[0])
    assert (again["values"], again["costs"]) == (row["values"], row["costs"])


def test_the_client_asks_with_prices(serve):
    with Client(serve("--database", "values.db").url) as client:
        settings = {name: DEFINITION[name] for name in ("rewards", "values", "costs")}
        client.create_fleet("client", DEFINITION["arms"], ["hour"], **settings)
        decision = client.decide("client", "t", {"hour": 9}, values={"coffee": 7.0})
        assert decision.worth["coffee"] == pytest.approx(7 * decision.mean["coffee"] - 0.05)
        places = client.rank("client", "t", {"hour": 9}, 2, costs={"sandwich": 0.1})
        assert all(place.worth for place in places)
        many = client.decide_many("client", [{"task": "t", "context": [9], "values": {"coffee": 2.0}}])
        assert many[0].worth["coffee"] == pytest.approx(2 * many[0].mean["coffee"] - 0.05)
        assert client.add_arm("client", "coffee", value=4.0).definition["values"]["coffee"] == 4.0
        assert client.decision(decision.id).worth == pytest.approx(decision.worth)
