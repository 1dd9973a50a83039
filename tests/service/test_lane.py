import pytest

from posse.service.lane import Lane

ASKED = [
    ("decisions", {"task": "t", "context": [9.5, "rain"], "explore": False}),
    ("decisions", {"task": "", "context": [9.5, "rain"]}),
    ("decisions", {"task": "t", "context": {"hour": "late", "weather": "rain"}}),
    ("decisions", {"task": "t", "context": [9.5, "rain"], "eligible": ["nothing"]}),
    ("decisions", {}),
]


@pytest.fixture(scope="module")
def lanes(service):
    service.make_fleet("lanes")


@pytest.mark.parametrize(("route", "body"), ASKED, ids=range(len(ASKED)))
def test_the_short_way_answers_as_the_long_one(service, lanes, monkeypatch, route, body):
    answers = []
    for way in ("short", "long"):
        with monkeypatch.context() as patch:
            if way == "long":
                patch.setattr(Lane, "find", lambda *_: None)
            answers.append(service.post(f"/v1/fleets/lanes/{route}", json=body))
    short, long = answers
    assert short.status_code == long.status_code
    assert {**short.json(), "id": ""} == {**long.json(), "id": ""}
    assert {*short.headers} == {*long.headers}


def test_rewards_go_both_ways(service, lanes, monkeypatch):
    ids = [
        service.post("/v1/fleets/lanes/decisions", json={"task": "t", "context": [9.5, "rain"]}).json()["id"]
        for _ in range(2)
    ]
    short = service.post(f"/v1/decisions/{ids[0]}/reward", json={"reward": 1.5})
    again = service.post("/v1/decisions/nobody-1/reward", json={"reward": 1.5})
    monkeypatch.setattr(Lane, "find", lambda *_: None)
    long = service.post(f"/v1/decisions/{ids[1]}/reward", json={"reward": 1.5})
    assert {**short.json(), "id": ""} == {**long.json(), "id": ""} == {"id": "", "reward": 1.5, "new": True}
    other = service.post("/v1/decisions/nobody-1/reward", json={"reward": 1.5})
    assert (again.status_code, again.json()) == (other.status_code, other.json())
