"""Shards, the coordinator and machines die under load: nothing that was acknowledged is lost or doubled."""

import os
import random
import threading
import time
import warnings
from collections import Counter

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from posse import Posse

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
ACTOR_KILLS, NODE_KILLS, COORDINATOR_KILLS = 20, 3, 2
MOST_ARMS, N_TASKS = 6, 40
KINDS = {"decide", "decide_many", "reward", "reward_many", "learn_many", "forget", "add_arm"}
PATIENCE = 600.0  # seconds for all of it


class Load(threading.Thread):
    """Decides, rewards, learns tables, forgets tasks and adds arms without a pause, and notes what was acknowledged."""

    def __init__(self, fleet, seed):
        super().__init__()
        self.fleet, self.random, self.stopping = fleet, random.Random(seed), False
        self.rows, self.decided, self.waiting = [], [], {}  # rows of (task, arm, reward, a, b)
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
        value = self.number(10)
        if len(self.waiting) > 10 and kind < 0.05:
            self.kinds["reward_many"] += 1
            some = {decision: self.waiting.pop(decision) for decision in list(self.waiting)[:5]}
            values = [value + row for row in range(5)]
            assert self.fleet.reward_many(list(some), values) == 5
            for (task, arm, context), reward in zip(some.values(), values, strict=True):
                self.rows.append((task, arm, reward, *context))
        elif kind < 0.12:
            self.kinds["decide_many"] += 1
            contexts = [self.context() for _ in range(4)]
            decisions = self.fleet.decide_many([self.task() for _ in contexts], np.array(contexts))
            for decision, context in zip(decisions, contexts, strict=True):
                self.decide(decision, context)
        elif kind < 0.14 and self.rows:
            self.kinds["forget"] += 1
            self.forget(self.random.choice(self.rows)[0])
        elif kind < 0.16 and len(self.arms) < MOST_ARMS:
            self.kinds["add_arm"] += 1
            self.arms.append(f"arm {len(self.arms)}")
            self.fleet.add_arm(self.arms[-1])
        elif kind < 0.5:
            self.kinds["decide"] += 1
            context = self.context()
            self.decide(self.fleet.decide(self.task(), dict(zip(FEATURES, context, strict=True))), context)
        elif kind < 0.85 and self.waiting:
            self.kinds["reward"] += 1
            self.reward(self.random.choice(list(self.waiting)), value)
        else:
            self.kinds["learn_many"] += 1
            rows = [(self.task(), self.random.choice(self.arms), value + row, *self.context()) for row in range(5)]
            assert self.fleet.learn_many(table_of(rows)) == 5
            self.rows += rows

    # Contexts and rewards are whole numbers, so that sums are exact in any order.

    def number(self, below):
        return float(self.random.randrange(below))

    def task(self):
        return f"t{self.random.randrange(N_TASKS)}"

    def context(self):
        return self.number(4), self.number(4)

    def decide(self, decision, context):
        self.decided.append(decision.id)
        self.waiting[decision.id] = (decision.task, decision.arm, context)

    def reward(self, decision, value):
        task, arm, context = self.waiting.pop(decision)
        assert self.fleet.reward(decision, value), "a reward that was not acknowledged before is news"
        self.rows.append((task, arm, value, *context))

    def forget(self, task):
        self.fleet.forget(task)
        self.rows = [row for row in self.rows if row[0] != task]
        self.waiting = {name: decision for name, decision in self.waiting.items() if decision[0] != task}


def table_of(rows):
    return pl.DataFrame(rows, schema=["task", "arm", "reward", *FEATURES], orient="row")


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


def test_nothing_acknowledged_is_lost_or_doubled(cluster, tmp_path, pair_sums):
    from posse.distributed import ShardedPosse

    seed = int(os.environ.get("POSSE_SEED", "5"))  # of what is done, and who dies when
    ray, nodes = cluster
    other = nodes.add_node(num_cpus=1)
    fleet = ShardedPosse(
        arms=ARMS, features=FEATURES, seed=1, shards=2, folder=tmp_path / "fleet", fsync=False, snapshot_bytes=300_000
    )
    load, running = Load(fleet, seed), fleet.running
    load.start()
    chooser = random.Random(seed)
    until = time.monotonic() + PATIENCE

    def wait_for(calls):
        target = load.calls + calls
        while load.calls < target and load.error is None:
            assert time.monotonic() < until, "the fleet does not answer any more"
            time.sleep(0.05)

    def node_of(actor):
        return ray.get(actor.__ray_call__.remote(lambda _: __import__("ray").get_runtime_context().get_node_id()))

    wait_for(20)
    victims = [None] * COORDINATOR_KILLS + [chooser.randrange(2) for _ in range(ACTOR_KILLS)]
    chooser.shuffle(victims)
    for victim in victims:
        ray.kill(running.coordinator if victim is None else running.shards[victim], no_restart=False)
        wait_for(chooser.randrange(8))
    for _ in range(NODE_KILLS):
        # A shard that is restarted may go to any node: until one is on the node that is about to die.
        while other.node_id not in (nodes_of := [node_of(actor) for actor in running.shards]):
            assert time.monotonic() < until, f"no shard goes to {other.node_id}, but to {nodes_of}"
            ray.kill(chooser.choice(running.shards), no_restart=False)
            wait_for(5)
        nodes.remove_node(other, allow_graceful=False)
        wait_for(5)
        while other.node_id in [node_of(actor) for actor in running.shards]:  # a process outlives its node a little
            assert time.monotonic() < until, "a shard lives on a node that died"
            wait_for(1)
        wait_for(5)
        other = nodes.add_node(num_cpus=1)
    while set(load.kinds) != KINDS and load.error is None:
        wait_for(5)
    load.stopping = True
    load.join()
    if load.error is not None:
        raise load.error
    assert len(set(load.decided)) == len(load.decided)
    # Decisions that were acknowledged and wait may still be rewarded, and those that were rewarded are.
    for decision in list(load.waiting):
        load.reward(decision, 1.0)
    # A population that was estimated once from all of it is that of one fleet.
    load.forget(load.rows[0][0])
    one = Posse(arms=load.arms, features=FEATURES)
    one.learn_many(table_of(load.rows))
    assert pair_sums(fleet) == pair_sums(one)
    for name in ("covariance", "noise_variance", "shared_precision", "shared_location"):
        assert_allclose(getattr(fleet.prior, name), getattr(one.prior, name), rtol=1e-10, atol=1e-12)
    for task in one.tasks:
        found, wanted = (each.expected(task, {"a": 1.0, "b": 3.0}).mean for each in (fleet, one))
        assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-8, atol=1e-10)
    print(f"{ACTOR_KILLS} shards, {COORDINATOR_KILLS} coordinators and {NODE_KILLS} nodes with a shard died")
    print(f"during {load.calls} calls, which were {dict(load.kinds)}")
    fleet.close()
