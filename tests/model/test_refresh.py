"""The refresh of a fleet against that of the policies, and against itself done in other ways."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import posse.model.refresh
from posse import FeatureSpec, Posse
from posse.engine.store import Store
from posse.kernels import estimators
from posse.kernels.evidence import WORKING_ROOM, new_evidence
from posse.kernels.posterior import new_buffers, observe, predict_arm
from posse.model import Prior, Statistics, posterior
from posse.model.belief import new_belief
from posse.model.evidence import STUDENT_FREEDOM
from posse.model.refresh import POPULATION, LiveReader, Refresh
from posse.policies import EbmTS, EbmUCB

K, N, D = 3, 8, 3
STEPS = [(3, 0.2), (30, 1e-2), (0, 0.2)]
KINDS = ["none", "one", "few", "plenty", "zeros", "absent feature", "absent arm"]


def world(kind, seed=0, d=D, n_tasks=N):
    """Rows of a kind that takes its own way through a refresh."""
    rng = np.random.default_rng([seed, d])
    n = {"few": K - 1, "none": 0, "one": 1}.get(kind, 120)
    tasks, arms = rng.integers(n_tasks, size=n), rng.integers(K, size=n)
    X = rng.normal(size=(n, d)) * np.array([1.0, 3.0, 0.2, 1.5, 0.7])[:d]
    y = X @ np.array([0.5, 1.0, -2.0, 0.3, 1.1])[:d] + rng.normal(size=n)
    if kind == "zeros":
        y[:] = 0.0
    if kind == "absent feature":
        X[:, min(1, d - 1)] = 0.0
    if kind == "absent arm":
        arms %= K - 1
    return tasks, arms, X, y


def new_store(d=D, robust=False, n_tasks=N, n_arms=K):
    store = Store(start=Prior.isotropic(n_arms=n_arms, n_features=d), method=estimators.EVIDENCE, robust=robust)
    store.add_tasks(n_tasks)
    return store


def new_policy(d=D, robust=False):
    """What a policy with the evidence prior works on."""
    stats = Statistics.zeros(n_tasks=N, n_arms=K, n_features=d)
    belief = new_belief(stats, Prior.isotropic(n_arms=K, n_features=d))
    return stats, belief, new_evidence(K, N, d, STUDENT_FREEDOM if robust else 0.0)


def learn(store, rows):
    slots = store.claim(rows[0], rows[1])
    store.learn_rows(*rows)
    return slots


def add(store, rows):
    store.add_rows(store.claim(rows[0], rows[1]), *rows[1:])


def observe_rows(belief, rows):
    buffers = new_buffers(belief.shared_mean.shape[1])
    for task, arm, x, y in zip(*rows, strict=True):
        observe(belief, arm, task, x, y, buffers)


def differing(store, belief, evidence, tolerance):
    """Return the names of what differs in prior, weights, shared means and what is remembered; none is the same."""
    found = []
    for name in (*POPULATION, "task_weight"):
        mine, theirs = getattr(store.belief, name), getattr(belief, name)
        if not np.allclose(mine, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max()):
            found.append(name)
    for name, mine, theirs in zip(evidence._fields, store.memory.evidence, evidence, strict=True):
        # Where pairs are from the shared means is a buffer of policies only; the last move is near zero, a difference.
        if name == "distance" or name in WORKING_ROOM:
            continue
        scale = np.abs(theirs).max(initial=0) if name != "last_move" else 1.0
        same = np.allclose(mine, theirs, rtol=tolerance, atol=tolerance * scale) if np.isfinite(scale) else (
            np.array_equal(mine, theirs)
        )  # fmt: skip
        if not same:
            found.append(name)
    return found


def predictions(store_or_belief, n_tasks):
    """Return what is believed about one context in every task and arm, shape (n_tasks, n_arms, 2)."""
    belief = getattr(store_or_belief, "belief", store_or_belief)
    if belief is not store_or_belief:
        store_or_belief.settle()
    n_arms, d = belief.shared_mean.shape
    x, vectors = np.linspace(-1.0, 1.7, d), np.empty((4, d))
    return np.array([[predict_arm(belief, task, arm, x, vectors) for arm in range(n_arms)] for task in range(n_tasks)])


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_from_sums_alone_it_finds_what_it_finds_from_a_posterior_in_place(kind, robust, d):
    store, (stats, belief, evidence) = new_store(d, robust), new_policy(d, robust)

    for turn, (steps, settled) in enumerate(STEPS):
        # The second lot brings a feature that was absent and rewards that were zero.
        rows = world(kind if turn == 0 else "plenty", turn, d)
        learn(store, rows)
        observe_rows(belief, rows)
        refresh = Refresh(belief, evidence, in_place=True)
        refresh.run(LiveReader(belief), steps=steps, settled=settled, exact=True)
        store.refresh(steps=steps, settled=settled)

        assert differing(store, belief, evidence, 1e-9) == []
        n_tasks = store.n_tasks
        assert_allclose(predictions(store, n_tasks), predictions(belief, n_tasks), rtol=1e-8, atol=1e-8)
    post = posterior(stats, store.prior, store.belief.task_weight)
    assert_allclose(store.belief.shared_mean, post.shared_mean, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("robust", [False, True])
def test_sums_alone_are_enough(robust):
    # What the posterior says does not matter: here it is right, there rewards came as sums, and it was spoiled.
    one, two = new_store(robust=robust), new_store(robust=robust)
    for store, more in ((one, learn), (two, add)):
        learn(store, world("plenty"))
        store.refresh()
        store.settle()
        more(store, world("plenty", 1))
    for name in ("local_covariance", "local_mean", "shared_covariance", "shared_mean", "shared_moment"):
        getattr(two.belief, name)[...] = 7.0
    two._capacity.settled[:] = -1
    for store in (one, two):
        store.refresh(steps=5, settled=0.0)

    assert differing(two, one.belief, one.memory.evidence, 0.0) == []
    assert np.array_equal(predictions(two, two.n_tasks), predictions(one, two.n_tasks))


def many_pairs(n_tasks, d=2, n_arms=K, robust=False, seed=0, rewards=4, spread=0.7):
    """A store with rewards of every arm in every task, as sums."""
    rng = np.random.default_rng(seed)
    store = new_store(d, robust, n_tasks, n_arms)
    tasks = np.tile(np.repeat(np.arange(n_tasks), rewards), n_arms)
    arms = np.repeat(np.arange(n_arms), n_tasks * rewards)
    X = rng.normal(size=(tasks.size, d)) + 0.3
    theta = rng.normal(size=(n_arms, 1, d)) + spread * rng.normal(size=(n_arms, n_tasks, d))
    y = np.einsum("ni,ni->n", X, theta[arms, tasks]) + 0.8 * rng.normal(size=tasks.size)
    add(store, (tasks, arms, X, y))
    return store


def all_of(refresh):
    """All that a refresh found, as bytes."""
    found = {name: getattr(refresh.population, name).tobytes() for name in (*POPULATION, "task_weight")}
    found |= {
        name: np.asarray(field).tobytes()
        for name, field in zip(refresh.evidence._fields, refresh.evidence, strict=True)
    }
    return found | {"root": refresh.root.tobytes(), "information": refresh.information.tobytes()}


@pytest.mark.parametrize("sample", [None, 200])
@pytest.mark.parametrize("robust", [False, True])
def test_the_number_of_threads_does_not_matter(robust, sample):
    store = many_pairs(2500, robust=robust)

    found = []
    for threads in (1, 2, 3):
        refresh = Refresh(store.belief, store.memory.evidence, threads=threads)
        assert refresh.threads == threads
        refresh.run(LiveReader(store.belief), steps=4, settled=0.0, sample=sample)
        found.append(all_of(refresh))

    assert [name for name in found[0] if not found[0][name] == found[1][name] == found[2][name]] == []


@pytest.mark.parametrize("robust", [False, True])
def test_blocks_are_a_matter_of_speed(monkeypatch, robust):
    store = many_pairs(90, robust=robust)
    found = []
    for block in (1024, 7):
        monkeypatch.setattr(posse.model.refresh, "BLOCK", block)
        monkeypatch.setattr(posse.model.refresh, "MANY", 0)
        refresh = Refresh(store.belief, store.memory.evidence)
        refresh.run(LiveReader(store.belief), steps=6, settled=0.0)
        found.append(refresh)

    for name in (*POPULATION, "task_weight"):
        assert_allclose(*(getattr(refresh.population, name) for refresh in found), rtol=1e-9, atol=1e-12)


def test_a_refresh_changes_nothing_before_it_is_installed():
    store = many_pairs(60, robust=True)
    store.refresh()
    learn(store, world("plenty", 1, 2))
    before = {
        name: np.asarray(field).tobytes()
        for name, field in zip(store.belief._fields[1:], store.belief[1:], strict=True)
    }
    remembered = [np.asarray(field).tobytes() for field in store.memory.evidence]
    x, vectors = np.array([0.3, -0.8]), np.empty((4, 2))
    old = predict_arm(store.belief, 3, 1, x, vectors)

    refresh = store.new_refresh()
    refresh.run(LiveReader(store.belief), steps=5, settled=0.0)

    after = {
        name: np.asarray(field).tobytes()
        for name, field in zip(store.belief._fields[1:], store.belief[1:], strict=True)
    }
    assert [name for name in before if before[name] != after[name]] == []
    assert [np.asarray(field).tobytes() for field in store.memory.evidence] == remembered
    assert predict_arm(store.belief, 3, 1, x, vectors) == old
    version, generation = store.version, int(store._capacity.generation[0])
    store.install(refresh)
    assert store.version > version
    assert store._capacity.generation[0] == generation + 1
    assert store.belief.covariance.tobytes() == refresh.population.covariance.tobytes()
    store.settle()
    assert predict_arm(store.belief, 3, 1, x, vectors) != old


@pytest.mark.parametrize("robust", [False, True])
def test_a_refresh_that_was_made_before_the_rewards_came_knows_them(robust):
    # New tasks and pairs beyond the blocks that there were: room for them was made beforehand.
    one, two = new_store(robust=robust), new_store(robust=robust)
    rows = world("plenty", n_tasks=N + 5)
    for store in (one, two):
        learn(store, world("plenty", 1))
        store.refresh()
        numbers = store.reserve_tasks(5)
        slots = store.claim(rows[0], rows[1])
        refresh = store.new_refresh(slots, rows[1]) if store is one else None
        store.take_tasks(len(numbers))
        store.add_rows(slots, *rows[1:])
        store.refresh(refresh, steps=5, settled=0.0)

    assert differing(one, two.belief, two.memory.evidence, 0.0) == []


def test_many_tasks_are_looked_at_after_some_of_them(monkeypatch):
    # Some tasks lead most of the way and all tasks have the last word: of what the estimate from some errs by, a few
    # steps over all leave little.
    store, plain, some = (many_pairs(600) for _ in range(3))
    looked_at = []
    sum_moments = Refresh._sum_moments

    def noted(self, source, rows):
        sizes = [part.size for part in rows]
        if not looked_at or looked_at[-1] != sizes:
            looked_at.append(sizes)
        sum_moments(self, source, rows)

    monkeypatch.setattr(Refresh, "_sum_moments", noted)
    plain.refresh(steps=100, settled=1e-3)
    some.refresh(steps=100, settled=1e-3, sample=100)
    looked_at.append("coarse")
    monkeypatch.setattr(posse.model.refresh, "COARSE", 100)
    store.refresh(steps=100, settled=1e-3)

    assert looked_at == [[600] * K, [100] * K, "coarse", [100] * K, [600] * K]

    def error(found):
        full = np.diagonal(plain.prior.covariance, axis1=1, axis2=2)
        return np.sqrt(np.mean((np.diagonal(found.prior.covariance, axis1=1, axis2=2) / full - 1) ** 2))

    assert error(some) > 0.05
    assert error(store) < 0.2 * error(some)
    # The noise is known from thousands of rewards either way, if they are counted right.
    for each in (some, store):
        assert_allclose(each.prior.noise_variance, plain.prior.noise_variance, rtol=0.15)
    assert store.belief.rewards.tolist() == plain.belief.rewards.tolist() == [600 * 4] * K


@pytest.mark.parametrize("sample", [50, 400])
def test_a_sample_of_the_tasks_errs_by_what_is_stated(sample):
    # The variances of 24 features over 2,000 tasks, each from about `sample` tasks. A sample variance of n draws has
    # the standard error sqrt(2 / n), and every task is well known here (60 rewards). Deviations from the estimate of
    # all tasks, which are a part of them, are a little smaller; their root mean square over 24 has itself a
    # standard error of one part in sqrt(48): 1.5 times the stated error is 3.5 such away, a fourth of it 5.
    d, n_arms, n_tasks = 4, 6, 2000
    store, some = (many_pairs(n_tasks, d, n_arms, rewards=60) for _ in range(2))
    store.refresh(steps=30, settled=1e-4)
    some.refresh(steps=30, settled=1e-4, sample=sample)

    full, found = (np.diagonal(each.prior.covariance, axis1=1, axis2=2) for each in (store, some))
    error = np.sqrt(np.mean((found / full - 1) ** 2)) / np.sqrt(2 / sample)
    assert 0.25 < error < 1.5
    assert_allclose(some.prior.noise_variance, store.prior.noise_variance, rtol=4 * np.sqrt(2 / (56 * sample)))
    # Shared means and the posterior are those of all tasks under the prior that was found.
    rebuilt = some.belief.shared_mean.copy(), some.belief.shared_covariance.copy()
    some.rebuild()
    assert_allclose(rebuilt[0], some.belief.shared_mean, rtol=1e-9, atol=1e-12)
    assert_allclose(rebuilt[1], some.belief.shared_covariance, rtol=1e-9, atol=1e-14)
    assert np.diagonal(some.belief.shared_covariance, axis1=1, axis2=2).max() < 2.0 * full.max() / n_tasks
    assert some.n_rewards == n_arms * n_tasks * 60
    assert some.memory.evidence.refreshed_at[0] == some.n_rewards


def test_tasks_outside_of_a_sample_keep_weights_of_their_own():
    def build():
        store = many_pairs(400, robust=True, rewards=12)
        # Odd ones, evenly spread as well: few of them are in the sample.
        odd = np.arange(7, 400, 40)
        for arm in range(K):
            slots = store.belief.slot[odd, arm]
            store.belief.sums.moment[slots] *= 6.0
            store.belief.sums.sum_of_squares[slots] *= 36.0
        return store, odd

    (full, odd), (some, _) = build(), build()
    full.refresh(steps=30, settled=1e-3)
    some.refresh(steps=30, settled=1e-3, sample=100)

    weight, found = full.belief.task_weight, some.belief.task_weight
    others = np.setdiff1d(np.arange(400), odd)
    assert weight[odd].max() < 0.2 < weight[others].min()
    assert found[odd].max() < 0.2 < found[others].min()
    # The population is known to about sqrt(2 / 100) = 14 %, and so are distances in units of it.
    assert_allclose(found, weight, rtol=0.5)
    before = some.belief.shared_mean.copy()
    some.rebuild()
    assert_allclose(before, some.belief.shared_mean, rtol=1e-9)


def test_a_sample_of_everyone_is_everyone():
    one, two = many_pairs(60), many_pairs(60)
    for turn in range(2):
        one.refresh(steps=3, settled=0.0)
        two.refresh(steps=3, settled=0.0, sample=60)
        assert differing(two, one.belief, one.memory.evidence, 1e-12) == []
        for store in (one, two):
            learn(store, world("plenty", turn, 2, 60))


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize(("key", "policy"), [("ebm-ts", EbmTS), ("ebm-ucb", EbmUCB)])
def test_a_fleet_that_learns_online_believes_what_the_policy_does(key, policy, robust):
    names = [f"x{i}" for i in range(D)]
    arms = [f"arm-{arm}" for arm in range(K)]
    fleet = Posse(arms=arms, features=FeatureSpec(names, intercept=False), policy=key, seed=3, robust=robust)
    theirs = policy(n_tasks=N, n_arms=K, n_features=D, prior="evidence", robust=robust)
    rng = np.random.default_rng(1)
    for step in range(150):
        task, arm = int(rng.integers(N)), int(rng.integers(K))
        x, y = rng.normal(size=D), float(rng.normal() + arm)
        decision = fleet.decide(f"task-{task}", x, eligible=[arms[arm]])
        fleet.reward(decision.id, y)
        theirs.update(task=task, arm=arm, context=x, reward=y)
        if step % 10:
            continue
        for name in ("covariance", "noise_variance", "shared_precision"):
            mine, other = getattr(fleet.prior, name), getattr(theirs.prior, name)
            assert_allclose(mine, other, rtol=1e-9, atol=1e-9 * np.abs(other).max(), err_msg=f"{step} {name}")
        for where in range(N):
            x = rng.normal(size=D)
            mine, prediction = fleet.expected(f"task-{where}", x), theirs.predict(where, x)
            assert_allclose(list(mine.mean.values()), prediction.mean, rtol=1e-8, atol=1e-8)
            assert_allclose(list(mine.sd.values()), prediction.sd, rtol=1e-8)
