"""The compiled code of learning is loaded before anything changes, and for the one kind of arguments that it gets."""

import numpy as np
import polars as pl
import pytest

from posse import FeatureSpec, Posse
from posse.engine import loading
from posse.fleet.replica import Replica
from posse.kernels import fleet as kernels
from posse.kernels.changed_sums import keep_rows
from posse.kernels.decision_arrays import set_triangles
from posse.kernels.replace import exchange_rows, replace_rows

LEARNING = (
    kernels.observe_one, kernels.observe_rows, kernels.claim_rows, kernels.sort_by_slots, kernels.add_to_slots,
    kernels.list_first, kernels.count_rows, set_triangles, keep_rows, replace_rows, exchange_rows,
)  # fmt: skip


def read_only(array):
    array.flags.writeable = False
    return array


LATE = {"absent_reward": 1}  # a whole number: kernels get a float all the same


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"prior": "paper"}, {"policy": "lin-ucb"}, {"background": True}, LATE, LATE | {"background": True},
        LATE | {"count_pending": False, "time_to_live": 50.0},
    ],
    ids=str,
)  # fmt: skip
def test_learning_needs_no_other_kernels_than_those_loaded(settings):
    loading.load_many()
    known = {kernel.py_func.__name__: kernel.signatures for kernel in LEARNING}
    assert all(known.values())
    rng = np.random.default_rng(0)
    now = [100.0]
    fleet = Posse(
        arms=["red", "green"], features=FeatureSpec(["a", "b"]), seed=1, clock=lambda: now[0], **settings
    )  # fmt: skip
    for n in (3, 50, 6000):
        values = read_only(rng.normal(size=(n, 3)))
        columns = {"a": values[:, 0], "b": values[:, 1], "reward": values[:, 2]}
        names = {"task": rng.integers(9, size=n).tolist(), "arm": ["red", "green"] * (n // 2) + ["red"] * (n % 2)}
        fleet.learn_many(pl.DataFrame(names | columns))
        fleet.learn_many(names | columns, refresh=False)
    made = fleet.decide_many([1, 2, 3, 10], np.asfortranarray(rng.normal(size=(4, 2))))
    assert fleet.reward_many([decision.id for decision in made], read_only(rng.normal(size=4))) == 4
    wide = rng.normal(size=(5, 4))
    assert fleet.reward(fleet.decide(4, wide[0, ::2]).id, np.float32(0.5))
    assert fleet.reward(fleet.decide(11, read_only(wide[1, :2])).id, 1)
    fleet.decide(12, [1.0, 2.0])
    now[0] += 100.0
    assert fleet.decide(13, np.array([1, 2])).task == 13
    replica = Replica(arms=["red", "green"], features=FeatureSpec(["a", "b"]), **settings)
    replica.learn(["t", "u"], ["red", "green"], np.asfortranarray(wide[:2, ::2]), (1.0, 2.0))
    replica.learn(["t"], ["red"], [{"a": 1.0, "b": 2.0}], [1.0], catching_up=True)
    replica.learn(["v"], ["red"], [[1.0, 2.0]], [1.0])
    replica.learn(["v", "v"], ["red", "green"], [[1.0, 2.0]] * 2, (2, 3), replaces=(1, None), catching_up=True)
    replica.refresh()
    replica.learn(["v", "v"], ["red", "green"], [[1.0, 2.0]] * 2, (2, 3), replaces=(2, None))
    fleet.forget(2)
    fleet.refresh()
    assert {kernel.py_func.__name__: kernel.signatures for kernel in LEARNING} == known


def test_a_decision_that_counts_is_not_made_if_that_cannot_be_loaded(fleet_of, snapshot, monkeypatch):
    fleet = fleet_of(absent_reward=0.0)
    before = snapshot(fleet)

    def no_file(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(loading, "loaded", set())
    with monkeypatch.context() as patch:
        patch.setattr("posse.engine.store.replace_rows", no_file)
        for decide in (lambda: fleet.decide("new", [0.1, 0.2]), lambda: fleet.decide_many(["new"], [[0.1, 0.2]])):
            with pytest.raises(OSError, match="open files"):
                decide()
            assert snapshot(fleet) == before
    assert fleet.decide("new", [0.1, 0.2]).task == "new"


def test_what_cannot_be_loaded_changes_nothing(fleet_of, snapshot, monkeypatch):
    fleet, other = fleet_of(), fleet_of(arms=["red", "white"], table_seed=1)
    decision = fleet.decide("t1", [0.1, 0.2])
    before = snapshot(fleet)

    def no_file(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(loading, "loaded", set())
    with monkeypatch.context() as patch:
        patch.setattr("posse.engine.store.observe_rows", no_file)
        patch.setattr("posse.engine.store.observe_one", no_file)
        for learn in (
            lambda: fleet.reward(decision.id, 1.0),
            lambda: fleet.reward_many([decision.id], [1.0]),
            lambda: fleet.learn_many({"task": ["new"], "arm": ["red"], "a": [1.0], "b": [1.0], "reward": [1.0]}),
            lambda: fleet.merge(other),
        ):
            with pytest.raises(OSError, match="open files"):
                learn()
            assert snapshot(fleet) == before
            assert not loading.loaded
    assert fleet.reward(decision.id, 1.0)
    assert loading.loaded == {"one"}  # the first reward does not wait for what tables need
    assert fleet.learn_many({"task": ["new"], "arm": ["red"], "a": [1.0], "b": [1.0], "reward": [1.0]})
    assert loading.loaded == {"one", "many"}
