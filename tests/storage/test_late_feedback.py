"""What storages promise about fleets in which a missing reward means something."""

import sqlite3
from contextlib import closing

import pytest

from posse.storage import ACCEPTED, CONFLICT, GONE, PENDING, REWARDED, SAME, UNKNOWN, WITHHELD, Change, open_storage
from posse.storage.statements import CHANGES, REWARDS_UP_TO, WAITING

BODY = '{"context": {"hour": 9.5}}'


@pytest.fixture
def counting(empty, make):
    """A storage whose fleet counts a decision as -0.5 from the moment it is made."""
    assert empty.create_fleet("stores", make.DEFINITION | {"absent_reward": -0.5, "count_pending": True}, 12.5)
    return empty


@pytest.fixture
def holding(empty, make):
    """A storage whose fleet learns nothing before a decision's time is over."""
    assert empty.create_fleet("stores", make.DEFINITION | {"absent_reward": -0.5, "count_pending": False}, 12.5)
    return empty


def kinds(written):
    return [[outcome.kind for outcome in group] for group in written.outcomes]


def test_a_decision_that_counts_is_a_change_and_its_reward_replaces_it(counting, make):
    first = counting.write([[make.decision("a"), make.decision("b", "south")]])
    second = counting.write([[make.reward("b", 2.0)], [make.decision("c")], [make.reward("c", -0.5)]])
    expected = [
        Change(1, "decision", "north", "cake", BODY, -0.5, time=100.0),
        Change(2, "decision", "south", "cake", BODY, -0.5, time=100.0),
        Change(3, "reward", "south", "cake", BODY, 2.0, old=-0.5, time=130.0, first=2),
        Change(4, "decision", "north", "cake", BODY, -0.5, time=100.0),
        Change(5, "reward", "north", "cake", BODY, -0.5, old=-0.5, time=130.0, first=4),
    ]  # fmt: skip
    assert (first.before, first.changes) == ({"stores": 0}, {"stores": expected[:2]})
    assert (second.before, second.changes) == ({"stores": 2}, {"stores": expected[2:]})
    for after in range(6):
        assert counting.changes("stores", after) == expected[after:]
        assert counting.changes("stores", after, limit=2) == expected[after : after + 2]
    assert counting.fleet("stores").changes == 5
    assert counting.decision("b")[10:] == (REWARDED, 2.0, 130.0, 3, 2, None)
    assert counting.decision("a")[10:] == (PENDING, None, None, None, 1, None)


def test_without_an_absent_reward_decisions_are_no_changes(storage, make):
    written = storage.write([[make.decision("a")]])
    assert (written.before, written.changes) == ({}, {})
    assert storage.changes("stores", 0) == []
    assert storage.fleet("stores").changes == 0


def test_a_refused_group_takes_its_numbers_back(counting, make):
    counting.write([[make.decision("a")]])
    written = counting.write(
        [[make.decision("b"), make.reward("a", 1.0), make.reward("nobody", 1.0)], [make.decision("c")]]
    )
    assert kinds(written) == [[WITHHELD, WITHHELD, UNKNOWN], [ACCEPTED]]
    assert written.changes == {"stores": [Change(2, "decision", "north", "cake", BODY, -0.5, time=100.0)]}
    assert counting.fleet("stores").changes == 2
    assert counting.decision("a").state == PENDING
    assert kinds(counting.write([[make.reward("a", 1.0)]])) == [[ACCEPTED]]
    replaced = Change(3, "reward", "north", "cake", BODY, 1.0, old=-0.5, time=130.0, first=1)
    assert counting.changes("stores", 2) == [replaced]


def test_a_reward_after_the_deadline_is_gone_whatever_was_learned_there(counting, make):
    counting.write([[make.decision("a")], [make.decision("b")]])
    counting.write([[make.reward("b", 2.0, time=1100.0)]])
    for again in (False, True):
        late = [[make.reward("a", value, time=1101.0)] for value in (1.0, -0.5)]
        assert kinds(counting.write(late)) == [[GONE], [GONE]]
        assert kinds(counting.write([[make.reward("b", 2.0, time=1101.0)], [make.reward("b", 3.0, time=1101.0)]])) == [
            [SAME], [CONFLICT]
        ]  # fmt: skip
        if not again:
            assert counting.waiting("stores", 101.0) == ["a"]
            absent = make.reward("a", -0.5, time=1100.5, expiring=True)
            assert kinds(counting.write([[absent]])) == [[ACCEPTED]]
            assert kinds(counting.write([[absent]])) == [[SAME]]
    assert counting.waiting("stores", 101.0) == []
    over = Change(4, "reward", "north", "cake", BODY, -0.5, old=-0.5, time=1100.5, first=1)
    assert counting.changes("stores", 3) == [over]
    row = counting.fleet("stores")
    assert (row.rewards, row.pending, row.changes) == (2, 0, 4)


