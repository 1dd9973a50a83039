"""Actors and a machine die under load: nothing that was acknowledged is lost or doubled."""

import random
import threading
import time
import warnings
from collections import Counter

import numpy as np
import polars as pl
import pytest

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
ACTOR_KILLS, NODE_KILLS, COORDINATOR_KILLS = 15, 2, 2
MOST_ARMS = 6
KINDS = {"decide", "decide_many", "reward", "reward_many", "learn_many", "forget", "add_arm"}
PATIENCE = 600.0  # seconds for all of it


class Load(threading.Thread):
    """Decides, rewards, learns tables, forgets tasks and adds arms without a pause, and notes what was acknowledged."""

    def __init__(self, fleet, seed):
        super().__init__()
        self.fleet, self.random, self.stopping = fleet, random.Random(seed), False
        self.counts, self.totals, self.decided, self.waiting = Counter(), Counter(), [], []
        self.error, self.calls, self.arms = None, 0, list(ARMS)
        self.kinds = Counter()

    def run(self):
        try:
            while not self.stopping:
                self.one()
                self.calls += 1
        except BaseException as error:
            self.error = error

    def one(self):
        kind = self.random.random()
        # Whole numbers, so that sums are exact in any order.
        value = float(self.random.randrange(10))
        if len(self.waiting) > 10 and kind < 0.05:
            self.kinds["reward_many"] += 1
            some, self.waiting = self.waiting[:5], self.waiting[5:]
            values = [value + row for row in range(5)]
            assert self.fleet.reward_many(some, values) == 5
            for decision, reward in zip(some, values, strict=True):
                self.learned(decision.task, decision.arm, reward)
        elif kind < 0.12:
            self.kinds["decide_many"] += 1
            tasks = [f"t{self.random.randrange(40)}" for _ in range(4)]
            decisions = list(self.fleet.decide_many(tasks, np.tile([1.0, 2.0], (4, 1))))
            self.decided += [decision.id for decision in decisions]
            self.waiting += decisions
        elif kind < 0.14 and self.counts:
            self.kinds["forget"] += 1
            task = self.random.choice(sorted({task for task, _ in self.counts}))
            self.fleet.forget(task)
            for known in (self.counts, self.totals):
                for pair in [pair for pair in known if pair[0] == task]:
                    del known[pair]
            self.waiting = [decision for decision in self.waiting if decision.task != task]
        elif kind < 0.16 and len(self.arms) < MOST_ARMS:
            self.kinds["add_arm"] += 1
            self.arms.append(f"arm {len(self.arms)}")
            self.fleet.add_arm(self.arms[-1])
        elif kind < 0.5:
            self.kinds["decide"] += 1
            task = f"t{self.random.randrange(40)}"
            decision = self.fleet.decide(task, {"a": 1.0, "b": 2.0})
            self.decided.append(decision.id)
            self.waiting.append(decision)
        elif kind < 0.85 and self.waiting:
            self.kinds["reward"] += 1
            decision = self.waiting.pop(self.random.randrange(len(self.waiting)))
            assert self.fleet.reward(decision, value), "a reward that was not acknowledged before is news"
            self.learned(decision.task, decision.arm, value)
        else:
            self.kinds["learn_many"] += 1
            rows = [(f"t{self.random.randrange(40)}", self.random.choice(self.arms), value + row) for row in range(5)]
            tasks, arms, rewards = map(list, zip(*rows, strict=True))
            table = pl.DataFrame({"task": tasks, "arm": arms, "reward": rewards, "a": [1.0] * 5, "b": [2.0] * 5})
            assert self.fleet.learn_many(table) == 5
            for row in rows:
                self.learned(*row)

    def learned(self, task, arm, value):
        self.counts[task, arm] += 1
        self.totals[task, arm] += value


@pytest.fixture
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        ray.shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        yield ray, made
        ray.shutdown()
        made.shutdown()


def test_nothing_acknowledged_is_lost_or_doubled(cluster, tmp_path):
    from posse.distributed import ShardedPosse

    ray, nodes = cluster
    other = nodes.add_node(num_cpus=1)
    fleet = ShardedPosse(
        arms=ARMS, features=FEATURES, seed=1, shards=2, folder=tmp_path / "fleet", fsync=False, snapshot_bytes=300_000
    )
    load = Load(fleet, seed=5)
    load.start()
    chooser = random.Random(7)

    until = time.monotonic() + PATIENCE

    def wait_for(calls):
        target = load.calls + calls
        while load.calls < target and load.error is None:
            assert time.monotonic() < until, "the fleet does not answer any more"
            time.sleep(0.05)

    def node_of(actor):
        return ray.get(actor.__ray_call__.remote(lambda _: __import__("ray").get_runtime_context().get_node_id()))

    wait_for(20)
    killed = lost_nodes = 0
    for _ in range(ACTOR_KILLS):
        ray.kill(chooser.choice(fleet._shards), no_restart=False)
        killed += 1
        wait_for(5)
    for _ in range(COORDINATOR_KILLS):
        ray.kill(fleet._coordinator, no_restart=False)
        wait_for(20)
    for _ in range(NODE_KILLS):
        # A shard that is restarted may go to any node: until one is on the node that is about to die.
        while other.node_id not in (nodes_of := [node_of(actor) for actor in fleet._shards]):
            assert time.monotonic() < until, f"no shard goes to {other.node_id}, but to {nodes_of}"
            ray.kill(chooser.choice(fleet._shards), no_restart=False)
            wait_for(5)
        nodes.remove_node(other, allow_graceful=False)
        wait_for(5)
        while other.node_id in [node_of(actor) for actor in fleet._shards]:  # a process outlives its node a little
            assert time.monotonic() < until, "a shard lives on a node that died"
            wait_for(1)
        lost_nodes += 1
        wait_for(5)
        other = nodes.add_node(num_cpus=1)
    while set(load.kinds) != KINDS and load.error is None:
        wait_for(5)
    load.stopping = True
    load.join()
    if load.error is not None:
        raise load.error
    found_counts, found_totals = Counter(), Counter()
    for labels, arrays in fleet._ask("sums"):
        for row, label in enumerate(labels):
            pair = (label, load.arms[int(arrays["arms"][row])])
            found_counts[pair] += int(arrays["counts"][row])
            found_totals[pair] += arrays["moment"][row][0]  # the intercept's: the sum of the rewards
    assert found_counts == load.counts
    assert found_totals == load.totals
    assert len(set(load.decided)) == len(load.decided)
    # Decisions that were acknowledged and wait may still be rewarded, and those that were rewarded are.
    assert all(fleet.reward(decision, 1.0) for decision in load.waiting)
    assert np.isfinite(fleet.prior.covariance).all()
    print(f"{killed} actors, the coordinator and {lost_nodes} nodes with a shard died during {load.calls} calls")
    print(f"which were {dict(load.kinds)}")
    fleet.close()
