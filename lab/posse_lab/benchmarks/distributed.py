"""What tasks, rows and messages cost on one machine and on Ray, and what a large cluster would take at that.

Wall time is what somebody waits for; processor time is what the work takes, whatever else the machine does. The model
of a cluster uses the latter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from posse.fleet import Posse
from posse_lab.benchmarks.machine import Stopwatch, machine, memory_in_use
from posse_lab.benchmarks.report import Begin, Report, Table

if TYPE_CHECKING:
    import polars as pl

BATCH = 1 << 19  # rows of a table that is learned at once
MANY = 10_000  # rows of decide_many
MESSAGES = 300  # to time
LARGE = {"tasks": 10**8, "machines": 16, "cores": 32, "bytes_per_second": 1e9}
"""The cluster that the model is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
        Encoded features, the intercept among them.
    rows : int
        That are learned by streaming on one machine.
    sharded_tasks, sharded_rows : int
        Of the fleet on Ray, and of the one beside it on this machine.
    shards, nodes : int
    decisions : int
        To time, one by one.
    """

    n_tasks: int = 10**6
    n_arms: int = 5
    n_features: int = 10
    rows: int = 50_000_000
    sharded_tasks: int = 10**6
    sharded_rows: int = 10_000_000
    shards: int = 2
    nodes: int = 2
    decisions: int = 2000


QUICK = Plan(
    n_tasks=2000, rows=200_000, sharded_tasks=2000, sharded_rows=100_000, decisions=100, nodes=1,
)  # fmt: skip


@dataclass(slots=True)
class Found:
    """What was measured, in seconds and bytes."""

    plan: Plan
    streaming: dict[str, float] = field(default_factory=dict)
    one: dict[str, float] = field(default_factory=dict)
    sharded: dict[str, float] = field(default_factory=dict)
    agreement: dict[str, float] = field(default_factory=dict)

    def report(self) -> Report:
        """Return what was measured, and what a large cluster takes at that."""
        parts = (self.streaming, self.one, self.sharded)
        rows = [
            [name.replace("_", " "), *(f"{part[name]:,.6g}" if name in part else "" for part in parts)]
            for name in dict.fromkeys([name for part in parts for name in part])
        ]
        cluster, assumptions = model(self)
        gaps = ", ".join(f"{name.replace('_', ' ')} {gap:.1e}" for name, gap in self.agreement.items())
        return Report(
            name="distributed",
            tables=[
                Table("Measured", ["what", "streaming", "one process", "Ray"], rows),
                Table(
                    "A large cluster, at that", ["what", "value"],
                    [[name.replace("_", " "), f"{value:,.4g}"] for name, value in cluster.items()],
                ),
            ],
            data=asdict(self) | {"model": cluster, "assumptions": assumptions},
            notes=[
                f"population on Ray against one process, largest relative difference: {gaps}",
                *(f"assumes {line}" for line in assumptions),
            ],
        )  # fmt: skip


def measure_distributed(plan: Plan, begin: Begin) -> Report:
    """Measure streaming, one process and Ray, and compute the model."""
    found = Found(plan)
    begin(f"streaming {plan.rows:,} rows of {plan.n_tasks:,} tasks")
    found.streaming = _streaming(plan)
    begin(f"one process, {plan.sharded_tasks:,} tasks")
    fleet = _fleet(plan)
    found.one = _learned(fleet, plan) | _decided(fleet, plan)
    begin(f"{plan.shards} shards on {plan.nodes} nodes of Ray, {plan.sharded_tasks:,} tasks")
    with _cluster(plan.nodes):
        from posse.distributed import ShardedPosse

        sharded = ShardedPosse(**_settings(plan), shards=plan.shards)
        sharded.probabilities([0], np.zeros((1, plan.n_features - 1)))  # compiled code is loaded
        empty = _resident_of(sharded)
        found.sharded = _learned(sharded, plan) | _decided(sharded, plan) | _of_shards(sharded, plan, empty)
        found.agreement = {
            "covariance": _gap(sharded.prior.covariance, fleet.prior.covariance),
            "noise_variance": _gap(sharded.prior.noise_variance, fleet.prior.noise_variance),
        }
        sharded.close()
    return found.report()


def rows_of(plan: Plan, n_tasks: int, rows: int, seed: int = 0) -> Iterator[pl.DataFrame]:
    """Yield tables of so many rows in all; contexts come again, tasks and arms are drawn anew."""
    import polars as pl

    rng = np.random.default_rng(seed)
    size, d = min(BATCH, rows), plan.n_features - 1
    contexts = rng.standard_normal((size, d))
    columns = {f"x{i}": np.ascontiguousarray(contexts[:, i]) for i in range(d)}
    means = rng.standard_normal((plan.n_arms, d))
    for first in range(0, rows, size):
        count = min(size, rows - first)
        tasks, arms = rng.integers(n_tasks, size=count), rng.integers(plan.n_arms, size=count)
        own = np.sin(tasks * (1.0 + arms))  # tasks differ, and need no memory to do so
        rewards = np.einsum("ni,ni->n", contexts[:count], means[arms]) + own + rng.standard_normal(count)
        yield pl.DataFrame(
            {"task": tasks, "arm": arms, "reward": rewards} | {name: column[:count] for name, column in columns.items()}
        )


def _settings(plan: Plan) -> dict[str, Any]:
    return {"arms": list(range(plan.n_arms)), "features": [f"x{i}" for i in range(plan.n_features - 1)], "seed": 1}


def _fleet(plan: Plan) -> Posse:
    return Posse(**_settings(plan))


def _streaming(plan: Plan) -> dict[str, float]:
    fleet = _fleet(plan)
    for table in rows_of(plan, 10, 5000):  # what has to be compiled or loaded is not counted
        _fleet(plan).learn_many(table, refresh=False)
    taken, learned = [], 0
    for table in rows_of(plan, plan.n_tasks, plan.rows):
        with Stopwatch() as one:
            learned += fleet.learn_many(iter([table]), refresh=False)
        taken.append((table.height, one.wall, one.processor))
    rows, wall, processor = np.array(taken).T
    before = memory_in_use()[1]
    with Stopwatch() as refresh:
        fleet.refresh()
    return {
        "rows": learned,
        "rows_per_second": learned / wall.sum(),
        "rows_per_second_of_the_best_batch": float((rows / wall).max()),
        "rows_per_processor_second": learned / processor.sum(),
        "refresh_seconds": refresh.wall,
        "refresh_processor_seconds": refresh.processor,
        "pairs": float(fleet.core.sums().counts.size),
        "peak_bytes_learning": before,
        "peak_bytes": memory_in_use()[1],
    }


def _learned(fleet: Any, plan: Plan) -> dict[str, float]:
    tables = list(rows_of(plan, plan.sharded_tasks, plan.sharded_rows, seed=2))
    with Stopwatch() as learning:
        for table in tables:
            fleet.learn_many(table, refresh=False)
    with Stopwatch() as refresh:
        found = fleet.refresh() or {}
    return {
        "learn_rows_per_second": plan.sharded_rows / learning.wall,
        "refresh_seconds": refresh.wall,
        "refresh_messages": float(found.get("messages", 0)),
        "refresh_steps": float(found.get("steps", 0)),
    }


def _decided(fleet: Any, plan: Plan) -> dict[str, float]:
    rng = np.random.default_rng(3)
    tasks = rng.integers(plan.sharded_tasks, size=plan.decisions + 50).tolist()
    contexts = rng.standard_normal((plan.decisions + 50, plan.n_features - 1))
    took = []
    for task, context in zip(tasks, contexts, strict=True):
        with Stopwatch() as one:
            fleet.decide(task, context)
        took.append(one.wall)
    many = rng.integers(plan.sharded_tasks, size=MANY)
    X = rng.standard_normal((MANY, plan.n_features - 1))
    fleet.decide_many(many, X)
    with Stopwatch() as at_once:
        fleet.decide_many(many, X)
    return {
        "decide_p50": float(np.quantile(took[50:], 0.5)),
        "decide_p99": float(np.quantile(took[50:], 0.99)),
        "decide_many_rows_per_second": MANY / at_once.wall,
    }


def _of_shards(fleet: Any, plan: Plan, empty: float) -> dict[str, float]:
    """Return what shards take: memory over that of empty ones, and bytes and time of a message."""
    from posse.distributed.cluster import gather

    X = np.random.default_rng(4).standard_normal((10 * MANY, plan.n_features - 1))
    for first in range(0, plan.sharded_tasks, len(X)):  # from now on everything has been decided for
        some = np.arange(first, min(first + len(X), plan.sharded_tasks))
        fleet.probabilities(some, X[: some.size])
    seen = gather([fleet.running.look(shard, "overview", 0) for shard in range(fleet.n_shards)])
    tasks, pairs = len(fleet), sum(arm.tasks for overview in seen for arm in overview.arms)
    resident = _resident_of(fleet)
    K, d = fleet.prior.covariance.shape[:2]
    return {
        "tasks": float(tasks),
        "pairs": float(pairs),
        "resident_bytes": resident,
        "resident_bytes_per_task": max(resident - empty, 0.0) / max(tasks, 1),
        "round_trip_seconds": _round_trip(fleet),
        "message_bytes": 8.0 * K * (3 * d * d + 2 * d + 1),  # roots and means there, moments or information back
    }


def _round_trip(fleet: Any) -> float:
    """Return the seconds that a message to a shard and its answer take, the median of many."""
    from posse.distributed.cluster import gather

    took = []
    for number in range(MESSAGES):
        shard = fleet.running.shards[number % fleet.n_shards]
        with Stopwatch() as one:
            gather([shard.knows.remote([])])
        took.append(one.wall)
    return float(np.median(took))


def _resident_of(fleet: Any) -> float:
    """Return the bytes that all shards have in memory; 0 if they are not all on this machine."""
    from posse.distributed.cluster import has_several_machines

    pids = [] if has_several_machines() else [state["pid"] for state in fleet.running.states()]
    return float(sum(psutil.Process(pid).memory_info().rss for pid in pids))


def _gap(found: Any, wanted: Any) -> float:
    return float(np.abs(found / wanted - 1.0).max())


@contextmanager
def _cluster(nodes: int) -> Iterator[None]:
    """Have nodes of Ray on this machine, unless a cluster is connected already or one node is enough."""
    from posse.distributed.cluster import require_ray, start

    ray = require_ray()
    if ray.is_initialized() or os.environ.get("RAY_ADDRESS") or nodes == 1:
        start()
        yield
        return
    from ray.cluster_utils import Cluster

    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            made.add_node(num_cpus=1)
        start(made.address)
        yield
    finally:
        ray.shutdown()
        made.shutdown()


def model(report: Found) -> tuple[dict[str, float], list[str]]:
    """Return what a large cluster takes, from what was measured here, and what that assumes."""
    plan, large = report.plan, LARGE
    pairs_of_task = report.streaming["pairs"] / plan.n_tasks
    sharded = report.sharded
    round_trip, task_bytes = sharded["round_trip_seconds"], sharded["resident_bytes_per_task"]
    tasks = large["tasks"] / large["machines"]
    steps = max(sharded["refresh_steps"], 1.0)
    messages = max(sharded["refresh_messages"] / plan.shards, 1.0)
    pass_seconds = report.streaming["refresh_processor_seconds"] / report.streaming["pairs"] * pairs_of_task
    exchange = round_trip + large["machines"] * sharded["message_bytes"] / large["bytes_per_second"]
    found = {
        # Of shards on several machines it is not known.
        **({"memory_per_machine_bytes": tasks * task_bytes} if task_bytes else {}),
        "refresh_seconds": tasks * pass_seconds / large["cores"] + messages * exchange,
        "refresh_message_seconds": messages * exchange,
        "fit_rows_per_second": large["machines"] * large["cores"] * report.streaming["rows_per_processor_second"],
        "decisions_per_second": large["machines"] * large["cores"] / max(report.one["decide_p50"], 1e-9),
        "decide_many_rows_per_second": large["machines"] * sharded["decide_many_rows_per_second"] / plan.shards,
    }
    return found, [
        f"{large['tasks']:,.0f} tasks on {large['machines']:.0f} machines of {large['cores']:.0f} cores like these: "
        f"{machine()['processor']}",
        f"{plan.n_arms} arms, {plan.n_features} features, {pairs_of_task:.1f} arms with rewards in every task, "
        "names that are whole numbers",
        f"an estimate of {steps:.0f} steps, which is {messages:.0f} messages to every shard of "
        f"{report.sharded['message_bytes'] / 1e3:.1f} kB, {round_trip * 1e3:.2f} ms each as measured "
        "between processes here, "
        f"and a network that carries {large['bytes_per_second'] / 1e9:g} GB per second and adds no more",
        f"{task_bytes / 1e3:.2f} kB of memory per task that has been decided for, as measured in shards of "
        f"{sharded['tasks']:,.0f} tasks with {sharded['pairs'] / sharded['tasks']:.1f} arms each",
        "sums over pairs as fast on every core as here, and nothing lost by sharing memory between cores",
        "decisions one by one in as many actors as there are cores; what HTTP or Ray add to a call is not in it",
    ]
