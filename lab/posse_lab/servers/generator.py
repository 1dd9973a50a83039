"""A load generator: pairs of a decision and its reward over HTTP, from a process of its own.

It shares two cores with the service that it measures, so it must be cheap: requests are bytes made beforehand, answers
are read for their status, their length, an id and an arm, and nothing else. Run as a program, this file reads a plan as
JSON from the standard input and writes what it saw as JSON to the standard output; it imports nothing of posse, so that
it starts at once.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, cast

PATIENCE = 10.0  # seconds without an answer after which a connection is given up
PREPARED = 20_000  # different requests
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

_FOUND = re.compile(rb'"(id|arm)"\s*:\s*"([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """What to ask, how often and for how long.

    Parameters
    ----------
    ports : sequence of int
        Of the services on this machine; decisions and rewards go to each in turn, and a reward is not always given
        where the decision was made.
    fleet : str
    n_tasks, n_arms, n_features : int
        Its tasks are ``task-0``, ..., its arms ``arm-0``, ..., its features ``x0``, ...
    connections : int
        How many pairs are under way at once, for each service.
    seconds, warm : float
        For so long is counted, after so long is not.
    seed : int
    """

    ports: Sequence[int]
    fleet: str
    n_tasks: int
    n_arms: int
    n_features: int
    connections: int = 16
    seconds: float = 60.0
    warm: float = 2.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds that requests of one kind took."""

    requests: int
    mean: float
    quantiles: dict[str, float]
    most: float


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load generator saw.

    Parameters
    ----------
    pairs : int
        Finished in the seconds that count.
    seconds : float
    decide, reward : Latencies
    errors : dict
        How many of which kind: a status, ``lost`` or ``no answer``.
    acknowledged : int
        Rewards that the service said it took, those of the first seconds included.
    uncertain : int
        Rewards that were sent and not answered.
    processor_seconds : float
        That this process took.
    """

    pairs: int
    seconds: float
    decide: Latencies
    reward: Latencies
    errors: dict[str, int]
    acknowledged: int
    uncertain: int
    processor_seconds: float


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that is not exceeded by more than the rest, 0 of nothing.

    Examples
    --------
    >>> values = [float(i) for i in range(1, 1001)]
    >>> quantile(values, 0.5), quantile(values, 0.99), quantile(values, 0.999), quantile([7.0], 0.99)
    (500.0, 990.0, 999.0, 7.0)
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def latencies_of(values: Sequence[float]) -> Latencies:
    """Summarise latencies."""
    ordered = sorted(values)
    return Latencies(
        requests=len(ordered),
        mean=sum(ordered) / len(ordered) if ordered else 0.0,
        quantiles={name: quantile(ordered, share) for name, share in QUANTILES.items()},
        most=ordered[-1] if ordered else 0.0,
    )


class Questions:
    """Contexts of tasks that differ, and what every arm would earn; drawn without NumPy, which takes time to load.

    Parameters
    ----------
    n_tasks, n_arms, n_features : int
    seed : int
    """

    def __init__(self, n_tasks: int, n_arms: int, n_features: int, seed: int) -> None:
        self.n_tasks, self.n_arms, self.n_features = n_tasks, n_arms, n_features
        rng = random.Random(seed)
        self._rng = rng
        self._population = [[rng.gauss(0.0, 0.3) for _ in range(n_features)] for _ in range(n_arms)]
        self._phase = [[rng.uniform(0.0, 2 * math.pi) for _ in range(n_features)] for _ in range(n_arms)]

    def draw(self, task: int) -> tuple[dict[str, Any], list[float]]:
        """Return the body of a decision, and the reward of every arm."""
        gauss = self._rng.gauss
        context = [round(gauss(0.0, 1.0), 4) for _ in range(self.n_features)]
        rewards = []
        for mean, phase in zip(self._population, self._phase, strict=True):
            own = (m + 0.4 * math.sin(p + (1.0 + p) * task) for m, p in zip(mean, phase, strict=True))
            rewards.append(round(sum(c * x for c, x in zip(own, context, strict=True)) + gauss(0.0, 0.5), 4))
        return {"task": f"task-{task}", "context": {f"x{i}": value for i, value in enumerate(context)}}, rewards


@dataclass(slots=True)
class Tally:
    """What was seen so far; ``begin`` and ``end`` are when it counts."""

    begin: float
    end: float
    decide: list[float] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    pairs: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    uncertain: int = 0

    def answered(self, kind: list[float], since: float, now: float) -> None:
        """Note a request that was answered."""
        if self.begin <= now < self.end:
            kind.append(now - since)

    def paired(self, now: float) -> None:
        """Note a pair that is finished."""
        self.acknowledged += 1
        self.pairs += self.begin <= now < self.end

    def result(self, processor_seconds: float) -> LoadResult:
        """Return everything."""
        return LoadResult(
            pairs=self.pairs,
            seconds=self.end - self.begin,
            decide=latencies_of(self.decide),
            reward=latencies_of(self.reward),
            errors=dict(self.errors),
            acknowledged=self.acknowledged,
            uncertain=self.uncertain,
            processor_seconds=processor_seconds,
        )


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection, which is kept alive; one request at a time."""

    def __init__(self, lane: LoadWorker) -> None:
        self._lane = lane
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast("asyncio.Transport", transport)  # that of uvloop is none by name

    def send(self, request: bytes) -> None:
        """Send a request."""
        assert self._transport is not None
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Tell the lane when an answer is whole."""
        self._data = data = self._data + data if self._data else data
        head = data.find(b"\r\n\r\n")
        if head < 0:
            return
        lower = data[:head].lower()
        at = lower.find(b"\r\ncontent-length:")
        end = lower.find(b"\r\n", at + 17)
        length = int(lower[at + 17 : end if end > 0 else head]) if at >= 0 else 0
        if len(data) >= head + 4 + length:
            self._data = b""
            self._lane.answered(int(data[9:12]), data[head + 4 : head + 4 + length])

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's
        """Tell the lane."""
        self._transport = None
        self._lane.lost(self)

    def abort(self) -> None:
        """Give it up."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def open(self) -> bool:
        """Whether it can be written to."""
        return self._transport is not None and not self._transport.is_closing()


