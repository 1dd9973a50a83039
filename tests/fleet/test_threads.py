"""One fleet, many threads: no torn reads, no lost or doubled rewards, no exception."""

import math
import os
import random
import signal
import sys
import threading
import warnings

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import posse.core.core
from posse import FeatureSpec, Posse
from posse.model import posterior

X = np.array([0.3, -0.8])


@pytest.fixture
def eager_switches():
    """Let Python change threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run(*jobs):
    """Run all at the same time; raise what any of them raised."""
    failures, start = [], threading.Barrier(len(jobs))

    def guarded(job):
        start.wait()
        try:
            job()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_deciding_while_everything_else_happens(fleet_of, table, eager_switches, tmp_path):
    fleet = fleet_of(40, policy="ebm-ts")
    made, rows = [], []
    waiting: list = []
    ended = threading.Event()
    learned = [table(30, seed, n_tasks=12) for seed in range(1, 13)]

    def check(decision):
        chances = list(decision.probabilities.values())
        assert all(map(math.isfinite, [*chances, *decision.mean.values(), *decision.sd.values()]))
        assert math.fsum(chances) == pytest.approx(1, abs=1e-9)
        assert min(chances) >= 0
        assert decision.propensity == decision.probabilities[decision.arm] > 0
        assert min(decision.sd.values()) > 0
        assert decision.mean.keys() == decision.sd.keys() == decision.probabilities.keys()

    def decide(seed):
        rng = random.Random(seed)
        for _ in range(150):
            task, x = f"t{rng.randrange(15)}", [rng.gauss(0, 1), rng.gauss(0, 1)]
            decision = fleet.decide(task, x)
            check(decision)
            made.append(decision.id)
            waiting.append((decision, x))
            assert all(map(math.isfinite, fleet.expected(task, x).mean.values()))

    def decide_many(seed):
        rng = np.random.default_rng(seed)
        for _ in range(15):
            contexts = rng.normal(size=(20, 2))
            batch = fleet.decide_many([f"t{i}" for i in rng.integers(15, size=20)], contexts)
            for decision, x in zip(batch, contexts.tolist(), strict=True):
                check(decision)
                waiting.append((decision, x))
            made.extend(batch.ids)
            assert_allclose(fleet.probabilities(["t1"], [X]).sum(axis=1), 1)

    def reward(seed):
        rng = random.Random(seed)
        while not ended.is_set() or waiting:
            try:
                decision, x = waiting.pop(rng.randrange(len(waiting)))
            except (IndexError, ValueError):
                continue
            if rng.random() < 0.7:
                y = rng.gauss(0, 1)
                assert fleet.reward(decision.id, y) is True
                assert fleet.reward(decision.id, y) is False
                rows.append((decision.task, decision.arm, x, y))

    def learn():
        for frame in learned:
            fleet.learn_many(frame)

    def manage():
        for i in range(6):
            fleet.add_arm(f"new-{i}")
            fleet.refresh()
            fleet.retire_arm("green")
            fleet.rename(f"new-{i}", f"newer-{i}")
            fleet.add_arm("green")
            fleet.save(tmp_path / "fleet.posse")
            fleet.pending()
            fleet.export("t1")
            fleet.overview()

    def all_but_rewards():
        try:
            run(*(lambda seed=seed: decide(seed) for seed in range(6)), lambda: decide_many(7), lambda: decide_many(8),
                learn, manage)  # fmt: skip
        finally:
            ended.set()

    run(all_but_rewards, lambda: reward(1), lambda: reward(2))

    assert len(set(made)) == len(made) == fleet.n_decisions == 6 * 150 + 2 * 300
    stats = fleet.statistics
    arms, tasks = ["red", "green", "blue", *(f"newer-{i}" for i in range(6))], list(fleet.tasks)
    gram, moment, count = np.zeros_like(stats.gram), np.zeros_like(stats.moment), np.zeros_like(stats.count)
    frame = pl.concat([table(40), *learned])
    # A new arm may have been called by its first name at the moment of the decision.
    all_rows = [(arm.replace("new-", "newer-"), task, x, y) for task, arm, x, y in rows]
    all_rows += [(row["arm"], row["task"], [row["a"], row["b"]], row["reward"]) for row in frame.iter_rows(named=True)]
    for arm, task, x, y in all_rows:
        place, full = (arms.index(arm), tasks.index(task)), np.array([1.0, *x])
        gram[place] += np.outer(full, full)
        moment[place] += full * y
        count[place] += 1
    assert_allclose(stats.count, count)
    assert_allclose(stats.gram, gram, atol=1e-9 * gram.max())
    assert_allclose(stats.moment, moment, atol=1e-9 * np.abs(moment).max())
    post = posterior(stats, fleet.prior)
    for place, task in enumerate(tasks):
        expected = fleet.expected(task, X).mean
        found = [expected[arm] for arm in arms]
        assert_allclose(found, post.mean[:, place] @ [1.0, *X], rtol=1e-6, atol=1e-6)


BATCH = 400


def test_no_reader_sees_half_a_batch(eager_switches, tmp_path):
    # One feature that is 1 and rewards that are 2: after n rewards of a task alone the mean is 2 n / (n + 1) and the
    # variance 1 / (n + 1), so every answer says which n it has seen, and n must be a whole number of batches.
    fleet = Posse(arms=["red", "green"], features=FeatureSpec(["a"], intercept=False), policy="lin-ucb", seed=1)
    rows = {"task": ["t"] * BATCH, "arm": ["red", "green"] * (BATCH // 2), "a": [1.0] * BATCH, "reward": [2.0] * BATCH}
    frame = pl.DataFrame(rows)
    ended = threading.Event()
    seen = set()

    def check(mean, sd):
        counts = {round(1 / sd[arm] ** 2) - 1 for arm in ("red", "green")}
        assert len(counts) == 1
        n = counts.pop()
        assert n % (BATCH // 2) == 0
        for arm in ("red", "green"):
            assert mean[arm] == pytest.approx(2 * n / (n + 1), rel=1e-6)
        seen.add(n)

    def write():
        try:
            for _ in range(40):
                fleet.learn_many(frame)
        finally:
            ended.set()

    def until_ended(read):
        while not ended.is_set():
            read()

    def read_one():
        check(*fleet.expected("t", [1.0]))
        decision = fleet.decide("t", [1.0])
        check(decision.mean, decision.sd)

    def read_many():
        made = fleet.decide_many(["t"] * 30, np.ones((30, 1)))
        assert len({(decision.mean["red"], decision.sd["green"]) for decision in made}) == 1
        check(made[0].mean, made[0].sd)

    def read_sums():
        stats = fleet.statistics
        if stats.count.any():
            assert stats.count[0, 0] == stats.count[1, 0] == stats.gram[0, 0, 0, 0] == stats.gram[1, 0, 0, 0]
            assert stats.moment[0, 0, 0] == 2 * stats.count[0, 0]
            assert stats.count[0, 0] % (BATCH // 2) == 0

    def read_file():
        fleet.save(tmp_path / "fleet.posse")
        check(*Posse.load(tmp_path / "fleet.posse").expected("t", [1.0]))

    def read_coefficients():
        found = fleet.coefficients("t")
        check(
            {arm: float(mean[0]) for arm, mean in found.mean.items()},
            {arm: math.sqrt(found.covariance[arm][0, 0]) for arm in found.mean},
        )

    readers = (read_one, read_one, read_many, read_sums, read_file, read_coefficients)
    run(write, *(lambda read=read: until_ended(read) for read in readers))

    assert fleet.n_rewards == 40 * BATCH
    assert len(seen) > 2  # readers did come in between


def test_a_reward_that_many_threads_bring_counts_once(eager_switches, fleet_of):
    fleet = fleet_of(0)
    ids = [fleet.decide(f"t{i % 5}", X).id for i in range(60)]
    news = []

    def bring(seed):
        order = random.Random(seed).sample(ids, len(ids))
        for first, second in zip(order[::2], order[1::2], strict=True):
            news.append(fleet.reward(first, 1.0))
            news.append(fleet.reward_many([second, first], [1.0, 1.0]))

    run(*(lambda seed=seed: bring(seed) for seed in range(8)))

    assert sum(news) == fleet.n_rewards == 60
    assert fleet.pending() == []


def test_fleets_merge_in_both_directions_without_waiting_for_ever(eager_switches, fleet_of):
    for _ in range(10):
        one, two = fleet_of(20), fleet_of(20, table_seed=1)
        outcomes = []

        def merge(mine, other, outcomes=outcomes):
            try:
                mine.merge(other)
                outcomes.append("merged")
            except ValueError:
                outcomes.append("refused")

        run(lambda one=one, two=two: merge(one, two), lambda one=one, two=two: merge(two, one))
        # Whoever comes second finds its own past in the other.
        assert sorted(outcomes) == ["merged", "refused"]
        assert sorted([one.n_rewards, two.n_rewards]) == [20, 40]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_threads_of_its_own(fleet_of, monkeypatch):
    monkeypatch.setattr(posse.core.core, "MANY_ROWS", 10)
    monkeypatch.setattr(posse.core.core, "workers", lambda: 2)
    fleet = fleet_of()
    expected = fleet.probabilities(["t1"] * 50, np.tile(X, (50, 1)))
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks with threads
        child = os.fork()
    if child == 0:
        signal.alarm(30)  # rather than wait for ever
        try:
            found = fleet.probabilities(["t1"] * 50, np.tile(X, (50, 1)))
            os.write(writer, b"same" if np.array_equal(found, expected) else b"else")
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"same"
    os.close(reader)
