"""The service behind a real socket: odd requests, odd names, and clients that go away."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import quote

import pytest
import uvicorn

from posse.service.http import server as connections

ASK = json.dumps({"task": "t", "context": {"hour": 1, "weather": "sun"}}).encode()
HEAD = b"POST /v1/fleets/stores/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory, start_process):
    running = start_process(tmp_path_factory.mktemp("connections"))
    running.make_fleet()
    yield running
    running.stop()
    assert "Traceback" not in running.words


def talk(served, *pieces, wait=0.0, close=True):
    """Send bytes as they are; return all that comes back."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        found = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(wait)
            if close:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                found += piece
        except OSError:  # the other side had enough
            pass
        return found


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


@pytest.fixture(autouse=True)
def still_there(served):
    yield
    assert served.get("/healthz").status_code == 200
    assert served.decide()["propensity"] > 0


@pytest.mark.parametrize("name", ["a/b", "%2F", "50%", "日本 店", "🙂", "a?b#c", " ", "a//b", "'\"<b>", "x" * 200])
def test_names_of_tasks_come_through(served, name):
    decision = served.decide(name)
    served.reward(decision, 1.0)
    path = quote(name, safe="")
    assert served.task(name)["task"] == name
    assert served.read(f"/v1/fleets/stores/history/{path}")["decisions"][0]["id"] == decision["id"]
    assert served.delete(f"/v1/fleets/stores/tasks/{path}").status_code == 204
    assert served.get(f"/v1/fleets/stores/tasks/{path}").status_code == 404


def test_a_body_in_chunks_is_read(served):
    parts = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (ASK[:5], ASK[5:]))
    answer = talk(
        served, HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n", parts, b"0\r\n\r\n", close=False
    )
    assert status_of(answer) == 200


def test_a_body_in_chunks_without_end_is_cut_off(served):
    host, port = served.url.removeprefix("http://").split(":")
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        answer = b""
        connection.settimeout(0.05)
        while not answer and sent < 100 * len(chunk):
            try:
                connection.sendall(chunk)
                sent += len(chunk)
            except OSError:
                break
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                continue
    assert status_of(answer) == 413
    assert sent < 100 * len(chunk)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\0\0\0\0\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length: \xb2\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 300,  # TLS
    ],
    ids=range(10),
)
def test_what_is_not_http_is_refused(served, request_bytes):
    answer = talk(served, request_bytes)
    assert answer == b"" or 400 <= status_of(answer) < 500


@pytest.mark.parametrize("pieces", [1, 50])
def test_headers_are_limited(served, shape, pieces):
    one = b"X: " + b"a" * (300_000 // pieces) + b"\r\n"
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        sent, answer = 0, b""
        connection.settimeout(0.1)
        while not answer and sent < 400:
            try:
                connection.sendall(one)
                sent += 1
                answer = connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
        # Reset by the other side, or told so; never answered.
        assert sent < 400
        if answer:
            assert status_of(answer) == 431
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            assert (error["code"], error["field"]) == ("head_too_large", None)


def test_headers_of_a_usual_size_are_fine(served):
    assert served.get("/healthz", headers={"x-trace": "a" * 8000}).status_code == 200
    # Whatever came before on the connection does not count.
    for _ in range(30):
        assert served.get("/healthz", headers={"x-trace": "a" * 8000}).status_code == 200


@pytest.mark.parametrize("body", [b"", ASK[:10]])
def test_clients_that_go_away_are_not_missed(served, body):
    before = served.counts()
    for _ in range(5):
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=120) as connection:
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(ASK) + body)
    time.sleep(0.2)
    assert served.counts() == before


def test_requests_may_follow_each_other_on_one_connection(served):
    one = HEAD + b"Content-Length: %d\r\n\r\n" % len(ASK) + ASK
    last = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(ASK) + ASK
    answer = talk(served, one + one + last, close=False)
    assert answer.count(b"HTTP/1.1 200 OK") == 3


