"""Ten thousand bodies that no service can accept: each is refused in the one shape, and nothing changes."""

import copy
import json
import random

import pytest

MANY = 10_000
AT_ONCE = 50

NUMERIC = {"kind": "numeric", "name": "hour", "scale": None, "missing": "error"}
ONE_HOT = {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"], "unknown": "error"}
HASHED = {"kind": "hashed", "name": "shop", "buckets": 8}
ASK = {
    "task": "store-1",
    "context": {"hour": 9.5, "weather": "rain", "shop": "north"},
    "eligible": ["coffee", "cake"],
    "explore": True,
}
DEFINITION = {
    "arms": ["a", "b"],
    "features": ["x", NUMERIC, ONE_HOT, HASHED],
    "intercept": True,
    "policy": "ebm-rand-ucb",
    "prior": "evidence",
    "exploration": 0.1,
    "floor": 0.01,
    "evaluation_budget": 0.01,
    "refresh_growth": 0.1,
    "robust": False,
    "time_to_live": 1000.0,
    "absent_reward": 0.0,
    "retention": 2000.0,
}
ARM, REWARD = {"arm": "tea"}, {"reward": 1.0}
RAW = ["NaN", "Infinity", "-Infinity", "1e400", "9" * 5000, "+1", ".5", "0x1", '"\\ud800"', "[" * 5000 + "]" * 5000]
WRONG = [[[]], {"a": [None]}, "\0", "a\x1b", "x" * 5000, 1e308, -(10**60)]  # wherever a value of these bodies stands
MARK = "here comes what is no JSON"


def places(value, here=()):
    """Yield every place of a JSON value but the whole."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*here, key)
        yield from places(inner, (*here, key))


def spoiled(body, rng):
    """Return a body as bytes with one thing wrong."""
    text, kind = json.dumps(body), rng.random()
    if kind < 0.1:
        return text[: rng.randrange(len(text))].encode()  # part of an object is none
    if kind < 0.15:
        return rng.choice(
            [b"", b" ", b"\xff", text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode(), text.encode() * 2]
        )
    if kind < 0.2:
        at = rng.randrange(len(text) + 1)
        return text[:at].encode() + bytes([rng.choice([0, 1, 8, 14, 31, 0x80, 0xC0, 0xFF])]) + text[at:].encode()
    body = copy.deepcopy(body)
    *path, last = rng.choice(list(places(body)))
    inner = body
    for key in path:
        inner = inner[key]
    raw, any_text = rng.choice(RAW), last == "shop" or "categories" in path
    if kind < 0.3 and isinstance(inner, dict):
        inner["surprise"] = None
    elif kind < 0.6 and not any_text:
        inner[last] = MARK
    else:
        inner[last] = rng.choice(WRONG[:2] if any_text else WRONG)
    return json.dumps(body).replace(f'"{MARK}"', raw).encode()


@pytest.fixture(scope="module")
def fleet(service):
    service.make_fleet(features=["hour", ONE_HOT, HASHED])
    for i in range(20):
        decision = service.decide(f"store-{i % 4}", ASK["context"])
        if i % 2:
            service.reward(decision, i / 3)
    return service


def everything(service):
    fleets = service.read("/v1/fleets")
    names = [fleet["name"] for fleet in fleets["fleets"]]
    return fleets, [
        service.get(f"/v1/fleets/{name}/{part}").text for name in names for part in ("log", "population", "tasks")
    ]


@pytest.mark.slow
def test_hostile_bodies_are_refused_in_the_one_shape_and_change_nothing(fleet, shape):
    pending = [row["id"] for row in fleet.read("/v1/fleets/stores/pending")["pending"]]
    rng = random.Random(20261115)
    rewards = {"rewards": [{"id": each, "reward": 1.0} for each in pending[:3]]}
    bodies = [
        ("PUT", "/v1/fleets/hostile", DEFINITION),
        ("POST", "/v1/fleets/stores/arms", ARM),
        ("POST", "/v1/fleets/stores/decisions", ASK),
        ("POST", "/v1/fleets/stores/decisions/batch", {"decisions": [ASK, ASK]}),
        ("POST", f"/v1/decisions/{pending[0]}/reward", REWARD),
        ("POST", "/v1/rewards", rewards),
    ]
    before = everything(fleet)
    headers = {"content-type": "application/json"}
    seen = {}
    for begin in range(0, MANY, AT_ONCE):
        requests = []
        for number in range(begin, begin + AT_ONCE):
            method, path, body = bodies[number % len(bodies)]
            requests.append((method, path, {"content": spoiled(body, rng), "headers": headers}))
        for (method, path, rest), answer in zip(requests, fleet.together(requests), strict=True):
            where = f"{method} {path} {rest['content'][:2000]!r}: {answer.status_code} {answer.text[:300]}"
            assert 400 <= answer.status_code < 500, where
            error = shape(answer)
            seen.setdefault((method, path), set()).add(error["code"])
    assert everything(fleet) == before
    # The bodies are not all refused for one reason.
    for place, codes in seen.items():
        assert {"invalid", "invalid_json"} <= codes, place


def test_the_bodies_that_were_spoiled_are_right_before(fleet):
    assert fleet.post("/v1/fleets/stores/decisions", json=ASK).status_code == 200
    answer = fleet.post("/v1/fleets/stores/decisions/batch", json={"decisions": [ASK, ASK]})
    assert answer.status_code == 200
    ids = [decision["id"] for decision in answer.json()["decisions"]]
    assert fleet.post(f"/v1/decisions/{ids[0]}/reward", json={"reward": 1.0}).status_code == 200
    assert fleet.post("/v1/rewards", json={"rewards": [{"id": each, "reward": 1.0} for each in ids]}).status_code == 200
    assert fleet.post("/v1/fleets/stores/arms", json={"arm": "tea"}).status_code == 200
    right = {**DEFINITION, "features": ["x", NUMERIC, ONE_HOT, HASHED]}
    assert fleet.put("/v1/fleets/right", json=right).status_code == 201


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-50, 1e5, 1e9])
def test_numbers_that_are_allowed_do_no_harm_however_odd_they_are(service, size):
    name = f"odd-{size:g}".replace("+", "")
    service.make_fleet(name, features=["x"], arms=["a", "b"])
    for step in range(12):
        decision = service.decide(f"t{step % 3}", {"x": size * (-1) ** step}, fleet=name)
        service.reward(decision, size)
    for part in (
        "",
        "/population",
        "/tasks/t0",
        "/value",
        "/log",
        "/pending",
        "/activity",
        "/history/t1",
        "/export/t2",
    ):
        answer = service.get(f"/v1/fleets/{name}{part}")
        assert answer.status_code == 200, (part, answer.text)
        if part != "/log":
            json.loads(answer.text, parse_constant=pytest.fail)
    assert service.decide("new", {"x": 1.0}, fleet=name)["propensity"] > 0
    assert service.delete(f"/v1/fleets/{name}").status_code == 204
