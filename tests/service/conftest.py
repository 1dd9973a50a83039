"""Services to ask: in this process, without a socket, and as a process of their own."""

import asyncio
import signal
import threading
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute

from posse.service.http.app import create_app
from posse.service.keys import new_key
from posse.service.settings import Limits, Settings
from posse.storage import open_storage
from posse_lab.servers.service import Service

collect_ignore = ["compiling.py"]  # a script that a test starts: it finds this file only where it is run


@pytest.fixture(scope="session", autouse=True)
def _soon_ready(compiled):
    """Services that tests start do not wait for the compiler."""


HOME = "http://127.0.0.1"
WAIT = 120.0  # seconds after which something that should come is given up
STORES = {
    "arms": ["coffee", "cake", "newspaper"],
    "features": ["hour", {"kind": "one_hot", "name": "weather", "categories": ["sun", "rain"]}],
}
RAINY = {"hour": 9.5, "weather": "rain"}


def settle(check, seconds=WAIT):
    """Ask until the answer is true; return it."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return found


def task_path(fleet, task, part="tasks"):
    """The path of a task, whatever its name is."""
    return f"/v1/fleets/{fleet}/{part}/{quote(task, safe='')}"


class Asking:
    """The words that requests are made with; ``request`` is what makes one."""

    def get(self, path, **rest):
        return self.request("GET", path, **rest)

    def put(self, path, **rest):
        return self.request("PUT", path, **rest)

    def post(self, path, **rest):
        return self.request("POST", path, **rest)

    def delete(self, path, **rest):
        return self.request("DELETE", path, **rest)

    def read(self, path, **rest):
        """What a GET that must succeed says."""
        answer = self.get(path, **rest)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def make_fleet(self, name="stores", **changes):
        answer = self.put(f"/v1/fleets/{name}", json=STORES | changes)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def decide(self, task="store-17", context=RAINY, fleet="stores", headers=None, **rest):
        body = {"task": task, "context": context, **rest}
        answer = self.post(f"/v1/fleets/{fleet}/decisions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def reward(self, decision, value):
        answer = self.post(f"/v1/decisions/{decision['id']}/reward", json={"reward": value})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def task(self, task, fleet="stores"):
        return self.read(task_path(fleet, task))

    def counts(self, fleet="stores"):
        found = self.read(f"/v1/fleets/{fleet}")
        return {name: found[name] for name in ("tasks", "decisions", "rewards", "pending")}


class InProcess(Asking):
    """The application with its own loop on a thread of its own; everything but the socket is real."""

    def __init__(self, settings, *, client=("127.0.0.1", 4711), clock=None, patience=WAIT, progress=None):
        self.settings = settings
        self.app = create_app(settings, clock)
        self.runtime = self.app.state.runtime
        self.loop = asyncio.new_event_loop()
        self.ends = asyncio.Event()
        self.failure = None
        self.closed = False
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self.app, raise_app_exceptions=False, client=client),
            base_url=HOME,
            timeout=60,
        )
        begun = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(begun,), name="test-loop", daemon=True)
        self.thread.start()
        begun.wait()
        if self.failure is not None:
            self.thread.join()
            raise self.failure
        settle(lambda: self._noted(progress) or self.runtime.ready, patience)

    def _noted(self, progress):
        """Note what the service says while it is not ready."""
        if progress is not None and not self.runtime.ready and self.runtime.problem not in progress:
            progress.append(self.runtime.problem)

    def _run(self, begun):
        async def live():
            try:
                async with self.app.router.lifespan_context(self.app):
                    begun.set()
                    await self.ends.wait()
            except BaseException as error:
                self.failure = error
            finally:
                await self.client.aclose()
                begun.set()

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(live())

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(WAIT * 3)

    def request(self, method, path, **rest):
        return self.run(self.client.request(method, path, **rest))

    def together(self, requests):
        """Make requests at once; each is a method, a path and a dict of the rest."""

        async def all_of_them():
            return await asyncio.gather(*(self.client.request(method, path, **rest) for method, path, rest in requests))

        return self.run(all_of_them())

    def live(self, fleet="stores"):
        return self.runtime.live(fleet)

    def snapshot(self, fleet="stores"):
        self.runtime.upkeep.write_snapshot(self.live(fleet))

    def stop(self):
        if not self.closed:
            self.closed = True
            self.loop.call_soon_threadsafe(self.ends.set)
            self.thread.join()
            if self.failure is not None:
                raise self.failure


class Served(Asking):
    """``posse serve`` as a process of its own."""

    def __init__(self, *arguments, cwd, key=None, env=None):
        self.service = Service(Path(cwd), *arguments, port=0, environment=env)
        self.service.start(ready=False)
        self.process, self.errors = self.service.process, self.service.errors
        self.url = self.service.printed_url()
        assert self.url is not None, self.words
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30)

    @property
    def words(self):
        """All that it has printed."""
        return self.service.words

    def wait_until_ready(self):
        self.service.wait_until_ready()
        return self

    def request(self, method, path, **rest):
        return self.client.request(method, path, **rest)

    def kill(self, number=signal.SIGKILL):
        self.client.close()
        if self.service.process is None:
            return self.process.returncode
        self.service.send(number)
        return self.service.wait()

    def stop(self):
        """End it politely; return its status."""
        return self.kill(signal.SIGTERM)


def add_keys(database, *scopes):
    """Make a key for each set of scopes; return the keys."""
    storage = open_storage(database)
    try:
        made = [new_key(each, "", time.time()) for each in scopes]
        for _, row in made:
            storage.add_key(row)
    finally:
        storage.close()
    return [key for key, _ in made]


def routes_of(app):
    """All routes: method, path as it is declared, and the route."""

    def walk(routes):
        for route in routes:
            inner = getattr(route, "original_router", None)
            if inner is not None:
                yield from walk(inner.routes)
            else:
                for method in sorted(route.methods - {"HEAD"}):
                    yield method, route.path, route if isinstance(route, APIRoute) else None

    return list(walk(app.routes))


def require_shape(answer, status=None, code=None):
    """Check that a failure has the one shape; return what it says."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body) == ["error"], body
    error = body["error"]
    assert set(error) == {"code", "message", "field"}, error
    assert isinstance(error["message"], str)
    assert 0 < len(error["message"]) <= 1000
    assert error["field"] is None or isinstance(error["field"], str)
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text
    if status is not None:
        assert answer.status_code == status, answer.text
    if code is not None:
        assert error["code"] == code, error
    return error


