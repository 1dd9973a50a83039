"""One fleet of a given size, measured in a process of its own: ``python -m posse_lab.benchmarks.sized '{...}'``.

Memory that a process once had is not all given back, so every size starts from nothing. What happens is printed as one
JSON object per line: ``{"stage": ...}`` when something begins, ``{"result": ...}`` at the end.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from posse.fleet import Posse
from posse.types import Array, Settings
from posse_lab.benchmarks.machine import memory_in_use
from posse_lab.benchmarks.workload import NEVER, Size, draw_rows, new_fleet, table_of, tables, task_name

PAUSE = 1e-3  # seconds between decisions of a service that is not busy
TURN = 0.5  # seconds of decisions without pauses, then as many with
MOST = 20_000  # decisions of a turn
ROUNDS = 3  # that some tasks are asked again


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    rewards : int
        Of every task.
    decisions : int
        To time: of so many different tasks, or of all if there are fewer; then again, in other orders.
    repeats : int
        Fleets that learn, one after the other; the last is measured further.
    background : float
        Seconds of refreshes in the background during which decisions are timed; at least one refresh.
    files : bool
        Whether to save and load.
    """

    n_tasks: int
    n_arms: int = 5
    n_features: int = 10
    rewards: int = 20
    decisions: int = 20_000
    repeats: int = 1
    background: float = 10.0
    files: bool = True

    @property
    def size(self) -> Size:
        """The size of the fleet."""
        return Size(self.n_tasks, self.n_arms, self.n_features)


@dataclass(slots=True)
class Sized:
    """What was measured.

    Parameters
    ----------
    job : Job
    learned : list of (rows, seconds)
        Of every call of ``learn_many``.
    refresh : float
        Seconds of an estimate of the prior of all arms from all that was learned.
    resident, peak : float or None
        Bytes of memory when everything is learned and estimated, and the most until then.
    decide_first, decide, decide_behind, decide_paced : dict
        Latency in seconds: of the first decision of a task since a refresh, which brings what is believed about the
        task up to date; of later ones; of any during background refreshes; of such with a pause before each.
    refreshes : list of float
        Seconds that the refreshes in the background took.
    files : dict
        Seconds to save and load, bytes of the file.
    notes : list of str
    """

    job: Job
    learned: list[tuple[int, float]] = field(default_factory=list)
    refresh: float = 0.0
    resident: float | None = None
    peak: float | None = None
    decide_first: dict[str, float] = field(default_factory=dict)
    decide: dict[str, float] = field(default_factory=dict)
    decide_behind: dict[str, float] = field(default_factory=dict)
    decide_paced: dict[str, float] = field(default_factory=dict)
    refreshes: list[float] = field(default_factory=list)
    files: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def rows_per_second(self) -> float:
        """Rewards learned per second, of all calls together."""
        return sum(rows for rows, _ in self.learned) / sum(seconds for _, seconds in self.learned)

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return asdict(self) | {"rows_per_second": self.rows_per_second}


def measure(job: Job, say: Callable[[str], None]) -> Sized:
    """Teach a fleet and time what it does; ``say`` is told what comes next."""
    found = Sized(job)
    say("compiling")
    _compile(job)
    fleet = _learn(job, found, say)
    say("refresh")
    started = time.perf_counter()
    fleet.refresh()
    found.refresh = time.perf_counter() - started
    found.resident, found.peak = memory_in_use()
    if job.files:
        say("save and load")
        _measure_files(fleet, found)
    say("decisions")
    some = _some_tasks(job)
    found.decide_first = summary(np.array(list(_latencies(fleet, job, some, 0))))
    again = [np.array(list(_latencies(fleet, job, _shuffled(some, seed), seed))) for seed in range(1, ROUNDS + 1)]
    found.decide = summary(np.concatenate(again))
    say("decisions during background refreshes")
    _measure_behind(fleet, job, found)
    return found


def summary(latencies: Array) -> dict[str, float]:
    """Return best, median, 99.9 % and longest of some latencies, and how many there are."""
    best, median, nearly_all, longest = np.quantile(latencies, [0.0, 0.5, 0.999, 1.0]).tolist()
    return {"best": best, "median": median, "p99.9": nearly_all, "longest": longest, "calls": float(latencies.size)}


