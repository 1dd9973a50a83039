"""A population from the sums of shards is that of one fleet."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import posse.model.refresh
from posse import Posse
from posse.distributed.population import estimate, follow, published
from posse.distributed.shard_fleet import ShardFleet
from posse.fleet.task_keys import buckets_of

ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
TOLERANCE = 1e-10  # sums are added in another order; steps of an estimate amplify the last bits a little


def shards_of(table, count=3):
    homes = buckets_of(table["task"].to_list()) % count
    shards = [ShardFleet(arms=ARMS, features=FEATURES, seed=number) for number in range(count)]
    for number, shard in enumerate(shards):
        shard.learn_many(table.filter(homes == number), refresh=False)
    return shards, lambda method, *arguments: [getattr(shard, method)(*arguments) for shard in shards]


def publish(found, shards):
    """Let all shards believe what was found; return what each was told."""
    common, each = published(found, [shard.n_decisions for shard in shards], 1)
    told = [common | own for own in each]
    for shard, population in zip(shards, told, strict=True):
        shard.adopt(population)
    return told


def require_same(one, other):
    for name in ("covariance", "noise_variance", "shared_precision", "shared_location"):
        assert_allclose(getattr(one.prior, name), getattr(other.prior, name), rtol=TOLERANCE, atol=1e-12)
    assert_allclose(
        one._engine.store.belief.shared_mean, other._engine.store.belief.shared_mean, rtol=TOLERANCE, atol=1e-12
    )


@pytest.mark.parametrize("coarse", [8192, 20], ids=["all tasks", "some tasks first"])
def test_sums_of_shards_give_the_population_of_one_fleet(log, monkeypatch, coarse):
    monkeypatch.setattr(posse.model.refresh, "COARSE", coarse)
    table = log(6000, 300)
    one = Posse(arms=ARMS, features=FEATURES, seed=1)
    one.learn_many(table)
    shards, ask = shards_of(table)
    coordinator = Posse(arms=ARMS, features=FEATURES)
    publish(estimate(coordinator, ask, steps=30, settled=1e-2), shards)

    require_same(coordinator, one)
    for shard in shards:
        require_same(shard, one)
        for task in shard.tasks[:5]:
            context = {"a": 0.3, "b": -1.0}
            assert_allclose(
                list(shard.expected(task, context).mean.values()),
                list(one.expected(task, context).mean.values()),
                rtol=1e-9,
            )


def test_what_a_shard_learned_since_counts(log):
    table = log(3000)
    shards, ask = shards_of(table)
    coordinator = Posse(arms=ARMS, features=FEATURES)
    found = publish(estimate(coordinator, ask, steps=30, settled=1e-2), shards)
    more = log(500, seed=5)
    homes = buckets_of(more["task"].to_list()) % 3
    shards[0].learn_many(more.filter(homes == 0))
    # The same rows before the population was put in place: sums are what counts, not when they came.
    again, _ = shards_of(table)
    again[0].learn_many(more.filter(homes == 0), refresh=False)
    again[0].adopt(found[0])
    assert_allclose(
        again[0]._engine.store.belief.shared_mean, shards[0]._engine.store.belief.shared_mean, rtol=1e-9, atol=1e-12
    )
    # And the coordinator finds it when it asks again.
    shared = follow(coordinator, ask).population.shared_mean
    assert_allclose(shared, shards[0]._engine.store.belief.shared_mean, rtol=1e-9, atol=1e-12)


def test_a_shard_explores_by_the_steps_of_all(log):
    shards, ask = shards_of(log(3000))
    for number, shard in enumerate(shards):
        shard._decided = 2000 * number
    publish(estimate(Posse(arms=ARMS, features=FEATURES), ask, steps=3, settled=0.2), shards)
    assert [shard._steps() for shard in shards] == [(6001, 3001)] * 3


def test_a_new_arm_and_a_forgotten_task(log):
    table = log(3000)
    one = Posse(arms=ARMS, features=FEATURES, seed=1)
    one.learn_many(table)
    shards, ask = shards_of(table)
    coordinator = Posse(arms=ARMS, features=FEATURES)
    publish(estimate(coordinator, ask, steps=30, settled=1e-2), shards)
    for fleet in (one, coordinator, *shards):
        fleet.add_arm("violet")
    assert_allclose(shards[0].prior.covariance, one.prior.covariance, rtol=1e-9)
    task = shards[0].tasks[0]
    one.forget(task)
    shards[0].forget(task)
    for fleet in (coordinator, *shards[1:]):
        fleet._engine.store.reset_prior()
    publish(estimate(coordinator, ask, steps=30, settled=1e-2), shards)
    for shard in shards:
        require_same(shard, one)
    assert np.isfinite(shards[0].expected(task, {"a": 1.0, "b": 1.0}).mean["red"])
