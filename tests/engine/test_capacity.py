import os
from pathlib import Path

import numpy as np
import pytest

import posse.engine.capacity
from posse.engine.arrays import FIRST_ROOM
from posse.engine.capacity import SMALL, longer, memory, new_capacity, with_more_arms, with_more_slots, with_more_tasks
from posse.engine.store import Store
from posse.kernels import estimators
from posse.model import Prior

STATM = Path("/proc/self/statm")
D = 10
TRIANGLE = D * (D + 1) // 2
MANY = SMALL // (8 * TRIANGLE) + 1  # slots whose Gram matrices are more than a small room


def filled_room(n_arms=2, n_tasks=3, n_slots=4, d=3):
    """Capacity whose every number is another one."""
    room = new_capacity(n_arms, n_tasks, n_slots, d)
    count = 1
    for _, array in fields(room):
        array[...] = np.arange(count, count + array.size).reshape(array.shape)
        count += array.size
    return room


def fields(room):
    """Names and arrays."""
    belief = room.belief
    yield from ((f"sums.{name}", array) for name, array in zip(belief.sums._fields, belief.sums, strict=True))
    yield from ((name, getattr(belief, name)) for name in belief._fields if name != "sums")
    yield from ((name, getattr(room, name)) for name in room._fields if name != "belief")


OVER_SLOTS = ("sums.gram", "sums.moment", "sums.sum_of_squares", "sums.counts", "task_of", "local_covariance",
              "local_mean", "settled")  # fmt: skip
OVER_TASKS = {"slot": -1, "task_weight": 1, "seen": 0}  # and what a new task has
OVER_ARMS = {
    "slot": -1, "seen": 0, "n_seen": 0, "rewards": 0, "covariance": 0, "noise_variance": 0, "shared_precision": 0,
    "shared_location": 0, "shared_covariance": 0, "shared_moment": 0, "shared_mean": 0, "root": 0, "triangle": 0,
    "silent": 0,
}  # fmt: skip


def require_grown(old, new, over):
    """Everything is where it was, what is new is as it should be, and the rest is the same array."""
    before, after = dict(fields(old)), dict(fields(new))
    assert before.keys() == after.keys()
    for name, array in after.items():
        if name not in over:
            assert array is before[name], name
            continue
        there = tuple(map(slice, before[name].shape))
        assert (array[there] == before[name]).all(), name
        rest = np.ones(array.shape, dtype=np.bool_)
        rest[there] = False
        assert (array[rest] == over[name]).all(), name
        assert rest.any(), name
        assert array.dtype == before[name].dtype


def test_new_room_has_nothing_in_it():
    room = new_capacity(2, 5, 7, 3)

    shapes = {name: array.shape for name, array in fields(room)}
    assert {shapes[name][0] for name in OVER_SLOTS} == {7}
    assert shapes["sums.gram"] == shapes["local_covariance"] == (7, 6)
    assert (shapes["slot"], shapes["seen"], shapes["task_weight"]) == ((5, 2), (2, 5), (5,))
    assert (room.belief.slot == -1).all()
    assert (room.belief.task_weight == 1).all()
    assert not any(array.any() for name, array in fields(room) if name in OVER_SLOTS)


def test_a_longer_array_has_what_it_had():
    array = np.arange(6.0).reshape(2, 3)

    assert longer(array, 4).tolist() == [[0, 1, 2], [3, 4, 5], [0, 0, 0], [0, 0, 0]]
    assert longer(array, 3, -1).tolist() == [[0, 1, 2], [3, 4, 5], [-1, -1, -1]]


@pytest.mark.parametrize(("at_least", "size"), [(5, 8), (8, 8), (9, 9), (50, 50)])
def test_small_rooms_double_or_fit(at_least, size):
    room = filled_room()

    more = with_more_slots(room, at_least)

    require_grown(room, more, dict.fromkeys(OVER_SLOTS, 0))
    assert more.settled.size == size


@pytest.mark.parametrize(("at_least", "size"), [(4, 6), (6, 6), (20, 20)])
def test_tasks_double_or_fit(at_least, size):
    room = filled_room()

    more = with_more_tasks(room, at_least)

    require_grown(room, more, OVER_TASKS)
    assert more.belief.task_weight.size == more.belief.slot.shape[0] == more.belief.seen.shape[1] == size


@pytest.mark.parametrize(("at_least", "size"), [(3, 4), (4, 4), (9, 9)])
def test_arms_double_or_fit(at_least, size):
    room = filled_room()

    more = with_more_arms(room, at_least)

    require_grown(room, more, OVER_ARMS)
    assert more.belief.n_seen.size == size


