"""Clients that decide and report without pause, ask again until they are answered, and remember what they were told.

Every request is repeated, with the same key and the same value, until an answer comes. So when all clients have come to
rest the log must hold exactly what was acknowledged: nothing less, and nothing more.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from posse_lab.servers.service import BROKEN, Answer, Connection, settle

FLEET = "stores"
# With a floor every arm is tried in every task, so there are statistics of all of them to compare.
DEFINITION = {"arms": ["coffee", "cake", "newspaper"], "features": ["hour", "rain"], "floor": 0.3}
TASKS = 20
GIVE_UP = 120.0  # seconds


class Ended(Exception):
    """The test is over."""


class Refusal(NamedTuple):
    """A request that was answered with 503, and how long that took."""

    time: float
    seconds: float
    answer: Answer


class Books:
    """What was acknowledged, and what can be said of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.decisions: dict[str, dict[str, Any]] = {}  # by id: what was answered, and context and key of the request
        self.rewards: dict[str, float] = {}
        self.open: list[str] = []  # ids without a reward, for anybody to report
        self.lately: deque[tuple[str, float]] = deque(maxlen=200)  # rewards
        self.erased: set[str] = set()
        self.refusals: list[Refusal] = []
        self.answers = 0
        self.broken = 0
        self.slowest = 0.0
        self.failures: list[str] = []

    def decided(self, answer: dict[str, Any], context: dict[str, float], key: str, *, is_open: bool = True) -> None:
        with self.lock:
            assert answer["id"] not in self.decisions, f"the id {answer['id']} came twice"
            self.decisions[answer["id"]] = {**answer, "context": context, "key": key}
            if is_open:
                self.open.append(answer["id"])

    def rewarded(self, decision_id: str, value: float) -> None:
        with self.lock:
            self.rewards[decision_id] = value
            self.lately.append((decision_id, value))

    def take_open(self, rng: random.Random) -> str | None:
        """Return a decision that waits for its reward; nobody else gets it."""
        with self.lock:
            if not self.open:
                return None
            place = rng.randrange(len(self.open))
            self.open[place], self.open[-1] = self.open[-1], self.open[place]
            return self.open.pop()

    def erase(self, task: str) -> None:
        """Forget all about a task, as the service has to."""
        with self.lock:
            self.erased.add(task)
            self.lately = deque((pair for pair in self.lately if self.decisions[pair[0]]["task"] != task), maxlen=200)
            gone = {name for name, decision in self.decisions.items() if decision["task"] == task}
            for name in gone:
                del self.decisions[name]
                self.rewards.pop(name, None)


