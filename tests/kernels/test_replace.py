"""One reward in the place of another, against a posterior that is computed from the sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.engine.store import Store
from posse.kernels import estimators
from posse.kernels.packing import whole_matrices
from posse.model import Prior, posterior

D, ARMS, TASKS = 3, 2, 4
PARTS = ("local_covariance", "local_mean", "shared_covariance", "shared_moment", "shared_mean")


def new_store(seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(ARMS, D, D))
    prior = Prior(
        covariance=root @ root.transpose(0, 2, 1), noise_variance=[0.3, 1.7], shared_precision=0.2 + rng.random((2, D))
    )
    store = Store(start=prior, method=estimators.KNOWN)
    store.add_tasks(TASKS)
    return store, prior


def rows_of(n, seed):
    rng = np.random.default_rng([seed, 5])
    tasks, arms = rng.integers(TASKS, size=n), rng.integers(ARMS, size=n)
    return tasks, arms, rng.normal(size=(n, D)), rng.normal(size=n)


def belief_of(store):
    store.settle()
    return {name: getattr(store.belief, name).copy() for name in PARTS}


@pytest.mark.parametrize("absent", [0.0, -0.4, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_replaced_reward_leaves_what_the_new_one_alone_would_have(absent, weighted):
    tasks, arms, X, rewards = rows_of(60, 1)
    replaced, plain = new_store()[0], new_store()[0]
    for store in (replaced, plain):
        store.claim(tasks, arms)
        if weighted:
            store.belief.task_weight[:] = [0.3, 1.0, 2.5, 0.7]
    replaced.learn_rows(tasks, arms, X, np.full(60, absent))
    order = np.random.default_rng(9).permutation(60)[:45]
    replaced.replace_rows(tasks[order], arms[order], X[order], np.full(45, absent), rewards[order])
    final = np.full(60, absent)
    final[order] = rewards[order]
    plain.learn_rows(tasks, arms, X, final)

    for mine, theirs in zip(replaced.belief.sums, plain.belief.sums, strict=True):
        assert_allclose(mine[: replaced.n_slots], theirs[: plain.n_slots], rtol=1e-9, atol=1e-12)
    carried = belief_of(replaced)
    replaced.rebuild()
    for name, rebuilt in belief_of(replaced).items():
        used = slice(replaced.n_slots) if name.startswith("local") else slice(None)
        assert_allclose(carried[name][used], rebuilt[used], rtol=1e-9, atol=1e-9, err_msg=name)
    assert replaced.replaced == 45
    assert replaced.n_rewards == 60


def test_a_replaced_reward_is_believed_as_the_model_says():
    tasks, arms, X, rewards = rows_of(30, 2)
    store, prior = new_store()
    slots = store.claim(tasks, arms)
    store.learn_rows(tasks, arms, X, np.full(30, 0.5))
    store.replace_rows(tasks, arms, X, np.full(30, 0.5), rewards)

    from posse.model import Statistics

    stats = Statistics.from_data(task=tasks, arm=arms, context=X, reward=rewards, n_tasks=TASKS, n_arms=ARMS)
    post = posterior(stats, prior)
    assert_allclose(store.belief.shared_mean, post.shared_mean, rtol=1e-9, atol=1e-10)
    for task, arm, slot in zip(tasks, arms, slots, strict=True):
        covariance, gram = (whole_matrices(part[slot][None])[0] for part in (
            store.belief.local_covariance, store.belief.sums.gram))  # fmt: skip
        mean = store.belief.local_mean[slot] + store.belief.shared_mean[arm]
        mean -= covariance @ gram @ store.belief.shared_mean[arm]
        assert_allclose(mean, post.mean[arm, task], rtol=1e-8, atol=1e-9)


def test_sums_alone_are_those_of_the_steps_and_want_a_refresh():
    tasks, arms, X, rewards = rows_of(40, 3)
    steps, sums = new_store()[0], new_store()[0]
    for store in (steps, sums):
        slots = store.claim(tasks, arms)
        store.learn_rows(tasks, arms, X, np.full(40, -1.0))
    version = sums.version
    steps.replace_rows(tasks, arms, X, np.full(40, -1.0), rewards)
    sums.exchange_rows(slots, X, np.full(40, -1.0), rewards)

    for mine, theirs in zip(steps.belief.sums, sums.belief.sums, strict=True):
        assert (mine == theirs).all()
    assert sums.stale
    assert sums.version > version
    sums.rebuild()
    for name, found in belief_of(sums).items():
        used = slice(sums.n_slots) if name.startswith("local") else slice(None)
        assert_allclose(found[used], belief_of(steps)[name][used], rtol=1e-8, atol=1e-9, err_msg=name)


def test_squares_never_fall_below_what_the_moments_need():
    # 0.1 has no exact double, so what is added and taken away leaves dust: a file with such sums must still be sound.
    store = new_store()[0]
    rng = np.random.default_rng(4)
    n = 200
    tasks, arms, X = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), rng.normal(size=(n, D))
    slot = store.claim(tasks, arms)[0]
    store.learn_rows(tasks, arms, X, np.full(n, 0.1))
    store.replace_rows(tasks, arms, X, np.full(n, 0.1), np.zeros(n))

    sums = store.belief.sums
    gram = whole_matrices(sums.gram[slot][None])[0]
    assert 0 <= sums.sum_of_squares[slot] < 1e-14
    assert_allclose(sums.moment[slot], 0, atol=1e-14)
    assert (np.abs(sums.moment[slot]) <= (1 + 1e-6) * np.sqrt(np.diagonal(gram) * sums.sum_of_squares[slot])).all()
