"""One shape for every failure, and one status for every code; bodies are limited and read strictly."""

import asyncio
import json

import pytest

from posse.errors import InvalidValue, PosseError, StorageMismatch, StorageUnavailable
from posse.service.http import errors
from posse.service.http.errors import STATUS, ApiError, api_error

DECIDE = "/v1/fleets/stores/decisions"
JSON = {"content-type": "application/json"}
ASK = {"task": "t", "context": {"hour": 1, "weather": "sun"}}


@pytest.fixture(scope="module", autouse=True)
def fleet(service):
    service.make_fleet()
    return service


@pytest.fixture(scope="module")
def small(kinds, tmp_path_factory):
    """A service with narrow limits."""
    in_process, settings, limits = kinds
    database = str(tmp_path_factory.mktemp("small") / "posse.db")
    running = in_process(
        settings(database=database, limits=limits(body=2000, batch=3, label=10, features=4, arms=4, fleets=2))
    )
    running.make_fleet("stores")
    yield running
    running.stop()


# Every code that a request can cause: what to do, on a service that has the fleet "stores".


def expired(service):
    service.make_fleet("brief", time_to_live=1e-6)
    decision = service.decide(fleet="brief")
    return service.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1})


def conflicting(service):
    decision = service.decide()
    service.reward(decision, 1.0)
    return service.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 2})


def reused(service):
    headers = {"idempotency-key": "once"}
    service.post(DECIDE, json=ASK, headers=headers)
    return service.post(DECIDE, json={**ASK, "task": "another"}, headers=headers)


def stored_elsewhere(service):
    def away(*_):
        raise StorageUnavailable("the database is away; try again")

    service.runtime.storage.fleets, kept = away, service.runtime.storage.fleets
    try:
        return service.get("/v1/fleets")
    finally:
        service.runtime.storage.fleets = kept


def starting(service):
    service.runtime.ready = False
    try:
        # The one that looks after the fleets says every quarter of a second that they are ready.
        return next(answer for answer in (service.get("/v1/fleets") for _ in range(5)) if answer.status_code != 200)
    finally:
        service.runtime.ready = True


CAUSES = {
    "invalid_json": lambda s: s.post(DECIDE, content=b"{", headers=JSON),
    "not_found": lambda s: s.get("/v1/nothing"),
    "unknown_fleet": lambda s: s.get("/v1/fleets/none"),
    "unknown_task": lambda s: s.get("/v1/fleets/stores/tasks/none"),
    "unknown_arm": lambda s: s.delete("/v1/fleets/stores/arms/none"),
    "unknown_decision": lambda s: s.get("/v1/decisions/none"),
    "method_not_allowed": lambda s: s.request("PATCH", "/v1/fleets"),
    "fleet_exists": lambda s: s.put("/v1/fleets/stores", json={"arms": ["x"], "features": []}),
    "arm_exists": lambda s: s.post("/v1/fleets/stores/arms", json={"arm": "cake"}),
    "reward_conflict": conflicting,
    "key_reused": reused,
    "decision_expired": expired,
    "body_too_large": lambda s: s.post(DECIDE, content=b" " * (2**20 + 1), headers=JSON),
    "batch_too_large": lambda s: s.post(f"{DECIDE}/batch", json={"decisions": [ASK] * 1001}),
    "media_type": lambda s: s.post(DECIDE, content=b"{}"),
    "invalid": lambda s: s.post(DECIDE, json={}),
    "storage_unavailable": stored_elsewhere,
    "not_ready": starting,
    "host_refused": lambda s: s.get("/v1/fleets", headers={"host": "elsewhere"}),
}
ELSEWHERE = {
    "key_required", "key_invalid", "scope_missing", "rate_limited", "internal",  # test_access.py
    "bad_request",  # a body that ends early, below
    "head_too_large", "too_busy",  # test_wire.py
    "fleet_set_aside",  # test_failure_domains.py
    "key_expired", "fleet_forbidden",  # test_fleet_keys.py
    "not_rewarded", "event_required",  # test_reward_events.py
}  # fmt: skip


def test_every_code_is_caused_somewhere():
    assert set(CAUSES) | ELSEWHERE == set(STATUS)


