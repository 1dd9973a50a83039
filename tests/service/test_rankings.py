"""Rankings over HTTP: each place is a decision of the log."""

import pytest

from posse.logs import read_log

pytest.importorskip("fastapi")


@pytest.fixture
def fleet(service, stores, request):
    name = f"f{abs(hash(request.node.name)) % 10**8}"
    service.make_fleet(name, **{**stores, "floor": 0.1})
    return f"/v1/fleets/{name}"


def ask(rainy, **more):
    return {"task": "store-1", "context": rainy, "k": 2, **more}


def test_each_place_is_a_decision_with_its_own_reward(service, fleet, stores, rainy, tmp_path):
    places = service.post(f"{fleet}/rankings", json=ask(rainy)).json()["places"]

    first, second = places
    assert first["arm"] != second["arm"]
    assert set(first["probabilities"]) == set(stores["arms"])
    assert set(second["probabilities"]) == set(stores["arms"]) - {first["arm"]}
    for place, value in zip(places, (1.0, 0.0), strict=True):
        assert place["propensity"] == place["probabilities"][place["arm"]]
        assert service.post(f"/v1/decisions/{place['id']}/reward", json={"reward": value}).json()["new"]
    service.decide(fleet=fleet.rsplit("/", 1)[1])
    path = tmp_path / "log.jsonl"
    path.write_bytes(service.get(f"{fleet}/log").content)
    log = read_log(path)
    assert log.frame["ranking_place"].to_list() == [1, 2, None]
    assert log.frame["ranking_id"].to_list() == [first["id"]] * 2 + [None]
    assert log.frame["reward"].to_list()[:2] == [1.0, 0.0]


def test_every_place_is_counted_as_a_decision_for_its_arm(service, fleet, rainy):
    headers = {"Idempotency-Key": "page-8"}
    for _ in range(2):  # the second is the same again
        places = service.post(f"{fleet}/rankings", json=ask(rainy), headers=headers).json()["places"]
    name, text = fleet.rsplit("/", 1)[1], service.get("/metrics").text
    for place in places:
        assert f'posse_arm_decisions_total{{arm="{place["arm"]}",fleet="{name}"}} 1.0' in text


def test_the_same_key_again_gets_the_same_ranking(service, fleet, rainy, shape):
    headers = {"Idempotency-Key": "page-7"}
    made = [service.post(f"{fleet}/rankings", json=ask(rainy), headers=headers).json() for _ in range(3)]
    assert made[0] == made[1] == made[2]
    shape(service.post(f"{fleet}/rankings", json=ask(rainy, k=1), headers=headers), 409, "key_reused")


def test_what_cannot_be_ranked_is_refused(service, fleet, rainy, shape):
    error = shape(service.post(f"{fleet}/rankings", json=ask(rainy, k=9)), 422, "invalid")
    assert error["field"] == "k"
    assert shape(service.post(f"{fleet}/rankings", json=ask(rainy, k=0)), 422, "invalid")["field"] == "k"
    shape(service.post(f"{fleet}/rankings", json=ask(rainy, k=10**6)), 413, "batch_too_large")
    error = shape(service.post(f"{fleet}/rankings", json=ask({"town": "x"})), 422, "invalid")
    assert error["field"] == "context"
    error = shape(service.post(f"{fleet}/rankings", json=ask(rainy, eligible=["nothing"], k=1)), 422, "invalid")
    assert error["field"] == "eligible"
