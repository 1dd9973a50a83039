"""The load generator against a server that does as it is told."""

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from posse_lab.servers import generator as module
from posse_lab.servers.generator import Load, LoadPlan, Questions, Tally, latencies_of, prepared

PLAN = LoadPlan(ports=(), fleet="f", n_tasks=7, n_arms=3, n_features=2, connections=3, seconds=0.6, warm=0.1)


class Server:
    """Answers decisions and rewards; ``act(kind, number)`` may return a status, bytes, or None to hang up."""

    def __init__(self, act=lambda kind, number: 200, name="d"):
        self.act, self.name = act, name
        self.asked = []
        self.counts = {"decide": 0, "reward": 0}

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                kind = "reward" if b"/reward HTTP" in head else "decide"
                self.counts[kind] += 1
                self.asked.append((kind, head.decode(), body))
                status = self.act(kind, self.counts[kind])
                if asyncio.iscoroutine(status):
                    status = await status
                if status is None:
                    break
                data = {"id": f"{self.name}-{self.counts['decide']}", "fleet": "f", "task": "t", "arm": "arm-2"}
                data = json.dumps(data if kind == "decide" else {"new": True}).encode()
                # In two pieces, as a network may.
                writer.write(b"HTTP/1.1 %d X\r\nX-Y: z\r\ncontent-length: %d\r\n" % (status, len(data)))
                await writer.drain()
                writer.write(b"\r\n" + data)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def run(server, plan=PLAN, n_ports=1):
    async def both():
        listeners = [await asyncio.start_server(server.serve, "127.0.0.1", 0) for _ in range(n_ports)]
        ports = [one.sockets[0].getsockname()[1] for one in listeners]
        try:
            return await asyncio.wait_for(Load(replace(plan, ports=ports)).run(), 20)
        finally:
            for one in listeners:
                one.close()

    return asyncio.run(both())


@pytest.fixture(autouse=True)
def few_requests(monkeypatch):
    monkeypatch.setattr(module, "PREPARED", 50)


def test_every_decision_gets_its_reward():
    server = Server()
    result = run(server)
    decided = [body for kind, _, body in server.asked if kind == "decide"]
    heads = [head for kind, head, _ in server.asked if kind == "decide"]

    assert result.errors == {}
    assert server.counts["decide"] == server.counts["reward"] == result.acknowledged
    assert 0 < result.pairs <= result.acknowledged
    assert result.uncertain == 0
    assert set(decided[0]["context"]) == {"x0", "x1"}
    assert {body["task"] for body in decided} <= {f"task-{i}" for i in range(7)}
    keys = [head.split("Idempotency-Key: ")[1].split("\r\n")[0] for head in heads]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {len(keys[0])}


def test_the_reward_is_that_of_the_arm():
    server = Server()
    run(server, replace(PLAN, connections=1, seconds=0.2))
    requests, _ = prepared(PLAN)
    wanted = [json.loads(tails[2].partition(b"\r\n\r\n")[2]) for _, tails in requests]
    rewards = [body for kind, _, body in server.asked if kind == "reward"]
    assert rewards[:50] == wanted[: len(rewards)]


def test_latencies_are_those_of_the_server():
    async def slowly(kind):
        await asyncio.sleep(0.03 if kind == "reward" else 0.005)
        return 200

    result = run(Server(lambda kind, number: slowly(kind)))
    assert 0.005 <= result.decide.quantiles["p50"] < 0.025
    assert 0.03 <= result.reward.quantiles["p50"] < 0.08
    assert result.reward.quantiles["p50"] <= result.reward.quantiles["p99"] <= result.reward.most


def test_failures_are_counted_and_the_rest_goes_on():
    server = Server(lambda kind, number: 503 if kind == "decide" and number % 5 == 0 else 200)
    result = run(server)
    assert result.errors == {"503": server.counts["decide"] // 5}
    assert result.acknowledged == server.counts["reward"]


def test_a_reward_whose_answer_is_lost_is_uncertain():
    server = Server(lambda kind, number: None if kind == "reward" and number % 10 == 0 else 200)
    result = run(server)
    lost = server.counts["reward"] // 10
    assert result.errors == {"lost": lost}
    assert result.uncertain == lost
    assert result.acknowledged == server.counts["reward"] - lost


def test_a_server_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.2)

    async def never():
        await asyncio.sleep(5)

    result = run(Server(lambda kind, number: never()), replace(PLAN, connections=2, seconds=1.2))
    assert result.pairs == 0
    assert result.errors["no answer"] >= 2


def test_rewards_are_not_only_given_where_decisions_are_made():
    asked = []

    async def both():
        servers = [Server(name="first"), Server(name="second")]
        listeners = [await asyncio.start_server(one.serve, "127.0.0.1", 0) for one in servers]
        ports = [one.sockets[0].getsockname()[1] for one in listeners]
        await Load(replace(PLAN, ports=ports, connections=1)).run()
        for one in listeners:
            one.close()
        asked.extend(servers)

    asyncio.run(both())
    for server in asked:
        heads = [head for kind, head, _ in server.asked if kind == "reward"]
        there = [sum(f"/{name}-" in head for head in heads) for name in ("first", "second")]
        assert abs(there[0] - there[1]) <= 1
        assert there[0] > 5


def test_only_what_is_answered_in_time_counts():
    tally = Tally(10.0, 12.0)
    for now in (9.9, 10.0, 11.999, 12.0):
        tally.answered(tally.decide, now - 0.5, now)
        tally.paired(now)
    result = tally.result(0.0)
    assert (result.pairs, result.acknowledged, result.decide.requests) == (2, 4, 2)


def test_summaries():
    some = latencies_of([0.001 * i for i in range(1000, 0, -1)])
    assert some.quantiles == pytest.approx({"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999})
    assert (some.requests, some.most, some.mean) == (1000, 1.0, pytest.approx(0.5005))
    assert latencies_of([]).most == 0.0


def test_tasks_differ_and_arms_do():
    questions = Questions(5, 2, 3, seed=1)
    drawn = [questions.draw(task) for task in (0, 1, 0)]
    assert [body["task"] for body, _ in drawn] == ["task-0", "task-1", "task-0"]
    assert all(len(rewards) == 2 and rewards[0] != rewards[1] for _, rewards in drawn)
    assert drawn == [one for again in [Questions(5, 2, 3, seed=1)] for one in map(again.draw, (0, 1, 0))]


def test_it_runs_as_a_program_without_the_package():
    program = (
        "import sys, runpy; sys.argv = ['load']; sys.modules['posse'] = None\n"
        f"runpy.run_path({module.__file__!r}, run_name='__main__')"
    )
    plan = asdict(replace(PLAN, ports=[1]))  # nothing listens there
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], input=json.dumps(plan), capture_output=True, text=True, check=False
    )
    assert "ConnectionRefusedError" in done.stderr
