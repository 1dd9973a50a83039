import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import posse.engine.arrays
import posse.engine.store
import posse.threads
from posse.engine.arrays import FIRST_ARMS, FIRST_ROOM
from posse.engine.commit import commit
from posse.engine.store import Store
from posse.errors import InvalidValue
from posse.kernels import estimators
from posse.kernels.fleet import decide
from posse.kernels.packing import whole_matrices
from posse.kernels.posterior import predict_arm
from posse.model import Prior, Statistics, posterior

D = 3


def new_store(method=estimators.EVIDENCE, n_arms=2, robust=False):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(n_arms, D, D))
    start = Prior(covariance=root @ root.transpose(0, 2, 1), noise_variance=0.7, shared_precision=0.3)
    return Store(start=start, method=method, robust=robust)


def some_rows(n, n_tasks, n_arms=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return rng.integers(n_tasks, size=n), rng.integers(n_arms, size=n), X, X.sum(axis=1) + rng.normal(size=n)


def learn(store, rows):
    store.claim(rows[0], rows[1])
    store.learn_rows(*rows)


def add(store, rows):
    store.add_rows(store.claim(rows[0], rows[1]), *rows[1:])


def dense(store):
    """The sums of a store as statistics over all its arms and tasks."""
    tasks, arms, sums = store.copy_of_sums()
    stats = Statistics.zeros(n_tasks=max(store.n_tasks, 1), n_arms=store.n_arms, n_features=D)
    for field, values in zip(stats.sums, sums._replace(gram=whole_matrices(sums.gram)), strict=True):
        field[arms, tasks] = values
    return stats


def plain(store, rows):
    """The same by a plain pass."""
    n_tasks = max(store.n_tasks, 1)
    stats = Statistics.zeros(n_tasks=n_tasks, n_arms=store.n_arms, n_features=D)
    for task, arm, x, y in rows:
        stats.gram[arm, task] += np.outer(x, x)
        stats.moment[arm, task] += x * y
        stats.sum_of_squares[arm, task] += y * y
        stats.count[arm, task] += 1
    return stats


def predict(store, task, arm, x):
    """Mean and standard deviation from the belief of one pair, brought up to date."""
    store.settle([task])
    return predict_arm(store.belief, task, arm, x, np.empty((4, D)))


def require_whole(store, rows):
    """Every sum is that of the rows, every list is in order, and beliefs follow from both."""
    found, expected = dense(store), plain(store, rows)
    for mine, theirs in zip(found.sums, expected.sums, strict=True):
        assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)
    belief = store.belief
    assert_array_equal(belief.rewards, expected.count.sum(axis=1))
    assert store.n_rewards == store.experience == len(rows)
    slots = []
    for arm in range(store.n_arms):
        seen = belief.seen[arm, : belief.n_seen[arm]].tolist()
        assert sorted(belief.task_of[seen].tolist()) == np.flatnonzero(expected.count[arm]).tolist()
        assert_array_equal(belief.slot[belief.task_of[seen], arm], seen)
        slots += seen
    assert len(set(slots)) == len(slots)
    assert not set(slots) & set(store.free_slots)
    assert all(0 <= slot < store.n_slots for slot in [*slots, *store.free_slots])
    post = posterior(expected, store.prior, belief.task_weight if store.n_tasks else None)
    x = np.array([0.3, -1.0, 0.8])
    for arm in range(store.n_arms):
        for task in range(store.n_tasks):
            mean, sd = predict(store, task, arm, x)
            assert mean == pytest.approx(x @ post.mean[arm, task], rel=1e-7, abs=1e-7)
            assert sd == pytest.approx(np.sqrt(x @ post.covariance[arm, task] @ x), rel=1e-7, abs=1e-7)


def as_list(rows):
    return list(zip(*(column.tolist() for column in rows[:2]), *rows[2:], strict=True))


@pytest.mark.parametrize("method", [estimators.EVIDENCE, estimators.KNOWN, estimators.MOMENTS, estimators.PAPER])
def test_it_grows_with_tasks_and_pairs(method):
    store, rows = new_store(method), []
    for n_tasks in (1, 3, FIRST_ROOM, FIRST_ROOM + 1, 150):
        numbers = store.add_tasks(n_tasks - store.n_tasks)
        assert numbers == list(range(n_tasks - len(numbers), n_tasks))
        new = some_rows(40, n_tasks, seed=n_tasks)
        rows += as_list(new)
        learn(store, new)
        require_whole(store, rows)
    store.refresh()
    require_whole(store, rows)


