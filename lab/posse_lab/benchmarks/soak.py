"""A long day of a service: load, and all that goes wrong in a year, seconds apart.

Clients ask and report at a steady rate and remember all that was acknowledged. Meanwhile the service is killed and
started again, tasks are erased, the log is exported, fleets are made and deleted, and the clock jumps. In the end every
decision and reward that was acknowledged must be in the log, once, and what was learned must be what the log says.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median

import psutil

from posse_lab.benchmarks.report import Bar, Begin, Report
from posse_lab.servers.checking import check_all, make_fleet
from posse_lab.servers.clients import DEFINITION, FLEET, Load
from posse_lab.servers.service import BROKEN, Connection, NotStarted, Service, settle

DISTURBANCES = ("kill", "export", "fleet", "clock")  # beside tasks that are erased all the time
EXPORT_SECONDS = 300.0  # for which an export may take
LONG_LIFE = 120  # seconds after which a life says something about memory
GROWTH = 0.10  # of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how hard.

    Parameters
    ----------
    seconds : float
    rate : float
        Requests a second.
    clients : int
    every : float
        Seconds between two disturbances.
    kills : bool
        Whether the service is killed, too.
    seed : int
    """

    seconds: float = 1800.0
    rate: float = 1000.0
    clients: int = 8
    every: float = 15.0
    kills: bool = True
    seed: int = 0


QUICK = Plan(seconds=20.0, rate=100.0, clients=2, every=2.0)


def growth(lives: list[list[int]]) -> float | None:
    """Return by which share memory grew, from its sizes in every life; None if it was not seen for long enough.

    A service that is killed again and again has the most at the end of a life: the later half of lives is compared
    with the earlier. One that lives for minutes is compared with itself, without the loading at its start.
    """
    most = [max(sizes) for sizes in lives if len(sizes) >= 10]
    if len(most) >= 4:
        half = len(most) // 2
        return median(most[half:]) / median(most[:half]) - 1
    long = [sizes for sizes in lives if len(sizes) >= LONG_LIFE]
    return max((max(one[-len(one) // 4 :]) / max(one[: len(one) // 2]) - 1 for one in long), default=None)


class _Day:
    """A service, the load on it, and what happens to it."""

    def __init__(self, plan: Plan, service: Service, offset: Path) -> None:
        self.plan, self.service, self.offset = plan, service, offset
        self.done: Counter[str] = Counter()
        self.lives: list[list[int]] = [[]]
        self.failures: list[str] = []
        self.stop = threading.Event()
        self.rng = random.Random(plan.seed)

    def watch(self) -> None:
        while not self.stop.wait(1.0):
            try:
                self.lives[-1].append(psutil.Process(self.service.pid).memory_info().rss)
            except (psutil.Error, AssertionError):  # it is being killed
                continue

    def disturb(self, begin: Begin) -> None:
        kinds = [kind for kind in DISTURBANCES if self.plan.kills or kind != "kill"]
        started = time.monotonic()
        for number in count():
            if self.stop.wait(self.plan.every):
                return
            kind = kinds[number % len(kinds)]
            begin(f"{time.monotonic() - started:.0f} s: {kind}")
            try:
                getattr(self, f"_{kind}")(number)
            except (AssertionError, NotStarted, *BROKEN) as wrong:
                self.failures.append(f"{kind}: {wrong}")
                return
            self.done[kind] += 1

    def _kill(self, _number: int) -> None:
        self.service.kill()
        self.lives.append([])
        self.service.start()

    def _export(self, _number: int) -> None:
        # A Parquet file begins to come when it is ready, which takes longer than a decision may.
        path = f"/v1/fleets/{FLEET}/log?format={self.rng.choice(['jsonl', 'parquet'])}"
        with closing(Connection(self.service.port, EXPORT_SECONDS)) as connection:
            settle(lambda: connection.ask("GET", path).status == 200, EXPORT_SECONDS)

    def _fleet(self, number: int) -> None:
        path, ask = f"/v1/fleets/other-{number}", {"task": "t", "context": [0.0, 0.0]}
        with closing(Connection(self.service.port)) as connection:
            settle(lambda: connection.ask("PUT", path, DEFINITION).status in (200, 201))
            for _ in range(20):
                settle(lambda: connection.ask("POST", f"{path}/decisions", ask).status == 200)
            settle(lambda: connection.ask("DELETE", path).status in (200, 204))

    def _clock(self, _number: int) -> None:
        self.offset.write_text(str(self.rng.choice([-86400, -600, 600, 86400 * 30])), encoding="ascii")
        self.stop.wait(min(5.0, self.plan.every / 2))
        self.offset.write_text("0", encoding="ascii")


def measure_soak(plan: Plan, begin: Begin = lambda _: None) -> Report:
    """Run it, and return what was seen; an acknowledged decision that is lost is an `AssertionError` that names it."""
    with tempfile.TemporaryDirectory(prefix="posse-soak-") as name:
        folder = Path(name)
        (folder / "offset").write_text("0", encoding="ascii")
        program = (sys.executable, "-m", "posse_lab.benchmarks.soak_service")
        service = Service(folder, "--database", folder / "posse.db", "--offset", folder / "offset", command=program)
        load = Load(
            [service.port],
            seed=plan.seed,
            clients=plan.clients,
            erasing=True,
            pause=plan.clients / plan.rate,
            tasks=1000,
        )
        day = _Day(plan, service, folder / "offset")
        try:
            service.start()
            make_fleet(service.connection)
            load.start()
            others = [threading.Thread(target=day.watch), threading.Thread(target=day.disturb, args=(begin,))]
            for thread in others:
                thread.start()
            time.sleep(plan.seconds)
            day.stop.set()
            for thread in others:
                thread.join()
            begin("comparing what was acknowledged, what was learned and the log")
            try:
                with closing(Connection(service.port)) as connection:  # the service has ended one that was idle
                    check_all(connection, load.rest(), service.database)
            except AssertionError as wrong:
                day.failures.append(str(wrong))
        finally:
            day.stop.set()
            load.end()
            service.clear()
    return _report(plan, day, load)


def _report(plan: Plan, day: _Day, load: Load) -> Report:
    books = load.books
    grown = growth(day.lives)
    odd = [one for one in books.refusals if "retry-after" not in one.answer.headers]
    return Report(
        name="soak",
        bars=[
            Bar(what="lost, learned twice, or otherwise than the log says", measured=len(day.failures), at_most=0),
            Bar(what="503 without Retry-After", measured=len(odd), at_most=0),
            Bar(
                what="growth of memory", measured=None if grown is None else 100 * grown, unit="%",
                at_most=100 * GROWTH, note="no life of the service was long enough",
            ),
        ],
        data={"plan": asdict(plan), "answers": books.answers, "done": dict(day.done), "failures": day.failures},
        notes=[
            f"{books.answers:,} answers in {plan.seconds:g} s, {len(books.refusals):,} refusals, {books.broken:,} "
            f"broken connections; {', '.join(f'{n} {kind}' for kind, n in day.done.items()) or 'no disturbance'}",
            *day.failures,
        ],
    )  # fmt: skip
