"""Both clients against a server that fails: what is tried again, what is not, and when to give up."""

import time

import httpx
import pytest

from posse.client import Health, ServiceError, ServiceUnavailable
from posse.errors import InvalidValue

DECISION = {
    "id": "d-1", "fleet": "shops", "task": "store-17", "arm": "tea", "propensity": 0.75,
    "probabilities": {"tea": 0.75, "cake": 0.25}, "mean": {"tea": 1.5, "cake": 0.5}, "sd": {"tea": 0.1, "cake": 0.2},
}  # fmt: skip
FLEET = {
    "name": "shops", "created": "2026-01-02T03:04:05Z", "definition": {"policy": "ebm-ts"}, "arms": ["tea", "cake"],
    "retired_arms": [], "columns": ["intercept", "hour"], "tasks": 1, "decisions": 2, "rewards": 3, "pending": 4,
    "state": "serving", "reason": None, "pending_reward": None,
}  # fmt: skip
DECIDED = (200, DECISION)
DROP = b""
FAULTS = {
    "dropped": DROP,
    "garbage": b"\x00\xffnothing of HTTP\r\n\r\n",
    "half an answer": b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"id": "d-',
    "half of the headers": b"HTTP/1.1 200 OK\r\nContent-Le",
    "not JSON": (200, b"<html>Please log in</html>"),
    "JSON of another kind": (200, {"hello": "world"}),
    "a list": (200, [1, 2]),
    "bad gzip": (200, b"no gzip at all", {"Content-Encoding": "gzip"}),
    "429": (429, "rate_limited"),
    "502 of a proxy": (502, b"<html>Bad gateway</html>"),
    "503": (503, "storage_unavailable"),
    "504": (504, b""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_try_is_made_again_under_the_same_key(make, server, fault):
    server.acts = [FAULTS[fault], FAULTS[fault], DECIDED]
    decision = make(server.url).decide("shops", "store-17", {"hour": 9.5})

    assert (decision.id, decision.arm, decision.fallback) == ("d-1", "tea", False)
    assert len(server.requests) == 3
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert len({request.body for request in server.requests}) == 1


def test_two_decisions_have_two_keys_and_a_given_one_is_used(make, server):
    server.acts = [DECIDED]
    client = make(server.url)
    client.decide("shops", "a", {})
    client.decide("shops", "a", {})
    client.decide("shops", "a", {}, key="order 17")
    first, second, third = (request.headers["idempotency-key"] for request in server.requests)

    assert len(first) == 36
    assert first != second
    assert third == "order 17"


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "invalid_json"), (401, "key_required"), (403, "scope_missing"), (404, "unknown_fleet"),
     (409, "key_reused"), (410, "decision_expired"), (413, "body_too_large"), (422, "invalid"), (500, "internal")],
)  # fmt: skip
def test_what_was_refused_is_not_asked_again(make, server, status, code):
    server.acts = [(status, code)]
    with pytest.raises(ServiceError, match=f"because of {code}") as caught:
        make(server.url).decide("shops", "a", {})

    assert (caught.value.status, caught.value.code, caught.value.field) == (status, code, "some.field")
    assert isinstance(caught.value, ServiceUnavailable) == (status == 500)
    assert len(server.requests) == 1


def test_a_missing_key_says_where_it_goes(make, server):
    server.acts = [(401, "key_required")]
    with pytest.raises(ServiceError, match=r"because of key_required \(pass key= to the client or set POSSE_KEY\)"):
        make(server.url).fleets()


def test_a_redirect_is_not_followed_and_says_where_it_led(make, server):
    server.acts = [(308, b"", {"Location": "https://elsewhere.example/"})]
    with pytest.raises(ServiceError, match=r"leads on to https://elsewhere.example/; make base_url"):
        make(server.url, key="posse_secret").fleets()
    assert len(server.requests) == 1


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_patience_ends_after_the_retries(make, server, retries):
    server.acts = [(503, "storage_unavailable")]
    with pytest.raises(ServiceUnavailable, match="because of storage_unavailable") as caught:
        make(server.url, retries=retries).reward("d-1", 1.0)

    assert len(server.requests) == retries + 1
    assert (caught.value.status, caught.value.code) == (503, "storage_unavailable")
    assert f"tried {'once' if retries == 0 else f'{retries + 1} times'}" in str(caught.value)
    assert server.url in str(caught.value)


def test_nobody_there(make, nobody):
    with pytest.raises(ServiceUnavailable, match="check that posse serve runs there") as caught:
        make(nobody, retries=2).fleet("shops")
    assert (caught.value.status, caught.value.code) == (None, "no_answer")