def test_one_by_one_is_row_by_row_is_many_rows():
    rows = some_rows(90, 20)
    single, in_turn, at_once = new_store(), new_store(), new_store()
    for store in (single, in_turn, at_once):
        store.add_tasks(20)
    for task, arm, x, y in as_list(rows):
        single.claim(np.array([task]), np.array([arm]))
        single.learn(task, arm, x, y)
    learn(in_turn, rows)
    add(at_once, rows)

    for mine, theirs in zip(single.belief.sums, in_turn.belief.sums, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert single.belief.shared_mean.tobytes() == in_turn.belief.shared_mean.tobytes()
    for store in (single, in_turn, at_once):
        store.refresh()
        require_whole(store, as_list(rows))
    assert_allclose(at_once.prior.covariance, single.prior.covariance, rtol=1e-12)


def test_threads_add_rows_to_the_last_bit_like_one(monkeypatch):
    rows = some_rows(500, 30)
    one, many = new_store(), new_store()
    for store in (one, many):
        store.add_tasks(30)
    add(one, rows)
    monkeypatch.setattr(posse.engine.store, "MANY_ROWS", 10)
    monkeypatch.setattr(posse.engine.store, "workers", lambda: 3)
    add(many, rows)

    for mine, theirs in zip(one.belief.sums, many.belief.sums, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert_array_equal(one.belief.seen, many.belief.seen)
    many.refresh()
    require_whole(many, as_list(rows))


def test_sums_of_pairs_add_to_what_is_there():
    store, other = new_store(), new_store()
    store.add_tasks(6)
    other.add_tasks(6)
    mine, theirs = some_rows(30, 5), some_rows(30, 6, seed=1)
    learn(store, mine)
    learn(other, theirs)

    tasks, arms, sums = other.copy_of_sums()
    commit(store.adding_sums(store.claim(tasks, arms), arms, sums))
    store.refresh()

    require_whole(store, as_list(mine) + as_list(theirs))


def test_slots_and_tasks_of_forgotten_tasks_are_used_again():
    store = new_store()
    store.add_tasks(10)
    rows = some_rows(80, 10)
    learn(store, rows)

    store.drop_tasks(np.array([2, 7]), store.new_memory())

    kept = [row for row in as_list(rows) if row[0] not in (2, 7)]
    assert store.stale  # a refresh is to follow, which starts from the sums
    store.refresh()
    assert not store.stale
    require_whole(store, kept)
    assert len(store.free_slots) == 4
    assert (store.belief.slot[[2, 7]] == -1).all()
    assert store.n_live_tasks == 8
    assert sorted(store.add_tasks(2)) == [2, 7]
    assert store.add_tasks(1) == [10]
    new = some_rows(60, 11, seed=3)
    learn(store, new)
    assert not store.free_slots
    assert store.n_slots == len({row[:2] for row in kept + as_list(new)})
    require_whole(store, kept + as_list(new))


def test_nothing_of_a_forgotten_task_is_left_in_the_next_one():
    store, fresh = new_store(), new_store()
    store.add_tasks(3)
    fresh.add_tasks(3)
    rows = some_rows(40, 3)
    others = rows[0] != 1
    learn(store, rows)
    store.drop_tasks(np.array([1]), store.new_memory())
    store.reset_prior()
    store.refresh()
    learn(fresh, [column[others] for column in rows])
    fresh.reset_prior()
    fresh.refresh()
    new = (np.array([1]), np.array([1]), np.array([[0.1, 0.2, 0.3]]), np.array([2.0]))
    assert store.add_tasks(1) == [1]

    for each in (store, fresh):
        learn(each, new)

    x = np.array([1.0, -0.5, 2.0])
    for task in range(3):
        for arm in range(2):
            assert predict(store, task, arm, x) == predict(fresh, task, arm, x)


@pytest.mark.parametrize("robust", [False, True])
def test_arrays_grow_when_arms_join(robust):
    store = new_store(robust=robust)
    store.add_tasks(70)
    rows = some_rows(150, 70)
    add(store, rows)
    store.refresh()
    known, x = as_list(rows), np.array([0.4, 1.0, -0.6])
    before = [predict(store, task, arm, x) for task in range(70) for arm in range(2)]

    for arm in range(2, FIRST_ARMS + 3):
        assert store.add_arm() == arm
        assert (store.belief.slot[:, arm] == -1).all()
        require_whole(store, known)

    assert before == [predict(store, task, arm, x) for task in range(70) for arm in range(2)]
    new = some_rows(200, 70, n_arms=FIRST_ARMS + 3, seed=2)
    learn(store, new)
    require_whole(store, known + as_list(new))
    store.refresh()
    require_whole(store, known + as_list(new))


def test_a_new_arm_starts_from_what_the_others_have_in_common():
    store = new_store()
    store.add_tasks(8)
    add(store, some_rows(200, 8))
    store.refresh()

    arm = store.add_arm()

    belief, evidence = store.belief, store.memory.evidence
    noise, level = np.exp(evidence.centre)
    assert_allclose(belief.covariance[arm], level * evidence.target)
    assert belief.noise_variance[arm] == pytest.approx(noise)
    spread = np.diag(1 / (evidence.shared_scale[0] * evidence.feature_square))
    assert_allclose(np.linalg.inv(belief.shared_precision[arm]), spread + evidence.arm_covariance)
    assert_allclose(belief.shared_mean[arm], evidence.arm_mean)


def test_a_known_population_takes_no_new_arm():
    store = new_store(estimators.KNOWN)
    with pytest.raises(InvalidValue, match="Prior"):
        store.add_arm()
    assert store.n_arms == 2


def test_going_back_to_the_start_keeps_the_sums():
    store = new_store()
    store.add_tasks(5)
    rows = some_rows(60, 5)
    start = store.prior
    add(store, rows)
    store.refresh()
    assert not np.allclose(store.prior.covariance, start.covariance)

    learned = store.prior
    store.reset_prior()

    assert_array_equal(store.prior.covariance, start.covariance)
    assert store.stale
    store.rebuild()
    require_whole(store, as_list(rows))
    store.reset_prior()
    store.refresh()
    assert store.prior.covariance.tobytes() == learned.covariance.tobytes()
    require_whole(store, as_list(rows))


@pytest.mark.parametrize("method", [estimators.EVIDENCE, estimators.MOMENTS, estimators.KNOWN])
def test_a_refresh_is_due_when_rewards_have_grown(method):
    store = new_store(method)
    store.add_tasks(3)
    assert not store.refresh_due(0.5)
    assert store.refresh_due(0.5, 1)
    add(store, some_rows(40, 3))
    assert store.refresh_due(0.5)
    store.refresh()
    # A known population is rebuilt when rewards have doubled, whatever the setting.
    growth = 40 if method == estimators.KNOWN else 20
    assert not store.refresh_due(0.5, growth - 1)
    assert store.refresh_due(0.5, growth)
    learn(store, some_rows(growth - 1, 3))
    assert not store.refresh_due(0.5)
    learn(store, some_rows(1, 3))
    assert store.refresh_due(0.5)


# Beliefs that are brought up to date when they are looked at


def look_at(store, way):
    """Let all pairs be looked at in some way."""
    x, every = np.array([0.4, 1.0, -0.6]), np.arange(store.n_arms)
    match way:
        case "decide":
            for task in range(store.n_tasks):
                decide(store.address, task, x, every, 5, True, 0.3, np.empty((3, store.n_arms)))
        case "decide, an arm at a time":
            for task in range(store.n_tasks):
                for arm in every[::-1]:
                    decide(store.address, task, x, every[arm : arm + 1], 5, True, 0.3, np.empty((3, 1)))
        case "settle each task":
            for task in range(store.n_tasks):
                store.settle([task])
        case "settle some tasks":
            store.settle(list(range(0, store.n_tasks, 2)))
            store.settle(list(range(store.n_tasks)))
        case "rebuild":
            store.rebuild()
        case _:
            store.settle()


@pytest.mark.parametrize("method", [estimators.EVIDENCE, estimators.KNOWN, estimators.MOMENTS])
def test_sums_are_learned_by_pairs_that_were_looked_at_before(method):
    store = new_store(method)
    store.add_tasks(6)
    mine, more = some_rows(60, 6), some_rows(30, 6, seed=4)
    add(store, mine)
    store.refresh()
    look_at(store, "decide")
    add(store, more)
    assert store.stale
    store.refresh()
    assert not store.stale
    require_whole(store, as_list(mine) + as_list(more))
