"""What ``posse serve`` holds: pairs of a decision and its durable reward, with the load on the same machine."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from uuid import uuid4

from posse.client import Client, Fleet
from posse.errors import InvalidValue
from posse.types import Settings
from posse_lab.benchmarks import load as generator
from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.load import Latencies, LoadPlan, LoadResult, Questions
from posse_lab.benchmarks.postgres import database_bytes, private_postgres
from posse_lab.benchmarks.started import NotStarted, Service, Watch, processor_seconds, services

SQLITE, POSTGRES = "SQLite", "PostgreSQL"
DECIDERS = {SQLITE: 1, POSTGRES: 2}
PAIRS, P99 = 1_000.0, 0.050  # the promises: pairs a second, and seconds
GROWTH, LITTLE = 0.05, 20e6  # memory is flat if it grows by no more than this share, or by so many bytes
FEW_SAMPLES = 8  # of memory, below which growth says nothing
BATCH = 500
MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large, how long and how hard.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    rewards : int
        Per task, before anything is measured.
    seconds, warm : float
        For so long is counted, after so long is not.
    connections : int
        Pairs under way at once, for each process of the service.
    rate : float or None
        Pairs a second that arrive at random; None: as many as there can be.
    sqlite, postgres : bool
        The storages to measure.
    database : str or None
        A PostgreSQL that is there already. Default: a private one.
    """

    n_tasks: int = 10_000
    n_arms: int = 5
    n_features: int = 10
    rewards: int = 2
    seconds: float = 60.0
    warm: float = 2.0
    connections: int = 16
    rate: float | None = None
    sqlite: bool = True
    postgres: bool = False
    database: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= 3600:
            raise InvalidValue(f"seconds must be between 1 and 3600, but {self.seconds:g} came")
        if not 1 <= self.connections <= 1000:
            raise InvalidValue(f"connections must be between 1 and 1000, but {self.connections} came")
        if self.rate is not None and not 0 < self.rate <= 1e6:
            raise InvalidValue(f"rate must be between 0 and a million pairs a second, but {self.rate:g} came")
        if not (self.sqlite or self.postgres):
            raise InvalidValue("there is nothing to measure; leave out --no-sqlite, or add --postgres")

    @property
    def storages(self) -> list[str]:
        """What is measured."""
        return [SQLITE] * self.sqlite + [POSTGRES] * self.postgres