@pytest.mark.parametrize("code", CAUSES)
def test_a_failure_has_the_one_shape_and_the_status_of_its_code(fleet, shape, code):
    answer = CAUSES[code](fleet)
    shape(answer, STATUS[code], code)
    assert ("retry-after" in answer.headers) == (STATUS[code] in (429, 503))
    if STATUS[code] == 405:
        assert "GET" in answer.headers["allow"]


def test_every_error_of_the_library_has_a_code():
    assert {code for _, code in errors.CODES} <= set(STATUS)
    assert api_error(StorageUnavailable("x")).status == 503
    assert api_error(InvalidValue("x")).status == 422
    assert api_error(StorageMismatch("the file of /some/place")).code == "storage_unavailable"
    assert "/some/place" not in api_error(StorageMismatch("the file of /some/place")).message
    assert "/some/place" not in api_error(PosseError("/some/place")).message


def test_a_message_that_quotes_what_came_is_cut_and_is_always_unicode():
    error = ApiError("invalid", "x" * 5000 + "\ud800", "\udfff")
    found = json.loads(error.body)["error"]
    assert len(found["message"]) == 1000
    assert found["message"].endswith("...")
    assert found["field"] == "\\udfff"
    assert json.loads(ApiError("invalid", "\ud800\x00").body)["error"]["message"] == "\\ud800\x00"


# Bodies of all kinds.

BODIES = {
    ("PUT", "/v1/fleets/new"): {"arms": ["a", "b"], "features": ["x"]},
    ("POST", "/v1/fleets/stores/arms"): {"arm": "tea"},
    ("POST", DECIDE): ASK,
    ("POST", f"{DECIDE}/batch"): {"decisions": [ASK]},
    ("POST", "/v1/decisions/none/reward"): {"reward": 1.0},
    ("POST", "/v1/rewards"): {"rewards": [{"id": "none", "reward": 1.0}]},
}
AS_TEXT = {"ids": " ".join}
FIRST = {place: next(iter(body)) for place, body in BODIES.items()}  # the first field of each


def send(service, place, content, headers=JSON):
    method, path = place
    return service.request(method, path, content=content, headers=headers)


NOT_JSON = {
    "nothing": b"",
    "a blank": b"  \n",
    "half an object": b'{"task": ',
    "words": b"please",
    "a comma too many": b'{"a": 1,}',
    "single quotes": b"{'a': 1}",
    "two values": b"{} {}",
    "not UTF-8": b'{"task": "\xff\xfe"}',
    "half a character": b'{"task": "\xe2\x82"}',
    "UTF-16": '{"task": "t"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "half a surrogate pair": b'{"task": "\\ud800"}',
    "the other half": b'{"task": "\\udc00"}',
    "pairs the wrong way": b'{"task": "\\udc00\\ud800"}',
    "a raw control character": b'{"task": "a\x01b"}',
    "a raw NUL": b'{"task": "\x00"}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "deep and whole": b"[" * 20_000 + b"]" * 20_000,
    "a form": b"task=t&context=1",
    "leading zeros": b'{"reward": 01}',
    "hexadecimal": b'{"reward": 0x10}',
    "a comment": b'{"reward": 1 /* one */}',
}


@pytest.mark.parametrize("content", NOT_JSON)
def test_what_is_not_json_is_refused_as_such(service, shape, content):
    shape(send(service, ("POST", DECIDE), NOT_JSON[content]), 400, "invalid_json")


@pytest.mark.parametrize("place", BODIES, **AS_TEXT)
def test_every_route_refuses_what_is_not_json(service, shape, place):
    for content in ("nothing", "half an object", "not UTF-8", "half a surrogate pair", "deep lists"):
        shape(send(service, place, NOT_JSON[content]), 400, "invalid_json")


@pytest.mark.parametrize("place", BODIES, **AS_TEXT)
def test_json_of_another_kind_is_invalid(service, shape, place):
    for content in (b"null", b"1", b'"text"', b"[]", b"true", b"{}", b"[{}]", b'{"": {}}', b'{"a": null}'):
        error = shape(send(service, place, content), 422, "invalid")
        assert "pydantic" not in error["message"].lower()


