import os
from pathlib import Path

import numpy as np
import pytest

import posse.engine.capacity
from posse.engine.capacity import SMALL, new_capacity, with_more_slots

STATM = Path("/proc/self/statm")
D = 10
TRIANGLE = D * (D + 1) // 2
MANY = SMALL // (8 * TRIANGLE) + 1  # slots whose Gram matrices are more than a small room


def fields(room):
    """Names and arrays."""
    belief = room.belief
    yield from ((f"sums.{name}", array) for name, array in zip(belief.sums._fields, belief.sums, strict=True))
    yield from ((name, getattr(belief, name)) for name in belief._fields if name != "sums")
    yield from ((name, getattr(room, name)) for name in room._fields if name != "belief")


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


@pytest.mark.skipif(not STATM.exists(), reason="the system does not tell how much memory is in use")
def test_reserved_memory_is_not_resident():
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
