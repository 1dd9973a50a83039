import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from posse.engine.commit import commit
from posse.fleet.ledger import FIRST_ROOM, FORGOTTEN, PENDING, REWARDED, Ledger, parse_id

COLUMNS = ("task", "arm", "time", "status", "reward", "context")


def filled(n, times=None):
    ledger = Ledger("abc", 2)
    ledger.reserve(n)
    for i in range(n):
        ledger.add(i % 3, i % 2, float(i if times is None else times[i]), np.array([i, -i]))
    return ledger


def test_decisions_are_numbered_from_one():
    ledger = Ledger("abc", 2)
    ledger.reserve(3)

    assert ledger.next == 1
    assert ledger.add(4, 1, 10.0, np.array([1.0, 2.0])) == 1
    assert ledger.add_many(np.array([5, 6]), np.array([0, 1]), 11.0, np.array([[3.0, 4.0], [5.0, 6.0]])) == 2
    assert (ledger.first, ledger.size, ledger.next, ledger.n_pending) == (1, 3, 4, 3)
    assert ledger.task.tolist() == [4, 5, 6]
    assert ledger.arm.tolist() == [1, 0, 1]
    assert ledger.time.tolist() == [10.0, 11.0, 11.0]
    assert ledger.context.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert ledger.status.tolist() == [PENDING] * 3


def test_memory_does_not_grow_with_expired_decisions():
    ledger = Ledger("abc", 2)
    for i in range(20_000):
        ledger.reserve(1)
        ledger.add(i, 0, float(i), np.zeros(2))
        if ledger.size > 50:
            commit(ledger.dropping_oldest(1))

    assert (ledger.first, ledger.size) == (19_951, 50)
    assert ledger.task.tolist() == list(range(19_950, 20_000))
    assert ledger._task.size <= 4 * FIRST_ROOM


# Late ones


def test_late_are_those_decided_before():
    ledger = filled(5, [10, 11, 12, 12, 13])

    assert ledger.late(10).tolist() == []
    assert ledger.late(np.nextafter(10, 11)).tolist() == [0]
    assert ledger.late(12).tolist() == [0, 1]
    assert ledger.late(12.5).tolist() == [0, 1, 2, 3]
    assert ledger.late(99).tolist() == [0, 1, 2, 3, 4]
    assert Ledger("abc", 1).late(99).tolist() == []
    assert (ledger.is_late(0, 10), ledger.is_late(0, 10.5), Ledger("abc", 1).is_late(0, 99)) == (False, True, False)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 10))
def test_late_are_at_the_old_end_even_if_the_clock_went_back(times, before):
    ledger = filled(len(times), times)

    late = ledger.late(before).tolist()

    kept = [i for i, time in enumerate(times) if time >= before]
    assert late == list(range(kept[0] if kept else len(times)))


def test_forgetting_keeps_nothing_of_a_task_but_the_number():
    ledger = filled(7)
    ledger.status[:3], ledger.reward[:3] = REWARDED, 4.0

    ledger.forget(ledger.of(np.array([0, 2])))

    assert ledger.status.tolist() == [FORGOTTEN, REWARDED, FORGOTTEN, FORGOTTEN, PENDING, FORGOTTEN, FORGOTTEN]
    gone = ledger.status == FORGOTTEN
    assert (ledger.task[gone] == -1).all()
    assert (ledger.arm[gone] == -1).all()
    assert not ledger.reward[gone].any()
    assert not ledger.context[gone].any()
    assert ledger.context[~gone].tolist() == [[1.0, -1.0], [4.0, -4.0]]
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
        first = self.ledger.add_many(tasks, tasks + 1, float(new[0]), np.array(new, dtype=float)[:, None])
        assert first == self.first + len(self.rows)
        self.rows += [[i % 5, i % 5 + 1, float(new[0]), PENDING, 0.0, float(i)] for i in new]

    @rule(count=st.integers(0, 150))
    def drop(self, count):
        count = min(count, len(self.rows))
        commit(self.ledger.dropping_oldest(count))
        del self.rows[:count]
        self.first += count

    @rule(place=st.integers(0, 999), value=st.floats(-5, 5))
    def reward(self, place, value):
        if self.rows:
            place %= len(self.rows)
            self.ledger.status[place], self.ledger.reward[place] = REWARDED, value
            self.rows[place][3:5] = [REWARDED, value]

    @rule(task=st.integers(0, 4))
    def forget(self, task):
        self.ledger.forget(self.ledger.of(np.array([task])))
        for row in self.rows:
            if row[0] == task:
                row[:] = [-1, -1, row[2], FORGOTTEN, 0.0, 0.0]

    @invariant()
    def the_same(self):
        ledger = self.ledger
        assert (ledger.first, ledger.size, ledger.next) == (self.first, len(self.rows), self.first + len(self.rows))
        found = zip(*(getattr(ledger, name).ravel().tolist() for name in COLUMNS), strict=True)
        assert [list(row) for row in found] == self.rows
        assert ledger.n_pending == sum(row[3] == PENDING for row in self.rows)


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20)
TestLedger = LedgerMachine.TestCase