@pytest.mark.parametrize("place", BODIES, **AS_TEXT)
def test_fields_that_are_not_known_are_named(service, shape, place):
    error = shape(send(service, place, json.dumps({**BODIES[place], "surprise": 1})), 422, "invalid")
    assert error["field"] == "surprise"
    assert "surprise" in error["message"]


@pytest.mark.parametrize("place", BODIES, **AS_TEXT)
def test_fields_that_are_missing_are_named(service, shape, place):
    body = dict(BODIES[place])
    body.pop(FIRST[place])
    error = shape(send(service, place, json.dumps(body)), 422, "invalid")
    assert error["field"] == FIRST[place]
    assert "missing" in error["message"]


@pytest.mark.parametrize("place", BODIES, **AS_TEXT)
@pytest.mark.parametrize("value", [None, {}, [[]], {"a": 1}, [None], [1], True])
def test_values_of_another_type_are_invalid_where_they_are(service, shape, place, value):
    if value is True and FIRST[place] == "reward":
        pytest.skip("a reward of clicks; other fleets refuse it")
    error = shape(send(service, place, json.dumps({**BODIES[place], FIRST[place]: value})), 422, "invalid")
    assert error["field"].split(".")[0] == FIRST[place]


NUMBERS = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1e999",
    "1" + "0" * 400,
    '"1"',
    "true",
    "null",
    "[]",
    '"NaN"',
    "1e308",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_reward_is_a_number_that_can_be_learned(service, shape, number):
    decision = service.decide()
    for path, text in (
        (f"/v1/decisions/{decision['id']}/reward", f'{{"reward": {number}}}'),
        ("/v1/rewards", f'{{"rewards": [{{"id": "{decision["id"]}", "reward": {number}}}]}}'),
    ):
        answer = service.post(path, content=text, headers=JSON)
        error = shape(answer)
        assert answer.status_code in (400, 422)
        if answer.status_code == 422:
            assert error["field"] in ("reward", "rewards.0.reward")
    assert service.read(f"/v1/decisions/{decision['id']}")["state"] == "pending"


@pytest.mark.parametrize("number", [*NUMBERS[:7], "null", "[1]", "{}", '"x"', "1e308"])
def test_a_context_is_made_of_numbers_that_can_be_learned(service, shape, number):
    before = service.counts()
    for text in (f'{{"hour": {number}, "weather": "sun"}}', f'[{number}, "sun"]'):
        answer = service.post(DECIDE, content=f'{{"task": "t", "context": {text}}}', headers=JSON)
        shape(answer)
        assert answer.status_code in (400, 422), answer.text
    assert service.counts() == before


@pytest.mark.parametrize(
    "context",
    [
        {}, [], {"hour": 1}, {"hour": 1, "weather": "snow"}, {"hour": 1, "weather": "sun", "more": 1}, [1],
        [1, "sun", 2],
        {"hour": None, "weather": "sun"}, {"hour": 1, "weather": 3}, {"hour": 1, "weather": ["sun"]}, "sun", 7, None,
    ],
    ids=str,
)  # fmt: skip
def test_a_context_has_the_features_that_were_declared(service, shape, context):
    before = service.counts()
    error = shape(service.post(DECIDE, json={"task": "t", "context": context}), 422, "invalid")
    assert error["message"]
    shape(service.post(f"{DECIDE}/batch", json={"decisions": [ASK, {"task": "t", "context": context}]}), 422, "invalid")
    assert service.counts() == before


@pytest.mark.parametrize(
    "eligible", [[], ["none"], ["cake", "cake"], ["cake", None], "cake", [["cake"]], {"cake": 1}, [1]]
)
def test_eligible_arms_are_some_of_those_there_are(service, shape, eligible):
    before = service.counts()
    shape(service.post(DECIDE, json={**ASK, "eligible": eligible}), 422, "invalid")
    assert service.counts() == before


