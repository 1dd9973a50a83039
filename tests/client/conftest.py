"""A server that answers as it is told, badly mostly, and both clients behind one face."""

import asyncio
import inspect
import json
import socket
import threading
from dataclasses import dataclass, field

import pytest

from posse.client import AsyncClient, Client


@pytest.fixture(scope="session", autouse=True)
def _soon_ready(compiled):
    """Services that tests start do not wait for the compiler."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


def perform(act, connection, stop):
    """Do with a request what an act says.

    Bytes are sent as they are, then the connection is closed. ``(status, data)`` and ``(status, data, headers)`` are
    answers: bytes are the body, text is the code of an error, all else is JSON.
    """
    if act == "hang":
        connection.settimeout(0.05)
        while not stop.is_set():
            try:
                if connection.recv(1) == b"":
                    raise ConnectionAbortedError
            except TimeoutError:
                pass
    elif act == "late":
        stop.wait(2.0)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
    elif act == "drip":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(250):  # no longer than 5 s, so that a client without a deadline fails and does not hang
            if stop.wait(0.02):
                break
            connection.sendall(b" ")
        raise ConnectionAbortedError
    elif isinstance(act, bytes):
        connection.sendall(act)
        raise ConnectionAbortedError
    else:
        status, data, *headers = act
        if isinstance(data, str):
            data = {"error": {"code": data, "message": f"because of {data}", "field": "some.field"}}
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        lines = {"Content-Length": len(body), **(headers[0] if headers else {})}
        head = [f"HTTP/1.1 {status} Words", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
        connection.sendall("\r\n".join(head).encode() + body)


@dataclass
class Script:
    """What a server does with its requests, one after the other; the last for all that follow."""

    acts: list
    requests: list = field(default_factory=list)
    url: str = ""


class ScriptedServer:
    def __init__(self):
        self.script = Script([])
        self.stop = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.script.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.serve, args=(connection,))
            self.threads.append(thread)
            thread.start()

    def serve(self, connection):
        with connection:
            connection.settimeout(0.05)
            data = b""
            while not self.stop.is_set():
                try:
                    while b"\r\n\r\n" not in data:
                        data += self.receive(connection)
                    head, _, data = data.partition(b"\r\n\r\n")
                    first, *lines = head.decode().split("\r\n")
                    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
                    while len(data) < (length := int(headers.get("content-length", 0))):
                        data += self.receive(connection)
                    body, data = data[:length], data[length:]
                    method, path, _ = first.split(" ")
                    with self.lock:
                        acts = self.script.acts
                        act = acts.pop(0) if len(acts) > 1 else acts[0]
                        self.script.requests.append(Request(method, path, headers, body))
                    perform(act, connection, self.stop)
                except OSError:
                    return

    def receive(self, connection):
        while not self.stop.is_set():
            try:
                piece = connection.recv(65536)
            except TimeoutError:
                continue
            if not piece:
                break
            return piece
        raise ConnectionAbortedError

    def close(self):
        self.stop.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def server():
    """A script: set its acts, ask its requests."""
    scripted = ScriptedServer()
    yield scripted.script
    scripted.close()


@pytest.fixture
def nobody():
    """The address of a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}"


class Driven:
    """An AsyncClient that is called like a Client."""

    def __init__(self, *args, **kwargs):
        self.runner = asyncio.Runner()
        self.client = AsyncClient(*args, **kwargs)

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*args, **kwargs):
            result = method(*args, **kwargs)
            if inspect.isasyncgen(result):
                result = collect(result)
            return self.runner.run(result)

        return call

    def close(self):
        self.runner.run(self.client.aclose())
        self.runner.close()


async def collect(rows):
    return [row async for row in rows]


@pytest.fixture(params=[Client, Driven], ids=["sync", "async"])
def make(request):
    """Make clients of either kind, with hardly any waits."""
    made = []

    def make_client(url, **settings):
        made.append(request.param(url, **({"backoff": 0.001, "timeout": 2.0} | settings)))
        return made[-1]

    yield make_client
    for client in made:
        client.close()