def _learn(job: Job, found: Sized, say: Callable[[str], None]) -> Posse:
    for _ in range(job.repeats):
        fleet = new_fleet(job.size, refresh_growth=NEVER)
        rows = 0
        for table in tables(job.size, job.n_tasks * job.rewards):
            say(f"learning, {rows:,} of {job.n_tasks * job.rewards:,} rewards")
            started = time.perf_counter()
            fleet.learn_many(table, refresh=False)  # which is timed by itself
            found.learned.append((len(table), time.perf_counter() - started))
            rows += len(table)
    return fleet


def _some_tasks(job: Job) -> list[int]:
    """Return the names of some tasks, no task twice."""
    some = np.random.default_rng(6).choice(job.n_tasks, size=min(job.decisions, job.n_tasks), replace=False)
    return [task_name(task) for task in some.tolist()]


def _shuffled(tasks: list[int], seed: int) -> list[int]:
    return [tasks[i] for i in np.random.default_rng(seed).permutation(len(tasks)).tolist()]


def _latencies(fleet: Posse, job: Job, tasks: list[int], seed: int, pause: float = 0.0) -> Iterator[float]:
    """Yield the seconds of a decision for each of some tasks."""
    contexts = np.random.default_rng([7, seed]).standard_normal((len(tasks), job.n_features))
    clock, decide = time.perf_counter, fleet.decide
    for task, context in zip(tasks, contexts, strict=True):
        if pause:
            time.sleep(pause)
        started = clock()
        decide(task, context)
        yield clock() - started


def _measure_behind(fleet: Posse, job: Job, found: Sized) -> None:
    """Decide while refreshes run on other threads: turns without and with pauses."""
    busy: list[float] = []
    paced: list[float] = []
    began, seed, row = time.perf_counter(), 1000, job.n_tasks * job.rewards
    while not found.refreshes or time.perf_counter() - began < job.background:
        # Something new to learn from, or the estimate would be settled before it began.
        more = max(job.n_tasks * job.rewards // 20, 1)
        fleet.learn_many(table_of(draw_rows(job.size, row, row + more), job.n_arms))
        row += more
        started = time.perf_counter()
        fleet.refresh(wait=False)
        while fleet.refreshing:
            seed += 1
            pause, kept = (PAUSE, paced) if seed % 2 else (0.0, busy)
            tasks = np.random.default_rng([8, seed]).integers(job.n_tasks, size=MOST).tolist()
            turn = time.perf_counter()
            for latency in _latencies(fleet, job, [task_name(task) for task in tasks], seed, pause):
                kept.append(latency)
                if time.perf_counter() - turn > TURN or not fleet.refreshing:
                    break
        found.refreshes.append(time.perf_counter() - started)
    if len(busy) < 1000 or len(paced) < 100:
        found.notes.append(f"{job.n_tasks:,} tasks: refreshes are too short to time decisions during them")
    if busy:
        found.decide_behind = summary(np.array(busy))
    if paced:
        found.decide_paced = summary(np.array(paced))


def _measure_files(fleet: Posse, found: Sized) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.posse"
        times: dict[str, list[float]] = {"save": [], "load": [], "load_one": []}
        for _ in range(3):
            for what, work in (
                ("save", lambda: fleet.save(path)),
                ("load", lambda: Posse.load(path)),
                ("load_one", lambda: Posse.load(path, tasks=[task_name(0)])),
            ):
                started = time.perf_counter()
                work()
                times[what].append(time.perf_counter() - started)
        found.files = {what: min(took) for what, took in times.items()} | {"bytes": float(path.stat().st_size)}


def _compile(job: Job) -> None:
    """Do everything once with a small fleet."""
    small = Size(50, job.n_arms, job.n_features)
    fleet = new_fleet(small, refresh_growth=NEVER)
    for table in tables(small, 6_000):
        fleet.learn_many(table, refresh=False)
    fleet.refresh()
    fleet.decide(task_name(0), np.zeros(job.n_features))
    fleet.refresh(wait=False)
    fleet.learn_many(table)
    while fleet.refreshing:
        time.sleep(PAUSE)


def main() -> None:
    """Measure the job in the first argument."""

    def say(stage: str) -> None:
        print(json.dumps({"stage": stage}), flush=True)

    print(json.dumps({"result": measure(Job(**json.loads(sys.argv[1])), say).to_dict()}), flush=True)


if __name__ == "__main__":
    main()
