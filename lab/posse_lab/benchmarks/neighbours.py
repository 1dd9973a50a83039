"""What other fleets notice while one large fleet is looked at, snapshotted, erased from, exported and deleted."""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posse._version import __version__
from posse.client import Client
from posse.errors import InvalidValue
from posse.storage import NewDecision, NewReward, Storage, open_storage
from posse.types import Settings
from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.postgres import private_postgres
from posse_lab.benchmarks.started import Service, Watch, services

LARGE, SMALL, LONG = "large", "small", "task-long"
P99, MEMORY = 0.050, 800e6  # the promises: seconds of a decision, and bytes of the process
RATE = 50.0  # decisions a second that the small fleet is asked for
CONNECTIONS = 10  # over which they come, so that one that waits does not make all others wait
AT_ONCE = 2000  # decisions that are written at a time
PATIENCE = 600.0  # seconds for something to be over


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large.

    Parameters
    ----------
    n_tasks, n_decisions : int
        Of the large fleet; every decision has its reward.
    n_long : int
        Decisions among them that are of one task.
    n_arms, n_features : int
    looks : int
        How often each look is taken.
    postgres : bool
        Measure on PostgreSQL instead of SQLite.
    """

    n_tasks: int = 100_000
    n_decisions: int = 500_000
    n_long: int = 20_000
    n_arms: int = 5
    n_features: int = 10
    looks: int = 10
    postgres: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.n_tasks <= self.n_decisions - self.n_long:
            raise InvalidValue(
                f"expected at least one decision for each of {self.n_tasks} tasks, got {self.n_decisions} decisions, "
                f"{self.n_long} of them of one task; ask for more"
            )


QUICK = Plan(n_tasks=300, n_decisions=2000, n_long=700, looks=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What was done to the large fleet, and what decisions of the small one took meanwhile.

    Parameters
    ----------
    name : str
    seconds : float
        That it took.
    decisions, failures : int
        Of the small fleet, meanwhile.
    p50, p99, most : float
        Seconds from when a decision was due to when it was answered; NaN without any.
    memory, together : float
        The most bytes that the process had, and with those that it started beside it (what they share counts twice).
    """

    name: str
    seconds: float
    decisions: int
    failures: int
    p50: float
    p99: float
    most: float
    memory: float
    together: float


@dataclass(frozen=True, slots=True)
class NeighboursReport:
    """Everything that was measured."""

    plan: Plan
    acts: list[Act]

    @property
    def bars(self) -> list[Bar]:
        """The promises."""
        bars = [
            Bar(what=f"a decision, 99 %: {act.name}", measured=1e3 * act.p99, unit="ms", at_most=1e3 * P99)
            for act in self.acts
        ]
        memory = max((act.memory for act in self.acts), default=0.0)
        failures = sum(act.failures for act in self.acts)
        return [
            *bars,
            Bar(what="memory of the process", measured=memory / 1e6, unit="MB", at_most=MEMORY / 1e6),
            Bar(what="decisions that failed", measured=failures, unit="", at_most=0),
        ]

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        acts = [asdict(act) for act in self.acts]
        return {"plan": asdict(self.plan), "acts": acts, "bars": [bar.to_dict() for bar in self.bars]}


def measure_neighbours(plan: Plan, begin: Callable[[str], None] = lambda _: None) -> NeighboursReport:
    """Fill a large fleet, start a service and do everything to it that may take long.

    Parameters
    ----------
    plan : Plan
    begin : callable
        Told the name of every stage before it starts.
    """
    with ExitStack() as stack:
        begin("fill")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="posse-bench-")))
        folder.chmod(0o711)  # the user whom PostgreSQL runs as must get to its data
        database = stack.enter_context(private_postgres(folder)) if plan.postgres else str(folder / "posse.db")
        with services(database, 1, folder) as (service,), Client(service.url) as client:
            _create(client, plan)
        storage = open_storage(database)
        stack.callback(storage.close)
        _fill(storage, plan)
        begin("start")
        (service,) = stack.enter_context(services(database, 1, folder))
        client = stack.enter_context(Client(service.url, timeout=PATIENCE, deadline=PATIENCE))
        acts = []
        for name, act in _acts(plan, service, client, storage):
            begin(name)
            acts.append(_measure(service, plan, name, act))
        return NeighboursReport(plan, acts)


N_STAGES = 2 + 11


def _create(client: Client, plan: Plan) -> None:
    arms, features = [f"arm-{arm}" for arm in range(plan.n_arms)], [f"x{i}" for i in range(plan.n_features)]
    for name in (LARGE, SMALL):
        client.create_fleet(name, arms, features, intercept=False)


