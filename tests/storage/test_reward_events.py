"""Several rewards of one decision, and corrections: each counts once, and any place in the log leads to the same."""

import numpy as np
import pytest

from posse.storage import ACCEPTED, CONFLICT, GONE, NAMELESS, SAME, UNKNOWN, UNREWARDED, WITHHELD, RewardEvent

BODY = '{"context": {"hour": 9.5}}'


@pytest.fixture
def fleet(empty, make):
    """Make the fleet "stores" with settings of its own; decisions a and b are in it."""

    def made(**settings):
        empty.create_fleet("stores", make.DEFINITION | settings, 1.0)
        empty.write([[make.decision("a")], [make.decision("b")]])
        return empty

    return made


@pytest.fixture
def kinds(empty):
    def kinds(*entries):
        return [outcome.kind for [outcome] in empty.write([[entry] for entry in entries]).outcomes]

    return kinds


def told(changes):
    return [(one.number, one.reward, one.old) for one in changes]


def learned(changes, start=None):
    """What somebody believes who has applied these: sum, sum of squares and count by decision's task."""
    found = start or [0.0, 0.0, 0]
    for change in changes:
        if change.old is not None:
            found = [found[0] - change.old, found[1] - change.old**2, found[2] - 1]
        found = [found[0] + change.reward, found[1] + change.reward**2, found[2] + 1]
    return found


@pytest.mark.parametrize("settings", [{}, {"drift": 7.0}, {"rewards": "binary"}, {"kind": "catalogue"}])
def test_rewards_of_all_fleets_may_be_corrected(fleet, make, kinds, settings):
    fleet(**settings)
    assert kinds(make.reward("a", 1.0), make.reward("a", 0.0, corrects=True)) == [ACCEPTED, ACCEPTED]


@pytest.mark.parametrize("counts", [None, 0.0])
def test_a_change_that_replaces_another_says_with_which_the_decision_was_learned_first(fleet, make, counts):
    storage = fleet(reward_events="sum", absent_reward=counts)
    start = 0 if counts is None else 2  # both decisions count before the first reward
    told = []
    for step, value in enumerate((1.0, 2.0)):
        one = make.reward("a", value, time=130.0 + step, event=str(step))
        told += storage.write([[one]]).changes["stores"]
    told += storage.write([[make.reward("a", 5.0, time=140.0, corrects=True)]]).changes["stores"]
    assert [change.first for change in told] == [1 if start else None, 1, 1]
    assert [change.time for change in told] == [130.0, 131.0, 140.0]
    # As those hear of it who read the log.
    log = storage.changes("stores", start)
    assert [(change.first, change.time) for change in log] == [(change.first, change.time) for change in told]


def test_a_reward_is_corrected_once(fleet, make, kinds):
    storage = fleet()
    assert kinds(make.reward("a", 4.0, corrects=True), make.reward("none", 4.0, corrects=True)) == [UNREWARDED, UNKNOWN]
    assert kinds(make.reward("a", 3.0)) == [ACCEPTED]
    fix = make.reward("a", 4.0, time=500.0, corrects=True, instead_of=3.0)
    assert kinds(fix, fix) == [ACCEPTED, SAME]
    assert kinds(make.reward("a", 5.0, corrects=True, instead_of=3.0)) == [CONFLICT]
    assert kinds(make.reward("a", 3.0)) == [CONFLICT]  # what is there is 4
    row = storage.decision("a")
    assert (row.reward, row.reward_time, row.change, row.corrected) == (4.0, 130.0, 1, 2)
    assert storage.reward_events("a") == [RewardEvent(2, None, "correction", 4.0, 4.0, 3.0, 500.0)]
    assert told(storage.changes("stores", 0)) == [
        (1, 3.0, None),
        (2, 4.0, 3.0),
    ]
    assert told(storage.changes("stores", 1)) == [(2, 4.0, 3.0)]
    assert storage.fleet("stores")[3:8] == (1, 2, 1, 1, 2)
    assert sum(part.reward_sum for part in storage.activity("stores", 0, 60)) == 4.0
    assert storage.rewards_up_to("stores", 2) == storage.rewards_up_to("stores", 1) == 1


def test_events_are_added_up_and_each_counts_once(fleet, make, kinds):
    storage = fleet(reward_events="sum", reward_window=100.0)
    assert kinds(make.reward("a", 1.0)) == [NAMELESS]
    first, second = make.reward("a", 1.0, event="e1"), make.reward("a", 2.5, time=140.0, event="e2")
    assert kinds(first, second, first, second) == [ACCEPTED, ACCEPTED, SAME, SAME]  # also within one transaction
    assert kinds(second, first, make.reward("a", 2.0, event="e1")) == [SAME, SAME, CONFLICT]
    assert kinds(make.reward("a", 1.0, time=201.0, event="late")) == [GONE]
    assert kinds(make.reward("b", 7.0, event="e1")) == [ACCEPTED]  # names belong to a decision
    assert kinds(make.reward("a", -1.0, time=150.0, event="e3")) == [ACCEPTED]
    row = storage.decision("a")
    assert (row.reward, row.reward_time, row.state) == (2.5, 150.0, 1)
    assert [(one.event, one.value, one.reward, one.old) for one in storage.reward_events("a")] == [
        ("e1", 1.0, 1.0, None), ("e2", 2.5, 3.5, 1.0), ("e3", -1.0, 2.5, 3.5),
    ]  # fmt: skip
    assert learned(storage.changes("stores", 0)) == [9.5, 2.5**2 + 49.0, 2]
    assert storage.fleet("stores").rewards == 2