def test_a_large_room_has_space_for_all_the_memory_there_is():
    room = with_more_slots(new_capacity(2, 3, 4, D), MANY)

    assert room.settled.size >= min(memory() // (8 * TRIANGLE * 32), MANY)
    if room.settled.size > 2 * MANY:  # the system gave it
        assert room.settled.size in [memory() // (8 * TRIANGLE * part) for part in (2, 4, 8, 16, 32)]


class Small:
    """NumPy on a system that gives no array of more than so many rows."""

    def __init__(self, most):
        self.most = most
        self.asked = []

    def __getattr__(self, name):
        return getattr(np, name)

    def zeros(self, shape, dtype=np.float64):
        self.asked.append(shape[0])
        if shape[0] > self.most:
            raise MemoryError("no more memory")
        return np.zeros(shape, dtype)


@pytest.mark.parametrize("part", [2, 4, 8, 16, 32, None])
def test_a_system_that_gives_less_gets_asked_for_less(monkeypatch, part):
    monkeypatch.setattr(posse.engine.capacity, "memory", lambda: 64 * 8 * TRIANGLE * MANY)
    most = 64 * MANY // part if part else MANY
    small, room = Small(most), new_capacity(2, 3, 4, D)
    room.belief.sums.gram[:] = 7.0
    monkeypatch.setattr(posse.engine.capacity, "np", small)

    more = with_more_slots(room, MANY)

    assert more.settled.size == most
    assert sorted(set(small.asked), reverse=True) == [
        64 * MANY // each for each in (2, 4, 8, 16, 32) if part is None or each <= part
    ] + ([] if part else [MANY])
    assert (more.belief.sums.gram[:4] == 7.0).all()
    assert not more.belief.sums.gram[4:].any()


def test_a_system_that_gives_nothing_says_so(monkeypatch):
    room = new_capacity(2, 3, 4, D)
    monkeypatch.setattr(posse.engine.capacity, "np", Small(MANY - 1))

    with pytest.raises(MemoryError):
        with_more_slots(room, MANY)


def new_store():
    start = Prior.isotropic(n_arms=5, n_features=D)
    return Store(start=start, method=estimators.KNOWN)


def addresses(store):
    return {name: array.ctypes.data for name, array in fields(store._capacity) if name in OVER_SLOTS}


def one_reward_each(store, tasks):
    """Give every arm of these tasks a reward."""
    tasks, arms = np.repeat(tasks, 5), np.tile(np.arange(5), len(tasks))
    store.learn_rows(tasks, arms, np.ones((tasks.size, D)), store.claim(tasks, arms).astype(float))


def test_arrays_stay_where_they_are_once_they_are_large():
    store = new_store()
    moves = [addresses(store)]
    # 8,000 tasks, 5 arms: four times as many slots as a small room has, a few hundred at a time.
    n_tasks = 4 * MANY // 5
    for first in range(0, n_tasks, 400):
        one_reward_each(store, store.add_tasks(min(400, n_tasks - first)))
        if addresses(store) != moves[-1]:
            moves.append(addresses(store))
        if store.n_slots > MANY:
            large = moves[-1]
            break
    if store._capacity.settled.size < 4 * MANY:
        pytest.skip("this system gives no room that is not used at once")

    for first in range(store.n_tasks, n_tasks, 400):
        one_reward_each(store, store.add_tasks(min(400, n_tasks - first)))
        assert addresses(store) == large

    # Small rooms doubled: as often as it takes, and no more.
    assert len(moves) <= 3 + np.log2(MANY / FIRST_ROOM)
    assert store.n_slots == 5 * n_tasks
    # Every slot has its own reward still.
    belief = store.belief
    assert (belief.sums.counts[: store.n_slots] == 1).all()
    assert (belief.sums.moment[: store.n_slots, 0] == np.arange(store.n_slots)).all()
    assert (
        belief.slot[belief.task_of[: store.n_slots], np.arange(store.n_slots) % 5] == np.arange(store.n_slots)
    ).all()


@pytest.mark.skipif(not STATM.exists(), reason="the system does not tell how much memory is in use")
def test_room_that_was_not_touched_costs_no_memory():
    page = os.sysconf("SC_PAGE_SIZE")
    small = new_capacity(5, 10, MANY - 1, D)
    for _, array in fields(small):
        array[...] = 1

    def resident():
        return int(STATM.read_text().split()[1]) * page

    before = resident()
    large = with_more_slots(small, MANY)
    used = resident() - before

    sizes = [(array.nbytes, old.nbytes) for (_, array), (_, old) in zip(fields(large), fields(small), strict=True)]
    asked, touched = sum(new for new, old in sizes if new > old), sum(old for new, old in sizes if new > old)
    if asked < 1 << 30:
        pytest.skip("this system gives no room that is not used at once")
    # What was copied, and a last page of every array, which may be one of two megabytes.
    assert used < touched + 8 * (2 << 20) + (8 << 20)