def _fill(storage: Storage, plan: Plan) -> None:
    """Write decisions and rewards as a service does."""
    rng = np.random.default_rng(0)
    arms = [f"arm-{arm}" for arm in range(plan.n_arms)]
    even = [1.0 / plan.n_arms] * plan.n_arms
    tasks = np.concatenate([np.arange(plan.n_tasks), rng.integers(plan.n_tasks, size=plan.n_decisions)])
    tasks = tasks[: plan.n_decisions]
    tasks[rng.choice(np.arange(plan.n_tasks, plan.n_decisions), size=plan.n_long, replace=False)] = -1
    now = time.time()
    for start in range(0, plan.n_decisions, AT_ONCE):
        some = tasks[start : start + AT_ONCE]
        X, chosen = rng.normal(size=(some.size, plan.n_features)), rng.integers(plan.n_arms, size=some.size)
        rewards = X[:, 0] * (1 + chosen) + rng.normal(size=some.size)
        decisions: list[list[NewDecision | NewReward]] = []
        given: list[list[NewDecision | NewReward]] = []
        for row in range(some.size):
            body = {
                "context": {f"x{i}": value for i, value in enumerate(X[row].tolist())},
                "eligible": arms, "probabilities": even, "mean": even, "sd": even,
            }  # fmt: skip
            decision_id = f"0123456789ab-{start + row + 1}"
            decisions.append([
                NewDecision(
                    LARGE, decision_id, now, LONG if some[row] < 0 else f"task-{some[row]}", arms[chosen[row]], even[0],
                    json.dumps(body), "ebm-rand-ucb", __version__,
                )
            ])  # fmt: skip
            given.append([NewReward(decision_id, float(rewards[row]), now + 1.0)])
        storage.write(decisions)
        storage.write(given)


def _acts(plan: Plan, service: Service, client: Client, storage: Storage) -> Iterator[tuple[str, Callable[[], None]]]:
    def get(path: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
        connection.request("GET", path)
        answer = connection.getresponse()
        while answer.read(1 << 16):
            pass
        connection.close()
        if answer.status != 200:
            raise InvalidValue(f"GET {path} was answered with {answer.status}")

    def looks(*paths: str) -> Callable[[], None]:
        def look() -> None:
            for _ in range(plan.looks):
                for path in paths:
                    get(f"/v1/fleets/{LARGE}{path}")
                time.sleep(0.2)

        return look

    def snapshot() -> None:
        _wait(lambda: (row := storage.fleet(LARGE)) is not None and row.snapshot >= row.changes > 0)

    def delete() -> None:
        client.delete_fleet(LARGE)
        _wait(lambda: not storage._read("SELECT 1 FROM fleets WHERE name IS NULL"))  # type: ignore[attr-defined]

    yield "snapshot", snapshot
    yield "nothing", lambda: time.sleep(0.3 * plan.looks)
    yield "look at the population", looks("/population")
    yield "look at a task", looks("/tasks/task-7", "/history/task-7")
    yield "look at tasks, pending, activity", looks("/tasks?search=99", "/pending", "/activity", "")
    yield "value", lambda: get(f"/v1/fleets/{LARGE}/value")
    yield "erase a task", lambda: client.erase(LARGE, "task-11")
    yield "erase a long task", lambda: client.erase(LARGE, LONG)
    yield "export, JSON Lines", lambda: get(f"/v1/fleets/{LARGE}/log")
    yield "export, Parquet", lambda: get(f"/v1/fleets/{LARGE}/log?format=parquet")
    yield "delete", delete


def _wait(over: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not over():
        if time.monotonic() > end:
            raise InvalidValue(f"it was not over after {PATIENCE:g} s")
        time.sleep(0.1)


def _measure(service: Service, plan: Plan, name: str, act: Callable[[], None]) -> Act:
    with Watch([service.process.pid], 0.1) as watch, _probing(service, plan) as probe:
        begin = time.monotonic()
        act()
        seconds = time.monotonic() - begin
        time.sleep(0.3)  # what it leaves behind
    latencies = probe.latencies or [float("nan")]
    p50, p99 = np.quantile(latencies, [0.5, 0.99]).tolist()
    return Act(
        name=name, seconds=seconds, decisions=len(probe.latencies), failures=probe.failures, p50=p50, p99=p99,
        most=max(latencies), memory=max(watch.own, default=0.0), together=max(watch.memory, default=0.0),
    )  # fmt: skip


class Probe:
    """Asks the small fleet for decisions that are due at even times, whatever the service does."""

    def __init__(self, port: int, n_features: int) -> None:
        self._port = port
        self._body = json.dumps({"task": "task-0", "context": {f"x{i}": 0.5 for i in range(n_features)}})
        self.latencies: list[float] = []
        self.failures = 0

    def run(self, stop: threading.Event, place: int) -> None:
        """Ask until told to stop; several do so at once, each in its turn and with a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30.0)
        due = time.perf_counter() + place / RATE
        while not stop.is_set():
            due += CONNECTIONS / RATE
            time.sleep(max(due - time.perf_counter(), 0.0))
            try:
                connection.request(
                    "POST", f"/v1/fleets/{SMALL}/decisions", self._body, {"content-type": "application/json"}
                )
                answer = connection.getresponse()
                answer.read()
                self.failures += answer.status != 200
            except OSError:
                self.failures += 1
                connection.close()
            self.latencies.append(time.perf_counter() - due)
        connection.close()


@contextmanager
def _probing(service: Service, plan: Plan) -> Iterator[Probe]:
    probe, stop = Probe(service.port, plan.n_features), threading.Event()
    threads = [threading.Thread(target=probe.run, args=(stop, i), daemon=True) for i in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    try:
        yield probe
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def summary(report: NeighboursReport) -> list[tuple[Any, ...]]:
    """Return a row for every act: name, seconds, decisions, milliseconds of 50 %, 99 % and the slowest, megabytes."""
    return [
        (
            act.name, act.seconds, act.decisions, 1e3 * act.p50, 1e3 * act.p99, 1e3 * act.most, act.memory / 1e6,
            act.together / 1e6,
        )
        for act in report.acts
    ]  # fmt: skip