def test_a_service_that_hangs_is_left_after_the_time_out(make, server):
    server.acts = ["hang", DECIDED]
    started = time.monotonic()
    assert make(server.url, timeout=0.5).decide("shops", "a", {}).arm == "tea"
    assert 0.5 <= time.monotonic() - started < 10


@pytest.mark.parametrize("act", ["hang", "drip"])
def test_the_deadline_ends_all_tries(make, server, act):
    server.acts = [act]
    started = time.monotonic()
    with pytest.raises(ServiceUnavailable):
        make(server.url, timeout=30.0, retries=50, deadline=0.3).fleet("shops")
    assert 0.25 <= time.monotonic() - started < 4


def test_times_of_httpx_are_taken(make, server):
    server.acts = ["hang", DECIDED]
    client = make(server.url, timeout=httpx.Timeout(5.0, read=0.5))
    started = time.monotonic()
    client.decide("shops", "a", {})
    assert time.monotonic() - started < 4  # not the 5 s of other waits


@pytest.mark.slow
def test_the_service_is_left_alone_for_as_long_as_it_says(make, server):
    server.acts = [(429, "rate_limited", {"Retry-After": "1"}), DECIDED]
    started = time.monotonic()
    make(server.url).decide("shops", "a", {})
    assert 1.0 <= time.monotonic() - started < 10


def test_a_wait_beyond_the_deadline_is_not_begun(make, server):
    server.acts = [(503, "storage_unavailable", {"Retry-After": "600"})]
    started = time.monotonic()
    with pytest.raises(ServiceUnavailable, match="tried once"):
        make(server.url, deadline=60.0).decide("shops", "a", {})
    assert time.monotonic() - started < 30


def test_an_arm_that_is_there_after_a_lost_answer_was_added(make, server):
    server.acts = [DROP, (409, "arm_exists"), (200, FLEET)]
    assert make(server.url).add_arm("shops", "cake").arms == ("tea", "cake")
    assert [(one.method, one.path) for one in server.requests] == [
        ("POST", "/v1/fleets/shops/arms"), ("POST", "/v1/fleets/shops/arms"), ("GET", "/v1/fleets/shops"),
    ]  # fmt: skip


@pytest.mark.parametrize("before", [[], [(429, "rate_limited")]])
def test_an_arm_that_was_there_before_is_refused(make, server, before):
    server.acts = [*before, (409, "arm_exists"), (200, FLEET)]
    with pytest.raises(ServiceError) as caught:
        make(server.url).add_arm("shops", "cake")
    assert caught.value.code == "arm_exists"


def test_what_is_gone_after_a_lost_answer_was_deleted(make, server):
    client = make(server.url)
    server.acts = [DROP, (404, "unknown_fleet")]
    client.delete_fleet("shops")
    server.acts = [b"HTTP/1.1 2", (404, "unknown_task")]
    client.erase("shops", "store-17")

    server.acts = [(404, "unknown_task")]
    with pytest.raises(ServiceError, match="because of unknown_task"):
        client.erase("shops", "store-17")


def test_a_lost_answer_excuses_no_other_error(make, server):
    server.acts = [DROP, (404, "unknown_fleet")]
    with pytest.raises(ServiceError) as caught:
        make(server.url).erase("shops", "store-17")
    assert caught.value.code == "unknown_fleet"


def test_health_is_asked_once_and_not_ready_is_an_answer(make, server):
    client = make(server.url)
    server.acts = [(200, {"status": "ready", "fleets": 2, "leading": True}), (503, "not_ready")]
    assert client.health() == Health(ready=True, fleets=2, leading=True)
    assert client.health().ready is False
    server.acts = [(200, {"status": "degraded", "fleets": 2, "set_aside": 1, "leading": True})]
    assert client.health().ready is True  # it answers; which fleets are not well is another question
    assert len(server.requests) == 3
    server.acts = [DROP]
    with pytest.raises(ServiceUnavailable, match="tried once"):
        client.health()


@pytest.mark.parametrize(
    "settings",
    [{"retries": -1}, {"retries": 1.5}, {"timeout": 0}, {"timeout": "2"}, {"deadline": 0}, {"deadline": float("nan")},
     {"backoff": -1.0}, {"pause": -1}, {"fallback": 3}, {"key": "a b"}, {"key": ""}, {"key": "a\n"}],
)  # fmt: skip
def test_settings_are_checked(make, settings):
    with pytest.raises(InvalidValue):
        make("http://127.0.0.1:1", **settings)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://h/?a=1", None, ""])
def test_the_address_is_checked(make, url):
    with pytest.raises(InvalidValue, match="base_url to be an address such as"):
        make(url)
