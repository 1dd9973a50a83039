"""Every promise of posse.storage.base, asked of SQLite and of PostgreSQL."""

import json
import math
import threading
import time

import pytest

from posse.errors import InvalidValue, StorageMismatch
from posse.storage import (
    ACCEPTED,
    CONFLICT,
    EXPIRED,
    GONE,
    PENDING,
    REWARDED,
    SAME,
    UNFIT,
    UNKNOWN,
    WITHHELD,
    Activity,
    AuditRow,
    Change,
    ClockRow,
    KeyRow,
    LoggedDecision,
    TaskRow,
    digest_of,
    open_storage,
)

# Fleets.


def test_fleet_comes_back_as_it_was_stored(storage, make):
    row = storage.fleet("stores")
    assert row.definition == make.DEFINITION
    assert row[2:] == (12.5, 0, 0, 0, 0, 0, 0)
    assert storage.fleet("nothing") is None


def test_fleets_are_listed_by_name_in_code_point_order(empty):
    for name in ("b", "a", "Z", "ä"):
        assert empty.create_fleet(name, {}, 1.0)
    assert [row.name for row in empty.fleets()] == ["Z", "a", "b", "ä"]


def test_name_of_a_fleet_is_taken_once(storage, open_one):
    other = open_one()
    assert not other.create_fleet("stores", {"arms": ["other"]}, 99.0)
    assert other.fleet("stores").created == 12.5


def test_of_many_that_create_one_fleet_one_does(empty, open_one):
    storages = [open_one() for _ in range(4)]
    made = []
    threads = [
        threading.Thread(target=lambda number=number, one=one: made.append(one.create_fleet("new", {"n": number}, 1.0)))
        for number, one in enumerate(storages)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, False, False, True]


def test_arms_change_only_what_was_expected(storage, make, open_one):
    old, first = make.DEFINITION, {**make.DEFINITION, "arms": ["coffee", "cake", "tea"]}
    second = {**make.DEFINITION, "arms": ["coffee", "cake", "ice"]}
    assert storage.change_arms("stores", first, old) == 1
    assert open_one().change_arms("stores", second, old) == 0
    assert storage.fleet("stores").definition == first
    assert storage.change_arms("nothing", first, old) == 0
    [change] = storage.changes("stores", 0)
    assert (change.number, change.kind, json.loads(change.data)) == (1, "arms", first)