QUICK = Plan(n_tasks=200, seconds=2.0, warm=0.5, connections=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRun:
    """What was measured on one storage.

    Parameters
    ----------
    storage : str
    deciders : int
        Processes of ``posse serve``.
    load : LoadResult
    memory : list of float
        Bytes of all of them together, once a second.
    processor_seconds : float or None
        That they took while the load ran.
    database_bytes : int
        By which the database grew.
    expected, counted : int
        Rewards that were acknowledged, from the beginning, and those that the service counts in the end.
    """

    storage: str
    deciders: int
    load: LoadResult
    memory: list[float]
    processor_seconds: float | None
    database_bytes: int
    expected: int
    counted: int

    @property
    def pairs_per_second(self) -> float:
        """Pairs that were finished."""
        return self.load.pairs / self.load.seconds

    @property
    def miscounted(self) -> int:
        """Acknowledged rewards that are not counted, or counted ones that were never sent."""
        most = self.expected + self.load.uncertain
        return max(0, self.expected - self.counted, self.counted - most)

    @property
    def growth(self) -> tuple[float, float] | None:
        """Bytes by which memory grew between the second quarter and the last, and those that it may."""
        n = len(self.memory)
        if n < FEW_SAMPLES:
            return None
        before, after = self.memory[n // 4 : n // 2], self.memory[3 * n // 4 :]
        base = sum(before) / len(before)
        return sum(after) / len(after) - base, max(GROWTH * base, LITTLE)

    @property
    def bars(self) -> list[Bar]:
        """The promises."""
        load = self.load
        growth, allowed = (None, LITTLE) if self.growth is None else self.growth
        return [
            Bar(what=self._said("pairs a second"), measured=self.pairs_per_second, unit="", at_least=PAIRS),
            self._latency("decide", load.decide),
            self._latency("reward", load.reward),
            Bar(
                what=self._said("growth of memory"),
                measured=None if growth is None else growth / MEGABYTE,
                unit="MB",
                at_most=allowed / MEGABYTE,
                note="" if growth is not None else f"needs {FEW_SAMPLES} s",
            ),
            Bar(what=self._said("requests that failed"), measured=sum(load.errors.values()), unit="", at_most=0),
            Bar(what=self._said("rewards lost or counted twice"), measured=self.miscounted, unit="", at_most=0),
        ]

    def _said(self, what: str) -> str:
        return f"{self.storage}: {what}"

    def _latency(self, kind: str, latencies: Latencies) -> Bar:
        measured = latencies.quantiles["p99"] * 1e3 if latencies.requests else None
        what = self._said(f"{kind}, 99 %")
        return Bar(what=what, measured=measured, unit="ms", at_most=P99 * 1e3, note="" if measured else "no answers")

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self) | {"pairs_per_second": self.pairs_per_second, "miscounted": self.miscounted}


@dataclass(frozen=True, slots=True)
class ServeReport:
    """Everything that was measured."""

    plan: Plan
    runs: list[ServeRun]

    @property
    def bars(self) -> list[Bar]:
        """The promises about every storage."""
        return [bar for run in self.runs for bar in run.bars]

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        # An address may hold a password.
        plan = asdict(self.plan) | {"database": None if self.plan.database is None else "given"}
        return {
            "plan": plan,
            "runs": [run.to_dict() for run in self.runs],
            "bars": [bar.to_dict() for bar in self.bars],
        }


def n_stages(plan: Plan) -> int:
    """Return how many stages a run has."""
    return 3 * len(plan.storages)


def measure_serve(plan: Plan, begin: Callable[[str], None] = lambda _: None) -> ServeReport:
    """Start services, fill a fleet, load it and look at what became of it.

    Parameters
    ----------
    plan : Plan
    begin : callable
        Told the name of every stage before it starts.
    """
    return ServeReport(plan, [_measure(plan, storage, begin) for storage in plan.storages])


def _measure(plan: Plan, storage: str, begin: Callable[[str], None]) -> ServeRun:
    begin(f"{storage}: start")
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        database, size = stack.enter_context(_database(plan, storage, folder))
        running = stack.enter_context(services(database, DECIDERS[storage], folder))
        client = stack.enter_context(Client(running[0].url, timeout=30.0, deadline=60.0))
        name = f"bench-{uuid4().hex[:8]}"
        create_fleet(client, name, plan)
        stack.callback(client.delete_fleet, name)
        begin(f"{storage}: {plan.n_tasks:,} tasks")
        filled = fill(client, name, plan)
        begin(f"{storage}: load for {plan.seconds:g} s")
        before, pids = size(), [service.process.pid for service in running]
        busy = processor_seconds(pids)
        with Watch(pids) as watch:
            load = run_load(plan, name, running)
        busy_after = processor_seconds(pids)
        return ServeRun(
            storage=storage,
            deciders=len(running),
            load=load,
            # The load ended a moment ago; before it began, the generator drew its requests.
            memory=watch.memory[-math.ceil(plan.seconds) :],
            processor_seconds=None if busy is None or busy_after is None else busy_after - busy,
            database_bytes=size() - before,
            expected=filled + load.acknowledged,
            counted=counted(client, name, filled + load.acknowledged),
        )


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="posse-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # the user whom PostgreSQL runs as must get to its data
        yield folder


@contextmanager
def _database(plan: Plan, storage: str, folder: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield the address of a database, and what says how large it is."""
    if storage == SQLITE:
        path = folder / "posse.db"
        yield str(path), lambda: sum(one.stat().st_size for one in folder.glob("posse.db*"))
        return
    with ExitStack() as stack:
        url = plan.database or stack.enter_context(private_postgres(folder))
        yield url, lambda: database_bytes(url)


def create_fleet(client: Client, name: str, plan: Plan) -> Fleet:
    """Create the fleet of the benchmark."""
    features = [f"x{i}" for i in range(plan.n_features)]
    # d counts the columns: the intercept would be one more.
    return client.create_fleet(name, [f"arm-{arm}" for arm in range(plan.n_arms)], features, intercept=False)


def fill(client: Client, name: str, plan: Plan) -> int:
    """Decide for every task and reward it, so many times; return the number of rewards."""
    questions = Questions(plan.n_tasks, plan.n_arms, plan.n_features, seed=0)
    tasks = iter(list(range(plan.n_tasks)) * plan.rewards)
    new = 0
    while drawn := [questions.draw(task) for task in islice(tasks, BATCH)]:
        decisions = client.decide_many(name, [body for body, _ in drawn])
        pairs = [
            (decision, rewards[int(decision.arm.removeprefix("arm-"))])
            for decision, (_, rewards) in zip(decisions, drawn, strict=True)
        ]
        new += client.reward_many(pairs).new
    return new


def run_load(plan: Plan, fleet: str, running: Sequence[Service]) -> LoadResult:
    """Run the load generator in a process of its own."""
    asked = LoadPlan(
        ports=[service.port for service in running],
        fleet=fleet,
        n_tasks=plan.n_tasks,
        n_arms=plan.n_arms,
        n_features=plan.n_features,
        connections=plan.connections,
        seconds=plan.seconds,
        warm=plan.warm,
        rate=plan.rate,
    )
    # -P: modules beside the file must not hide those of the same name elsewhere.
    command = [sys.executable, "-P", generator.__file__]
    limit = plan.seconds + plan.warm + 4 * generator.PATIENCE
    done = subprocess.run(
        command, input=json.dumps(asdict(asked)), capture_output=True, text=True, timeout=limit, check=False
    )
    if done.returncode != 0:
        raise NotStarted(f"the load generator failed; it says: {done.stderr[-800:].strip()}")
    said = json.loads(done.stdout)
    return LoadResult(**said | {kind: Latencies(**said[kind]) for kind in ("decide", "reward")})


def counted(client: Client, name: str, expected: int) -> int:
    """Return how many rewards the service counts, given a moment to do so."""
    for _ in range(50):
        rewards = client.fleet(name).rewards
        if rewards >= expected:
            break
        time.sleep(0.1)
    return rewards
