"""What a fleet of a thousand to a million tasks learns per second, weighs, and answers in.

Memory that a process once had is not all given back, so every size is measured in a process of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from posse.errors import InvalidValue
from posse.fleet import Posse
from posse.types import IntArray, Settings
from posse_lab.benchmarks.machine import memory_in_use
from posse_lab.benchmarks.report import Bar, Begin, Report, Table, quantity
from posse_lab.benchmarks.workload import NEVER, Size, draw_rows, new_fleet, table_of, tables

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MILLION, BASE = 1_000_000, 1_000  # the size that promises are made about, and the one it is compared with
MOST_FILES = 100_000  # tasks of the largest fleet that is saved and loaded
FEW_ROWS = 500_000  # up to which a fleet learns more than once
PAUSE = 1e-3  # seconds between decisions of a service that is not busy
TURN = 0.5  # seconds of decisions without pauses, then as many with
MOST = 20_000  # decisions of a turn


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


def jobs_up_to(largest: int, *, quick: bool = False) -> list[Job]:
    """Return what to measure up to a number of tasks, the smallest first; ``quick`` is to see that it runs."""
    if quick:
        return [Job(n_tasks=n, n_arms=3, n_features=4, decisions=200, background=0.0) for n in (100, 300)]
    if largest < SIZES[0]:
        raise InvalidValue(f"expected --largest to be at least {SIZES[0]}, got {largest}; --quick runs something small")
    jobs = [Job(n_tasks=n, files=n <= MOST_FILES) for n in (*(n for n in SIZES if n < largest), largest)]
    return [replace(job, repeats=5 if job.n_tasks * job.rewards <= FEW_ROWS else 1) for job in jobs]


def measure_scale(jobs: Sequence[Job], begin: Begin = lambda _name: None) -> Report:
    """Measure every size in a process of its own."""
    results: dict[int, Settings] = {}
    notes: list[str] = []
    for job in jobs:
        begin(f"{job.n_tasks:,} tasks")
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                results[job.n_tasks] = pool.submit(measure, job).result()
        except BrokenProcessPool:  # memory is the usual reason
            notes.append(f"{job.n_tasks:,} tasks: the process was ended, perhaps for want of memory")
    return report_of(results, notes)


def measure(job: Job) -> Settings:
    """Teach a fleet and time what it does, in seconds and bytes."""
    _compile(job)
    fleet, rows_per_second = _learn(job)
    started = time.perf_counter()
    fleet.refresh()
    refresh = time.perf_counter() - started
    resident, peak = memory_in_use()
    files = _files(fleet) if job.files else {}
    some = np.random.default_rng(6).choice(job.n_tasks, size=min(job.decisions, job.n_tasks), replace=False)
    first = summary(_latencies(fleet, job, some, 0))
    again = [_latencies(fleet, job, np.random.default_rng(seed).permutation(some), seed) for seed in (1, 2, 3)]
    return {
        "job": asdict(job), "rows_per_second": rows_per_second, "refresh": refresh, "resident": resident, "peak": peak,
        "files": files, "decide_first": first, "decide": summary(one for some in again for one in some),
        **measure_behind(fleet, job),
    }  # fmt: skip


def summary(latencies: Iterator[float]) -> dict[str, float]:
    """Return median, 99.9 % and longest of some latencies, and how many there are; nothing of none."""
    values = np.array(list(latencies))
    if not values.size:
        return {}
    median, nearly_all, longest = np.quantile(values, [0.5, 0.999, 1.0]).tolist()
    return {"median": median, "p99.9": nearly_all, "longest": longest, "calls": float(values.size)}


def measure_behind(fleet: Any, job: Job) -> Settings:
    """Decide while refreshes run on other threads: turns without and with pauses."""
    busy: list[float] = []
    paced: list[float] = []
    refreshes: list[float] = []
    began, seed, row = time.perf_counter(), 1000, job.n_tasks * job.rewards
    while not refreshes or time.perf_counter() - began < job.background:
        # Something new to learn from, or the estimate would be settled before it began.
        more = max(job.n_tasks * job.rewards // 20, 1)
        fleet.learn_many(table_of(draw_rows(job.size, row, row + more), job.n_arms))
        row += more
        started = time.perf_counter()
        fleet.refresh(wait=False)
        while fleet.refreshing:
            seed += 1
            pause, found = (PAUSE, paced) if seed % 2 else (0.0, busy)
            tasks = np.random.default_rng([8, seed]).integers(job.n_tasks, size=MOST)
            turn = time.perf_counter()
            for latency in _latencies(fleet, job, tasks, seed, pause):
                found.append(latency)
                if time.perf_counter() - turn > TURN or not fleet.refreshing:
                    break
        refreshes.append(time.perf_counter() - started)
    return {"decide_behind": summary(iter(busy)), "decide_paced": summary(iter(paced)), "refreshes": refreshes}


def _learn(job: Job) -> tuple[Posse, float]:
    rows, seconds = 0, 0.0
    for _ in range(job.repeats):
        fleet = new_fleet(job.size, refresh_growth=NEVER)
        for table in tables(job.size, job.n_tasks * job.rewards):
            started = time.perf_counter()
            fleet.learn_many(table, refresh=False)  # which is timed by itself
            seconds += time.perf_counter() - started
            rows += len(table)
    return fleet, rows / seconds


def _latencies(fleet: Posse, job: Job, tasks: IntArray, seed: int, pause: float = 0.0) -> Iterator[float]:
    """Yield the seconds of a decision for each of some tasks."""
    contexts = np.random.default_rng([7, seed]).standard_normal((len(tasks), job.n_features))
    clock, decide = time.perf_counter, fleet.decide
    for task, context in zip(tasks.tolist(), contexts, strict=True):
        if pause:
            time.sleep(pause)
        started = clock()
        decide(task, context)
        yield clock() - started


def _files(fleet: Posse) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.posse"
        calls: dict[str, Callable[[], object]] = {
            "save": lambda: fleet.save(path),
            "load": lambda: Posse.load(path),
            "load_one": lambda: Posse.load(path, tasks=[0]),
        }
        found: dict[str, float] = {}
        for _ in range(3):
            for what, work in calls.items():
                started = time.perf_counter()
                work()
                found[what] = min(found.get(what, np.inf), time.perf_counter() - started)
        return found | {"bytes": float(path.stat().st_size)}


def _compile(job: Job) -> None:
    """Do everything once with a small fleet."""
    small = Size(50, job.n_arms, job.n_features)
    fleet = new_fleet(small, refresh_growth=NEVER)
    for table in tables(small, 6_000):
        fleet.learn_many(table, refresh=False)
    fleet.refresh()
    fleet.decide(0, np.zeros(job.n_features))
    fleet.refresh(wait=False)
    fleet.learn_many(table)
    while fleet.refreshing:
        time.sleep(PAUSE)


def report_of(results: dict[int, Settings], notes: Sequence[str] = ()) -> Report:
    """Return the tables of results by number of tasks, and the bars about a million of them."""

    def micro(latencies: Settings, which: str) -> str:
        return quantity(latencies[which] * 1e6) if latencies else "–"

    rows, files = [], []
    for n_tasks, one in results.items():
        rows.append(
            [
                f"{n_tasks:,}", quantity(one["rows_per_second"]), quantity(one["refresh"]),
                f"{one['resident'] / 1e9:.2f}", f"{one['peak'] / 1e9:.2f}", micro(one["decide"], "median"),
                micro(one["decide_first"], "median"), micro(one["decide"], "p99.9"),
                micro(one["decide_behind"], "p99.9"), micro(one["decide_paced"], "p99.9"),
            ]
        )  # fmt: skip
        if saved := one["files"]:
            times = (quantity(saved[what]) for what in ("save", "load", "load_one"))
            files.append([f"{n_tasks:,}", quantity(saved["bytes"] / 1e6), *times])
    columns = ["tasks", "learned\na second", "refresh\ns", "GB", "most\nGB"]
    columns += ["decide\nµs", "first\nµs", "99.9 %\nµs", "in re-\nfresh", "paced\nµs"]
    return Report(
        name="scale",
        tables=[
            Table("Fleets: learning, memory, latency of a decision", columns, rows),
            *([Table("Files", ["tasks", "MB", "save s", "load s", "load of one task s"], files)] if files else []),
        ],
        bars=_bars(results),
        data={"results": list(results.values()), "notes": list(notes)},
        notes=[
            "learned: rewards a second through learn_many, tables of a million rows; GB: resident when all is learned "
            "and the prior of all arms estimated; most: until then, the tables included. Decide: the median; first: of "
            "a task's first decision since a refresh. In refresh: 99.9 % of decisions while one runs in the "
            "background; paced: the same with a pause of a millisecond before each.",
            *notes,
        ],
    )


def _bars(results: dict[int, Settings]) -> list[Bar]:
    million, base = results.get(MILLION, {}), results.get(BASE, {})

    def bar(what: str, value: Callable[[], float], unit: str, **bound: float) -> Bar:
        try:
            return Bar(what=what, measured=value(), unit=unit, **bound)  # type: ignore[arg-type]  # its bounds
        except KeyError:
            return Bar(what=what, measured=None, unit=unit, note=f"needs {BASE:,} and {MILLION:,} tasks", **bound)  # type: ignore[arg-type]

    def ratio(which: str) -> Callable[[], float]:
        return lambda: float(million[which]["median"] / base[which]["median"])

    return [
        bar("rewards learned", lambda: million["rows_per_second"], "/s", at_least=1e6),
        bar("refresh of all arms", lambda: million["refresh"], "s", at_most=45.0),
        bar("most resident memory", lambda: million["peak"] / 1e9, "GB", at_most=8.0),
        bar(f"decide at {MILLION:,} tasks over {BASE:,}", ratio("decide"), "times", at_most=2.0),
        bar("the same, first since a refresh", ratio("decide_first"), "times", at_most=2.0),
        bar("99.9 % of decide during a refresh", lambda: million["decide_behind"]["p99.9"] * 1e3, "ms", at_most=2.0),
        bar("the same, after a pause", lambda: million["decide_paced"]["p99.9"] * 1e3, "ms", at_most=2.0),
    ]