def test_racing_changes_of_arms_are_all_there_in_the_end(storage, make, open_one):
    def add(arm, one):
        while True:
            definition = one.fleet("stores").definition
            if one.change_arms("stores", {**definition, "arms": [*definition["arms"], arm]}, definition):
                return

    threads = [threading.Thread(target=add, args=(f"arm-{number}", open_one())) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(storage.fleet("stores").definition["arms"][2:]) == [f"arm-{number}" for number in range(6)]
    assert [change.number for change in storage.changes("stores", 0)] == [1, 2, 3, 4, 5, 6]


def test_progress_says_of_every_fleet_how_far_it_is(storage, make, write):
    storage.create_fleet("another", {}, 2.0)
    write(make.decision("a"), make.reward("a"), make.decision("b", task="elsewhere"), make.decision("c"))
    for number, finished in ((1, True), (2, False)):
        snapshot = storage.start_snapshot("stores", number, 1.0)
        if finished:
            storage.finish_snapshot(snapshot)
    number = storage.erase("stores", "elsewhere")
    row = storage.fleet("stores")
    assert storage.progress() == [
        ("another", 2.0, 0, 0, 0, 0, 0),
        ("stores", 12.5, row.tasks, row.pending, row.changes, 1, number),
    ]
    assert (row.tasks, row.pending, number) == (1, 1, row.changes)
    storage.delete_fleet("stores")
    assert [one.name for one in storage.progress()] == ["another"]


def test_a_definition_that_cannot_be_read_hides_no_other_fleet(storage):
    storage.create_fleet("another", {"arms": ["a"]}, 2.0)
    with storage._writing() as session:
        session.run("UPDATE fleets SET definition = ? WHERE name = ?", "no JSON", "stores")
    assert [(row.name, row.definition) for row in storage.fleets()] == [("another", {"arms": ["a"]}), ("stores", {})]
    assert storage.delete_fleet("stores")


def test_deleted_fleet_leaves_nothing_and_its_name_is_free(storage, make, write, sweep):
    write(make.decision("a"), make.reward("a"), make.decision("b"))
    storage.add_population("stores", b"x")
    snapshot = storage.start_snapshot("stores", 1, 1.0)
    storage.add_snapshot_part(snapshot, 0, b"part")
    storage.finish_snapshot(snapshot)
    assert storage.delete_fleet("stores")
    assert not storage.delete_fleet("stores")
    assert storage.fleets() == []
    assert storage.decision("a") is None
    assert storage.snapshot("stores") is None
    assert storage.start_snapshot("stores", 1, 1.0) is None
    assert write(make.reward("b"), make.decision("c")) == [UNKNOWN, UNKNOWN]
    sweep(storage)
    for table in ("fleets", "decisions", "tasks", "changes", "activity", "snapshots", "snapshot_parts"):
        assert storage._read(f"SELECT count(*) FROM {table}") == [(0,)], table
    assert storage.create_fleet("stores", {}, 2.0)
    assert storage.changes("stores", 0) == []
    assert write(make.decision("a")) == [ACCEPTED]


# Writing.


def test_decision_is_read_as_it_was_written(storage, make, write):
    body = json.dumps({"context": {"Größe": 0.1 + 0.2, "emoji": "\N{SNOWMAN}"}}, ensure_ascii=False)
    new = make.decision("a", "n\N{LATIN SMALL LETTER O WITH DIAERESIS}rd 'x' %s ?", time=100.123456789, body=body)
    assert write(new) == [ACCEPTED]
    expected = LoggedDecision(
        "stores", 1, "a", 100.123456789, new.task, "cake", 0.25, body, "ebm-ts", "0.7", PENDING, None, None, None
    )
    assert storage.decision("a") == expected
    assert storage.decisions("stores") == [expected]
    assert storage.decision("b") is None


def test_reward_says_what_it_changed(storage, make):
    storage.write([[make.decision("a")], [make.decision("b", "south")]])
    written = storage.write([[make.reward("b", 0.1 + 0.2)], [make.reward("a", -2)]])
    [[first], [second]] = written.outcomes
    assert first.decision == storage.decision("b")
    assert (first.kind, *first.decision[10:]) == (ACCEPTED, REWARDED, 0.1 + 0.2, 130.0, 1, None, None)
    assert second.decision.change == 2
    assert written.before == {"stores": 0}
    body = '{"context": {"hour": 9.5}}'
    expected = [
        Change(1, "reward", "south", "cake", body, 0.1 + 0.2, time=130.0),
        Change(2, "reward", "north", "cake", body, -2.0, time=130.0),
    ]
    assert written.changes == {"stores": expected}
    assert storage.changes("stores", 0) == expected
    assert storage.changes("stores", 1) == expected[1:]


def test_same_reward_again_is_the_same_and_another_one_a_conflict(storage, make, write):
    assert write(make.decision("a"), make.reward("a", 1.5)) == [ACCEPTED, ACCEPTED]
    assert write(make.reward("a", 1.5, time=999.0), make.reward("a", 1.25)) == [SAME, CONFLICT]
    assert storage.decision("a")[10:] == (REWARDED, 1.5, 130.0, 1, None, None)
    assert storage.fleet("stores").rewards == 1


@pytest.mark.parametrize(
    ("rewards", "wrong"),
    [("binary", [0.5, -1.0, 2.0]), ("count", [-1.0, 2.5, 2.0**60]), ("revenue", [-1.0, 1e-60, 1e60])],
)
def test_reward_that_is_none_of_its_fleet_is_refused(storage, make, write, rewards, wrong):
    assert storage.create_fleet("clicks", make.DEFINITION | {"rewards": rewards}, 12.5)
    assert write(make.decision("a", fleet="clicks"), make.decision("b", fleet="clicks")) == [ACCEPTED, ACCEPTED]
    assert write(*(make.reward("a", value) for value in wrong)) == [UNFIT] * 3
    assert write([make.reward("a", 1.0), make.reward("b", wrong[0])]) == [[WITHHELD, UNFIT]]
    assert storage.fleet("clicks").rewards == 0
    assert storage.changes("clicks", 0) == []
    assert write(make.reward("a", 1.0), make.reward("b", 0.0)) == [ACCEPTED, ACCEPTED]


def test_rewards_meet_within_one_write(storage, make):
    storage.write([[make.decision("a")]])
    written = storage.write([[make.reward("a", 1.0)], [make.reward("a", 1.0)], [make.reward("a", 2.0)]])
    assert [group[0].kind for group in written.outcomes] == [ACCEPTED, SAME, CONFLICT]
    assert written.outcomes[2][0].decision.reward == 1.0
    assert len(written.changes["stores"]) == 1


def test_reward_of_a_decision_of_the_same_write_counts(storage, make, write):
    assert write(make.decision("a"), make.reward("a"), [make.decision("b"), make.reward("b")]) == [
        ACCEPTED,
        ACCEPTED,
        [ACCEPTED, ACCEPTED],
    ]
    assert [row.state for row in storage.decisions("stores")] == [REWARDED, REWARDED]
    assert storage.fleet("stores")[3:8] == (1, 2, 2, 0, 2)


def test_reward_of_nothing_is_unknown(make, write):
    assert write(make.reward("nothing"), make.decision(fleet="nothing")) == [UNKNOWN, UNKNOWN]


def test_key_names_one_decision(storage, make, open_one):
    storage.write([[make.decision("a", key="k", digest="one")]])
    for one in (storage, open_one()):
        written = one.write([[make.decision("b", key="k", digest="one")], [make.decision("c", key="k", digest="two")]])
        assert [group[0].kind for group in written.outcomes] == [SAME, CONFLICT]
        assert written.outcomes[0][0].decision == storage.decision("a")
    assert storage.fleet("stores").decisions == 1


def test_keys_meet_within_one_write(storage, make):
    written = storage.write([[make.decision(name, key="k", digest=digest)] for name, digest in ("ax", "bx", "cy")])
    assert [group[0].kind for group in written.outcomes] == [ACCEPTED, SAME, CONFLICT]
    assert written.outcomes[1][0].decision == storage.decision("a")


def test_key_of_another_fleet_is_another_key(storage, make, write):
    storage.create_fleet("other", {}, 1.0)
    assert write(make.decision(key="k"), make.decision(key="k", fleet="other")) == [ACCEPTED, ACCEPTED]


def test_key_of_a_refused_group_is_free(make, write):
    refused = [make.decision("a", key="k", digest="one"), make.reward("nothing")]
    assert write(refused, make.decision("a", key="k", digest="two")) == [[WITHHELD, UNKNOWN], ACCEPTED]


def test_decision_that_is_written_again_counts_once(storage, make, write):
    new = make.decision("a")
    assert write(new, new) == [ACCEPTED, SAME]
    assert write(new, make.decision("a", "south")) == [SAME, CONFLICT]
    assert storage.fleet("stores").decisions == 1


def test_group_is_taken_whole_or_not_at_all(storage, make, write):
    write(make.decision("a"), make.decision("b"), make.decision("c"), make.reward("c", 1.0))
    before = storage.fleet("stores")
    assert write(
        [make.reward("a"), make.decision("d"), make.reward("nothing")],
        [make.reward("a"), make.reward("c", 7.0)],
        [make.decision("e"), make.reward("e"), make.reward("e", 9.0)],
    ) == [[WITHHELD, WITHHELD, UNKNOWN], [WITHHELD, CONFLICT], [WITHHELD, WITHHELD, CONFLICT]]
    assert storage.fleet("stores") == before
    assert storage.decision("a").state == PENDING
    assert storage.decision("d") is None


def test_groups_do_not_disturb_each_other(storage, make, write):
    write(make.decision("a"), make.decision("x"))
    assert write(
        [make.decision("b"), make.reward("x"), make.reward("nothing")],
        [make.decision("c"), make.reward("a", 2.0)],
        make.decision("d"),
    ) == [[WITHHELD, WITHHELD, UNKNOWN], [ACCEPTED, ACCEPTED], ACCEPTED]
    rows = [(row.id, row.number, row.change) for row in storage.decisions("stores")]
    assert rows == [("a", 1, 1), ("x", 2, None), ("c", 3, None), ("d", 4, None)]
    assert [change.number for change in storage.changes("stores", 0)] == [1]


def test_empty_writes_are_nothing(storage):
    assert storage.write([]) == ([], {}, {})
    assert storage.write([[]]) == ([[]], {}, {})


def test_late_reward_is_gone_unless_it_is_the_one_for_waiting_too_long(storage, make, write):
    write(*(make.decision(name) for name in "abcd"))
    assert write(make.reward("a", time=1100.0), make.reward("b", time=1100.5)) == [ACCEPTED, GONE]
    assert write(make.reward("b", 0.0, time=1100.5, expiring=True)) == [ACCEPTED]
    assert write(make.reward("a", 0.0, time=1100.5, expiring=True)) == [SAME]
    assert storage.decision("a").reward == 1.5
    # Whoever repeats a reward that was in time hears so, however late it is by now.
    assert write(make.reward("a", 1.5, time=9000.0)) == [SAME]
    definition = {**make.DEFINITION, "time_to_live": None}
    assert storage.change_arms("stores", definition, make.DEFINITION)
    assert write(make.reward("c", time=1e9)) == [ACCEPTED]


def test_one_write_reaches_several_fleets(storage, make, write):
    storage.create_fleet("other", {}, 1.0)
    write(make.decision("a"), make.decision("b", fleet="other"), make.decision("c", fleet="other"))
    written = storage.write([[make.reward("b"), make.reward("a")], [make.reward("c")]])
    assert {name: [change.number for change in changes] for name, changes in written.changes.items()} == {
        "stores": [1],
        "other": [1, 2],
    }
    assert storage.fleet("other")[3:8] == (1, 2, 2, 0, 2)
    assert storage.fleet("stores")[3:8] == (1, 1, 1, 0, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_leaves_everything_as_it_was(storage, make, value):
    for wrong in (make.reward("a", value), make.reward("a", time=value), make.decision("b", propensity=value)):
        with pytest.raises(InvalidValue, match="finite"):
            storage.write([[make.decision("a")], [wrong]])
    assert storage.decisions("stores") == []


def test_odd_text_is_refused_or_stored_whole(storage, make, write):
    for task in ("lone \ud800", "nul \0"):
        try:
            storage.write([[make.decision("a", task)]])
        except InvalidValue:
            assert storage.decisions("stores") == []
        else:
            assert storage.decision("a").task == task
            storage.erase("stores", task)
    assert write(make.decision("a")) == [ACCEPTED]


# Reading.


def test_log_is_read_by_number_state_and_task(storage, make, write):
    write(*(make.decision(f"d{n}", "even" if n % 2 == 0 else "odd", time=100.0 + n) for n in range(1, 9)))
    write(make.reward("d2"), make.reward("d3"), make.reward("d8"))
    storage.expire("stores", 102.0)

    def ids(**settings):
        return [row.id for row in storage.decisions("stores", **settings)]

    assert ids() == [f"d{n}" for n in range(1, 9)]
    assert ids(after=2, before=6) == ["d3", "d4", "d5"]
    assert ids(after=2, before=6, newest_first=True, limit=2) == ["d5", "d4"]
    assert ids(task="odd") == ["d1", "d3", "d5", "d7"]
    assert ids(state=REWARDED, newest_first=True) == ["d8", "d3", "d2"]
    assert ids(state=PENDING, after=4, limit=3) == ["d5", "d6", "d7"]
    assert ids(state=PENDING, newest_first=True, limit=1) == ["d7"]
    assert ids(state=EXPIRED) == ["d1"]
    assert ids(state=PENDING, task="even", before=6) == ["d4"]
    assert ids(limit=0) == []
    assert storage.decisions("nothing") == []
    assert storage.waiting("stores", 106.5, 2) == ["d4", "d5"]
    with pytest.raises(InvalidValue, match="limit"):
        ids(limit=-1)


def test_tasks_are_counted_listed_and_searched(storage, make, write):
    names = ["Zoo", "an_a", "an%b", "Straße 9", "ÄRA", "zoo 2"]
    write(*(make.decision(f"d{n}", name, time=100.0 - n) for n, name in enumerate(names)), make.decision("e", "Zoo"))
    write(make.reward("e"), make.reward("d1"))

    def found(**settings):
        return [row.task for row in storage.tasks("stores", **settings)]

    assert found() == sorted(names)
    assert found(search="ZOO") == ["Zoo", "zoo 2"]
    assert found(search="ära") == ["ÄRA"]
    assert found(search="STRASSE") == ["Straße 9"]
    assert found(search="n_") == ["an_a"]
    assert found(search="n%") == ["an%b"]
    assert found(after="an%b", limit=2) == ["an_a", "zoo 2"]
    assert found(search="o", after="Zoo") == ["zoo 2"]
    assert storage.task("stores", "Zoo") == TaskRow("Zoo", 100.0, 2, 1)
    assert storage.task("stores", "zoo") is None
    assert storage.fleet("stores").tasks == 6


def test_activity_adds_minutes_up(storage, make, write):
    write(make.decision("a", time=59.0), make.decision("b", time=61.0), make.decision("c", time=601.0))
    write(make.reward("a", 2.0, time=70.0), make.reward("b", 0.5, time=130.0), make.reward("c", 1.0, time=610.0))
    assert storage.activity("stores", 0.0, 60) == [
        Activity(0.0, 1, 0, 0.0), Activity(60.0, 1, 1, 2.0), Activity(120.0, 0, 1, 0.5), Activity(600.0, 1, 1, 1.0),
    ]  # fmt: skip
    assert storage.activity("stores", 0.0, 300) == [Activity(0.0, 2, 2, 2.5), Activity(600.0, 1, 1, 1.0)]
    assert storage.activity("stores", 100.0, 60) == storage.activity("stores", 0.0, 60)[1:]
    with pytest.raises(InvalidValue, match="stretch"):
        storage.activity("stores", 0.0, 90)


def test_changes_come_in_pages_of_all_kinds(storage, make, write):
    write(*(make.decision(f"d{n}") for n in range(5)))
    write(make.reward("d3"), make.reward("d1"))
    assert storage.add_population("stores", b"first") == 3
    write(make.reward("d0"))
    assert storage.add_population("stores", b"second") == 5
    write(make.reward("d4"))
    changes = storage.changes("stores", 0)
    assert [(change.number, change.kind, change.data) for change in changes] == [
        (1, "reward", b""), (2, "reward", b""), (4, "reward", b""), (5, "population", b"second"), (6, "reward", b""),
    ]  # fmt: skip
    assert storage.changes("stores", 1, 2) == changes[1:3]
    assert storage.changes("stores", 2, 2) == changes[2:4]
    assert storage.changes("stores", 6) == []
    assert storage.changes("nothing", 0) == []


# Erasing, expiring, pruning.


def test_erased_task_is_gone_and_does_not_count(storage, make, write):
    write(*(make.decision(f"d{n}", "gone" if n < 4 else "stays", key=f"k{n}") for n in range(7)))
    write(make.reward("d0"), make.reward("d5"))
    assert storage.erase("stores", "gone") == 3
    assert storage.erase("stores", "gone") is None
    assert storage.erase("nothing", "gone") is None
    assert storage.erasure("stores") == 3
    assert storage.fleet("stores")[3:8] == (1, 3, 1, 2, 3)
    assert storage.task("stores", "gone") is None
    assert storage.decisions("stores", task="gone") == []
    assert write(make.reward("d1"), make.decision("new", "gone", key="k0")) == [UNKNOWN, ACCEPTED]
    assert storage.decision("new").number == 8, "numbers are not used twice"
    assert storage.changes("stores", 2) == [Change(3, "erase", data=digest_of("stores", "gone"))]
    assert [change.number for change in storage.changes("stores", 0)] == [2, 3]


def test_deleted_fleet_goes_in_slices_beside_a_new_one_of_its_name(storage, open_one, make, write, sweep):
    write(*(make.decision(f"d{n}", f"t{n % 3}") for n in range(10)), make.reward("d1"))
    snapshot_of(storage, 1, b"one", b"two")
    assert storage.delete_fleet("stores")
    assert storage.create_fleet("stores", make.DEFINITION, 2.0)
    assert write(make.decision("new", "t1")) == [ACCEPTED]
    left = [rows(storage, "decisions")]
    # Whoever deleted it is killed after two slices of three decisions: the next one goes on.
    for _ in range(3):
        assert storage.sweep(1000)  # two parts and their snapshot
    for _ in range(2):
        assert storage.sweep(3)
        left.append(rows(storage, "decisions"))
    assert left == [11, 8, 5]
    other = open_one()
    assert sweep(other, 3) == 5, "4 decisions, 3 tasks, 1 minute and the fleet"
    assert {table: rows(other, table) for table in ("fleets", "decisions", "tasks", "activity", "snapshots")} == {
        "fleets": 1, "decisions": 1, "tasks": 1, "activity": 1, "snapshots": 0,
    }  # fmt: skip
    assert storage.decision("new").task == "t1"
    with pytest.raises(InvalidValue, match="at least one row"):
        storage.sweep(0)


def rows(storage, table):
    return storage._read(f"SELECT count(*) FROM {table}")[0][0]


def test_a_long_task_is_gone_at_once_and_its_rows_in_slices(storage, open_one, make, write, sweep, monkeypatch):
    monkeypatch.setattr("posse.storage.sql.AT_ONCE", 3)
    write(*(make.decision(f"d{n}", "gone", time=100.0 + n) for n in range(10)), make.decision("other", "stays"))
    write(make.reward("d0"), make.reward("d9"), make.reward("other"))
    assert storage.erase("stores", "gone") == 4
    assert rows(storage, "decisions") == 8, "no more than a slice was deleted while others waited"
    # For everybody it is gone.
    assert storage.decision("d9") is None
    assert storage.decisions("stores", task="gone") == []
    assert [row.id for row in storage.decisions("stores")] == ["other"]
    assert storage.decisions("stores", state=PENDING) == []
    assert storage.waiting("stores", 1e9) == []
    assert storage.expire("stores", 1e9) == 0
    assert storage.erase("stores", "gone") is None
    assert storage.fleet("stores")[3:6] == (1, 1, 1)
    assert storage.rewards_up_to("stores", 4) is None, "until its last row is gone"
    assert write(make.reward("d8"), make.reward("d9")) == [UNKNOWN, UNKNOWN]
    # It may come again, and be erased again, while its old rows are on their way out.
    assert write(make.decision("again", "gone")) == [ACCEPTED]
    assert storage.sweep(3)
    assert rows(storage, "decisions") == 6
    other = open_one()
    assert sweep(other, 3) == 2
    assert [row.id for row in other.decisions("stores")] == ["other", "again"]
    assert rows(other, "decisions") == 2
    assert rows(other, "erasures") == 0
    assert other.fleet("stores")[3:8] == (2, 2, 1, 1, 4)
    assert other.rewards_up_to("stores", 4) == 1


def test_expired_decisions_do_not_wait_any_more(storage, make, write):
    write(*(make.decision(f"d{n}", time=100.0 + n) for n in range(6)), make.reward("d1"))
    assert storage.expire("stores", 104.0, limit=2) == 2
    assert storage.expire("stores", 104.0) == 1
    assert storage.expire("stores", 104.0) == 0
    assert [row.state for row in storage.decisions("stores")] == [EXPIRED, REWARDED, EXPIRED, EXPIRED, PENDING, PENDING]
    assert storage.fleet("stores")[4:8] == (6, 1, 2, 1)
    assert write(make.reward("d0"), make.reward("d0", expiring=True)) == [GONE, GONE]
    assert storage.waiting("stores", 1e9) == ["d4", "d5"]
    assert storage.expire("nothing", 1.0) == 0


def test_pruning_keeps_what_no_snapshot_holds(storage, make, write):
    write(*(make.decision(f"d{n}", time=100.0 + n) for n in range(6)))
    write(make.reward("d0"), make.reward("d1"))
    storage.expire("stores", 103.0)
    write(make.reward("d5"))
    assert storage.prune("stores", 102.0) == 0, "nothing has expired by then and there is no snapshot"
    assert storage.prune("stores", 103.0) == 1
    for number in (1, 3):
        snapshot = storage.start_snapshot("stores", number, 1.0)
        storage.add_snapshot_part(snapshot, 0, b"x")
        storage.finish_snapshot(snapshot)
        assert storage.prune("stores", 104.0) == 1
    assert [row.id for row in storage.decisions("stores")] == ["d3", "d4", "d5"]
    assert storage.fleet("stores")[3:8] == (1, 6, 3, 2, 3)
    assert storage.prune("stores", 1e9) == 1
    assert storage.prune("nothing", 1e9) == 0


def test_pruning_stops_at_its_limit(storage, make, write):
    write(*(make.decision(f"d{n}") for n in range(5)))
    storage.expire("stores", 1e9)
    assert [storage.prune("stores", 1e9, 2) for _ in range(4)] == [2, 2, 1, 0]


def test_rewards_are_counted_up_to_a_change(storage, make, write):
    write(*(make.decision(f"d{n}", task="north" if n < 4 else "south", time=100.0 + n) for n in range(6)))
    write(make.reward("d0"), make.reward("d1"))  # changes 1 and 2
    storage.add_population("stores", b"population")  # 3
    write(make.reward("d4"), make.reward("d2"), make.reward("d5"))  # 4, 5, 6
    assert [storage.rewards_up_to("stores", number) for number in range(8)] == [0, 1, 2, 2, 3, 4, 5, 5]
    assert storage.is_whole("stores")
    snapshot_of(storage, 4, b"x")
    assert [storage.rewards_up_to("stores", number) for number in (2, 4, 5)] == [None, 3, 4]
    assert storage.prune("stores", 1e9) == 3
    assert [storage.rewards_up_to("stores", number) for number in (3, 4, 5, 6)] == [None, 3, 4, 5]
    assert not storage.is_whole("stores")
    # Of north, two rewards were pruned and one is in the log; none of them counts after change 7.
    assert storage.erase("stores", "north") == 7
    assert [storage.rewards_up_to("stores", number) for number in (6, 7)] == [None, 2]
    assert not storage.is_whole("stores")
    assert storage.rewards_up_to("nothing", 1) is None
    assert not storage.is_whole("nothing")


# Snapshots.


def snapshot_of(storage, number, *parts, finish=True, fleet="stores"):
    snapshot = storage.start_snapshot(fleet, number, 5.0)
    for part, data in enumerate(parts):
        storage.add_snapshot_part(snapshot, part, data)
    if finish:
        storage.finish_snapshot(snapshot)
    return snapshot


def held(storage, fleet="stores"):
    found = storage.snapshot(fleet)
    return found and (found[0], list(found[1]))


def test_newest_finished_snapshot_is_returned_part_by_part(storage, sweep):
    assert held(storage) is None
    snapshot_of(storage, 3, b"\0\xff", b"")
    assert held(storage) == (3, [b"\0\xff", b""])
    snapshot_of(storage, 5, b"unfinished", finish=False)
    assert held(storage) == (3, [b"\0\xff", b""])
    snapshot_of(storage, 7, b"new")
    assert held(storage) == (7, [b"new"])
    assert storage.fleet("stores").snapshot == 7
    assert sweep(storage) == 5, "three parts, one at a time, and two snapshots"
    assert held(storage) == (7, [b"new"])
    assert storage._read("SELECT count(*) FROM snapshots") == [(1,)]
    assert storage._read("SELECT count(*) FROM snapshot_parts") == [(1,)]


def test_snapshots_of_fleets_do_not_meet(storage):
    storage.create_fleet("other", {}, 1.0)
    snapshot_of(storage, 9, b"other", fleet="other")
    snapshot_of(storage, 2, b"stores")
    assert held(storage, "other") == (9, [b"other"])


def test_snapshot_that_comes_too_late_replaces_nothing(storage, sweep):
    slow = snapshot_of(storage, 3, b"slow", finish=False)
    snapshot_of(storage, 8, b"quick")
    storage.add_snapshot_part(slow, 1, b"more")
    storage.finish_snapshot(slow)
    assert held(storage) == (8, [b"quick"])
    snapshot_of(storage, 4, b"slower still")
    assert held(storage) == (8, [b"quick"])
    sweep(storage)
    storage.add_snapshot_part(slow, 2, b"later still")
    assert held(storage) == (8, [b"quick"])
    assert storage._read("SELECT number FROM snapshots") == [(8,)]
    assert storage._read("SELECT count(*) FROM snapshot_parts") == [(1,)]


def test_the_newest_population_is_at_hand(storage, make, write):
    assert storage.population("stores") is None
    assert storage.population("nobody") is None
    storage.add_population("stores", b"old")
    number = storage.add_population("stores", b"new")
    found = storage.population("stores")
    assert (found.number, found.kind, found.data) == (number, "population", b"new")
    write(make.decision("a"), make.reward("a"))
    storage.erase("stores", "north")
    assert storage.population("stores") is None  # the task had its part in it


def test_snapshot_from_before_an_erasure_stays_until_it_is_replaced(storage, make, write, sweep):
    write(make.decision("a"), make.reward("a"))
    snapshot_of(storage, 1, b"holds north")
    number = storage.erase("stores", "north")
    # Rows that were pruned are nowhere else; whoever reads it applies the erasure after it.
    assert held(storage) == (1, [b"holds north"])
    assert [change.kind for change in storage.changes("stores", 1)] == ["erase"]
    assert storage.erasure("stores") == number > storage.fleet("stores").snapshot == 1
    snapshot_of(storage, number, b"without")
    assert held(storage) == (number, [b"without"])
    sweep(storage)
    assert storage._read("SELECT count(*) FROM snapshot_parts") == [(1,)]


# Keys, leading, opening.


def test_a_write_that_is_only_tried_leaves_nothing(storage):
    before = storage.fleets(), storage.activity("stores", 0.0, 60)
    storage.try_write()
    storage.try_write()
    assert (storage.fleets(), storage.activity("stores", 0.0, 60)) == before


def test_api_keys_come_and_go(empty):
    keys = [
        KeyRow("k2", "späti", ("decide", "reward"), "ab" * 32, 1.5),
        KeyRow("k1", "", (), "cd" * 32, 2.5),
    ]
    for key in reversed(keys):
        empty.add_key(key)
    assert empty.keys() == keys
    with pytest.raises(InvalidValue):
        empty.add_key(keys[0])
    assert empty.revoke_key("k2")
    assert not empty.revoke_key("k2")
    assert empty.keys() == keys[1:]
    # That there was one stays, and nothing that it could be used or recognised by.
    assert empty.keys(revoked=True) == [KeyRow("k2", "", (), "", 1.5), keys[1]]
    assert empty.revoke_key("k1")
    assert empty.keys() == []
    assert [key.revoked for key in empty.keys(revoked=True)] == [True, True]
    with pytest.raises(InvalidValue):
        empty.add_key(keys[0])


def test_keys_have_fleets_an_end_and_a_last_use(empty):
    key = KeyRow("k1", "", ("read",), "ab" * 32, 1.5, ("a-fleet", "b"), 90.0)
    empty.add_key(key)
    empty.note_key_use({"k1": 20.0, "none": 30.0})
    empty.note_key_use({"k1": 10.0})
    assert empty.keys() == [key._replace(used=20.0)]
    assert not empty.expire_key("k1", 100.0)  # it is good for less already
    assert empty.expire_key("k1", 50.0)
    assert empty.keys()[0].expires == 50.0
    empty.revoke_key("k1")
    assert not empty.expire_key("k1", 40.0)
    empty.note_key_use({"k1": 60.0})
    assert empty.keys(revoked=True)[0].used == 20.0


def test_the_audit_log_keeps_who_asked_for_what(empty):
    rows = [AuditRow(0, float(i), "k1", "::1", "put_fleet", f"f{i % 2}", None, f"r{i}") for i in range(5)]
    numbers = [empty.add_audit(row) for row in rows]
    assert numbers == sorted(numbers)
    empty.finish_audit(numbers[1], 201)
    found = empty.audit()
    assert [row.id for row in found] == numbers[::-1]
    assert found[3] == rows[1]._replace(id=numbers[1], status=201)
    assert [row.id for row in empty.audit(fleets=("f1",))] == [numbers[3], numbers[1]]
    assert [row.id for row in empty.audit(before=numbers[2], limit=1)] == [numbers[1]]
    assert empty.audit(fleets=("f1", "none"), before=numbers[1]) == []
    with pytest.raises(InvalidValue, match="limit"):
        empty.audit(limit=-1)


def test_rewards_reach_fleets_that_they_may_reach(storage, make, write):
    storage.create_fleet("others", make.DEFINITION, 1.0)
    storage.write([[make.decision("a")], [make.decision("b", fleet="others")]])
    mine = {"fleets": ("stores",)}
    assert write(make.reward("b", **mine), make.reward("a", **mine)) == [UNKNOWN, ACCEPTED]
    assert storage.decision("b").state == PENDING


def test_one_leads_until_it_closes(open_one):
    first, second = open_one(), open_one()
    assert first.lead()
    assert not second.lead()
    assert first.lead()
    first.close()
    assert second.lead()


def test_opening_again_finds_everything(open_one, make):
    first = open_one()
    first.create_fleet("stores", make.DEFINITION, 1.0)
    first.write([[make.decision("a"), make.reward("a")]])
    version = first.schema_version()
    first.close()
    second = open_one(migrate=False)
    second.ping()
    assert second.schema_version() == version > 0
    assert second.decision("a").reward == 1.5


def test_closed_storage_says_so(empty):
    empty.close()
    with pytest.raises(Exception, match="closed") as error:
        empty.fleets()
    assert type(error.value).__name__ == "StorageUnavailable"


def test_unknown_address_is_refused():
    with pytest.raises(InvalidValue, match="mysql"):
        open_storage("mysql://x")
    with pytest.raises(InvalidValue, match="file on disk"):
        open_storage(":memory:")
    assert issubclass(StorageMismatch, ValueError)


def test_the_time_of_the_clock_is_stored(storage, open_one, address):
    assert storage.clock() is None
    for row in (ClockRow(12.5), ClockRow(1.8e9, 1.7e9, 3600.5)):
        storage.keep_clock(row)
        assert open_one().clock() == row
    now = storage.now()
    assert now is None if not address.startswith("postgres") else abs(now - time.time()) < 60


def test_a_reward_may_be_late_by_the_leeway(storage, make, write):
    """The time to live is 1000 s; a clock in doubt gives all the time there is."""
    storage.write([[make.decision(name, time=100.0)] for name in ("a", "b", "c")])
    assert write(make.reward("a", time=1101.0), make.reward("a", time=1101.0, leeway=1.0)) == [GONE, ACCEPTED]
    assert write(make.reward("a", time=1300.0, leeway=1.0)) == [SAME]
    assert write(make.reward("b", time=1e9, leeway=math.inf)) == [ACCEPTED]
    storage.expire("stores", 150.0)
    assert write(make.reward("c", time=160.0, leeway=math.inf)) == [GONE]


def test_what_is_known_about_tasks_is_in_the_log_until_they_are_erased(storage, make):
    storage.write([[make.decision("a", "old")], [make.reward("a", 1.0)]])
    assert storage.know_tasks("stores", [("old", b"one"), ("gone", b"two"), ("gone", b"three")], 50.0) == 4
    assert storage.know_tasks("nobody", [("old", b"one")], 50.0) == 0
    assert [task.task for task in storage.tasks("stores")] == ["gone", "old"]
    assert storage.task("stores", "gone") == TaskRow("gone", 50.0, 0, 0)
    assert storage.fleet("stores").tasks == 2
    known = [change for change in storage.changes("stores", 0) if change.kind == "task"]
    assert [change.number for change in known] == [2, 3, 4]
    assert known[0].data == digest_of("stores", "old") + b"one"
    storage.erase("stores", "gone")
    assert [change.kind for change in storage.changes("stores", 0)] == ["reward", "task", "erase"]
    assert storage.fleet("stores").tasks == 1
    # A decision for a task that was only known counts it once.
    storage.know_tasks("stores", [("new", b"one")], 60.0)
    storage.write([[make.decision("b", "new")]])
    assert storage.fleet("stores").tasks == 2
    assert storage.task("stores", "new").decisions == 1


def test_what_was_noticed_about_changes_stays_in_the_log(storage, make):
    storage.write([[make.decision("a", "gone")], [make.reward("a", 1.0)]])
    assert storage.add_drift("stores", b"{}") == 2
    storage.add_population("stores", b"one")
    storage.erase("stores", "gone")
    assert storage.changes("stores", 0)[0] == Change(2, "drift", data=b"{}")
    assert storage.add_drift("nobody", b"{}") == 0
