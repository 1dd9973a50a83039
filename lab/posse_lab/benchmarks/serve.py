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

from posse.client import Client
from posse.errors import InvalidValue
from posse.types import Settings
from posse_lab.benchmarks.report import Bar, Begin, Report, Table, quantity
from posse_lab.servers import generator
from posse_lab.servers.generator import QUANTILES, Latencies, LoadPlan, LoadResult, Questions
from posse_lab.servers.postgres import database_bytes, private_postgres
from posse_lab.servers.processes import Watch, processor_seconds
from posse_lab.servers.service import NotStarted, Service, services

SQLITE, POSTGRES = "SQLite", "PostgreSQL"
DECIDERS = {SQLITE: 1, POSTGRES: 2}
PAIRS, P99 = 1_000.0, 50.0  # the promises: pairs a second, and milliseconds
GROWTH, LITTLE = 0.05, 20e6  # memory is flat if it grows by no more than this share, or by so many bytes
FEW_SAMPLES = 8  # of memory, below which growth says nothing
BATCH = 500


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
    postgres : bool
        Whether PostgreSQL is measured, too: a server that is started for it.
    """

    n_tasks: int = 10_000
    n_arms: int = 5
    n_features: int = 10
    rewards: int = 2
    seconds: float = 60.0
    warm: float = 2.0
    connections: int = 16
    postgres: bool = False

    def __post_init__(self) -> None:
        for name, high in (("seconds", 3600), ("connections", 1000)):
            if not 1 <= getattr(self, name) <= high:
                raise InvalidValue(f"expected {name} to be between 1 and {high}, got {getattr(self, name):g}")

    @property
    def storages(self) -> list[str]:
        """What is measured."""
        return [SQLITE] + [POSTGRES] * self.postgres


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
    processor_seconds : float
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
    processor_seconds: float
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
        return max(0, self.expected - self.counted, self.counted - self.expected - self.load.uncertain)

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
        load, (growth, allowed) = self.load, self.growth or (None, LITTLE)

        def bar(what: str, measured: float | None, unit: str = "", note: str = "", **bound: float) -> Bar:
            return Bar(what=f"{self.storage}: {what}", measured=measured, unit=unit, note=note, **bound)  # type: ignore[arg-type]

        return [
            bar("pairs a second", self.pairs_per_second, at_least=PAIRS),
            *(
                bar(f"{kind}, 99 %", 1e3 * one.quantiles["p99"] if one.requests else None, "ms", "no answer",
                    at_most=P99)
                for kind, one in (("decide", load.decide), ("reward", load.reward))
            ),
            bar(
                "growth of memory", None if growth is None else growth / 1e6, "MB", f"needs {FEW_SAMPLES} s",
                at_most=allowed / 1e6,
            ),
            bar("requests that failed", sum(load.errors.values()), at_most=0),
            bar("rewards lost or counted twice", self.miscounted, at_most=0),
        ]  # fmt: skip


def n_stages(plan: Plan) -> int:
    """Return how many stages a run has."""
    return 3 * len(plan.storages)


def measure_serve(plan: Plan, begin: Begin = lambda _: None) -> Report:
    """Start services, fill a fleet, load it and look at what became of it."""
    return report_of(plan, [_measure(plan, storage, begin) for storage in plan.storages])


def report_of(plan: Plan, runs: Sequence[ServeRun]) -> Report:
    """Return what every storage held, and how long requests took."""
    held, latencies = [], []
    for run in runs:
        load, lasted = run.load, plan.warm + run.load.seconds
        memory = [f"{size / 1e6:,.0f}" for size in (run.memory[0], run.memory[-1])] if run.memory else ["–", "–"]
        held.append(
            [
                run.storage, str(run.deciders), quantity(run.pairs_per_second), f"{sum(load.errors.values()):,}",
                *memory, f"{run.database_bytes / max(1, load.acknowledged):,.0f}",
                f"{run.processor_seconds / lasted:.2f}", f"{load.processor_seconds / lasted:.2f}",
            ]
        )  # fmt: skip
        for kind, one in (("decide", load.decide), ("reward", load.reward)):
            times = (one.mean, *one.quantiles.values(), one.most)
            latencies.append([f"{run.storage}, {kind}", f"{one.requests:,}", *(quantity(each * 1e3) for each in times)])
    size = f"N={plan.n_tasks:,} K={plan.n_arms} d={plan.n_features}"
    columns = ["storage", "pro-\ncesses", "pairs\na second", "failed", "MB at\nfirst", "MB in\nthe end"]
    columns += ["bytes\na pair", "cores", "of the\nload"]
    quantiles = [f"{100 * share:g} %" for share in QUANTILES.values()]
    return Report(
        name="serve",
        tables=[
            Table(f"{size}, {plan.connections} connections a process, {plan.seconds:g} s", columns, held),
            Table("Latency, ms", ["request", "requests", "mean", *quantiles, "most"], latencies),
        ],
        bars=[bar for run in runs for bar in run.bars],
        data={
            "plan": asdict(plan),
            "runs": [
                asdict(run) | {"pairs_per_second": run.pairs_per_second, "miscounted": run.miscounted} for run in runs
            ],
        },
        notes=_notes(runs),
    )


def _notes(runs: Sequence[ServeRun]) -> list[str]:
    lines = [
        "A pair begins when another ends. Load and service share this machine. A reward is answered when it is on "
        "disk. MB: resident memory of all processes of the service; it is flat if its mean in the last quarter is at "
        "most 5 % or 20 MB above that in the second. cores: processor time over time. bytes a pair: by which the "
        "database grew."
    ]
    for run in runs:
        load = run.load
        if load.errors:
            lines.append(f"{run.storage}: failed: {', '.join(f'{n:,} x {kind}' for kind, n in load.errors.items())}")
        lines.append(f"{run.storage}: {run.expected:,} rewards were acknowledged, {run.counted:,} are counted")
    return lines


def _measure(plan: Plan, storage: str, begin: Begin) -> ServeRun:
    begin(f"{storage}: start")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="posse-bench-")))
        folder.chmod(0o711)  # the user whom PostgreSQL runs as must get to its data
        database, size = stack.enter_context(_database(storage, folder))
        running = stack.enter_context(services(database, DECIDERS[storage], folder))
        client = stack.enter_context(Client(running[0].url, timeout=30.0, deadline=60.0))
        name = f"bench-{uuid4().hex[:8]}"
        arms, features = [f"arm-{arm}" for arm in range(plan.n_arms)], [f"x{i}" for i in range(plan.n_features)]
        client.create_fleet(name, arms, features, intercept=False)  # d counts the columns
        stack.callback(client.delete_fleet, name)
        begin(f"{storage}: {plan.n_tasks:,} tasks")
        filled = fill(client, name, plan)
        begin(f"{storage}: load for {plan.seconds:g} s")
        before, pids = size(), [service.pid for service in running]
        busy = processor_seconds(pids)
        with Watch(pids) as watch:
            load = run_load(plan, name, running)
        return ServeRun(
            storage=storage,
            deciders=len(running),
            load=load,
            # The load ended a moment ago; before it began, the generator drew its requests.
            memory=watch.memory[-math.ceil(plan.seconds) :],
            processor_seconds=processor_seconds(pids) - busy,
            database_bytes=size() - before,
            expected=filled + load.acknowledged,
            counted=_counted(client, name, filled + load.acknowledged),
        )


@contextmanager
def _database(storage: str, folder: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield the address of a database, and what says how large it is."""
    if storage == SQLITE:
        yield str(folder / "posse.db"), lambda: sum(one.stat().st_size for one in folder.glob("posse.db*"))
        return
    with private_postgres(folder) as url:
        yield url, lambda: database_bytes(url)


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
    shared = ("n_tasks", "n_arms", "n_features", "connections", "seconds", "warm")
    given: Settings = {name: getattr(plan, name) for name in shared}
    asked = LoadPlan(ports=[service.port for service in running], fleet=fleet, **given)
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


def _counted(client: Client, name: str, expected: int) -> int:
    """Return how many rewards the service counts, given a moment to do so."""
    for _ in range(50):
        rewards = client.fleet(name).rewards
        if rewards >= expected:
            break
        time.sleep(0.1)
    return rewards
