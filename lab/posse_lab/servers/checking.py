"""Whether a service kept its promises: its log against what was acknowledged, and what it believes against its log."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from typing import Any
from urllib.parse import quote

import numpy as np

from posse.service.definition import new_replica
from posse.storage import open_storage
from posse_lab.servers.clients import DECISIONS, DEFINITION, FLEET, Books
from posse_lab.servers.service import Answer, Connection, settle

SAMPLE = 30  # rewards that are reported once more


def make_fleet(connection: Connection, **changes: Any) -> None:
    answer = connection.ask("PUT", f"/v1/fleets/{FLEET}", DEFINITION | changes)
    assert answer.status == 201, answer


def decide(connection: Connection, task: str = "task-0") -> Answer:
    """Ask once for a decision."""
    return connection.ask("POST", DECISIONS, {"task": task, "context": {"hour": 1.0, "rain": 0.0}})


def decide_and_report(connection: Connection, task: str, decisions: int = 6, rewards: int = 6) -> None:
    """Give a task something to remember."""
    asks = [{"task": task, "context": {"hour": float(i), "rain": 1.0}} for i in range(decisions)]
    answer = connection.ask("POST", f"{DECISIONS}/batch", {"decisions": asks})
    assert answer.status == 200, answer
    given = [{"id": one["id"], "reward": 1.5} for one in answer.body["decisions"][:rewards]]
    assert connection.ask("POST", "/v1/rewards", {"rewards": given}).body == {"new": rewards, "same": 0}


def task_path(task: str) -> str:
    return f"/v1/fleets/{FLEET}/tasks/{quote(task, safe='')}"


def read_log(connection: Connection) -> list[dict[str, Any]]:
    return [json.loads(line) for line in connection.read(f"/v1/fleets/{FLEET}/log").splitlines()]


def check_all(connection: Connection, books: Books, database: str | None = None) -> list[dict[str, Any]]:
    """Check everything while nobody asks; return the log."""
    rows = read_log(connection)
    check_log(rows, books)
    check_counts(connection, rows)
    check_learned(connection, rows)
    if database is not None:
        check_beliefs(connection, rows, database)
    check_again(connection, books)
    assert read_log(connection) == rows, "asking again changed the log"
    check_counts(connection, rows)
    return rows


def check_log(rows: list[dict[str, Any]], books: Books) -> None:
    """Every acknowledged decision and reward is there once, as it was; nothing else is."""
    by_id = {row["decision_id"]: row for row in rows}
    assert len(by_id) == len(rows), "an id is in the log twice"
    assert not {row["task"] for row in rows} & books.erased, "an erased task is in the log"
    missing = books.decisions.keys() - by_id.keys()
    assert not missing, f"{len(missing)} acknowledged decisions are lost, such as {sorted(missing)[:3]}"
    extra = by_id.keys() - books.decisions.keys()
    assert not extra, f"{len(extra)} decisions were made twice or for nobody, such as {sorted(extra)[:3]}"
    for name, made in books.decisions.items():
        row = by_id[name]
        assert (row["task"], row["arm"], row["propensity"], row["context"]) == (
            made["task"], made["arm"], made["propensity"], made["context"],
        ), (row, made)  # fmt: skip
        assert row["reward"] == books.rewards.get(name), f"{name}: {row['reward']} and not {books.rewards.get(name)}"


def check_counts(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """The counts of fleet, tasks, pending and activity are those of the log."""
    fleet = connection.read(f"/v1/fleets/{FLEET}")
    rewards = sum(row["reward"] is not None for row in rows)
    told = {name: fleet[name] for name in ("tasks", "decisions", "rewards", "pending")}
    assert told == {
        "tasks": len({row["task"] for row in rows}),
        "decisions": len(rows),
        "rewards": rewards,
        "pending": len(rows) - rewards,
    }
    assert connection.read(f"/v1/fleets/{FLEET}/pending")["total"] == told["pending"]
    made = Counter(row["task"] for row in rows)
    given = Counter(row["task"] for row in rows if row["reward"] is not None)
    tasks = connection.read(f"/v1/fleets/{FLEET}/tasks?limit=1000")["tasks"]
    found = {entry["task"]: (entry["decisions"], entry["rewards"]) for entry in tasks}
    assert found == {task: (made[task], given[task]) for task in made}


def learned_rows(connection: Connection, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with what is learned of them: where pending decisions count, the reward that they count as."""
    pending = connection.read(f"/v1/fleets/{FLEET}")["pending_reward"]
    return [row | {"reward": pending if row["reward"] is None else row["reward"]} for row in rows]