BAD_NAMES = {
    "nothing": "", "a dot": ".", "two dots": "..", "NUL": "a\0b", "a line": "a\nb", "escape": "\x1b[31m",
    "delete": "\x7f", "a C1 control": "\x85", "a line separator": "\u2028", "long": "x" * 201,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_can_be_shown_and_put_in_a_path(service, shape, name):
    bad, before = BAD_NAMES[name], service.counts()
    shape(service.post(DECIDE, json={**ASK, "task": bad}), 422, "invalid")
    shape(service.post(f"{DECIDE}/batch", json={"decisions": [ASK, {**ASK, "task": bad}]}), 422, "invalid")
    shape(service.post("/v1/fleets/stores/arms", json={"arm": bad}), 422, "invalid")
    shape(service.put("/v1/fleets/new", json={"arms": ["a", bad], "features": []}), 422, "invalid")
    shape(service.put("/v1/fleets/new", json={"arms": ["a"], "features": [bad]}), 422, "invalid")
    shape(service.post(f"{DECIDE}/batch", json={"decisions": [{**ASK, "key": bad}]}), 422, "invalid")
    assert service.counts() == before


@pytest.mark.parametrize(
    "name", ["a b", "é", "日本", "☕", "a/b", "%2F", "<b>", "'; --", "x" * 200, "-", "null", "..."]
)
def test_other_names_are_fine(service, name):
    assert service.decide(name)["task"] == name


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "é", "a/b", "x" * 65, "a\n", "a%0A", "\0"])
def test_names_of_fleets_are_plain(service, shape, name):
    from urllib.parse import quote

    answer = service.put(f"/v1/fleets/{quote(name, safe='%')}", json={"arms": ["a"], "features": []})
    shape(answer)
    assert answer.status_code in (404, 405, 422)
    for path in ("", "/tasks", "/log", "/population"):
        assert 400 <= service.get(f"/v1/fleets/{quote(name, safe='%')}{path}").status_code < 500 or name == ""
    shape(service.post(f"/v1/fleets/{quote(name, safe='%')}/decisions", json=ASK))


def test_a_field_that_is_given_twice_counts_once(service):
    text = '{"task": "first", "task": "second", "context": {"hour": 1, "weather": "sun"}}'
    answer = service.post(DECIDE, content=text, headers=JSON)
    assert answer.status_code in (200, 400, 422)
    if answer.status_code == 200:
        assert answer.json()["task"] == "second"


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "multipart/form-data; boundary=x"],
)
def test_only_json_is_read(service, shape, kind):
    for place, body in BODIES.items():
        shape(send(service, place, json.dumps(body), {"content-type": kind} if kind else {}), 415, "media_type")


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON", "application/json; charset=utf-8", " application/json ;x"]
)
def test_json_may_be_called_so_in_every_way(service, kind):
    assert send(service, ("POST", DECIDE), json.dumps(ASK), {"content-type": kind}).status_code == 200


# Limits.


async def in_pieces(size, piece=500):
    for begin in range(0, size, piece):
        yield b" " * min(piece, size - begin)


@pytest.mark.parametrize("place", BODIES, **AS_TEXT)
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_are_limited_with_and_without_content_length(small, shape, place, chunked):
    for size, status, code in (
        (2000, 400, "invalid_json"),
        (2001, 413, "body_too_large"),
        (10**6, 413, "body_too_large"),
    ):
        content = in_pieces(size) if chunked else b" " * size
        answer = send(small, place, content)
        assert ("content-length" in answer.request.headers) != chunked
        shape(answer, status, code)


def test_a_body_that_says_it_is_small_and_is_not_is_refused_too(small, shape):
    headers = {**JSON, "content-length": "10"}
    shape(send(small, ("POST", DECIDE), in_pieces(5000), headers), 413, "body_too_large")


@pytest.mark.parametrize("length", ["-1", "many", "²", "1e9", "9" * 400, ""])
def test_a_length_that_is_none_is_no_reason_to_fail(small, length):
    headers = [(b"content-type", b"application/json"), (b"content-length", length.encode("latin-1"))]
    answer = send(small, ("POST", DECIDE), in_pieces(100), headers)
    assert answer.status_code in (400, 413)


def test_a_body_that_ends_early_is_a_bad_request(small):
    sent = []

    async def ask():
        messages = [
            {"type": "http.request", "body": b'{"task"', "more_body": True},
            {"type": "http.disconnect"},
        ]

        async def receive():
            return messages.pop(0)

        async def send_message(message):
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": DECIDE,
            "raw_path": DECIDE.encode(), "query_string": b"", "scheme": "http", "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1), "root_path": "",
            "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        }  # fmt: skip
        await small.app(scope, receive, send_message)

    small.run(ask())
    assert sent[0]["status"] == 400
    assert json.loads(sent[1]["body"])["error"]["code"] == "bad_request"


