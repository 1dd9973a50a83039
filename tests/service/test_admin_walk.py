"""Any sequence of calls of an administrator: the service always starts, all fleets serve, and all can be deleted.

A seeded walk makes fleets of every policy and prior, adds, retires and brings back arms, erases tasks, decides,
rewards, writes snapshots, repairs, deletes, and restarts the service, in order or as after a crash. No call may be
answered with 5xx; what is refused changes nothing; and after every restart each fleet has learned what its log says.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

STEPS = 14
ARMS = ["a", "b", "c", "d"]
FLEETS = ["one", "two"]
TASKS = ["t", "u", "v"]
KINDS = [
    {"policy": policy, "prior": prior}
    for policy in ("ebm-rand-ucb", "ebm-ts", "ebm-ucb")
    for prior in (None, "paper", "moments")
] + [
    *({"policy": policy} for policy in ("lin-ucb", "random")),
    {"policy": "ebm-ts", "robust": True},
    {"policy": "ebm-ucb", "floor": 0.3},
    {"policy": "ebm-ts", "floor": 0.05, "evaluation_budget": 0.1},
    {"policy": "ebm-ts", "absent_reward": 0.5},
    {"policy": "lin-ucb", "absent_reward": 0.5, "count_pending": False},
    {"policy": "lin-ucb", "time_to_live": 0.05, "retention": 0.05},
    {"policy": "lin-ucb", "time_to_live": 0.05, "retention": 0.05, "absent_reward": 0.0},
    {"policy": "ebm-ts", "rewards": "binary"},
    {"policy": "ebm-ts", "rewards": "binary", "absent_reward": 0.0},
    {"policy": "ebm-ts", "rewards": "count", "absent_reward": 0.0, "count_pending": False},
    {"policy": "ebm-ts", "drift": 1e-6},  # 86 milliseconds
    {"policy": "ebm-ts", "drift": "learn"},
    {"policy": "ebm-ts", "task_features": ["size"], "arm_features": ["price"]},
    {"policy": "ebm-ts", "reward_events": "last"},
]


class Walk:
    """One sequence of calls, with all that must hold after each."""

    def __init__(self, kinds, folder, seed):
        self.kinds, self.database, self.rng = kinds, str(folder / f"{seed}.db"), np.random.default_rng(seed)
        self.made, self.calls = [], []
        self.service = self.start()

    def start(self):
        in_process, settings, _ = self.kinds
        return in_process(settings(database=self.database, snapshot_seconds=0.2))

    def one_of(self, values):
        return values[int(self.rng.integers(len(values)))]

    def ask(self, method, path, **rest):
        self.calls.append((method, path, rest))
        answer = self.service.request(method, path, **rest)
        assert answer.status_code < 500, (answer.text, self.calls)
        return answer

    def put(self, fleet):
        arms = ARMS[: int(self.rng.integers(1, 4))]
        self.ask("PUT", f"/v1/fleets/{fleet}", json={"arms": arms, "features": ["x"], **self.one_of(KINDS)})

    def add_arm(self, fleet):
        before = self.service.runtime.storage.fleet(fleet)
        answer = self.ask("POST", f"/v1/fleets/{fleet}/arms", json={"arm": self.one_of(ARMS)})
        if answer.status_code != 200 and before is not None:
            assert self.service.runtime.storage.fleet(fleet).definition == before.definition

    def retire_arm(self, fleet):
        self.ask("DELETE", f"/v1/fleets/{fleet}/arms/{self.one_of(ARMS)}")

    def feed(self, fleet):
        for _ in range(int(self.rng.integers(1, 7))):
            ask = {"task": self.one_of(TASKS), "context": {"x": float(self.rng.normal())}}
            answer = self.ask("POST", f"/v1/fleets/{fleet}/decisions", json=ask)
            if answer.status_code == 200:
                self.made.append(answer.json()["id"])
            if self.made and self.rng.random() < 0.7:
                place = int(self.rng.integers(len(self.made)))
                body = {"reward": float(self.rng.integers(3))}
                self.ask("POST", f"/v1/decisions/{self.made.pop(place)}/reward", json=body)

    def erase(self, fleet):
        self.ask("DELETE", f"/v1/fleets/{fleet}/tasks/{self.one_of(TASKS)}")

    def snapshot(self, fleet):
        live = self.service.runtime.roster.find(fleet)
        if live is not None:
            self.calls.append(("snapshot", fleet))
            self.service.runtime.upkeep.write_snapshot(live)

    def repair(self, fleet):
        self.ask("POST", f"/v1/fleets/{fleet}/repair")

    def delete(self, fleet):
        self.ask("DELETE", f"/v1/fleets/{fleet}")

    def restart(self, _):
        """Stop in order, or without last snapshots, which is what a crash leaves; then all must be as the log says."""
        orderly = bool(self.rng.random() < 0.5)
        self.calls.append(("restart", orderly))
        if not orderly:
            self.service.runtime.upkeep.write_last_snapshots = lambda _: None
        self.service.stop()
        self.service = self.start()
        self.check()

    def check(self):
        service = self.service
        assert self.ask("GET", "/readyz").json()["status"] == "ready", self.calls
        for fleet in self.ask("GET", "/v1/fleets").json()["fleets"]:
            assert (fleet["state"], fleet["reason"]) == ("serving", None), self.calls
            live = service.live(fleet["name"])

            def compare(live=live):
                live.follow()
                replica = live.replica
                expected = service.runtime.storage.rewards_up_to(live.name, live.applied)
                return expected, int(replica.n_rewards), replica.unlearned

            # On the thread that writes: decisions may be expiring, and snapshots written.
            expected, learned, left_out = service.runtime.writer.run(compare)
            assert left_out == 0, self.calls
            # What is left of rewards that fade is no count of them.
            assert expected is None or learned == expected or live.replica.fades, self.calls
            assert list(live.replica.arms) == sorted(fleet["arms"], key=live.definition["arms"].index), self.calls

    def run(self):
        steps = [self.put, self.add_arm, self.retire_arm, self.feed, self.erase, self.snapshot, self.repair]
        steps += [self.delete, self.restart]
        weights = np.array([2, 4, 3, 6, 2, 2, 1, 1, 2.0])
        try:
            self.put(self.one_of(FLEETS))
            for _ in range(STEPS):
                steps[self.rng.choice(len(steps), p=weights / weights.sum())](self.one_of(FLEETS))
            self.restart(None)
            for fleet in self.ask("GET", "/v1/fleets").json()["fleets"]:
                assert self.ask("DELETE", f"/v1/fleets/{fleet['name']}").status_code == 204
            assert self.ask("GET", "/v1/fleets").json() == {"fleets": []}
        finally:
            self.service.stop()


@pytest.fixture
def folder():
    """A folder in memory where there is one: thousands of databases are made, and no power is lost here."""
    place = tempfile.mkdtemp(prefix="posse-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    yield Path(place)
    shutil.rmtree(place)


def test_any_sequence_of_calls_leaves_a_service_that_starts(kinds, folder):
    for seed in range(20):
        Walk(kinds, folder, seed).run()


@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_thousands_of_sequences_leave_a_service_that_starts(kinds, folder, first):
    for seed in range(first, first + 100):
        Walk(kinds, folder, seed).run()