def test_held_rewards_become_changes_when_their_time_is_over(holding, make):
    holding.write([[make.decision("a")], [make.decision("b", time=101.0)], [make.decision("c", time=102.0)]])
    written = holding.write([[make.reward("b", 2.0)], [make.reward("b", 2.0)], [make.reward("b", 3.0)]])
    assert kinds(written) == [[ACCEPTED], [SAME], [CONFLICT]]
    assert written.changes == {}
    row = holding.fleet("stores")
    assert (row.rewards, row.pending, row.changes) == (1, 2, 0)
    assert holding.changes("stores", 0) == []
    assert holding.decision("b")[10:] == (REWARDED, 2.0, 130.0, None, None, None)

    assert holding.waiting("stores", 100.5) == ["a"]
    assert holding.waiting("stores", 101.5, limit=1) == ["a"]
    assert holding.waiting("stores", 101.5) == ["a", "b"]
    entries = [[make.reward(name, -0.5, time=1101.5, expiring=True)] for name in ("a", "b")]
    written = holding.write(entries)

    assert kinds(written) == [[ACCEPTED], [ACCEPTED]]
    expected = [
        Change(1, "reward", "north", "cake", BODY, -0.5, time=1101.5),
        Change(2, "reward", "north", "cake", BODY, 2.0, time=130.0),
    ]  # fmt: skip
    assert written.changes == {"stores": expected}
    assert holding.changes("stores", 0) == expected
    assert kinds(holding.write(entries)) == [[SAME], [SAME]]
    assert holding.waiting("stores", 101.5) == []
    row = holding.fleet("stores")
    assert (row.rewards, row.pending, row.changes) == (2, 1, 2)
    assert holding.task("stores", "north").rewards == 2
    assert sum(entry.rewards for entry in holding.activity("stores", 0.0, 60.0)) == 2
    assert kinds(holding.write([[make.reward("b", 2.0, time=1200.0)], [make.reward("a", 1.0, time=1200.0)]])) == [
        [SAME], [GONE]
    ]  # fmt: skip


def test_held_rewards_are_not_pruned_before_they_are_learned(holding, make):
    holding.write([[make.decision("a")], [make.reward("a", 2.0)]])
    snapshot = holding.start_snapshot("stores", 0, 1.0)
    holding.finish_snapshot(snapshot)
    assert holding.prune("stores", 5000.0) == 0
    holding.write([[make.reward("a", -0.5, time=1101.0, expiring=True)]])
    assert holding.prune("stores", 5000.0) == 0
    holding.finish_snapshot(holding.start_snapshot("stores", 1, 2.0))
    assert holding.prune("stores", 5000.0) == 1


def test_an_erased_task_takes_its_decisions_that_count_along(counting, make):
    counting.write([[make.decision("a")], [make.decision("b", "south")], [make.reward("a", 1.0)]])
    number = counting.erase("stores", "north")
    assert number == 4
    assert [(change.number, change.kind) for change in counting.changes("stores", 0)] == [(2, "decision"), (4, "erase")]
    counting.write([[make.decision("c")]])
    assert counting.changes("stores", 4) == [Change(5, "decision", "north", "cake", BODY, -0.5, time=100.0)]


def up_to(storage, *numbers):
    return [storage.rewards_up_to("stores", number) for number in numbers]


def take_snapshot(storage, number):
    storage.finish_snapshot(storage.start_snapshot("stores", number, 1.0))


def test_decisions_that_count_are_learned_when_they_are_made(counting, make):
    counting.write([[make.decision("a")], [make.decision("b", "south")]])  # changes 1 and 2
    counting.write([[make.reward("b", 2.0)], [make.decision("c")], [make.decision("d", "east")]])  # 3, 4 and 5
    # Change 3 replaces what change 2 taught.
    assert up_to(counting, *range(7)) == [0, 1, 2, 2, 3, 4, 4]
    assert counting.is_whole("stores")
    absent = [[make.reward(name, -0.5, time=1101.0, expiring=True)] for name in ("a", "c")]
    counting.write(absent)  # 6 and 7
    assert up_to(counting, *range(9)) == [0, 1, 2, 2, 3, 4, 4, 4, 4]
    take_snapshot(counting, 6)
    assert counting.prune("stores", 5000.0) == 2  # a and b, whose rewards the snapshot has
    assert up_to(counting, 5, 6, 7) == [None, 4, 4]
    assert not counting.is_whole("stores")
    # North had a, which was pruned, and c; east has d, which waits.
    assert counting.erase("stores", "north") == 8
    assert up_to(counting, 7, 8) == [None, 2]
    assert counting.erase("stores", "east") == 9
    assert up_to(counting, 8, 9) == [None, 1]
    counting.write([[make.decision("e")]])  # 10
    assert up_to(counting, 9, 10) == [1, 2]


def test_held_rewards_are_learned_when_their_time_is_over(holding, make):
    holding.write([[make.decision(name, "south" if name == "d" else "north")] for name in "abcd"])
    holding.write([[make.reward("b", 2.0)], [make.reward("d", 3.0)]])
    holding.add_population("stores", b"population")  # change 1
    assert up_to(holding, 0, 1) == [0, 0]
    assert holding.is_whole("stores")
    holding.write([[make.reward(name, -0.5, time=1101.0, expiring=True)] for name in "ab"])  # 2 and 3
    assert up_to(holding, *range(5)) == [0, 0, 1, 2, 2]
    take_snapshot(holding, 3)
    assert holding.prune("stores", 5000.0) == 2
    assert up_to(holding, 2, 3) == [None, 2]
    assert not holding.is_whole("stores")
    # The reward of d is held: it counts neither before nor after its task is erased.
    assert holding.erase("stores", "south") == 4
    assert up_to(holding, 3, 4) == [None, 2]
    holding.write([[make.reward("c", -0.5, time=1101.0, expiring=True)]])  # 5
    assert up_to(holding, 4, 5) == [2, 3]


def test_a_follower_reads_new_changes_only(tmp_path):
    """The questions that are asked every moment have indexes of their own."""
    path = tmp_path / "posse.db"
    open_storage(path).close()
    asked = {CHANGES.format(binary="blob"): ("decisions_change", "decisions_counted"), WAITING: ("decisions_held",)}
    asked[REWARDS_UP_TO] = ("decisions_change", "decisions_counted", "decisions_held", "decisions_state")
    with closing(sqlite3.connect(path)) as connection:
        for statement, indexes in asked.items():
            plan = "\n".join(
                row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", [1] * statement.count("?"))
            )
            assert "SCAN decisions" not in plan
            assert "SCAN d\n" not in plan
            for index in indexes:
                assert index in plan
