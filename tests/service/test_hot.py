"""The two routes that are asked most answer whatever is sent to them, however it comes."""

import contextlib
import json
import logging
import socket
import sys
import threading
import time

import httpx
import pytest
import uvicorn

from posse.service.http.app import create_app
from posse.service.http.routes import rewarding
from posse.service.http.routes.asking import digest_of_request
from posse.service.http.server import LimitedProtocol

GOOD = {"task": "t", "context": [9.5, "rain"], "explore": False}


class OverSocket:
    """A service behind a real socket in this process."""

    def __init__(self, settings):
        self.app = create_app(settings)
        self.runtime = self.app.state.runtime
        options = {"log_config": None, "server_header": False, "proxy_headers": False}
        self.server = uvicorn.Server(uvicorn.Config(self.app, port=0, http=LimitedProtocol, **options))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not (self.server.started and self.runtime.ready):
            assert self.thread.is_alive()
            time.sleep(0.01)
        self.address = self.server.servers[0].sockets[0].getsockname()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.address[1]}", timeout=30)

    def talk(self, data):
        """Send bytes as they are; return all that comes until the other side ends."""
        with socket.create_connection(self.address, timeout=60) as connection:
            connection.sendall(data)
            found = b""
            with contextlib.suppress(TimeoutError):
                while piece := connection.recv(65536):
                    found += piece
            return found

    def stop(self):
        self.client.close()
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def over_socket(tmp_path, kinds):
    """Start services; settings are those of Settings, ``limits`` a dict."""
    _, settings, limits = kinds
    started = []

    def start(**rest):
        given = {**rest, "limits": limits(**rest.get("limits", {}))}
        started.append(OverSocket(settings(database=str(tmp_path / "posse.db"), **given)))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory, kinds, stores):
    running = OverSocket(kinds[1](database=str(tmp_path_factory.mktemp("short") / "posse.db")))
    assert running.client.put("/v1/fleets/stores", json=stores).status_code == 201
    yield running
    running.stop()


def request_bytes(path=b"/v1/fleets/stores/decisions", body=None, version=b"1.1", headers=b""):
    body = json.dumps(GOOD).encode() if body is None else body
    if b"hunked" not in headers:
        headers += b"Content-Length: %d\r\n" % len(body)
    head = b"POST " + path + b" HTTP/" + version + b"\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head + headers + b"\r\n" + body


CHUNKED = b"Transfer-Encoding: chunked\r\n"
LAST = b"Connection: close\r\n"
BODY = json.dumps(GOOD).encode()


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (request_bytes(headers=LAST), 1),
        (request_bytes(headers=LAST, body=b"no JSON"), 0),
        (request_bytes(headers=CHUNKED + LAST, body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)), 1),
        (request_bytes(version=b"1.0"), 1),
        (request_bytes(headers=b"Expect: 100-continue\r\n" + LAST), 1),
        (request_bytes(path=b"/v1/fleets/st%6Fres/decisions", headers=LAST), 1),
        (request_bytes(path=b"/v1/fleets/stores/decisions?way=long", headers=LAST), 1),
        (request_bytes(path=b"http://127.0.0.1/v1/fleets/stores/decisions", headers=LAST), 1),
        (request_bytes(headers=LAST, body=BODY + b" " * (1 << 17)), 1),
        # The second does not wait for the first, and the third for neither.
        (request_bytes() + request_bytes() + request_bytes(headers=LAST), 3),
    ],
    ids=["plain", "no JSON", "chunked", "1.0", "expect", "percent", "query", "absolute", "large", "more"],
)
def test_requests_are_answered_however_they_come(served, sent, answers):
    assert served.talk(sent).count(b"HTTP/1.1 200 OK") == answers


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b""])
@pytest.mark.parametrize("path", ["/v1/fleets/stores/decisions", "/v1/decisions/nobody-1/reward"])
def test_odd_bodies_are_refused_in_the_one_shape(served, shape, path, content):
    answer = served.client.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    shape(answer)
    shape(served.client.post(path, content=content, headers={"content-type": "text/plain"}), 415, "media_type")


def test_rights_and_rates_are_asked_for(over_socket, shape, stores, keys, tmp_path):
    admin, some, none = keys(tmp_path / "posse.db", ("admin",), ("decide",), ("read",))
    running = over_socket(limits={"rate": 0.02, "refusals": 1000})  # one in 50 seconds
    path, allowed = "/v1/fleets/stores/decisions", {"authorization": f"Bearer {some}"}
    made = running.client.put("/v1/fleets/stores", json=stores, headers={"authorization": f"Bearer {admin}"})
    assert made.status_code == 201
    for headers, status in (({}, 401), ({"authorization": "Bearer posse_x_y"}, 401)):
        shape(running.client.post(path, json=GOOD, headers=headers), status)
    shape(running.client.post(path, json=GOOD, headers={"authorization": f"Bearer {none}"}), 403, "scope_missing")
    assert running.client.post(path, json=GOOD, headers=allowed).status_code == 200
    refused = running.client.post(path, json=GOOD, headers=allowed)
    shape(refused, 429, "rate_limited")
    assert 1 < int(refused.headers["retry-after"]) <= 50


