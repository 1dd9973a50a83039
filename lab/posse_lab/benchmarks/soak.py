"""A long day of a service: load, and all that goes wrong in a year, minutes apart.

Threads ask and report at a steady rate and remember all that was acknowledged. Meanwhile the service is killed and
started again, tasks are erased, the log is exported, fleets are made and deleted, and the clock jumps. In the end every
decision and reward that was acknowledged must be in the log, once, and what was learned must be what the log says.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.ports import free_port

FLEET = "soak"
DEFINITION = {"arms": [f"arm-{i}" for i in range(5)], "features": [f"x{i}" for i in range(5)], "time_to_live": None}
EXPORT_SECONDS = 300.0  # for which an export may take
AWAY_SECONDS = 30.0  # for which a service that was killed may be away
DISTURBANCES = ("kill", "erase", "export", "fleet", "clock")
LONG_LIFE = 120  # seconds after which a life says something about memory
GROWTH = 0.10  # of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how hard.

    Parameters
    ----------
    seconds : float
    rate : float
        Pairs of a decision and its reward a second.
    threads : int
        That ask.
    n_tasks : int
    every : float
        Seconds between two disturbances.
    kills : bool
        Whether the service is killed, too.
    seed : int
    """

    seconds: float = 1800.0
    rate: float = 500.0
    threads: int = 8
    n_tasks: int = 1000
    every: float = 15.0
    kills: bool = True
    seed: int = 0


QUICK = Plan(seconds=20.0, rate=50.0, threads=2, n_tasks=40, every=2.0)


