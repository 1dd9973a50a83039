"""Wrong requests as people make them: each is answered in one line that says what came and what to do."""

import json

import pytest

LONGEST = 300
RAINY = {"hour": 9.5, "weather": "rain"}
REQUESTS = {
    "no JSON": ("POST", "/v1/fleets/stores/decisions", b"{task: 1}", "invalid_json", "JSON"),
    "an unknown fleet": ("POST", "/v1/fleets/shops/decisions", {"task": "a", "context": {}}, "unknown_fleet", "shops"),
    "no task": ("POST", "/v1/fleets/stores/decisions", {"context": RAINY}, "invalid", "task"),
    "a task of a wrong type": (
        "POST", "/v1/fleets/stores/decisions", {"task": [1], "context": RAINY}, "invalid", "task",
    ),
    "text for a number": (
        "POST", "/v1/fleets/stores/decisions", {"task": "a", "context": RAINY | {"hour": "x"}}, "invalid", "hour",
    ),
    "an unknown arm": (
        "POST", "/v1/fleets/stores/decisions", {"task": "a", "context": RAINY, "eligible": ["cofee"]}, "invalid",
        "did you mean 'coffee'",
    ),
    "an unknown decision": ("POST", "/v1/decisions/abc-7/reward", {"reward": 1.0}, "unknown_decision", "abc-7"),
    "a reward as text": ("POST", "/v1/decisions/abc-7/reward", {"reward": "much"}, "invalid", "reward"),
    "a field with a typo": (
        "POST", "/v1/fleets/stores/decisions", {"task": "a", "contxt": RAINY}, "invalid", "contxt",
    ),
    "too large": ("POST", "/v1/fleets/stores/decisions", b" " * (1 << 21), "body_too_large", "limits.body"),
    "a page that is none": ("GET", "/v1/flets", None, "not_found", "nothing at this path", "/openapi.json"),
    "a method that is none": ("DELETE", "/v1/decisions/abc-7/reward", None, "method_not_allowed", "/openapi.json"),
    "a fleet without arms": ("PUT", "/v1/fleets/shops", {"arms": [], "features": []}, "invalid", "arms"),
    "a policy with a typo": (
        "PUT", "/v1/fleets/shops", {"arms": ["a"], "features": [], "policy": "ebm-tss"}, "invalid", "ebm-tss",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def stores(service):
    service.make_fleet("stores")
    return service


@pytest.mark.parametrize("name", REQUESTS)
def test_a_wrong_request_is_one_clear_answer(stores, name):
    method, path, body, code, *words = REQUESTS[name]
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()

    answer = stores.request(method, path, content=content, headers={"content-type": "application/json"})

    found = answer.json()["error"]
    assert 400 <= answer.status_code < 500
    assert found["code"] == code
    assert "\n" not in found["message"]
    assert len(found["message"]) <= LONGEST
    for word in words:
        assert word in found["message"], found["message"]


def test_a_wrong_key_is_one_clear_answer(start):
    answer = start(require_keys="always").get("/v1/fleets", headers={"authorization": "Bearer posse_wrong"})

    assert answer.status_code == 401
    assert "posse service keys create" in answer.json()["error"]["message"]