def test_batches_are_limited(small, shape):
    assert small.post(f"{DECIDE}/batch", json={"decisions": [ASK] * 3}).status_code == 200
    before = small.counts()
    error = shape(small.post(f"{DECIDE}/batch", json={"decisions": [ASK] * 4}), 413, "batch_too_large")
    assert error["field"] == "decisions"
    rewards = [{"id": f"none-{i}", "reward": 1} for i in range(4)]
    error = shape(small.post("/v1/rewards", json={"rewards": rewards}), 413, "batch_too_large")
    assert error["field"] == "rewards"
    shape(small.post("/v1/rewards", json={"rewards": rewards[:3]}), 404, "unknown_decision")
    assert small.counts() == before


def test_names_are_limited(small, shape):
    assert small.post(DECIDE, json={**ASK, "task": "x" * 10}).status_code == 200
    for body, headers in (
        ({**ASK, "task": "x" * 11}, {}),
        (ASK, {"idempotency-key": "x" * 11}),
        (ASK, {"idempotency-key": ""}),
        (ASK, {"idempotency-key": "a\x85"}),
    ):
        headers = {name: value.encode("latin-1") for name, value in headers.items()}
        error = shape(small.post(DECIDE, json=body, headers=headers), 422, "invalid")
        assert "10 characters" in error["message"] or "U+0085" in error["message"]
    shape(small.post(f"{DECIDE}/batch", json={"decisions": [{**ASK, "key": "x" * 11}]}), 422, "invalid")
    shape(
        small.post(f"{DECIDE}/batch", json={"decisions": [ASK]}, headers={"idempotency-key": "x" * 9}), 422, "invalid"
    )
    shape(small.post("/v1/fleets/stores/arms", json={"arm": "x" * 11}), 422, "invalid")
    shape(small.get("/v1/fleets/stores/tasks/" + "x" * 11), 422, "invalid")


def test_columns_and_arms_are_limited(small, shape):
    def make(arms, features):
        return small.put("/v1/fleets/other", json={"arms": arms, "features": features})

    assert "limits.features" in shape(make(["a"], list("vwxy")), 422, "invalid")["message"]
    wide = {"kind": "one_hot", "name": "w", "categories": list("abcd")}
    assert "limits.features" in shape(make(["a"], [wide]), 422, "invalid")["message"]
    assert "limits.arms" in shape(make(list("abcde"), ["x"]), 422, "invalid")["message"]
    assert make(list("abcd"), list("xyz")).status_code == 201
    error = shape(small.post("/v1/fleets/other/arms", json={"arm": "e"}), 422, "invalid")
    assert "limits.arms" in error["message"]
    error = shape(small.put("/v1/fleets/third", json={"arms": ["a"], "features": []}), 422, "invalid")
    assert "limits.fleets" in error["message"]


def test_arms_and_columns_are_limited_together(service, shape):
    """Each for itself is allowed: 200 arms with 200 columns made other fleets wait for seconds."""

    def make(n_arms, n_columns):
        body = {"arms": [f"a{i}" for i in range(n_arms)], "features": [f"x{i}" for i in range(n_columns - 1)]}
        return service.put("/v1/fleets/wide", json=body)

    message = shape(make(200, 200), 422, "invalid")["message"]
    assert "expected arms x encoded columns squared to be at most 100,000 (limits.cells), got 200 x 200^2" in message
    assert "there may be 2 arms" in message
    shape(make(1, 317), 422, "invalid")
    assert make(2, 200).status_code == 201
    message = shape(service.post("/v1/fleets/wide/arms", json={"arm": "one more"}), 422, "invalid")["message"]
    assert "got 3 x 200^2 = 120,000" in message
    assert service.get("/v1/fleets/wide").json()["arms"] == ["a0", "a1"]
    assert service.delete("/v1/fleets/wide").status_code == 204


