"""What was learned is compared with the log: differences are found, named and repaired, and nothing else is."""

import json
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

from posse.cli.main import app
from posse.core.store import COUNT, SQUARES, n_triangle, totals_at
from posse.errors import PosseError
from posse.service import verify as checking
from posse.service.live_fleet import LiveFleet, read_snapshot
from posse.service.roster import Roster
from posse.service.verify import Checker, Verification
from posse.storage import NewDecision, NewReward

from .test_service import KINDS, Logged, put_wrong_snapshot

PAIR = ("t1", "red")


def compared(logged, live):
    return Verification(logged.storage, logged.row, live.replica, live.contexts).all()


def write_snapshot(live):
    return live.write_snapshot(lambda job: job(), 1.0)


@pytest.fixture
def kind():
    return "ebm-ts"


@pytest.fixture
def logged(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    logged = Logged(tmp_path, **KINDS[kind])
    logged.write(40)
    if logged.absent is not None:
        logged.expire(kept=15)
    yield logged
    logged.storage.close()


@pytest.fixture
def live(logged):
    return LiveFleet(logged.storage, logged.row)


def stored(live):
    """Return the sums of the pair where they are stored, to be spoiled."""
    fleet, (task, arm) = live.replica, PAIR
    store, d = fleet.core.state.store, fleet.features.n_features
    slot = store.slot[fleet.names.tasks.number(task), fleet.names.arms.number(arm)]
    assert slot >= 0
    gram, moment, totals = np.split(store.pairs[slot], [n_triangle(d), totals_at(d)])
    return {"gram": gram, "moment": moment, "squares": totals[SQUARES:], "count": totals[COUNT:]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_learned_is_what_the_log_says(logged, live):
    found = compared(logged, live)
    assert (found.different, found.differences, found.partial, found.next) == (0, [], 0, None)
    assert found.tasks == logged.row.tasks == 6
    assert logged.fades or found.rewards == live.replica.n_rewards > 20
    assert found.applied == logged.row.changes
    # More in the log than was applied is no difference, whatever it is.
    logged.write(10, tasks=9)
    logged.erase("t2")
    if logged.absent is not None:
        logged.expire(kept=2)
    logged.write(3)
    assert compared(logged, live).different == 0
    live.follow()
    found = compared(logged, live)
    assert (found.different, found.applied) == (0, logged.row.changes)
    assert logged.fades or found.rewards == live.replica.n_rewards


@pytest.mark.parametrize("kind", ["ebm-ts", "counting", "held"])
@pytest.mark.parametrize("what", ["twice", "gram", "moment", "squares", "missing", "nan"])
def test_a_difference_is_found_and_repaired(logged, live, what):
    sums = stored(live)
    n = sums["count"][0]
    if what == "twice":
        live.replica.learn(["t1"], ["red"], [[0.5]], [2.0])
    elif what == "missing":
        live.replica.forget("t1")
    elif what == "gram":
        sums["gram"][1] += 1e-6  # between the constant and the feature
    elif what == "nan":
        sums["squares"][0] = np.nan
    else:
        sums[what][0] *= 1 + 1e-6
    found = compared(logged, live)
    assert found.different == 1
    assert {one.task for one in found.differences} == {"t1"}
    if what != "missing":
        [one] = found.differences
        assert (one.arm, one.logged, one.learned) == ("red", n, n + (what == "twice"))
        assert np.isnan(one.off) if what == "nan" else one.off > 1e-9
    assert "1 tasks differ" in found.words()
    assert live.relearn()
    assert compared(logged, live).different == 0
    logged.check_all(live)


def test_a_task_that_the_log_does_not_have_is_found(logged, live):
    live.replica.learn(["a stranger", "t99"], ["red", "red"], [[0.5], [0.5]], [2.0, 2.0])
    found = compared(logged, live)
    assert {(one.task, one.learned, one.logged) for one in found.differences} == {("a stranger", 1, 0), ("t99", 1, 0)}
    assert found.tasks == 8


def test_rounding_is_no_difference(logged, live):
    """Sums of rewards that are large, and cancel, in another order than they were learned in."""
    groups = []
    for number in range(300):
        body = json.dumps({"context": {"a": 1e8 * (-1) ** number + number}})
        name = f"large{number}"
        groups.append([NewDecision("f", name, 1.0, "t1", "red", 0.5, body, "p", "v")])
        groups.append([NewReward(name, 1e8 * (-1) ** (number // 2), 2.0)])
    logged.storage.write(groups)
    live.follow()
    assert compared(logged, live).different == 0


def test_many_tasks_are_compared_in_slices(logged, live, monkeypatch):
    monkeypatch.setattr("posse.service.verify.AT_ONCE", 4)
    monkeypatch.setattr("posse.service.verify.ROWS", 3)  # tasks have more
    logged.write(100, tasks=30)
    live.follow()
    live.replica.learn(["t0x", "t5", "zz"], ["red"] * 3, [[0.5]] * 3, [2.0] * 3)
    seen, after, wrong = 0, "", []
    while after is not None:
        verification = Verification(logged.storage, logged.row, live.replica, live.contexts)
        pieces = sum(1 for _ in verification.steps(after, 7))
        found = verification.found
        assert found.tasks <= 7
        assert pieces > found.tasks / 4
        seen, after = seen + found.tasks, found.next
        wrong += [one.task for one in found.differences]
    assert (seen, wrong) == (logged.row.tasks + 2, ["t0x", "t5", "zz"])


def test_rows_that_cannot_be_learned_are_counted(logged, live):
    body = json.dumps({"context": {"a": 1.0}})
    odd = NewDecision("f", "odd", 10.0, "t1", "an arm that never was", 0.5, body, "p", "v")
    wrong = NewDecision("f", "wrong", 10.0, "t1", "red", 0.5, json.dumps({"context": {"b": "?"}}), "p", "v")
    logged.storage.write([[odd], [NewReward("odd", 1.0, 11.0)], [wrong], [NewReward("wrong", 1.0, 11.0)]])
    live.follow()
    found = compared(logged, live)
    assert (found.different, found.left_out) == (0, 2)


# Rows that left the log.


@pytest.fixture
def pruned(tmp_path, monkeypatch):
    """A fleet of which half the rows have left the log, of every task."""
    monkeypatch.chdir(tmp_path)
    logged = Logged(tmp_path, retention=1e6)
    logged.write(60, tasks=3)
    live = LiveFleet(logged.storage, logged.row)
    write_snapshot(live)
    assert logged.storage.prune("f", 31.0) == 30
    yield logged, live
    logged.storage.close()


def test_a_pruned_log_is_compared_in_part(pruned):
    logged, live = pruned
    found = compared(logged, live)
    assert (found.different, found.partial, found.tasks) == (0, 3, 3)
    assert found.rewards == 30
    assert "left the log" in found.words()
    logged.write(10, tasks=5)
    live.follow()
    found = compared(logged, live)
    assert (found.different, found.partial, found.tasks) == (0, 3, 5)


def test_of_a_pruned_log_numbers_of_rewards_are_compared(pruned):
    logged, live = pruned
    live.replica.learn(["t1"], ["red"], [[0.5]], [2.0])
    [one] = compared(logged, live).differences
    assert (one.task, one.arm, one.learned - one.logged) == ("t1", "", 1)
    assert not live.relearn()


def test_of_a_pruned_log_what_is_left_must_be_in_what_was_learned(pruned):
    logged, live = pruned
    stored(live)["squares"][0] = 1e-6
    [one] = compared(logged, live).differences
    assert (one.task, one.arm) == PAIR


# By itself, while a service runs.


def check(checker, logged, live):
    rows = {"f": logged.row}
    roster = Roster(logged.storage, 1e9, str)
    roster._install(live)
    for _ in range(1000):
        checker._rest_until = 0.0
        checker.step(logged.storage, roster, rows)
        if checker._now is None:
            if checker.relearner is not None:
                checker.relearner.join()
            return
    raise AssertionError("it does not end")


def test_a_service_finds_and_repairs_by_itself(logged, live, caplog):
    now = [0.0]
    checker = Checker(lambda: now[0])
    check(checker, logged, live)
    assert checker.last["f"].found.tasks == 6
    assert caplog.text == ""
    live.replica.learn(["t1"], ["red"], [[0.5]], [2.0])
    check(checker, logged, live)
    assert checker.last["f"].found.different == 0  # not due yet
    logged.write(1)
    live.follow()
    now[0] += checking.PAUSE
    check(checker, logged, live)
    assert checker.last["f"].found.different == 1
    assert checker.last["f"].repaired
    assert checker.findings("f") == []
    assert "1 tasks differ from the log, 't1' of arm 'red'" in caplog.text
    logged.check_all(live)


def test_a_fleet_is_learned_again_while_others_are_looked_after(logged, live, monkeypatch):
    """The thread that looks after all fleets only starts it."""
    relearn, go_on = live.relearn, threading.Event()

    def slowly():
        assert go_on.wait(60)
        return relearn()

    monkeypatch.setattr(live, "relearn", slowly)
    live.replica.learn(["t1"], ["red"], [[0.5]], [2.0])
    checker, roster = Checker(), Roster(logged.storage, 1e9, str)
    roster._install(live)
    while checker.relearner is None:
        checker._rest_until = 0.0
        checker.step(logged.storage, roster, {"f": logged.row})
    checker._rest_until = 0.0
    checker.step(logged.storage, roster, {"f": logged.row})  # returns, and begins nothing
    assert checker._now is None
    assert "1 tasks differ" in checker.findings("f")[0]
    go_on.set()
    checker.relearner.join()
    assert checker.findings("f") == []
    logged.check_all(live)


def test_a_service_says_what_it_cannot_repair(pruned, caplog):
    logged, live = pruned
    live.replica.learn(["t1"], ["red"], [[0.5]], [2.0])
    checker = Checker()
    check(checker, logged, live)
    assert not checker.last["f"].repaired
    assert "1 tasks differ" in checker.findings("f")[0]


def test_a_comparison_that_fails_is_logged_and_disturbs_nobody(logged, live, caplog, monkeypatch):
    checker = Checker()

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("posse.service.verify.Verification._compare", fail)
    check(checker, logged, live)
    assert "could not be compared" in caplog.text
    assert "could not be compared with its log (MemoryError" in checker.findings("f")[0]
    caplog.clear()
    check(checker, logged, live)
    assert caplog.text == ""


# From the command line, without a service.


def run(*arguments):
    done = CliRunner().invoke(app, ["service", "verify", *arguments])
    if isinstance(done.exception, PosseError):
        return 2, str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


def test_a_wrong_snapshot_is_found_and_repaired_without_a_service(logged, live):
    write_snapshot(live)
    status, said = run("posse.db")
    assert (status, "what was learned is what the log says" in said) == (0, True)
    # As many rewards as the log has, so that counting them finds nothing.
    stored(live)["moment"][0] += 0.5
    write_snapshot(live)
    status, said = run("posse.db", "--fleet", "f")
    assert (status, "task 't1', arm 'red'" in said) == (1, True)
    status, said = run("posse.db", "--repair")
    assert (status, "repaired" in said) == (0, True)
    assert run("posse.db")[0] == 0
    again = read_snapshot(logged.storage, "f")
    logged.check(again)


def test_verifying_refuses_what_it_must_not_do(logged, live):
    status, said = run("posse.db", "--fleet", "g")
    assert (status, "expected the name of a fleet, got 'g'" in said) == (2, True)
    assert logged.storage.lead()
    status, said = run("posse.db", "--repair")
    assert (status, "POST /v1/fleets/NAME/repair" in said) == (2, True)
    assert run("posse.db")[0] == 0  # looking is allowed


def test_a_snapshot_that_cannot_be_read_is_a_difference(logged, live):
    snapshot = logged.storage.start_snapshot("f", live.applied, 1.0)
    logged.storage.add_snapshot_part(snapshot, 0, b"no snapshot at all")
    logged.storage.finish_snapshot(snapshot)
    status, said = run("posse.db")
    assert (status, "cannot be read" in said) == (1, True)
    assert run("posse.db", "--repair")[0] == 0
    assert run("posse.db")[0] == 0


def test_a_snapshot_from_before_an_erasure_is_right(logged, live):
    write_snapshot(live)
    logged.erase("t1")
    assert run("posse.db")[0] == 0
    put_wrong_snapshot(logged, live, 3)
    assert run("posse.db")[0] == 0, "the task that differs is erased"
