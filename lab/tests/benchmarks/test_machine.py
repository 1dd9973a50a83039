import os
import platform

import pytest

from posse_lab.benchmarks.machine import machine_words, memory_in_use, seconds_per_call


class Clock:
    """A clock that moves only when somebody works."""

    def __init__(self, seconds_of_call):
        self.now, self.seconds_of_call, self.asked = 0.0, seconds_of_call, []

    def __call__(self):
        return self.now

    def run(self, n):
        self.asked.append(n)
        self.now += n * self.seconds_of_call(len(self.asked))


def test_the_machine_is_named_in_one_line_without_its_own_name():
    words = machine_words()

    assert "\n" not in words
    assert platform.python_version() in words
    assert platform.node() not in words or len(platform.node()) < 4
    assert os.sep + "home" not in words


def test_calls_grow_until_a_round_is_long_enough_and_rounds_are_counted():
    clock = Clock(lambda _: 1e-3)
    timing = seconds_per_call(clock.run, rounds=5, at_least=0.05, clock=clock)

    assert clock.asked[0] == 1
    assert timing.calls * 1e-3 >= 0.05
    assert timing.calls * 1e-3 < 0.5
    assert clock.asked[-5:] == [timing.calls] * 5
    assert timing.best == pytest.approx(1e-3)
    assert timing.median == pytest.approx(1e-3)


def test_the_first_call_does_not_count_and_best_and_median_are_of_the_rounds():
    # Compiling takes 100 s; of the rounds, one is disturbed and one is not.
    times = iter([100.0, 1.0, 3.0, 2.0, 9.0])
    clock = Clock(lambda _: next(times))
    timing = seconds_per_call(clock.run, rounds=3, at_least=1.0, clock=clock)

    assert (timing.best, timing.median, timing.calls) == (2.0, 3.0, 1)


def test_a_clock_that_stands_still_makes_more_calls():
    clock = Clock(lambda round_: 0.0 if round_ < 5 else 1.0)
    assert seconds_per_call(clock.run, rounds=1, at_least=0.5, clock=clock).calls == 1000


def test_memory_grows_by_what_is_kept():
    now, most = memory_in_use()
    kept = bytearray(os.urandom(1)) * 200_000_000
    more, most_of_all = memory_in_use()

    assert 150e6 < more - now < 300e6
    assert most_of_all >= more
    assert most_of_all >= most
    del kept