@pytest.fixture
def start(tmp_path):
    """Start services in this process; settings are those of Settings, ``limits`` a dict."""
    started = []

    def start_service(database=None, *, limits=None, client=("127.0.0.1", 4711), clock=None, **settings):
        database = str(tmp_path / "posse.db") if database is None else str(database)
        service = InProcess(
            Settings(database=database, limits=Limits(**(limits or {})), **settings), client=client, clock=clock
        )
        started.append(service)
        return service

    yield start_service
    for service in started:
        service.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for the tests of a module, without keys; every test makes a fleet of its own."""
    running = InProcess(Settings(database=str(tmp_path_factory.mktemp("service") / "posse.db")))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def start_process():
    """Start ``posse serve`` in a folder, for fixtures that outlive a test; whoever calls it stops it."""

    def start_in(folder, *arguments, **rest):
        return Served(*arguments, cwd=folder, **rest).wait_until_ready()

    return start_in


@pytest.fixture
def serve(tmp_path):
    """Start ``posse serve`` as processes: arguments are its options, ``--port 0`` is added."""
    started = []

    def start_process(*arguments, cwd=tmp_path, ready=True, **rest):
        served = Served(*arguments, cwd=cwd, **rest)
        started.append(served)
        return served.wait_until_ready() if ready else served

    yield start_process
    for served in started:
        served.kill()


@pytest.fixture(scope="session")
def kinds():
    """What a service in this process is made of, for fixtures that need one of their own."""
    return InProcess, Settings, Limits


@pytest.fixture(scope="session")
def keys():
    return add_keys


@pytest.fixture(scope="session")
def shape():
    return require_shape


@pytest.fixture(scope="session")
def wait_for():
    return settle


@pytest.fixture(scope="session")
def path_of():
    return task_path


@pytest.fixture(scope="session")
def list_routes():
    return routes_of


@pytest.fixture(scope="session")
def stores():
    """What makes a fleet; a copy for whoever changes it."""
    return dict(STORES)


@pytest.fixture(scope="session")
def rainy():
    return dict(RAINY)
