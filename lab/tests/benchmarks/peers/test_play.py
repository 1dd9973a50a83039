import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.stream import draw_stream
from posse_lab.benchmarks.workload import Size

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