class Client(threading.Thread):
    """One client; it asks any of the services, and the next one if that fails."""

    def __init__(self, load: Load, number: int) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self.load, self.books, self.number = load, load.books, number
        self.rng = random.Random(f"{load.seed}/{number}")
        self.lock = threading.Lock()
        self.connections = [Connection(port) for port in load.ports]
        self.count = 0
        self.mine: deque[str] = deque(maxlen=100)  # decisions with keys of their own

    def run(self) -> None:
        try:
            while not self.load.over.is_set():
                self.load.go.wait(0.1)
                with self.lock:
                    if self.load.go.is_set():
                        self.step()
                if self.load.pause:
                    time.sleep(self.load.pause)
        except Ended:
            pass
        except BaseException:
            self.books.failures.append(f"{self.name}: {traceback.format_exc()}")
        finally:
            for connection in self.connections:
                connection.close()

    def step(self) -> None:
        kind = self.rng.random()
        if kind < 0.45:
            self.decide()
        elif kind < 0.88:
            self.reward()
        elif kind < 0.92:
            self.reward_again()
        elif kind < 0.95:
            self.decide_again()
        else:
            self.many()

    def context(self) -> dict[str, float]:
        return {"hour": round(self.rng.uniform(-2, 2), 3), "rain": float(self.rng.randrange(2))}

    def new_key(self) -> str:
        self.count += 1
        return f"{self.load.seed}-{self.number}-{self.count}"

    def decide(self, task: str | None = None) -> str:
        """Ask for a decision; those of tasks that are named here are not for others to report."""
        staying = task is None
        task = f"task-{self.rng.randrange(self.load.tasks)}" if task is None else task
        context, key = self.context(), self.new_key()
        answer, _ = self.insist("POST", DECISIONS, {"task": task, "context": context}, key)
        self.books.decided(answer.body, context, key, is_open=staying)
        if staying:
            self.mine.append(answer.body["id"])
        return str(answer.body["id"])

    def decide_again(self) -> None:
        if not self.mine:
            return
        made = self.books.decisions[self.rng.choice(self.mine)]
        answer, _ = self.insist("POST", DECISIONS, {"task": made["task"], "context": made["context"]}, made["key"])
        told = {name: made[name] for name in answer.body}
        assert answer.body == told, f"{made['key']} got {answer.body}, and before {told}"

    def reward(self, decision_id: str | None = None) -> None:
        decision_id = self.books.take_open(self.rng) if decision_id is None else decision_id
        if decision_id is None:
            self.decide()
            return
        value = round(self.rng.gauss(1, 1), 3)
        answer, tries = self.insist("POST", f"/v1/decisions/{decision_id}/reward", {"reward": value})
        assert answer.body["reward"] == value
        assert answer.body["new"] or tries > 1, f"the reward of {decision_id} was there before it came: {answer}"
        self.books.rewarded(decision_id, value)

    def reward_again(self) -> None:
        with self.books.lock:
            known = [pair for pair in self.books.lately if self.books.decisions[pair[0]]["task"].startswith("task-")]
        if not known:
            return
        name, value = self.rng.choice(known)
        answer, _ = self.insist("POST", f"/v1/decisions/{name}/reward", {"reward": value})
        assert answer.body == {"id": name, "reward": value, "new": False}, answer

    def many(self) -> None:
        contexts = [self.context() for _ in range(5)]
        asks = [{"task": f"task-{self.rng.randrange(self.load.tasks)}", "context": context} for context in contexts]
        key = self.new_key()
        answer, _ = self.insist("POST", f"{DECISIONS}/batch", {"decisions": asks}, key)
        made = answer.body["decisions"]
        assert [one["task"] for one in made] == [ask["task"] for ask in asks]
        rewards = [{"id": one["id"], "reward": round(self.rng.gauss(1, 1), 3)} for one in made[1:]]
        answer, tries = self.insist("POST", "/v1/rewards", {"rewards": rewards})
        assert answer.body == {"new": 4, "same": 0} or (tries > 1 and answer.body == {"new": 0, "same": 4}), answer
        for place, one in enumerate(made):
            self.books.decided(one, contexts[place], f"{key}/{place}", is_open=place == 0)
            if place:
                self.books.rewarded(one["id"], rewards[place - 1]["reward"])

    def insist(self, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[Answer, int]:
        """Ask until there is an answer that is not "try again"; return it, and how often it was asked."""
        headers = {} if key is None else {"idempotency-key": key}
        place, begin = self.rng.randrange(len(self.connections)), time.monotonic()
        tries = 0
        while True:
            assert time.monotonic() - begin < GIVE_UP, f"no answer to {method} {path} for {GIVE_UP:g} s"
            if tries and self.load.over.is_set():
                raise Ended
            tries += 1
            asked = time.monotonic()
            answer = None
            try:
                answer = self.connections[place].ask(method, path, body, headers)
            except BROKEN:
                self.books.broken += 1
            seconds = time.monotonic() - asked
            self.books.slowest = max(self.books.slowest, seconds)
            if answer is not None and answer.status != 503:
                allowed = (200, 204, 404) if method == "DELETE" and tries > 1 else (200, 204)
                assert answer.status in allowed, f"{method} {path} {body}: {answer}"
                self.books.answers += 1
                return answer, tries
            if answer is not None:
                self.books.refusals.append(Refusal(asked, seconds, answer))
            place = (place + 1) % len(self.connections)
            time.sleep(0.05)


class Eraser(Client):
    """Makes tasks that nobody else knows, and has them erased."""

    def step(self) -> None:
        task = f"gone/{self.load.seed}-{self.count}"
        first, second, _ = [self.decide(task) for _ in range(3)]
        self.reward(first)
        self.reward(second)
        self.insist("DELETE", f"/v1/fleets/{FLEET}/tasks/{quote(task, safe='')}")
        self.books.erase(task)
        self.load.over.wait(0.2)


class Load:
    """Clients at work; ``rest`` brings them to rest when each has its answer, ``resume`` lets them go on."""

    def __init__(
        self,
        ports: Sequence[int],
        *,
        seed: int,
        clients: int = 3,
        erasing: bool = False,
        pause: float = 0.0,
        tasks: int = TASKS,
    ) -> None:
        self.ports, self.seed, self.pause, self.tasks = list(ports), seed, pause, tasks
        self.books = Books()
        self.over, self.go = threading.Event(), threading.Event()
        self.clients: list[Client] = [Client(self, number) for number in range(clients)]
        if erasing:
            self.clients.append(Eraser(self, clients))

    def start(self) -> Load:
        self.go.set()
        for client in self.clients:
            client.start()
        return self

    def rest(self) -> Books:
        self.go.clear()
        for client in self.clients:
            assert client.lock.acquire(timeout=GIVE_UP + 30), "a client hangs"
            client.lock.release()
        self.require_no_failure()
        return self.books

    def resume(self) -> None:
        self.require_no_failure()
        self.go.set()

    def require_no_failure(self) -> None:
        assert not self.books.failures, "\n".join(self.books.failures[:2])

    def wait_for_answers(self, more: int) -> None:
        """Wait until so many more requests were answered."""
        wanted = self.books.answers + more
        self._wait(lambda: self.books.answers >= wanted)

    def wait_for_refusals(self, more: int = 1) -> None:
        """Wait until so many more requests were refused."""
        wanted = len(self.books.refusals) + more
        self._wait(lambda: len(self.books.refusals) >= wanted)

    def _wait(self, check: Callable[[], bool]) -> None:
        def checked() -> bool:
            self.require_no_failure()
            return check()

        settle(checked, pause=0.01)

    def end(self) -> None:
        self.over.set()
        self.go.set()
        for client in self.clients:
            if client.ident is not None:
                client.join(GIVE_UP + 30)


DECISIONS = f"/v1/fleets/{FLEET}/decisions"
