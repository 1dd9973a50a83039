"""Python's collector leaves alone what a service has in memory, and finds what was replaced."""

import gc
import weakref

import pytest

from posse.service.heap import PAUSE, Heap


class Large:
    """Something that only the collector can free."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before():
    yield
    gc.unfreeze()


def test_collections_of_a_ready_service_find_little(service):
    service.make_fleet()
    assert gc.get_freeze_count() > 10 * len(gc.get_objects())


def test_what_is_replaced_is_freed(tmp_path):
    now = [0.0]
    heap, kept, replaced = Heap(lambda: now[0]), Large(), Large()
    heap.settle([kept, replaced])
    gone = weakref.ref(replaced)
    del replaced
    gc.collect()
    assert gone() is not None
    heap.settle([kept])
    assert gone() is not None, "looked through all of it twice in a minute"
    now[0] = PAUSE
    heap.settle([kept])
    assert gone() is None


def test_nothing_is_looked_through_without_need():
    now = [0.0]
    heap, kept = Heap(lambda: now[0]), Large()
    heap.settle([kept])
    later, now[0] = Large(), PAUSE
    gone = weakref.ref(later)
    del later
    heap.settle([kept])
    assert gone() is not None


def test_a_fleet_that_is_learned_again_frees_the_one_before(start, wait_for, monkeypatch):
    monkeypatch.setattr("posse.service.heap.PAUSE", 0.0)
    service = start()
    service.make_fleet()
    service.reward(service.decide(), 1.0)
    gone = weakref.ref(service.live().replica)
    assert service.post("/v1/fleets/stores/repair").status_code == 200
    wait_for(lambda: gone() is None, 30)