def test_whoever_goes_away_leaves_the_others_alone(served):
    for sent in (request_bytes()[:-5], request_bytes()):
        with socket.create_connection(served.address, timeout=60) as connection:
            connection.sendall(sent)
    assert served.client.post("/v1/fleets/stores/decisions", json=GOOD).status_code == 200


def test_a_fleet_that_somebody_works_on_is_waited_for_elsewhere(served):
    replica = served.runtime.live("stores").replica
    answers = []
    with replica.reserved(10.0) as reserved:
        assert reserved
        asking = threading.Thread(
            target=lambda: answers.append(served.client.post("/v1/fleets/stores/decisions", json=GOOD))
        )
        asking.start()
        with httpx.Client(base_url=served.client.base_url, timeout=30) as other:
            assert other.get("/healthz").status_code == 200
        assert not answers
    asking.join(30)
    assert answers[0].status_code == 200


def test_ids_counts_and_lines_of_the_log(over_socket, stores, caplog, wait_for):
    running = over_socket(access_log=True)
    running.client.put("/v1/fleets/stores", json=stores)
    with caplog.at_level(logging.INFO, "posse.access"):
        given = running.client.post(
            "/v1/fleets/stores/decisions", json=GOOD, headers={"x-request-id": "order-991"}
        ).headers["x-request-id"]
        other = running.client.post("/v1/fleets/stores/decisions", json={}).headers["x-request-id"]
        wait_for(
            lambda: sum("/decisions" in getattr(one, "fields", {}).get("route", "") for one in caplog.records) == 2
        )
    assert given == "order-991"
    assert other
    lines = [record.fields for record in caplog.records if record.name == "posse.access"]
    lines = [line for line in lines if line["route"] != "/v1/fleets/{fleet}"]  # written after its answer
    assert [(line["route"], line["fleet"], line["status"], line["code"]) for line in lines] == [
        ("/v1/fleets/{fleet}/decisions", "stores", 200, None),
        ("/v1/fleets/{fleet}/decisions", "stores", 422, "invalid"),
    ]
    text = running.client.get("/metrics").text
    assert 'posse_requests_total{method="POST",route="/v1/fleets/{fleet}/decisions",status="200"} 1.0' in text
    assert 'posse_errors_total{code="invalid"} 1.0' in text


def test_an_unexpected_error_is_answered_without_its_message(over_socket, stores, monkeypatch, caplog, shape):
    monkeypatch.setattr(rewarding, "new_reward", lambda *_: 1 / 0)
    running = over_socket()
    running.client.put("/v1/fleets/stores", json=stores)
    answer = running.client.post("/v1/decisions/any-1/reward", json={"reward": 1.0})
    shape(answer, 500, "internal")
    assert "ZeroDivisionError" in caplog.text
    assert running.client.post("/v1/fleets/stores/decisions", json=GOOD).status_code == 200


def test_what_requests_under_one_key_have_in_common_is_as_in_earlier_versions():
    """Databases hold it: whoever asks again after an upgrade must get the decision that was made before."""
    context = {"hour": 9.0, "weather": "r\u00e4in\x7f\u2028", "none": None, "t": True, "big": 1e22}
    asked = {"context": context, "eligible": ["bread", "cake"]}
    assert digest_of_request("store-17", asked, explore=True) == "0746dcbbd4bd15adf522510ce6abb55a"
    assert digest_of_request("store-17", asked, explore=True, k=2) == "458b839366de29b4fe197ed52ca816d6"
    asked = {"context": context, "eligible": {"bread": {"price": 2.5}, "cake": {"price": None}}}
    assert digest_of_request("store-17", asked, explore=False, k=1) == "9879a0b98284755e74a9a562f29d927a"


def test_a_decision_and_its_reward_take_few_calls(service):
    """Every layer that all requests pass costs pairs a second."""
    service.make_fleet("few")
    calls = []

    def note(frame, event, _):
        if event == "call" and "/posse/service/" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    async def pair():
        sys.setprofile(note)
        try:
            body = {"task": "t", "context": {"hour": 9.5, "weather": "rain"}}
            decision = (await service.client.post("/v1/fleets/few/decisions", json=body)).json()
            return await service.client.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": 1.0})
        finally:
            sys.setprofile(None)

    assert service.run(pair()).status_code == 200
    calls.clear()
    assert service.run(pair()).status_code == 200
    assert 40 < len(calls) < 130, len(calls)