def sums_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """What a model adds up, by task and arm, straight from the log."""
    grouped = defaultdict(list)
    for row in rows:
        if row["reward"] is not None:
            grouped[row["task"], row["arm"]].append(row)
    sums = {}
    for pair, group in grouped.items():
        X = np.array([[1.0, row["context"]["hour"], row["context"]["rain"]] for row in group])
        y = np.array([row["reward"] for row in group])
        sums[pair] = {"count": len(group), "gram": X.T @ X, "moment": X.T @ y, "sum_of_squares": y @ y}
    return sums


def learned_by(connection: Connection, task: str) -> dict[str, Any]:
    exported = connection.read(f"/v1/fleets/{FLEET}/export/{quote(task, safe='')}")["learned"]
    if exported is None:
        return {}
    assert exported["columns"] == ["intercept", "hour", "rain"]
    return {arm: entry for arm, entry in exported["arms"].items() if entry["count"]}


def check_learned(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """The sums that the service stands on are those of its log, to 1e-9."""
    sums = sums_of(learned_rows(connection, rows))
    for task in sorted({row["task"] for row in rows}):
        learned = learned_by(connection, task)
        expected = {arm: entry for (of, arm), entry in sums.items() if of == task}
        counts = {arm: entry["count"] for arm, entry in learned.items()}
        assert counts == {arm: entry["count"] for arm, entry in expected.items()}, f"rewards learned of {task}"
        for arm, entry in expected.items():
            for name in ("gram", "moment", "sum_of_squares"):
                np.testing.assert_allclose(
                    learned[arm][name], entry[name], rtol=1e-9, atol=1e-9, err_msg=f"{task} {arm}"
                )


def check_beliefs(connection: Connection, rows: list[dict[str, Any]], database: str) -> None:
    """What is believed about tasks is what a model believes that learned the log and the newest population.

    The population is estimated in the background and published shortly after, so this may take a moment to come true.
    """
    tasks = sorted({row["task"] for row in rows})[:4]
    rewarded = [row for row in learned_rows(connection, rows) if row["reward"] is not None]

    def differences() -> list[str]:
        storage = open_storage(database, migrate=False)
        try:
            fleet = storage.fleet(FLEET)
            assert fleet is not None
            populations = [change.data for change in storage.changes(FLEET, 0, 10**9) if change.kind == "population"]
        finally:
            storage.close()
        model = new_replica(fleet.definition)
        columns = [[row[name] for row in rewarded] for name in ("task", "arm", "context", "reward")]
        model.learn(*columns, catching_up=True)
        if len(populations) != 1 or not model.adopt(populations[0]):
            return [f"{len(populations)} populations are in the log, or not of these arms"]
        found = []
        for task in tasks:
            told = connection.read(task_path(task))
            for entry in told["arms"]:
                mean = model.coefficients(task).mean[entry["arm"]]
                sd = np.sqrt(np.diagonal(model.coefficients(task).covariance[entry["arm"]]))
                if not (np.allclose(entry["mean"], mean, 1e-6, 1e-8) and np.allclose(entry["sd"], sd, 1e-6, 1e-8)):
                    found.append(f"{task} {entry['arm']}: {entry['mean']} and not {mean.tolist()}")
        return found

    last: list[str] = []

    def agrees() -> bool:
        last[:] = differences()
        return not last

    try:
        settle(agrees, 20, pause=0.2)
    except AssertionError:
        raise AssertionError(f"the service believes something else than its log says: {last}") from None


def check_again(connection: Connection, books: Books) -> None:
    """Rewards that were acknowledged are known: once more they are not new, and others are refused."""
    rng = random.Random(7)
    known = sorted(books.rewards)
    for name in rng.sample(known, min(SAMPLE, len(known))):
        answer = connection.ask("POST", f"/v1/decisions/{name}/reward", {"reward": books.rewards[name]})
        assert answer.status == 200, answer
        assert answer.body["new"] is False, f"{name} could be rewarded twice"
    if known:
        other = connection.ask("POST", f"/v1/decisions/{known[0]}/reward", {"reward": books.rewards[known[0]] + 1})
        assert other.status == 409, other


def rewards_known(connection: Connection, task: str) -> float:
    """How many rewards of a task a service has learned."""
    answer = connection.ask("GET", task_path(task))
    return sum(arm["rewards"] for arm in answer.body["arms"]) if answer.status == 200 else -1


def settle_learned(connection: Connection) -> None:
    """Wait until a service has followed: it has learned as many rewards as there are."""
    tasks = connection.read(f"/v1/fleets/{FLEET}/tasks?limit=1000")["tasks"]
    settle(lambda: all(rewards_known(connection, entry["task"]) == entry["rewards"] for entry in tasks), 20, 0.1)
