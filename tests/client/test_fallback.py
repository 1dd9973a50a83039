"""What a client does without the service."""

import threading
import time

import pytest

from posse.client import Client, ServiceError, ServiceUnavailable
from posse.errors import InvalidValue

DECISION = {
    "id": "d-1", "fleet": "shops", "task": "a", "arm": "tea", "propensity": 1.0, "probabilities": {"tea": 1.0},
    "mean": {"tea": 1.5}, "sd": {"tea": 0.1},
}  # fmt: skip
DECIDED = (200, DECISION)
DOWN = (503, "storage_unavailable")


def test_a_fallback_is_marked_and_takes_no_reward(make, nobody):
    client = make(nobody, retries=1, fallback="cake")
    decision = client.decide("shops", "a", {"hour": 9.5})

    assert (decision.fleet, decision.task, decision.arm, decision.fallback) == ("shops", "a", "cake", True)
    assert (decision.id, decision.propensity, decision.probabilities) == (None, None, {})
    assert "gave no result" in decision.reason
    assert client.reward(decision, 1.0) is False
    assert client.reward_many([(decision, 1.0)]) == (0, 0)


def test_fallbacks_are_left_out_of_a_batch_of_rewards(make, server, nobody):
    fallback = make(nobody, retries=0, fallback="cake").decide("shops", "a", {})
    server.acts = [(200, {"new": 1, "same": 1})]
    counts = make(server.url).reward_many([(fallback, 5.0), ("d-1", 1.0), ("d-2", 2.0)])

    assert (counts.new, counts.same) == (1, 1)
    assert server.requests[0].json == {"rewards": [{"id": "d-1", "reward": 1.0}, {"id": "d-2", "reward": 2.0}]}


def test_a_callable_chooses_from_what_was_asked(make, nobody):
    asked = []

    def choose(fleet, task, context, eligible):
        asked.append((fleet, task, context, eligible))
        return eligible[-1] if eligible else "tea"

    client = make(nobody, retries=0, fallback=choose)
    assert client.decide("shops", "a", {"hour": 1}, eligible=["cake", "jam"]).arm == "jam"
    assert client.decide("shops", "b", {}).arm == "tea"
    assert asked == [("shops", "a", {"hour": 1}, ["cake", "jam"]), ("shops", "b", {}, None)]

    with pytest.raises(InvalidValue, match="must return the name of an arm, but it returned 3"):
        make(nobody, retries=0, fallback=lambda *_: 3).decide("shops", "a", {})


def test_a_fallback_that_is_not_eligible_is_not_taken(make, nobody):
    client = make(nobody, retries=0, fallback="cake")
    for _ in range(2):  # also while decisions fall back at once
        with pytest.raises(ServiceUnavailable):
            client.decide("shops", "a", {}, eligible=["tea", "jam"])
    assert client.decide("shops", "a", {}, eligible=["tea", "cake"]).arm == "cake"


@pytest.mark.parametrize("act", [(422, "invalid"), (401, "key_invalid"), (404, "unknown_fleet")])
def test_a_refusal_is_no_reason_to_fall_back(make, server, act):
    server.acts = [act]
    with pytest.raises(ServiceError, match=f"because of {act[1]}"):
        make(server.url, fallback="cake").decide("shops", "a", {})


@pytest.mark.parametrize("act", [(500, "internal"), (429, "rate_limited"), (200, b"<html>"), DOWN])
def test_no_decision_is_a_reason_to_fall_back(make, server, act):
    server.acts = [act]
    assert make(server.url, fallback="cake", retries=1).decide("shops", "a", {}).fallback
    assert len(server.requests) == (1 if act[0] == 500 else 2)


def test_a_fleet_that_is_set_aside_falls_back_at_once_and_others_are_asked(make, server):
    server.acts = [(503, "fleet_set_aside"), DECIDED]
    client = make(server.url, fallback="cake", retries=3, pause=60)
    assert client.decide("broken", "a", {}).fallback
    assert not client.decide("shops", "a", {}).fallback
    assert len(server.requests) == 2


def test_other_calls_do_not_fall_back(make, nobody):
    client = make(nobody, retries=0, fallback="cake")
    with pytest.raises(ServiceUnavailable):
        client.reward("d-1", 1.0)
    with pytest.raises(ServiceUnavailable):
        client.fleet("shops")


def test_a_batch_falls_back_as_a_whole(make, server):
    server.acts = [DOWN]
    client = make(server.url, retries=0, fallback="cake", pause=0)
    decisions = client.decide_many("shops", [{"task": "a", "context": {}}, {"task": "b", "context": {}}])
    assert [(one.task, one.arm, one.fallback) for one in decisions] == [("a", "cake", True), ("b", "cake", True)]

    with pytest.raises(ServiceUnavailable):
        client.decide_many("shops", [{"task": "a", "context": {}, "eligible": ["tea"]}, {"task": "b", "context": {}}])


def test_decisions_fall_back_at_once_during_the_pause_then_one_asks_again(make, server):
    server.acts = [DOWN]
    client = make(server.url, fallback="cake", retries=2, pause=0.3)
    assert client.decide("shops", "a", {}).fallback
    assert len(server.requests) == 3

    skipped = [client.decide("shops", "a", {}) for _ in range(20)]
    assert all(one.fallback and "a moment ago" in one.reason for one in skipped)
    assert len(server.requests) == 3

    time.sleep(0.35)
    assert client.decide("shops", "a", {}).fallback  # asks once: nobody waits for retries of a service that is down
    assert client.decide("shops", "a", {}).fallback
    assert len(server.requests) == 4

    server.acts = [DECIDED]
    time.sleep(0.35)
    assert [client.decide("shops", "a", {}).fallback for _ in range(3)] == [False] * 3
    assert len(server.requests) == 7


def test_without_a_pause_or_a_fallback_every_decision_asks(make, server):
    server.acts = [DOWN]
    client = make(server.url, fallback="cake", retries=0, pause=0)
    assert [client.decide("shops", "a", {}).fallback for _ in range(3)] == [True] * 3
    client = make(server.url, retries=0)
    for _ in range(2):
        with pytest.raises(ServiceUnavailable):
            client.decide("shops", "a", {})
    assert len(server.requests) == 5


def test_a_refusal_ends_the_pause(make, server):
    server.acts = [DOWN, (422, "invalid"), DECIDED]
    client = make(server.url, fallback="cake", retries=0, pause=0.1)
    assert client.decide("shops", "a", {}).fallback
    time.sleep(0.15)
    with pytest.raises(ServiceError):
        client.decide("shops", "a", {})
    assert not client.decide("shops", "a", {}).fallback


def test_threads_share_a_client(server):
    server.acts = [DECIDED]
    arms, errors = [], []

    def work(client):
        try:
            arms.extend([client.decide("shops", "a", {}).arm for _ in range(25)])
        except Exception as error:
            errors.append(error)

    with Client(server.url) as client:
        threads = [threading.Thread(target=work, args=(client,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    assert arms == ["tea"] * 200
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 200
