import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.benchmarks.peers.play import Played, latency_of, measure_latency, play
from posse.benchmarks.peers.stream import draw_stream
from posse.benchmarks.workload import Size

SIZE = Size(4, 3, 2)


@pytest.fixture
def stream():
    return draw_stream(SIZE, 1, 9)


def test_everyone_is_told_what_the_stream_holds_for_the_arm_it_chose(stream, fixed):
    arms = [0, 1, 2, 2, 1, 0, 0, 1, 2]
    entry = fixed(arms)
    played = play(entry, stream)

    assert_array_equal(played.arms, arms)
    for step, (task, context, number, arm, reward) in enumerate(entry.told):
        assert (task, number, arm) == (stream.tasks[step], step + 1, arms[step])
        assert context is stream.contexts[step]
        assert reward == stream.rewards[step, arm]
        assert type(reward) is float


def test_every_call_has_its_own_time(stream, fixed, monkeypatch):
    ticks = iter(range(0, 10_000_000, 1000))
    sizes = {"given": 3, "decide": 5, "outcome": 7, "update": 11}
    entry = fixed([0] * 9)

    def slow(function, n):
        def call(*arguments):
            for _ in range(n):
                next(ticks)
            return function(*arguments)

        return call

    for name, n in sizes.items():
        setattr(entry, name, slow(getattr(entry, name), n))
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(ticks))
    played = play(entry, stream)

    for name, n in sizes.items():
        # One tick more: that of reading the clock.
        assert_allclose(getattr(played, name), (n + 1) * 1e-6)


def test_fewer_steps_if_so_asked(stream, fixed):
    assert_array_equal(play(fixed([1] * 9), stream, n_steps=4).arms, [1] * 4)
    assert len(play(fixed([1] * 9), stream, n_steps=40).arms) == 9


def test_no_step_is_begun_when_the_time_is_up(fixed):
    stream = draw_stream(SIZE, 1, 100)
    played = play(fixed([1] * 100), stream, seconds=0.0)

    assert 1 <= len(played.arms) <= 20
    assert len(played.update) == len(played.arms)


def test_a_latency_is_the_mean_of_a_round_and_the_best_of_rounds():
    one = Played(np.zeros(3, dtype=np.int64), *np.array([[1.0] * 3, [2.0] * 3, [3.0] * 3, [4.0, 4.0, 40.0]]))
    other = Played(np.zeros(3, dtype=np.int64), *np.array([[2.0] * 3, [1.0] * 3, [1.0] * 3, [5.0, 5.0, 5.0]]))
    found = latency_of([one, other])

    assert (found.decide.best, found.decide.median, found.decide.calls) == (1.0, 1.5, 3)
    assert (found.update.best, found.update.median) == (5.0, 10.5)
    assert found.update_typical.best == 4.0  # a refresh does not show in the middle one
    assert (found.decide_built.best, found.update_built.best) == (3.0, 6.0)
    assert (found.both, found.both_typical) == (6.0, 5.0)


def test_rounds_begin_with_fresh_learners(stream, fixed):
    made = []

    def new():
        made.append(fixed([0] * 9))
        return made[-1]

    found = measure_latency(new, stream, rounds=2, seconds=1e-9)

    assert len(made) == 3  # one to warm up
    assert [len(entry.told) for entry in made] == [9, 9, 9]
    assert found.decide.calls == 9
    assert found.decide.best > 0


def test_whoever_is_fast_makes_more_rounds(stream, fixed):
    made = []

    def new():
        made.append(fixed([0] * 9))
        return made[-1]

    measure_latency(new, stream, rounds=2, seconds=10.0)

    assert len(made) == 1 + 8 * 2