@dataclass(slots=True)
class Soak:
    """What was seen.

    Parameters
    ----------
    pairs : int
        That were acknowledged.
    statuses : Counter
        Answers by status; 0 is none.
    wrong : list of str
        Answers that must not be: a 5xx that is no 503, or a 503 without Retry-After.
    done : Counter
        Disturbances by kind.
    lost, twice, different : int
        Acknowledged decisions and rewards that the log lacks or has otherwise; more rewards than decisions have; tasks
        whose sums are not those of the log.
    memory : list of tuple
        Seconds, which life of the service it was, and bytes.
    """

    pairs: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    twice: int = 0
    different: int = 0
    memory: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def growth(self) -> float | None:
        """By which share memory grew; None if it was not seen for long enough.

        A service that is killed again and again has the most at the end of a life: the later half of lives is compared
        with the earlier. One that lives for minutes is compared with itself, without the loading at its start.
        """
        lives: dict[int, list[int]] = {}
        for _, life, size in self.memory:
            lives.setdefault(life, []).append(size)
        most = [max(sizes) for _, sizes in sorted(lives.items()) if len(sizes) >= 10]
        if len(most) >= 4:
            half = len(most) // 2
            return median(most[half:]) / median(most[:half]) - 1
        long = [sizes for sizes in lives.values() if len(sizes) >= LONG_LIFE]
        if not long:
            return None
        return max(max(sizes[-len(sizes) // 4 :]) / max(sizes[: len(sizes) // 2]) - 1 for sizes in long)

    def bars(self) -> list[Bar]:
        """Return what was promised, beside what was seen."""
        return [
            Bar(what="acknowledged and not in the log", measured=self.lost, unit="", at_most=0),
            Bar(what="counted twice", measured=self.twice, unit="", at_most=0),
            Bar(what="tasks that differ from the log", measured=self.different, unit="", at_most=0),
            Bar(what="5xx other than 503 with Retry-After", measured=len(self.wrong), unit="", at_most=0),
            Bar(
                what="growth of memory", measured=None if self.growth is None else 100 * self.growth, unit="%",
                at_most=100 * GROWTH, note="no life of the service was long enough" if self.growth is None else "",
            ),
        ]  # fmt: skip


class _Service:
    """The process that is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.life = folder, free_port(), 0
        self.database, self.offset = folder / "posse.db", folder / "offset"
        self.offset.write_text("0", encoding="ascii")
        self._log = (folder / "log").open("ab")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.life += 1
        command = [sys.executable, "-m", "posse_lab.benchmarks.soak_service", self.database, self.port, self.offset]
        self.process = subprocess.Popen(list(map(str, command)), stdout=self._log, stderr=self._log)
        end = time.monotonic() + 10 * AWAY_SECONDS
        while True:
            status, _, _ = Asker(self.port).ask("GET", "/readyz")
            if status == 200:
                return
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the service did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def end(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)

    def bytes(self) -> int:
        try:
            assert self.process is not None
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError, ValueError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        self._log.close()


class Asker:
    """One connection, made again when it breaks."""

    def __init__(self, port: int, timeout: float = 20.0) -> None:
        self._port, self._timeout = port, timeout
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, str | None]:
        """Return status, body and Retry-After; status 0 if there was no answer."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
            sent = {"content-type": "application/json", **(headers or {})}
            self._connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = self._connection.getresponse()
            text, after = answer.read(), answer.getheader("retry-after")
            kind = answer.getheader("content-type") or ""
            return answer.status, json.loads(text) if kind == "application/json" else text, after
        except (OSError, http.client.HTTPException, ValueError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return 0, None, None


class _Run:
    def __init__(self, plan: Plan, service: _Service, tell: Callable[[str], None]) -> None:
        self.plan, self.service, self.tell = plan, service, tell
        self.found, self.lock, self.stop = Soak(), threading.Lock(), threading.Event()
        self.numbers = itertools.count()
        self.acknowledged: dict[str, tuple[str, float | None]] = {}  # by decision: its task, and its reward
        self.erased: dict[str, float] = {}  # by task: when its last erasure was answered
        self.begin = time.monotonic()

    def insist(self, asker: Asker, *request: Any, **rest: Any) -> tuple[int, Any]:
        """Ask until there is an answer that is no 503, as a client does."""
        end = time.monotonic() + 10 * AWAY_SECONDS
        while True:
            status, body, after = asker.ask(*request, **rest)
            with self.lock:
                self.found.statuses[status] += 1
                if status >= 500 and (status != 503 or after is None):
                    self.found.wrong.append(f"{status} {request[0]} {str(body)[:200]}")
            if status not in (0, 503) or time.monotonic() > end:
                return status, body
            time.sleep(0.1)

    def load(self, number: int) -> None:
        """Ask and report, one pair after another, at this thread's share of the rate."""
        asker, rng = Asker(self.service.port), random.Random(self.plan.seed + number)
        pause, due = self.plan.threads / self.plan.rate, time.monotonic()
        while not self.stop.is_set():
            due = max(due + pause, time.monotonic() - 1.0)
            time.sleep(max(due - time.monotonic(), 0.0))
            task = f"task-{rng.randrange(self.plan.n_tasks)}"
            question = {"task": task, "context": {f"x{i}": rng.gauss(0, 1) for i in range(5)}}
            key = {"idempotency-key": f"{number}-{next(self.numbers)}"}
            status, decision = self.insist(asker, "POST", f"/v1/fleets/{FLEET}/decisions", question, headers=key)
            if status != 200:
                continue
            with self.lock:
                self.acknowledged[decision["id"]] = (task, None)
            value = round(rng.gauss(0, 1), 6)
            status, _ = self.insist(asker, "POST", f"/v1/decisions/{decision['id']}/reward", {"reward": value})
            if status == 200:
                with self.lock:
                    self.acknowledged[decision["id"]] = (task, value)
                    self.found.pairs += 1

    def watch(self) -> None:
        """Note the memory of the service."""
        while not self.stop.wait(1.0):
            size = self.service.bytes()
            if size:
                self.found.memory.append((time.monotonic() - self.begin, self.service.life, size))

    def disturb(self) -> None:
        """Do what goes wrong in a year, one after another."""
        asker, rng = Asker(self.service.port), random.Random(self.plan.seed)
        kinds = [kind for kind in DISTURBANCES if self.plan.kills or kind != "kill"]
        for number in itertools.count():
            if self.stop.wait(self.plan.every):
                return
            kind = kinds[number % len(kinds)]
            self.tell(f"{time.monotonic() - self.begin:.0f} s: {kind}")
            getattr(self, f"_{kind}")(asker, rng, number)
            self.found.done[kind] += 1

    def _kill(self, _asker: Asker, _rng: random.Random, _number: int) -> None:
        self.service.end(signal.SIGKILL)
        self.service.start()

    def _erase(self, asker: Asker, rng: random.Random, _number: int) -> None:
        task = f"task-{rng.randrange(self.plan.n_tasks)}"
        with self.lock:
            self.erased[task] = time.time()
        self.insist(asker, "DELETE", f"/v1/fleets/{FLEET}/tasks/{task}")

    def _export(self, _asker: Asker, rng: random.Random, _number: int) -> None:
        # A Parquet file begins to come when it is ready, which takes longer than a decision may.
        patient = Asker(self.service.port, timeout=EXPORT_SECONDS)
        self.insist(patient, "GET", f"/v1/fleets/{FLEET}/log?format={rng.choice(['jsonl', 'parquet'])}")

    def _fleet(self, asker: Asker, _rng: random.Random, number: int) -> None:
        name = f"other-{number}"
        self.insist(asker, "PUT", f"/v1/fleets/{name}", DEFINITION)
        question = {"task": "t", "context": [0.0] * 5}
        for _ in range(20):
            self.insist(asker, "POST", f"/v1/fleets/{name}/decisions", question)
        self.insist(asker, "DELETE", f"/v1/fleets/{name}")

    def _clock(self, _asker: Asker, rng: random.Random, _number: int) -> None:
        self.service.offset.write_text(str(rng.choice([-86400, -600, 600, 86400 * 30])), encoding="ascii")
        self.stop.wait(min(5.0, self.plan.every / 2))
        self.service.offset.write_text("0", encoding="ascii")


def measure_soak(plan: Plan, tell: Callable[[str], None] = lambda _: None) -> Soak:
    """Run it, and return what was seen."""
    with tempfile.TemporaryDirectory(prefix="posse-soak-") as name:
        service = _Service(Path(name))
        try:
            service.start()
            run = _Run(plan, service, tell)
            run.insist(Asker(service.port), "PUT", f"/v1/fleets/{FLEET}", DEFINITION)
            workers = [threading.Thread(target=run.load, args=(number,)) for number in range(plan.threads)]
            others = [threading.Thread(target=run.watch), threading.Thread(target=run.disturb)]
            for thread in (*workers, *others):
                thread.start()
            time.sleep(plan.seconds)
            run.stop.set()
            for thread in (*workers, *others):
                thread.join()
            service.end(signal.SIGTERM)
            tell("comparing what was acknowledged, what was learned and the log")
            _compare(run, service.database)
            return run.found
        finally:
            if service.process is not None and service.process.poll() is None:
                service.process.kill()
                service.process.wait()
            service.close()


def _compare(run: _Run, database: Path) -> None:
    from posse.service.live_fleet import LiveFleet
    from posse.service.verify import Verification
    from posse.storage import open_storage

    found = run.found
    storage = open_storage(database)
    try:
        logged: dict[str, float | None] = {}
        last = 0
        while rows := storage.decisions(FLEET, after=last, limit=1000):
            logged |= {row.id: row.reward for row in rows}
            last = rows[-1].number
        for decision, (task, reward) in run.acknowledged.items():
            if task in run.erased:
                continue  # whatever came before is gone, and what came after is not told apart
            if decision not in logged or (reward is not None and logged[decision] != reward):
                found.lost += 1
        row = storage.fleet(FLEET)
        assert row is not None
        found.twice = abs(row.decisions - len(logged)) + abs(
            row.rewards - sum(reward is not None for reward in logged.values())
        )
        live = LiveFleet(storage, row)
        found.different = Verification(storage, row, live.replica).all().different
    finally:
        storage.close()
