"""Spreading work over threads."""

import threading
import time

import pytest

from posse import threads


@pytest.fixture
def four_workers(monkeypatch):
    monkeypatch.setattr(threads, "workers", lambda: 4)


def test_few_rows_stay_in_the_callers_thread(four_workers):
    seen = []
    threads.spread(lambda part, parts: seen.append((part, parts, threading.current_thread())), threads.MANY_ROWS - 1)
    assert seen == [(0, 1, threading.current_thread())]


def test_many_rows_are_spread_and_waited_for(four_workers):
    seen = []

    def work(part, parts):
        time.sleep(0.01 * part)
        seen.append((part, parts))

    threads.spread(work, threads.MANY_ROWS)
    assert sorted(seen) == [(part, 4) for part in range(4)]


def test_an_error_is_raised_when_all_have_ended(four_workers):
    ended = []

    def work(part, parts):
        if part == 0:
            raise ValueError("part 0")
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(ValueError, match="part 0"):
        threads.spread(work, threads.MANY_ROWS)
    assert sorted(ended) == [1, 2, 3]


def test_work_is_done_by_who_asks_where_no_thread_can_start(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    threads.pool.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(threads, "workers", lambda: 4)
        patch.setattr(threading.Thread, "start", refuse)
        seen = []
        threads.spread(lambda part, parts: seen.append((part, parts, threading.current_thread())), threads.MANY_ROWS)
    threads.pool.cache_clear()
    assert seen == [(part, 4, threading.current_thread()) for part in range(4)]