@pytest.mark.parametrize("buckets", [10**6, 10**9, 10**15, 10**30])
def test_features_that_would_fill_the_memory_are_refused_at_once(service, shape, buckets):
    body = {"arms": ["a"], "features": [{"kind": "hashed", "name": "w", "buckets": buckets}]}
    answer = service.run(asyncio.wait_for(service.client.put("/v1/fleets/vast", json=body), 5))
    shape(answer, 422, "invalid")


# Definitions.

WRONG_DEFINITIONS = [
    {"arms": []}, {"arms": ["a", "a"]}, {"arms": ["a", 1]}, {"arms": "a"},
    {"features": ["x", "x"]}, {"features": "x"}, {"features": [1]}, {"features": [[]]}, {"features": [{}]},
    {"features": [{"kind": []}]},
    {"features": [{"kind": {}}]},
    {"features": [{"kind": None, "name": "x"}]},
    {"features": [{"kind": "numeric"}]},
    {"features": [{"kind": "numeric", "name": 1}]},
    {"features": [{"kind": "numeric", "name": []}]},
    {"features": [{"kind": "numeric", "name": {}}]},
    {"features": [{"kind": "numeric", "name": "x", "scale": []}]},
    {"features": [{"kind": "numeric", "name": "x", "scale": "standard"}]},
    {"features": [{"kind": "numeric", "name": "x", "scale": "standard", "center": "1", "spread": 1}]},
    {"features": [{"kind": "numeric", "name": "x", "scale": "standard", "center": 0, "spread": 0}]},
    {"features": [{"kind": "numeric", "name": "x", "scale": "standard", "center": 0, "spread": [1]}]},
    {"features": [{"kind": "numeric", "name": "x", "missing": {}}]},
    {"features": [{"kind": "numeric", "name": "x", "extra": 1}]},
    {"features": [{"kind": "one_hot", "name": "x"}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": []}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": "abc"}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": {"a": 1}}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": [[]]}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": [{}, {}]}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": [None]}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": ["a", "a"]}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": ["a"], "unknown": 3}]},
    {"features": [{"kind": "one_hot", "name": "x", "categories": ["a"], "unknown": []}]},
    {"features": [{"kind": "hashed", "name": "x", "buckets": 0}]},
    {"features": [{"kind": "hashed", "name": "x", "buckets": -1}]},
    {"features": [{"kind": "hashed", "name": "x", "buckets": 1.5}]},
    {"features": [{"kind": "hashed", "name": "x", "buckets": "9"}]},
    {"features": [{"kind": "hashed", "name": "x", "buckets": True}]},
    {"features": [{"kind": "hashed", "name": "x", "buckets": []}]},
    {"features": [], "intercept": False}, {"intercept": 1}, {"intercept": None},
    {"policy": "best"}, {"policy": None}, {"policy": ""}, {"prior": "guess"}, {"prior": ""},
    {"exploration": -1}, {"exploration": "1"}, {"exploration": 1e7},
    {"floor": -0.1}, {"floor": 0.6}, {"floor": 2}, {"floor": None},
    {"evaluation_budget": -0.1}, {"evaluation_budget": 2}, {"evaluation_budget": None}, {"evaluation_budget": "1 %"},
    {"refresh_growth": -1}, {"refresh_growth": 1e7}, {"robust": 1}, {"robust": "yes"},
    {"time_to_live": 0}, {"time_to_live": -1}, {"time_to_live": 1e11}, {"time_to_live": "1"},
    {"absent_reward": 1e308}, {"absent_reward": "0"}, {"retention": 0}, {"retention": 10}, {"retention": 1e11},
    {"time_to_live": None, "retention": 1000}, {"retired": ["a"]}, {"name": "x"},
]  # fmt: skip


@pytest.mark.parametrize("change", WRONG_DEFINITIONS, ids=str)
def test_what_no_fleet_can_be_made_of_is_refused(service, shape, change):
    before = service.read("/v1/fleets")
    answer = service.put("/v1/fleets/wrong", json={"arms": ["a", "b"], "features": ["x"], **change})
    shape(answer, 422, "invalid")
    assert service.read("/v1/fleets") == before


