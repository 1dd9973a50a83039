"""The two routes that are asked most answer on the short way as on the long one, and what is unusual takes the long."""

import contextlib
import json
import logging
import socket
import threading
import time

import httpx
import pytest
import uvicorn

from posse.service import schemas
from posse.service.app import create_app
from posse.service.connections import LimitedProtocol
from posse.service.deciding import digest_of_request
from posse.service.fast_path import LARGEST_BODY, Exchange
from posse.service.routes import rewards

GOOD = {"task": "t", "context": [9.5, "rain"], "explore": False}
ASKED = [
    GOOD,
    {"task": "t", "context": {"hour": 9.5, "weather": "rain"}, "eligible": ["cake"]},
    {"task": "", "context": [9.5, "rain"]},
    {"task": "t", "context": {"hour": "late", "weather": "rain"}},
    {"task": "t", "context": [9.5, "rain"], "eligible": ["nothing"]},
    {"task": "t", "context": [1e300, "rain"]},
    {"task": "t", "context": [9.5, "rain"], "more": 1},
    {},
    [],
]
LONG = "?way=long"  # a query is unusual


class OverSocket:
    """A service behind a real socket in this process, which notes the requests that took the short way."""

    def __init__(self, settings):
        self.app = create_app(settings)
        self.engine = self.app.state.engine
        options = {"log_config": None, "server_header": False, "proxy_headers": False}
        self.server = uvicorn.Server(uvicorn.Config(self.app, port=0, http=LimitedProtocol, **options))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not (self.server.started and self.engine.ready):
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
def short(monkeypatch):
    """The exchanges of the short way that were begun and not handed on."""
    begun = []
    plain = Exchange.begin

    def begin(self):
        plain(self)
        begun.append(self)

    monkeypatch.setattr(Exchange, "begin", begin)
    return begun


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


def same(short, long):
    """Check that two answers differ in nothing but what is new in each."""
    assert short.status_code == long.status_code
    assert {**short.json(), "id": ""} == {**long.json(), "id": ""}
    assert {*short.headers} == {*long.headers}
    for name in {*short.headers} - {"x-request-id", "date", "content-length"}:
        assert short.headers[name] == long.headers[name]


@pytest.mark.parametrize("body", ASKED, ids=range(len(ASKED)))
def test_decisions_are_the_same_either_way(served, short, body):
    path = "/v1/fleets/stores/decisions"
    answers = [served.client.post(path + way, json=body) for way in ("", LONG)]
    assert len(short) == 1
    same(*answers)


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{", "application/json"), (b"\xff", "application/json"), (b"{}", "text/plain"), (b"{}", None), (b"", "")],
    ids=range(5),
)
@pytest.mark.parametrize("path", ["/v1/fleets/stores/decisions", "/v1/decisions/nobody-1/reward"])
def test_odd_bodies_are_refused_the_same_either_way(served, short, path, content, kind):
    headers = {} if kind is None else {"content-type": kind}
    answers = [served.client.post(path + way, content=content, headers=headers) for way in ("", LONG)]
    assert len(short) == 1
    same(*answers)


def test_rewards_are_the_same_either_way(served, short):
    for value, status in ((1.5, 200), (1.5, 200), (2.5, 409), (True, 422), ("much", 422), (1e300, 422)):
        ids = [served.client.post("/v1/fleets/stores/decisions", json=GOOD).json()["id"] for _ in range(2)]
        paths = [f"/v1/decisions/{ids[0]}/reward", f"/v1/decisions/{ids[1]}/reward{LONG}"]
        if status != 200 or value == 1.5:
            for path in paths:
                served.client.post(path, json={"reward": 1.5})
        answers = [served.client.post(path, json={"reward": value}) for path in paths]
        assert answers[0].status_code == (status if value != 1.5 else 200)
        for answer, decision in zip(answers, ids, strict=True):
            answer._content = answer.content.replace(decision.encode(), b"the id")
        same(*answers)
    same(*(served.client.post(f"/v1/decisions/nobody-1/reward{way}", json={"reward": 1}) for way in ("", LONG)))
    same(*(served.client.post(f"/v1/decisions/{'x' * 101}/reward{way}", json={"reward": 1}) for way in ("", LONG)))


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
    ("sent", "answers", "n_short"),
    [
        (request_bytes(headers=LAST), 1, 1),
        (request_bytes(headers=LAST, body=b"no JSON"), 0, 1),
        (request_bytes(headers=CHUNKED + LAST, body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)), 1, 0),
        (request_bytes(version=b"1.0"), 1, 0),
        (request_bytes(headers=b"Expect: 100-continue\r\n" + LAST), 1, 0),
        (request_bytes(path=b"/v1/fleets/st%6Fres/decisions", headers=LAST), 1, 0),
        (request_bytes(path=b"http://127.0.0.1/v1/fleets/stores/decisions", headers=LAST), 1, 0),
        (request_bytes(headers=LAST, body=BODY + b" " * LARGEST_BODY), 1, 0),
        # The second does not wait for the first, and the third for neither.
        (request_bytes() + request_bytes() + request_bytes(headers=LAST), 3, 1),
    ],
    ids=["plain", "no JSON", "chunked", "1.0", "expect", "percent", "absolute", "large", "pipelined"],
)
def test_what_is_unusual_takes_the_long_way(served, short, sent, answers, n_short):
    found = served.talk(sent)
    assert found.count(b"HTTP/1.1 200 OK") == answers
    assert len(short) == n_short


