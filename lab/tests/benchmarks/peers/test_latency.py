import numpy as np
import pytest

from posse_lab.benchmarks.peers.latency import latency_of, measure_latencies
from posse_lab.benchmarks.peers.play import Played
from posse_lab.benchmarks.peers.stream import draw_stream
from posse_lab.benchmarks.workload import Size


@pytest.fixture
def stream():
    return draw_stream(Size(4, 3, 2), 1, 9)


@pytest.fixture
def made(fixed):
    """What makes learners, and those that it has made."""

    class Made(list):
        def __call__(self):
            self.append(fixed([0] * 9))
            return self[-1]

    return Made()


def test_a_latency_is_the_middle_call_of_a_round_and_the_best_of_rounds():
    one = Played(np.zeros(3, dtype=np.int64), *np.array([[1.0] * 3, [2.0, 2.0, 8.0], [3.0] * 3, [4.0, 4.0, 40.0]]))
    other = Played(np.zeros(3, dtype=np.int64), *np.array([[2.0] * 3, [1.0] * 3, [1.0] * 3, [5.0, 5.0, 5.0]]))
    found = latency_of([one, other])

    assert (found.decide.best, found.decide.median, found.decide.calls) == (1.0, 1.5, 3)
    assert (found.update.best, found.update.median) == (4.0, 4.5)  # a refresh does not show in the middle one
    assert (found.update_average.best, found.update_average.median) == (5.0, 10.5)
    assert (found.decide_average.best, found.decide_average.median) == (1.0, 2.5)
    assert (found.decide_built.best, found.update_built.best) == (3.0, 6.0)
    assert (found.both, found.both_average) == (5.0, 6.0)


def test_every_round_begins_with_a_fresh_learner_and_the_first_is_not_counted(stream, made):
    found = measure_latencies({"a": made}, stream, turns=2, seconds=1e-9, at_least=4)

    assert [len(entry.told) for entry in made] == [4, 4, 4]
    assert found["a"].decide.calls == 4
    assert found["a"].decide.best > 0


def test_learners_take_turns(stream, made):
    order = []

    def named(name):
        def new():
            order.append(name)
            return made()

        return new

    begun = []
    learners = {"a": named("a"), "b": named("b")}
    found = measure_latencies(learners, stream, turns=3, seconds=1e-9, begin=begun.append)

    assert order == ["a", "b"] * 4
    assert list(found) == ["a", "b"]
    assert begun == [f"latency, turn {turn} of 3" for turn in (1, 2, 3)]


def test_whoever_is_fast_makes_more_rounds_of_all_steps(stream, made):
    measure_latencies({"a": made}, stream, turns=2, seconds=10.0, at_least=4, most=5)

    assert [len(entry.told) for entry in made] == [4, *[9] * 10]