class LoadWorker:
    """One pair after the other, over one connection to each service."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._connections: list[Connection | None] = [None] * len(load.plan.ports)
        self._waits_on: Connection | None = None
        self._since = self._sent = 0.0
        self.rewarding = False
        self._rewards: list[bytes] = []
        self._place = 0

    async def connect(self) -> None:
        """Open all connections that are not."""
        loop = asyncio.get_running_loop()
        for place, port in enumerate(self._load.plan.ports):
            connection = self._connections[place]
            if connection is None or not connection.open:
                _, made = await loop.create_connection(lambda: Connection(self), "127.0.0.1", port)
                self._connections[place] = made

    def begin(self, since: float) -> None:
        """Begin a pair."""
        number = next(self._load.numbers)
        ports = len(self._connections)
        # All combinations of where the decision is made and where its reward is given take turns.
        self._place = number // ports % ports
        request, self._rewards = self._load.requests[number % len(self._load.requests)]
        request = request.replace(b"KEYKEYKEYKEY", b"%012d" % number, 1)
        self.rewarding = False
        self._send(number % ports, request, since)

    def answered(self, status: int, body: bytes) -> None:
        """Go on with the reward, or with the next pair."""
        self._waits_on = None
        load, now = self._load, time.perf_counter()
        tally = load.tally
        if status != 200:
            tally.errors[str(status)] += 1
            load.free(self, now)
        elif self.rewarding:
            tally.answered(tally.reward, self._since, now)
            tally.paired(now)
            load.free(self, now)
        else:
            tally.answered(tally.decide, self._since, now)
            found = dict(_FOUND.findall(body, 0, 400))
            reward = self._rewards[int(found[b"arm"][4:])]
            self.rewarding = True
            self._send(self._place, load.reward_head + found[b"id"] + reward, now)

    def lost(self, connection: Connection) -> None:
        """Count a request whose connection is gone, and connect again."""
        if self._waits_on is connection:
            self._failed("lost")

    def check(self, now: float) -> None:
        """Give up a connection that says nothing."""
        if self._waits_on is not None and now - self._sent > PATIENCE:
            connection, self._waits_on = self._waits_on, None
            connection.abort()
            self._failed("no answer")

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited."""
        return self._waits_on is not None

    def close(self) -> None:
        """Close all connections."""
        self._waits_on = None
        for connection in self._connections:
            if connection is not None:
                connection.abort()

    def _send(self, place: int, request: bytes, since: float) -> None:
        connection = self._connections[place]
        self._since, self._sent = since, time.perf_counter()
        if connection is None or not connection.open:
            self._failed("lost", sent=False)
            return
        self._waits_on = connection
        connection.send(request)

    def _failed(self, kind: str, *, sent: bool = True) -> None:
        self._waits_on = None
        self._load.tally.errors[kind] += 1
        self._load.tally.uncertain += self.rewarding and sent
        self._load.reconnect(self)


