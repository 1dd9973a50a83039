"""Interrupts from the keyboard that come in the middle of a change."""

import signal
import threading

import numpy as np
import polars as pl
import pytest

import posse.engine.arrays
import posse.engine.posteriors
import posse.engine.store
from posse import FeatureSpec, Posse
from posse.engine.store import Store
from posse.interrupts import defer_interrupts


def press():
    """Press Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end():
    before, reached = signal.getsignal(signal.SIGINT), []

    def nested():
        with defer_interrupts():
            with defer_interrupts():
                press()
                reached.append("inside")
            reached.append("between")

    with pytest.raises(KeyboardInterrupt):
        nested()

    assert reached == ["inside", "between"]
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        press()


def test_an_error_is_an_error():
    before = signal.getsignal(signal.SIGINT)

    with pytest.raises(ValueError, match="own"), defer_interrupts():
        raise ValueError("own")

    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_who_is_not_interrupted_by_python_is_left_alone(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        with defer_interrupts():
            assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_never_interrupted():
    seen, before = [], signal.getsignal(signal.SIGINT)

    def work():
        with defer_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)

    assert seen == [before]


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "a": rng.normal(size=n),
            "task": rng.integers(0, 90, n),
            "arm": np.array(["red", "green"])[rng.integers(0, 2, n)],
            "reward": rng.normal(size=n),
        }
    )


CALLS = {
    "claim_rows": lambda fleet: fleet.learn_many(rows_of(500, 1), refresh=False),
    "list_first": lambda fleet: fleet.learn_many(rows_of(500, 1), refresh=False),
    "add_to_slots": lambda fleet: fleet.learn_many(rows_of(500, 1), refresh=False),
    "count_rows": lambda fleet: fleet.learn_many(rows_of(500, 1), refresh=False),
    "observe_rows": lambda fleet: fleet.learn_many(rows_of(5, 1)),
    "set_triangles": lambda fleet: fleet.refresh(),
    "sum_information": lambda fleet: fleet._engine.store.settle(),
}


@pytest.mark.parametrize("kernel", CALLS)
def test_a_fleet_is_whole_after_an_interrupt(kernel, monkeypatch):
    # An interrupt that came while compiled code ran is raised as soon as that is over.
    fleet = Posse(arms=["red", "green"], features=FeatureSpec(["a"]), seed=1)
    fleet.learn_many(rows_of(60, 0))
    modules = (posse.engine.arrays, posse.engine.posteriors, posse.engine.store)
    module = next(module for module in modules if hasattr(module, kernel))
    plain = getattr(module, kernel)

    def interrupted(*arguments):
        result = plain(*arguments)
        if threading.current_thread() is threading.main_thread():
            press()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(module, kernel, interrupted)
        with pytest.raises(KeyboardInterrupt):
            CALLS[kernel](fleet)
    fleet.learn_many(rows_of(500, 2))

    store = fleet._engine.store
    belief = store.belief
    for arm in range(store.n_arms):
        listed = belief.seen[arm, : belief.n_seen[arm]]
        assert np.unique(listed).size == listed.size
        assert (belief.sums.counts[listed] > 0).all()
        assert belief.rewards[arm] == belief.sums.counts[listed].sum()
    slots = belief.slot[:, : store.n_arms].ravel()
    slots = slots[slots >= 0]
    assert np.unique(slots).size == slots.size <= store.n_slots
    assert fleet.n_rewards == belief.sums.counts.sum() == store._total
    before = belief.shared_mean.copy()
    store.rebuild()
    np.testing.assert_allclose(before, belief.shared_mean, rtol=1e-8)


@pytest.mark.parametrize("where", ["add_arm", "copy_of_sums", "adding_sums", "refresh"])
def test_fleets_are_merged_or_not(where, monkeypatch):
    fleet = Posse(arms=["red", "green"], features=FeatureSpec(["a"]), seed=1)
    other = Posse(arms=["blue", "red"], features=FeatureSpec(["a"]), seed=2)
    fleet.learn_many(rows_of(60, 0))
    other.learn_many(rows_of(60, 1).with_columns(arm=pl.lit("blue"), task=pl.col("task") + 50))
    plain = getattr(Store, where)

    def interrupted(self, *arguments, **settings):
        result = plain(self, *arguments, **settings)
        press()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Store, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            fleet.merge(other)

    merged = where == "refresh"
    assert fleet.n_rewards == (120 if merged else 60)
    assert fleet._engine.store.n_arms == len(fleet.arms) == (3 if merged else 2)
    if not merged:
        fleet.merge(other)
    assert fleet.decide(60, [0.1]).probabilities.keys() == {"red", "green", "blue"}
    assert fleet.statistics.count.sum() == 120