def test_the_last_event_within_the_window_counts(fleet, make, kinds):
    storage = fleet(reward_events="last", reward_window=60.0)
    assert kinds(make.reward("a", 1.0), make.reward("a", 1.0), make.reward("a", 3.0, event="x")) == [
        ACCEPTED, SAME, ACCEPTED,
    ]  # fmt: skip
    assert kinds(make.reward("a", 2.0, event="y"), make.reward("a", 3.0, event="x")) == [ACCEPTED, SAME]
    assert storage.decision("a").reward == 2.0  # a copy of an old one changes nothing
    assert kinds(make.reward("a", 9.0, time=161.0)) == [GONE]
    assert learned(storage.changes("stores", 0)) == [2.0, 4.0, 1]


def test_a_fleet_without_events_takes_one(fleet, make, kinds):
    storage = fleet()
    assert kinds(make.reward("a", 1.0, event="e1"), make.reward("a", 1.0, event="e2")) == [ACCEPTED, SAME]
    assert kinds(make.reward("a", 2.0, event="e3")) == [CONFLICT]
    assert storage.reward_events("a") == []


def test_a_refused_group_leaves_no_event(fleet, make):
    storage = fleet(reward_events="sum")
    storage.write([[make.reward("a", 1.0, event="e1")]])
    group = [make.reward("a", 2.0, event="e2"), make.reward("none", 1.0, event="e")]
    again = [make.reward("a", 2.0, event="e2"), make.reward("b", 5.0, event="e")]
    refused, taken = storage.write([group, again]).outcomes
    assert [one.kind for one in refused] == [WITHHELD, UNKNOWN]
    assert [one.kind for one in taken] == [ACCEPTED, ACCEPTED]
    assert storage.decision("a").reward == 3.0
    assert [one.number for one in storage.changes("stores", 0)] == [1, 2, 3]


def test_outcomes_of_a_write_agree_with_the_log(fleet, make):
    storage = fleet(reward_events="sum", absent_reward=-0.5)
    told = []
    for value in (1.0, 2.0, -4.0):
        written = storage.write([[make.reward("a", value, event=str(value))]])
        told += written.changes["stores"]
    told += storage.write([[make.reward("a", 8.0, corrects=True)]]).changes["stores"]
    assert told == storage.changes("stores", 2)
    assert [change.old for change in told] == [-0.5, 1.0, 3.0, -1.0]


def test_rewards_that_are_held_are_changed_without_a_change(fleet, make):
    storage = fleet(reward_events="sum", absent_reward=0.0, count_pending=False)
    storage.write([[make.reward("a", 1.0, event="1")], [make.reward("a", 2.0, event="2")]])
    storage.write([[make.reward("a", 5.0, corrects=True)]])
    assert storage.changes("stores", 0) == []
    storage.write([[make.reward("a", 0.0, time=2000.0, expiring=True)]])
    assert told(storage.changes("stores", 0)) == [(1, 5.0, None)]
    storage.write([[make.reward("a", 6.0, time=2100.0, corrects=True)]])
    assert told(storage.changes("stores", 0)) == [
        (1, 5.0, None),
        (2, 6.0, 5.0),
    ]


def test_expired_decisions_are_not_corrected(fleet, make, kinds):
    storage = fleet()
    storage.expire("stores", 1000.0)
    assert kinds(make.reward("a", 1.0, corrects=True)) == [GONE]


def test_reading_from_any_change_learns_the_same(fleet, make):
    """From the start, with and without what was wrong in between, and from every place in the log."""
    storage = fleet(reward_events="sum")
    rng = np.random.default_rng(7)
    for step in range(40):
        decision = "ab"[rng.integers(2)]
        value = float(np.round(rng.normal(), 2))
        wrong = step % 7 == 3 and storage.decision(decision).reward is not None
        storage.write([[make.reward(decision, value, corrects=bool(wrong), event=None if wrong else str(step))]])
    rewards = [storage.decision(name).reward for name in "ab"]
    expected = [sum(rewards), sum(value**2 for value in rewards), 2]
    changes = storage.changes("stores", 0)
    np.testing.assert_allclose(learned(changes), expected, atol=1e-12)
    for place in range(len(changes)):
        begun = learned(changes[:place])
        after = changes[place - 1].number if place else 0
        np.testing.assert_allclose(learned(storage.changes("stores", after), begun), expected, atol=1e-12)
    for settled in range(0, len(changes) + 1, 3):
        # Rewards as they were after some change, and what came after that.
        found, after = [], 0
        while some := storage.changes("stores", after, 3, settled=settled):
            found, after = [*found, *some], some[-1].number
        np.testing.assert_allclose(learned(found), expected, atol=1e-12)
        assert all(change.old is None for change in found if change.number <= settled)
    assert [change.reward for change in storage.changes("stores", 0, settled=10**9)] == [
        storage.decision(name).reward for name in sorted("ab", key=lambda name: storage.decision(name).change)
    ]


def test_events_go_with_their_decisions(fleet, make, sweep):
    storage = fleet(reward_events="sum", retention=10)
    for name in ("a", "b"):
        for event in ("1", "2"):
            storage.write([[make.reward(name, 1.0, event=event)]])
    storage.write([[make.decision("c", "south")], [make.reward("c", 1.0, event="1")]])
    snapshot = storage.start_snapshot("stores", 3, 1.0)
    storage.finish_snapshot(snapshot)
    # Of b the second event is not in the snapshot yet.
    assert storage.prune("stores", 1000.0) == 1
    assert storage.reward_events("a") == []
    assert len(storage.reward_events("b")) == 2
    storage.erase("stores", "north")
    sweep(storage)
    assert storage.reward_events("b") == []
    storage.delete_fleet("stores")
    sweep(storage)
    assert storage._read("SELECT count(*) FROM reward_events")[0][0] == 0