# Parameters.


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("tasks?limit=0", "limit"), ("tasks?limit=1001", "limit"), ("tasks?limit=x", "limit"),
        ("tasks?limit=1.5", "limit"),
        ("tasks?limit=" + "9" * 400, "limit"), ("tasks?search=" + "x" * 1001, "search"), ("tasks?limit=", "limit"),
        ("history/t?before=0", "before"), ("history/t?before=9223372036854775808", "before"),
        ("history/t?before=x", "before"),
        ("pending?limit=-1", "limit"), ("activity?minutes=0", "minutes"), ("activity?minutes=1e3", "minutes"),
        ("activity?minutes=100000000000", "minutes"), ("value?rows=1", "rows"), ("value?rows=1000000", "rows"),
        ("value?baseline=best", None), ("value?baseline=arm:none", None), ("value?baseline=", None),
        ("log?format=csv", "format"),
    ],
)  # fmt: skip
def test_parameters_are_checked_and_named(service, shape, path, field):
    service.decide("t")
    error = shape(service.get(f"/v1/fleets/stores/{path}"), 422, "invalid")
    if field is not None:
        assert error["field"] == field
        assert field in error["message"]


@pytest.mark.parametrize("search", ["%00", "%FF", "%ED%A0%80", "%", "_", "\\", "'", "%25", "%F0%9F%98%80", "%0A"])
def test_any_text_may_be_searched_for(service, search):
    for name in ("search", "after"):
        answer = service.get(f"/v1/fleets/stores/tasks?{name}={search}")
        assert answer.status_code in (200, 422), answer.text


@pytest.mark.parametrize("name", ["%00", "%FF", "%ED%A0%80", "a%0Ab", "%2E", "%2E%2E", "x" * 201, "%E2%80%A8"])
@pytest.mark.parametrize("part", ["tasks", "history", "export", "arms"])
def test_names_in_paths_that_cannot_be_are_not_there(service, shape, name, part):
    path = f"/v1/fleets/stores/{part}/{name}"
    for method in ("DELETE",) if part == "arms" else ("GET", "DELETE") if part == "tasks" else ("GET",):
        answer = service.request(method, path)
        shape(answer)
        assert answer.status_code in (404, 405, 422), (method, answer.text)


@pytest.mark.parametrize("name", ["%00", "%FF", "é", "x" * 101, "x" * 1000, "a%0Ab", "%20", "..", "a%2Fb"])
def test_ids_that_cannot_be_are_not_there(service, shape, name):
    for answer in (
        service.get(f"/v1/decisions/{name}"),
        service.post(f"/v1/decisions/{name}/reward", json={"reward": 1.0}),
    ):
        shape(answer)
        assert answer.status_code in (404, 422)


@pytest.mark.parametrize("decision_id", ["", "\0", "é", "x" * 101, "x" * 5000, "a\nb", " "])
def test_ids_in_bodies_that_cannot_be_are_not_there(service, shape, decision_id):
    answer = service.post("/v1/rewards", json={"rewards": [{"id": decision_id, "reward": 1.0}]})
    error = shape(answer, 404, "unknown_decision")
    assert error["field"].startswith("rewards.0")


@pytest.mark.parametrize(
    "path", ["/v1/fleets/stores/decisions/", "/v1/fleets/stores/decisions/batch/", "//v1/fleets", "/v1//fleets"]
)
def test_paths_are_exact(service, shape, path):
    shape(service.post(path, json=ASK), 404, "not_found")


def test_the_short_way_and_the_long_way_are_one_way(service, shape):
    # Two routes are recognised before FastAPI sees them; what is near them is not.
    shape(service.get(DECIDE), 405, "method_not_allowed")
    shape(service.put(DECIDE, json=ASK), 405, "method_not_allowed")
    shape(service.delete("/v1/decisions/none/reward"), 405, "method_not_allowed")
    shape(service.post("/v1/fleets/none/decisions", json=ASK), 404, "unknown_fleet")
    shape(service.post("/v1/fleets/none/decisions/batch", json={"decisions": [ASK]}), 404, "unknown_fleet")
    shape(service.post("/v1/decisions/none/reward", json={"reward": 1}), 404, "unknown_decision")
    # A query changes nothing.
    assert service.post(f"{DECIDE}?x=1", json=ASK).status_code == 200
    text = service.get("/metrics").text
    assert 'route="/v1/fleets/{fleet}/decisions",status="200"' in text
    assert 'route="/v1/decisions/{id}/reward",status="404"' in text
