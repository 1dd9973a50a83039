"""A population from the sums of shards is that of one fleet."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import posse.core.estimate
from posse import Posse
from posse.distributed.population import RemotePairs, published, require_shardable
from posse.distributed.shard_fleet import ShardFleet
from posse.errors import InvalidValue
from posse.fleet.names import buckets_of

ARMS, FEATURES = ["red", "green", "blue"], ["a", "b"]
CONTEXT = {"a": 0.3, "b": -1.0}
TOLERANCE = 1e-10  # sums are added in another order; steps of an estimate amplify the last bits a little
SIZES = {"size": 2.0}


def now():
    return 5000.0


def shards_of(table, count=3, **settings):
    homes = buckets_of(table["task"].to_list()) % count
    time = "time" if "drift" in settings else None
    shards = [ShardFleet(arms=ARMS, features=FEATURES, seed=number, clock=now, **settings) for number in range(count)]
    for number, shard in enumerate(shards):
        shard.learn_many(table.filter(homes == number), refresh=False, time=time)

    def ask(look, method, *arguments):
        assert look == "look"
        return [getattr(shard, method)(*arguments) for shard in shards]

    return shards, ask


def estimate(coordinator, ask, shards, steps=30, settled=1e-2, number=1):
    """Estimate the population of all shards, and let them believe it; return what each was told."""

    def call(shard, method, asked):
        return getattr(shards[shard], method)(**asked)

    pairs = RemotePairs(coordinator.core, ask, max(shard.core.now for shard in shards), call)
    coordinator.core.estimate_from(pairs, steps=steps, settled=settled)
    common, each = published(coordinator.core, pairs, [shard.n_decisions for shard in shards], number)
    told = [common | own for own in each]
    for shard, population in zip(shards, told, strict=True):
        assert shard.adopt(**population)
    return told


def require_same(one, other, tolerance=TOLERANCE):
    for name in ("covariance", "noise_variance", "shared_precision", "shared_location"):
        assert_allclose(getattr(one.prior, name), getattr(other.prior, name), rtol=tolerance, atol=1e-12)
    mine, theirs = (fleet.core.state.store.shared for fleet in (one, other))
    assert_allclose(mine, theirs, rtol=tolerance, atol=1e-12)


def require_same_beliefs(shards, one, rtol=1e-9):
    for shard in shards:
        require_same(shard, one)
        for task in [*shard.tasks[:5], "a stranger"]:
            mine, theirs = shard.expected(task, CONTEXT), one.expected(task, CONTEXT)
            for found, wanted in zip(mine[1:], theirs[1:], strict=True):
                assert_allclose(list(found.values()), list(wanted.values()), rtol=rtol)


def with_times(table):
    return table.with_columns(time=pl.Series(np.linspace(0.0, 4000.0, table.height)))


@pytest.mark.parametrize("coarse", [8192, 20], ids=["all tasks", "some tasks first"])
def test_sums_of_shards_give_the_population_of_one_fleet(log, monkeypatch, coarse):
    monkeypatch.setattr(posse.core.estimate, "COARSE", coarse)
    table = log(6000, 300)
    one = Posse(arms=ARMS, features=FEATURES, seed=1)
    one.learn_many(table, refresh=False)
    one.refresh()  # once, as shards do
    shards, ask = shards_of(table)
    coordinator = Posse(arms=ARMS, features=FEATURES)
    estimate(coordinator, ask, shards)
    require_same_beliefs(shards, one)
    for name in ("covariance", "noise_variance", "shared_precision", "shared_location"):
        assert_allclose(getattr(coordinator.prior, name), getattr(one.prior, name), rtol=TOLERANCE, atol=1e-12)


@pytest.mark.parametrize("features", [False, True], ids=["plain", "features"])
@pytest.mark.parametrize("drift", [None, 0.02], ids=["always", "half-life"])
def test_drift_and_features_on_shards_are_those_of_one_fleet(log, drift, features):
    table, settings = with_times(log(1500, 40)), {}
    if drift is not None:
        settings["drift"] = drift
    if features:
        settings |= {"task_features": ["size"], "arm_features": ["price"]}
        settings["arms"] = {arm: {"price": float(price)} for price, arm in enumerate(ARMS)}
    one = Posse(**{"arms": ARMS, "features": FEATURES, "seed": 1, "clock": now} | settings)
    known = {f"t{task}": {"size": float(task % 7)} for task in range(35)}
    if features:
        one.set_task_features(known)
    one.learn_many(table, time="time" if drift else None)
    arms = settings.pop("arms", ARMS)
    shards = []
    homes = buckets_of(table["task"].to_list()) % 3
    for number in range(3):
        shards.append(ShardFleet(arms=arms, features=FEATURES, seed=number, clock=now, **settings))
        shards[-1].learn_many(table.filter(homes == number), refresh=False, time="time" if drift else None)
        mine = {task: about for task, about in known.items() if buckets_of([task])[0] % 3 == number}
        if features:
            shards[-1].set_task_features(mine)

    def ask(_, method, *arguments):
        return [getattr(shard, method)(*arguments) for shard in shards]

    coordinator = Posse(arms=arms, features=FEATURES, **settings)
    estimate(coordinator, ask, shards)
    require_same_beliefs(shards, one, rtol=1e-8)


@pytest.mark.parametrize("rewards", ["binary", "count"])
@pytest.mark.parametrize("settings", [{}, {"drift": 0.02}, {"task_features": ["size"]}], ids=["plain", "drift", "size"])
def test_clicks_and_counts_on_shards_are_those_of_one_fleet(log, rewards, settings):
    table = with_times(log(900, 40)).with_columns(
        reward=(pl.col("reward") > 0).cast(pl.Float64) if rewards == "binary" else pl.col("reward").abs().round()
    )
    settings = {"rewards": rewards} | settings
    made = {"arms": ARMS, "features": FEATURES, "clock": lambda: 4000.0} | settings
    one, coordinator = Posse(seed=1, **made), Posse(arms=ARMS, features=FEATURES, **settings)
    if "task_features" in settings:
        one.set_task_features({f"t{task}": {"size": float(task % 7)} for task in range(35)})
    one.learn_many(table, refresh=False, time="time" if "drift" in settings else None)
    shards = [ShardFleet(seed=number, **made) for number in range(3)]
    for number, shard in enumerate(shards):
        # How much a click counts for in the end depends on what was believed when it came: with drift, rows that every
        # shard learns for itself count a little otherwise.
        shard.take_over(one, [task for task in one.tasks if homes_of(task) == number], decided=0)

    def ask(_, method, *arguments):
        return [getattr(shard, method)(*arguments) for shard in shards]

    # The order of pairs is another, so both go on until nothing moves.
    one.core.estimate(steps=1500, settled=1e-13)
    estimate(coordinator, ask, shards, steps=1500, settled=1e-13)
    for shard in shards:
        require_same(shard, one, tolerance=1e-6)
    for name in ("covariance", "shared_precision", "shared_location"):
        assert_allclose(getattr(coordinator.prior, name), getattr(one.prior, name), rtol=1e-6, atol=1e-8)
    for task in one.tasks[:10]:
        mine, wanted = shards[homes_of(task)].expected(task, CONTEXT), one.expected(task, CONTEXT)
        assert_allclose(list(mine.mean.values()), list(wanted.mean.values()), rtol=1e-6)


def homes_of(task):
    return buckets_of([task])[0] % 3


def test_what_a_shard_learned_since_counts(log):
    table = log(3000)
    shards, ask = shards_of(table)
    coordinator = Posse(arms=ARMS, features=FEATURES)
    found = estimate(coordinator, ask, shards)
    more = log(500, seed=5)
    homes = buckets_of(more["task"].to_list()) % 3
    shards[0].learn_many(more.filter(homes == 0))
    # The same rows before the population was put in place: sums are what counts, not when they came.
    again, _ = shards_of(table)
    again[0].learn_many(more.filter(homes == 0), refresh=False)
    again[0].adopt(**found[0])
    assert_allclose(again[0].core.state.store.shared, shards[0].core.state.store.shared, rtol=1e-9, atol=1e-12)
    # And the coordinator finds it when it asks again.
    pairs = RemotePairs(coordinator.core, ask, 0.0)
    coordinator.core.estimate_from(pairs, steps=0, settled=0.0)
    assert_allclose(coordinator.core.state.store.shared, shards[0].core.state.store.shared, rtol=1e-9, atol=1e-12)


def test_a_shard_explores_by_the_steps_of_all(log):
    shards, ask = shards_of(log(3000))
    for number, shard in enumerate(shards):
        shard.stream.decided = 2000 * number
    estimate(Posse(arms=ARMS, features=FEATURES), ask, shards, steps=3, settled=0.2)
    assert [shard.steps for shard in shards] == [(6001, 3001)] * 3


def test_a_new_arm_and_a_forgotten_task(log):
    table = log(3000)
    one = Posse(arms=ARMS, features=FEATURES, seed=1)
    one.learn_many(table)
    shards, ask = shards_of(table)
    coordinator = Posse(arms=ARMS, features=FEATURES)
    estimate(coordinator, ask, shards)
    for fleet in (one, coordinator, *shards):
        fleet.add_arm("violet")
    assert_allclose(shards[0].prior.covariance, one.prior.covariance, rtol=1e-9)
    task = shards[0].tasks[0]
    one.forget(task)
    shards[0].forget_tasks([task], 2)
    for shard in shards:
        shard.reset_population(2)
    coordinator.core.forget(np.zeros(0, dtype=np.int64))
    estimate(coordinator, ask, shards, number=3)
    for shard in shards:
        require_same(shard, one)
    assert np.isfinite(shards[0].expected(task, {"a": 1.0, "b": 1.0}).mean["red"])


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"robust": True}, "weight of every task"),
        ({"prior": "moments"}, "one place"),
        ({"drift": "learn"}, "in their order"),
    ],
)
def test_what_shards_cannot_learn_is_refused(settings, word):
    with pytest.raises(InvalidValue, match=word):
        require_shardable(Posse(arms=ARMS, features=FEATURES, **settings))
