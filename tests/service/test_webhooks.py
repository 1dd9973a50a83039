"""An address is told what is new about fleets, once, whatever it answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from posse.service.webhooks import Webhooks, signature


class Listener(ThreadingHTTPServer):
    """Notes what it is told, and answers as ``answers`` say, then with 204."""

    def __init__(self):
        self.told, self.answers = [], []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.server.told.append((status, body, self.headers.get("x-posse-signature")))
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener():
    server = Listener()
    yield server
    server.shutdown()
    server.server_close()


def texts(told):
    return [[one["text"] for one in json.loads(body)["findings"]] for _, body, _ in told]


def test_what_is_new_is_told_once(start, listener, rainy, monkeypatch):
    monkeypatch.setattr("posse.service.webhooks.FIRST_PAUSE", 0.01)
    service = start()
    service.make_fleet()
    hooks = Webhooks(service.engine, listener.url, secret="hush")
    hooks.look()
    assert len(listener.told) == 1
    hooks.look()
    assert len(listener.told) == 1  # nothing is new
    _, body, signed = listener.told[0]
    assert signed == signature("hush", body)
    told = json.loads(body)
    assert (told["event"], told["fleet"]) == ("findings", "stores")
    # More is known after a reward, and what is refused is told again.
    service.reward(service.decide(), 1.0)
    listener.answers = [500, 503]
    hooks.look()
    assert [status for status, _, _ in listener.told[1:]] == [500, 503, 204]
    new = {words for some in texts(listener.told[1:]) for words in some}
    assert new
    assert not new & set(texts(listener.told[:1])[0])


def test_what_could_not_be_told_is_told_later(start, listener, monkeypatch):
    monkeypatch.setattr("posse.service.webhooks.FIRST_PAUSE", 0.001)
    service = start()
    service.make_fleet()
    hooks = Webhooks(service.engine, listener.url)
    listener.answers = [500] * 6
    hooks.look()
    assert [status for status, _, _ in listener.told] == [500] * 6
    hooks.look()
    assert listener.told[-1][0] == 204
    assert texts(listener.told[-1:]) == texts(listener.told[:1])
    assert listener.told[-1][2] is None  # there is no secret


def test_a_service_with_a_webhook_tells_it(start, listener, monkeypatch, wait_for):
    monkeypatch.setattr("posse.service.webhooks.Webhooks.__init__.__defaults__", (None, 0.2))
    service = start(webhook=listener.url)
    service.make_fleet()
    wait_for(lambda: listener.told)
    assert json.loads(listener.told[0][1])["fleet"] == "stores"