def test_rights_and_rates_are_those_of_the_long_way(over_socket, short, stores, keys, tmp_path):
    both, none = keys(tmp_path / "posse.db", ("admin", "decide", "reward"), ("read",))
    running = over_socket(limits={"rate": 5, "refusals": 1000})
    path, allowed = "/v1/fleets/stores/decisions", {"authorization": f"Bearer {both}"}
    assert running.client.put("/v1/fleets/stores", json=stores, headers=allowed).status_code == 201
    for headers in ({}, {"authorization": "Bearer posse_x_y"}, {"authorization": f"Bearer {none}"}):
        answers = [running.client.post(path + way, json=GOOD, headers=headers) for way in ("", LONG)]
        assert answers[0].status_code in (401, 403)
        same(*answers)
    found = [running.client.post(path, json=GOOD, headers=allowed) for _ in range(12)]
    assert 8 <= [one.status_code for one in found].count(200) <= 11
    refused = next(one for one in found if one.status_code == 429)
    assert refused.json()["error"]["code"] == "rate_limited"
    assert refused.headers["retry-after"] == "1"


def test_ids_counts_and_lines_of_the_log(over_socket, stores, short, caplog):
    running = over_socket(access_log=True)
    running.client.put("/v1/fleets/stores", json=stores)
    with caplog.at_level(logging.INFO, "posse.access"):
        given = running.client.post(
            "/v1/fleets/stores/decisions", json=GOOD, headers={"x-request-id": "order-991"}
        ).headers["x-request-id"]
        other = running.client.post("/v1/fleets/stores/decisions", json={}).headers["x-request-id"]
    assert given == "order-991"
    assert other
    lines = [record.fields for record in caplog.records if record.name == "posse.access"]
    lines = [line for line in lines if line["route"] != "/v1/fleets/{fleet}"]  # PUT's, told after its response
    assert [(line["route"], line["fleet"], line["status"], line["code"]) for line in lines] == [
        ("/v1/fleets/{fleet}/decisions", "stores", 200, None),
        ("/v1/fleets/{fleet}/decisions", "stores", 422, "invalid"),
    ]
    text = running.client.get("/metrics").text
    assert 'posse_requests_total{method="POST",route="/v1/fleets/{fleet}/decisions",status="200"} 1.0' in text
    assert 'posse_errors_total{code="invalid"} 1.0' in text


def test_an_unexpected_error_is_answered_without_its_message(over_socket, stores, short, monkeypatch, caplog, shape):
    monkeypatch.setattr(rewards, "new_reward", lambda *_: 1 / 0)
    running = over_socket()
    running.client.put("/v1/fleets/stores", json=stores)
    answer = running.client.post("/v1/decisions/any-1/reward", json={"reward": 1.0})
    shape(answer, 500, "internal")
    assert "ZeroDivisionError" in caplog.text
    assert running.client.post("/v1/fleets/stores/decisions", json=GOOD).status_code == 200
    assert len(short) == 2


def test_what_requests_under_one_key_have_in_common_is_as_in_earlier_versions():
    """Databases hold it: whoever asks again after an upgrade must get the decision that was made before."""
    ask = schemas.Ask(task="store-17", context={}, eligible=["cake", "bread"])
    context = {"hour": 9.0, "weather": "r\u00e4in\x7f\u2028", "none": None, "t": True, "big": 1e22}
    assert digest_of_request(ask, context) == "0746dcbbd4bd15adf522510ce6abb55a"
