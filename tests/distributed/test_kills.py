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
ACTOR_KILLS, NODE_KILLS = 20, 3


class Load(threading.Thread):
    """Decides, rewards and learns tables without a pause, and notes what was acknowledged."""

    def __init__(self, fleet, seed):
        super().__init__()
        self.fleet, self.random, self.stopping = fleet, random.Random(seed), False
        self.counts, self.totals, self.decided, self.waiting = Counter(), Counter(), [], []
        self.error, self.calls = None, 0

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
        if kind < 0.45:
            task = f"t{self.random.randrange(40)}"
            decision = self.fleet.decide(task, {"a": 1.0, "b": 2.0})
            self.decided.append(decision.id)
            self.waiting.append(decision)
        elif kind < 0.85 and self.waiting:
            decision = self.waiting.pop(self.random.randrange(len(self.waiting)))
            assert self.fleet.reward(decision, value), "a reward that was not acknowledged before is news"
            self.learned(decision.task, decision.arm, value)
        else:
            rows = [(f"t{self.random.randrange(40)}", self.random.choice(ARMS), value + row) for row in range(5)]
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

    def wait_for(calls, patience=300.0):
        target, until = load.calls + calls, time.monotonic() + patience
        while load.calls < target and load.error is None:
            assert time.monotonic() < until, "the fleet does not answer any more"
            time.sleep(0.05)

    wait_for(20)
    killed = 0
    for _ in range(ACTOR_KILLS):
        ray.kill(chooser.choice(fleet._shards), no_restart=False)
        killed += 1
        wait_for(5)
    for _ in range(NODE_KILLS):
        nodes.remove_node(other, allow_graceful=False)
        wait_for(5)
        other = nodes.add_node(num_cpus=1)
        # So that the next one that dies has a shard: one that is restarted may go there.
        ray.kill(chooser.choice(fleet._shards), no_restart=False)
        wait_for(5)
    load.stopping = True
    load.join()
    if load.error is not None:
        raise load.error
    found_counts, found_totals = Counter(), Counter()
    for labels, arrays in fleet._ask("sums"):
        for row, label in enumerate(labels):
            pair = (label, ARMS[int(arrays["arms"][row])])
            found_counts[pair] += int(arrays["counts"][row])
            found_totals[pair] += arrays["moment"][row][0]  # the intercept's: the sum of the rewards
    assert found_counts == load.counts
    assert found_totals == load.totals
    assert len(set(load.decided)) == len(load.decided)
    # Decisions that were acknowledged and wait may still be rewarded, and those that were rewarded are.
    assert all(fleet.reward(decision, 1.0) for decision in load.waiting)
    assert np.isfinite(fleet.prior.covariance).all()
    print(f"{killed} actors and {NODE_KILLS} nodes died during {load.calls} calls")
    fleet.close()