def test_a_request_without_a_host_is_not_for_this_machine(served):
    answer = talk(served, b"GET /v1/fleets HTTP/1.0\r\n\r\n")
    assert status_of(answer) in (400, 403)
    answer = talk(served, b"GET /v1/fleets HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert status_of(answer) == 403
    answer = talk(
        served, b"GET http://evil.example/v1/fleets HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    )
    assert status_of(answer) in (403, 404)


def test_there_are_no_web_sockets(served):
    answer = talk(
        served,
        b"GET /v1/fleets HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        wait=0.2,
    )
    assert answer == b"" or status_of(answer) != 101


def test_answers_do_not_say_what_serves_them(served):
    answer = served.get("/healthz")
    assert "server" not in answer.headers


@pytest.mark.slow
def test_a_large_log_is_streamed(served):
    served.make_fleet("large", arms=["a", "b"], features=["x"])
    body = {"decisions": [{"task": f"t{i % 50}", "context": [float(i)]} for i in range(1000)]}
    for _ in range(5):
        made = served.post("/v1/fleets/large/decisions/batch", json=body).json()["decisions"]
        rewards = [{"id": decision["id"], "reward": 1.0} for decision in made[:900]]
        assert served.post("/v1/rewards", json={"rewards": rewards}).json() == {"new": 900, "same": 0}
    lines = served.get("/v1/fleets/large/log").text.splitlines()
    assert len(lines) == 5000
    rows = [json.loads(line) for line in lines]
    assert len({row["decision_id"] for row in rows}) == 5000
    assert sum(row["reward"] is not None for row in rows) == 4500
    assert served.get("/v1/fleets/large/log?format=parquet").content[:4] == b"PAR1"
    # Whoever stops reading in the middle disturbs nobody.
    with served.client.stream("GET", "/v1/fleets/large/log") as answer:
        next(answer.iter_bytes())
    assert served.counts("large")["decisions"] == 5000


@pytest.fixture
def hurried(monkeypatch):
    """The protocol with little patience in front of an application that reads bodies; the address is its own."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)

    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(app, port=0, http=connections.LimitedProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join()


WHOLE = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"


@pytest.mark.slow
@pytest.mark.parametrize("start", [b"", WHOLE[:9], WHOLE[:-2], WHOLE + WHOLE[:9]])
def test_a_connection_whose_request_does_not_come_to_its_end_is_closed(hurried, start):
    begin = time.monotonic()
    with socket.create_connection(hurried, timeout=120) as connection:
        connection.sendall(start)
        while connection.recv(65536):
            pass
    assert 0.3 < time.monotonic() - begin < 60


@pytest.mark.slow
def test_a_connection_may_rest_between_requests(hurried):
    with socket.create_connection(hurried, timeout=120) as connection:
        for _ in range(3):
            connection.sendall(WHOLE[:20])
            time.sleep(0.2)
            connection.sendall(WHOLE[20:])
            assert connection.recv(65536).endswith(b"ok")
            time.sleep(0.8)


# Connections.


@pytest.fixture
def narrow(tmp_path, serve):
    """A service that holds four connections."""
    (tmp_path / "posse.toml").write_text("[limits]\nconnections = 4\n")
    running = serve("--config", "posse.toml", ready=False)
    running.wait_until_ready()
    running.client.close()
    return running


@pytest.fixture
def connect(narrow):
    """Open connections to it; all are closed in the end."""
    host, port = narrow.url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection((host, int(port)), timeout=120))


def get(connection, path=b"/healthz"):
    connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    answer = connection.recv(65536)
    # Head and body may come one after the other; what is left would be taken for the next answer.
    while b"content-length: " in answer.lower() and not _whole(answer):
        answer += connection.recv(65536)
    return answer


def _whole(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
    return len(body) >= length


@pytest.mark.slow
def test_connections_that_ask_nothing_shut_out_nobody(connect):
    asking = connect()
    assert status_of(get(asking)) == 200
    idle = [connect() for _ in range(40)]
    assert status_of(get(connect())) == 200
    # Who has asked before goes last.
    assert status_of(get(asking)) == 200
    idle[-1].sendall(b"GET /healthz HT")
    assert idle[0].recv(1) == b"", "it made room"


@pytest.mark.slow
def test_if_all_connections_are_busy_the_next_is_refused(connect, wait_for):
    head = HEAD.replace(b"/v1/fleets/stores/decisions", b"/v1/rewards") + b"Content-Length: 20\r\n\r\n"
    busy = []
    for _ in range(4):
        busy.append(connect())
        busy[-1].sendall(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert b"100 Continue" in busy[-1].recv(65536), "it waits for the body, which does not come"
    answer = connect().recv(65536)
    assert status_of(answer) == 503
    assert b"retry-after: 1" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_busy"
    busy[0].close()
    wait_for(lambda: status_of(get(connect())) == 200)


@pytest.mark.slow
def test_files_are_left_to_open():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from posse.service.http.server import allowed_connections\n"
        "print(allowed_connections(1000), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    for soft, hard, expected in ((300, 2000, "1000 1256"), (300, 600, "344 600"), (200, 200, "1 200")):
        if hard <= before[1] or before[1] == resource.RLIM_INFINITY:
            done = subprocess.run(
                [sys.executable, "-c", script.format(soft=soft, hard=hard)], capture_output=True, text=True, check=True
            )
            assert done.stdout.strip() == expected
