import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from posse.fleet.ledger import FIRST_SIZE, FORGOTTEN, NOT_LEARNED, PENDING, REWARDED, Ledger, parse_id

COLUMNS = ("task", "arm", "time", "status", "reward", "context")


def filled(n, times=None):
    ledger = Ledger("abc", 2)
    ledger.reserve(n)
    for i in range(n):
        ledger.write(i % 3, i % 2, float(i if times is None else times[i]), np.array([i, -i]))
        ledger.size += 1
    return ledger


def column(ledger, name):
    return ledger.columns()[name].tolist()


def test_decisions_are_numbered_from_one():
    ledger = Ledger("abc", 2)
    ledger.reserve(3)
    assert ledger.next == 1
    at = ledger.write(4, 1, 10.0, np.array([1.0, 2.0]))
    assert ledger.size == 0  # it is there once size counts it
    ledger.size += 1
    assert ledger.id_at(at) == "abc-1"
    ledger.write_many(np.array([5, 6]), np.array([0, 1]), 11.0, np.array([[3.0, 4.0], [5.0, 6.0]]))
    ledger.size += 2
    assert (ledger.first, ledger.size, ledger.next, ledger.n_pending) == (1, 3, 4, 3)
    assert column(ledger, "task") == [4, 5, 6]
    assert column(ledger, "arm") == [1, 0, 1]
    assert column(ledger, "time") == [10.0, 11.0, 11.0]
    assert column(ledger, "context") == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert column(ledger, "status") == [PENDING] * 3


def test_memory_does_not_grow_with_expired_decisions():
    ledger = Ledger("abc", 2)
    for i in range(20_000):
        ledger.reserve(1)
        ledger.write(i, 0, float(i), np.zeros(2))
        ledger.size += 1
        if ledger.size > 50:
            ledger.drop(1)

    assert (ledger.first, ledger.size) == (19_951, 50)
    assert column(ledger, "task") == list(range(19_950, 20_000))
    assert ledger.task.size <= 4 * FIRST_SIZE


def test_a_row_is_the_receipt_of_what_was_learned():
    ledger = filled(3)
    assert ledger.receipt(1).serial == NOT_LEARNED
    receipt = ledger.receipt(1)._replace(reward=2.5, decay=-0.25, row=7, serial=11)
    ledger.keep(1, receipt)
    found = ledger.receipt(1)
    assert (found.task, found.arm, found.context.tolist()) == (1, 1, [1.0, -1.0])
    assert found._replace(context=None) == receipt._replace(context=None)


# Late ones


def test_late_are_those_decided_before():
    ledger = filled(5, [10, 11, 12, 12, 13])

    assert [ledger.n_late(before) for before in (10, np.nextafter(10, 11), 12, 12.5, 99)] == [0, 1, 2, 4, 5]
    assert Ledger("abc", 1).n_late(99) == 0


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 10))
def test_late_are_at_the_old_end_even_if_the_clock_went_back(times, before):
    ledger = filled(len(times), times)
    there = [i for i, time in enumerate(np.maximum.accumulate(times).tolist() if times else []) if time >= before]
    assert ledger.n_late(before) == (there[0] if there else len(times))


def test_forgetting_leaves_nothing_of_a_task_but_the_number():
    ledger = filled(7)
    ledger.status[:3] = REWARDED
    for at in range(3):
        ledger.keep(at, ledger.receipt(at)._replace(reward=4.0, decay=-0.5, row=at, serial=at))

    ledger.forget(ledger.of_tasks(np.array([0, 2])))

    assert column(ledger, "status") == [FORGOTTEN, REWARDED, FORGOTTEN, FORGOTTEN, PENDING, FORGOTTEN, FORGOTTEN]
    gone = ledger.status[ledger.live] == FORGOTTEN
    for name in ("task", "arm", "row", "serial"):
        assert (ledger.columns()[name][gone] == -1).all()
    for name in ("reward", "decay", "context"):
        assert not ledger.columns()[name][gone].any()
    assert ledger.context[ledger.live][~gone].tolist() == [[1.0, -1.0], [4.0, -4.0]]
    assert ledger.n_pending == 1
    assert ledger.next == 8


# Ids


@given(st.text(min_size=1), st.integers(1, 10**18 - 1))
def test_an_id_says_who_and_which(prefix, number):
    assert parse_id(f"{prefix}-{number}") == (prefix, number)


@pytest.mark.parametrize(
    "name",
    [None, 7, b"a-1", "", "-", "a", "a-", "-1", "a-0", "a-01", "a-+1", "a-1.0", "a-1 ", "a- 1", "a-1_0", "a-²",
     "a-١", f"a-{10**18}", "a-" + "9" * 5000],
)  # fmt: skip
def test_anything_else_is_no_id(name):
    assert parse_id(name) is None


class LedgerMachine(RuleBasedStateMachine):
    """Columns that slide, against a list."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger("abc", 1)
        self.rows = []
        self.first = 1
        self.serial = 0

    @rule(count=st.sampled_from([1, 2, 30, 200]))
    def add(self, count):
        self.ledger.reserve(count)
        new = list(range(self.serial, self.serial + count))
        self.serial += count
        tasks = np.array(new) % 5
        assert self.ledger.next == self.first + len(self.rows)
        self.ledger.write_many(tasks, tasks + 1, float(new[0]), np.array(new, dtype=float)[:, None])
        self.ledger.size += count
        self.rows += [[i % 5, i % 5 + 1, float(new[0]), PENDING, 0.0, float(i)] for i in new]

    @rule(count=st.integers(0, 150))
    def drop(self, count):
        count = min(count, len(self.rows))
        self.ledger.drop(count)
        del self.rows[:count]
        self.first += count

    @rule(place=st.integers(0, 999), value=st.floats(-5, 5))
    def reward(self, place, value):
        if self.rows:
            place %= len(self.rows)
            at = self.ledger.head + place
            self.ledger.status[at], self.ledger.reward[at] = REWARDED, value
            self.rows[place][3:5] = [REWARDED, value]

    @rule(task=st.integers(0, 4))
    def forget(self, task):
        self.ledger.forget(self.ledger.of_tasks(np.array([task])))
        for row in self.rows:
            if row[0] == task:
                row[:] = [-1, -1, row[2], FORGOTTEN, 0.0, 0.0]

    @invariant()
    def the_same(self):
        ledger = self.ledger
        assert (ledger.first, ledger.size, ledger.next) == (self.first, len(self.rows), self.first + len(self.rows))
        found = zip(*(ledger.columns()[name].ravel().tolist() for name in COLUMNS), strict=True)
        assert [list(row) for row in found] == self.rows
        assert ledger.n_pending == sum(row[3] == PENDING for row in self.rows)


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20)
TestLedger = LedgerMachine.TestCase
