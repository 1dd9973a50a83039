"""The compiled code of learning is loaded before anything changes, and for the one kind of arguments that it gets."""

import pytest

from posse.engine import loading


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
