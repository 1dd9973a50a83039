"""Interrupts from the keyboard that come in the middle of a change."""

import signal
import threading

import numpy as np
import polars as pl
import pytest

import posse.core.changes
import posse.core.core
from posse import FeatureSpec, Posse
from posse.core.core import Core
from posse.core.estimate import with_posterior
from posse.core.state import N_SLOTS
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
    "start_slots": lambda fleet: fleet.learn_many(rows_of(500, 1), refresh=False),
    "add_rows": lambda fleet: fleet.learn_many(rows_of(500, 1), refresh=False),
    "count_news": lambda fleet: fleet.learn_many(rows_of(500, 1), refresh=False),
    "learn_number": lambda fleet: fleet.reward(fleet.decide(3, [0.1]), 1.0),
    "learn_number, rows": lambda fleet: fleet.learn_many(rows_of(5, 1)),
    "with_posterior": lambda fleet: fleet.add_arm("blue"),
    "estimated": lambda fleet: fleet.refresh(),
    "empty_slots": lambda fleet: fleet.forget(*fleet.tasks[:2]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_fleet_is_whole_after_an_interrupt(name, monkeypatch):
    # An interrupt that came while compiled code ran is raised as soon as that is over.
    fleet = Posse(arms=["red", "green"], features=FeatureSpec(["a"]), seed=1)
    fleet.learn_many(rows_of(60, 0))
    modules, function = (posse.core.core, posse.core.changes), name.partition(",")[0]
    module = next(module for module in modules if hasattr(module, function))
    plain, pressed = getattr(module, function), []

    def interrupted(*arguments, **settings):
        result = plain(*arguments, **settings)
        if threading.current_thread() is threading.main_thread():
            pressed.append(name)
            press()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(module, function, interrupted)
        try:
            CALLS[name](fleet)
        except KeyboardInterrupt:
            assert pressed
    fleet.learn_many(rows_of(500, 2))
    require_whole(fleet)


def require_whole(fleet):
    """Slots are those of pairs, once each; counts agree; and beliefs follow from the sums."""
    store, n_slots = fleet.core.state.store, int(fleet.core.state.numbers[N_SLOTS])
    taken = [slot for slot in range(n_slots) if store.owner[slot, 0] >= 0]
    assert [store.slot[tuple(store.owner[slot])] for slot in taken] == taken
    assert (store.slot >= 0).sum() == len(taken)
    assert fleet.n_rewards == fleet.statistics.count.sum() == fleet.core.n_rewards
    rebuilt = with_posterior(fleet.core.state, learned=False)[0].store.shared
    np.testing.assert_allclose(store.shared, rebuilt, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("where", ["snapshot", "restore", "add_arm", "merge", "renew"])
def test_fleets_are_merged_or_not(where, monkeypatch):
    fleet = Posse(arms=["red", "green"], features=FeatureSpec(["a"]), seed=1)
    other = Posse(arms=["blue", "red"], features=FeatureSpec(["a"]), seed=2)
    fleet.learn_many(rows_of(60, 0))
    other.learn_many(rows_of(60, 1).with_columns(arm=pl.lit("blue"), task=pl.col("task") + 50))
    plain, pressed = getattr(Core, where), []

    def interrupted(self, *arguments, **settings):
        result = plain(self, *arguments, **settings)
        pressed.append(where)
        press()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Core, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            fleet.merge(other)

    assert pressed
    assert fleet.n_rewards == 60  # it is done on a copy, which takes the place of all at the end
    assert fleet.core.n_arms == len(fleet.arms) == 2
    fleet.merge(other)
    require_whole(fleet)
    assert fleet.decide(60, [0.1]).probabilities.keys() == {"red", "green", "blue"}
    assert fleet.statistics.count.sum() == 120