class Load:
    """All lanes, and when pairs begin."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self.numbers = count()
        self.requests, self.reward_head = prepared(plan)
        self.tally = Tally(0.0, 0.0)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> LoadResult:
        """Make all requests and return what was seen."""
        lanes = [LoadWorker(self) for _ in range(self.plan.connections * len(self.plan.ports))]
        await asyncio.gather(*(lane.connect() for lane in lanes))
        started, processor = time.perf_counter(), time.process_time()
        self.tally = Tally(started + self.plan.warm, started + self.plan.warm + self.plan.seconds)
        gc.freeze()
        for lane in lanes:
            lane.begin(time.perf_counter())
        while (now := time.perf_counter()) < self.tally.end or (
            any(lane.busy for lane in lanes) and now < self.tally.end + PATIENCE
        ):
            for lane in lanes:
                lane.check(now)
            await asyncio.sleep(0.5 if now < self.tally.end - 0.5 else 0.02)
        # What is still under way has had all the patience there is.
        for lane in lanes:
            self.tally.uncertain += lane.busy and lane.rewarding
            lane.close()
        for task in self._tasks:
            task.cancel()
        return self.tally.result(time.process_time() - processor)

    def free(self, lane: LoadWorker, now: float) -> None:
        """Give a lane that is done its next pair."""
        if now < self.tally.end:
            lane.begin(now)

    def reconnect(self, lane: LoadWorker) -> None:
        """Connect a lane again, then let it go on."""
        task = asyncio.get_running_loop().create_task(self._reconnect(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reconnect(self, lane: LoadWorker) -> None:
        while time.perf_counter() < self.tally.end:
            await asyncio.sleep(0.05)
            try:
                await lane.connect()
            except OSError:
                continue
            self.free(lane, time.perf_counter())
            return


def prepared(plan: LoadPlan) -> tuple[list[tuple[bytes, list[bytes]]], bytes]:
    """Return requests for decisions, each with the tails of the rewards of all arms, and the head of a reward."""
    questions = Questions(plan.n_tasks, plan.n_arms, plan.n_features, plan.seed)
    rng = random.Random(plan.seed + 1)
    common = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head = f"POST /v1/fleets/{plan.fleet}/decisions HTTP/1.1\r\n".encode() + common
    head += f"Idempotency-Key: {rng.getrandbits(64):x}-KEYKEYKEYKEY\r\n".encode()  # as posse.client has them
    requests = []
    for _ in range(PREPARED):
        question, rewards = questions.draw(rng.randrange(plan.n_tasks))
        tails = []
        for value in rewards:
            body = b'{"reward":%s}' % repr(value).encode()
            tails.append(b"/reward HTTP/1.1\r\n" + common + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        body = json.dumps(question, separators=(",", ":")).encode()
        requests.append((head + b"Content-Length: %d\r\n\r\n" % len(body) + body, tails))
    return requests, b"POST /v1/decisions/"


def main() -> None:
    """Read a plan, make all requests, write what was seen."""
    plan = LoadPlan(**json.load(sys.stdin))
    load = Load(plan)
    try:
        import uvloop
    except ImportError:
        result = asyncio.run(load.run())
    else:
        result = uvloop.run(load.run())
    json.dump(asdict(result), sys.stdout)


if __name__ == "__main__":
    main()
