import pytest

from posse_lab.benchmarks.peers.entry import PER_TASK, POOLED, TASK_FEATURES
from posse_lab.benchmarks.peers.vowpal_wabbit import PEER, draw_arm, time_parsed
from posse_lab.benchmarks.workload import Size

SIZE = Size(4, 3, 2)


class Chances:
    """A workspace that predicts what it is told to."""

    def __init__(self, *chances):
        self.chances = list(chances)

    def predict(self, text, kind):
        return self.chances


@pytest.mark.parametrize(("uniform", "arm"), [(0.0, 0), (0.19, 0), (0.21, 1), (0.49, 1), (0.51, 2), (0.99, 2)])
def test_an_arm_is_drawn_from_the_probabilities(uniform, arm):
    chances = Chances(0.2, 0.3, 0.5)

    assert draw_arm(chances, "", None, lambda: uniform) == (arm, chances.chances[arm])


def test_probabilities_that_sum_to_less_than_one_still_give_an_arm():
    assert draw_arm(Chances(0.2, 0.7, 0.0999), "", None, lambda: 0.99999) == (1, 0.7)


@pytest.mark.parametrize("form", PEER.forms)
def test_it_learns_an_easy_world(form, easy, late_regret):
    pytest.importorskip("vowpalwabbit")

    assert late_regret(PEER.build(easy.size, form, 0, {"options": "--epsilon 0.05"})) < 0.5


@pytest.mark.parametrize("setting", PEER.trials, ids=lambda setting: setting["options"])
def test_every_setting_of_the_grid_runs(setting, easy, late_regret):
    pytest.importorskip("vowpalwabbit")

    assert late_regret(PEER.build(easy.size, TASK_FEATURES, 0, setting)) < 0.9


def test_what_it_is_given_and_told():
    pytest.importorskip("vowpalwabbit")
    import numpy as np

    context = np.array([0.5, -2.0])
    named = PEER.build(SIZE, TASK_FEATURES, 0, PEER.recommended)
    given = named.given(3, context, 1)
    assert given[1] == "|T t3 |X x0:0.5 x1:-2"
    assert named.outcome(given, (2, 0.25), 1.5) == (given[0], "3:-1.5:0.25 |T t3 |X x0:0.5 x1:-2")

    alone = PEER.build(SIZE, PER_TASK, 0, PEER.recommended)
    assert alone.given(3, context, 1)[1] == "|X x0:0.5 x1:-2"
    assert alone.given(3, context, 1)[0] is not alone.given(2, context, 1)[0]
    together = PEER.build(SIZE, POOLED, 0, PEER.recommended)
    assert together.given(3, context, 1)[0] is together.given(2, context, 1)[0]


def test_crossed_with_the_task_it_learns_what_only_a_task_shows(easy):
    pytest.importorskip("vowpalwabbit")
    import numpy as np

    entry = PEER.build(easy.size, TASK_FEATURES, 0, {"options": "--epsilon 0"})
    rng = np.random.default_rng(0)
    # In task 1 the arms pay the opposite of what they pay in task 0; one decision and reward per step.
    wrong = []
    for step in range(1500):
        task, context = step % 2, rng.standard_normal(3)
        expected = (3.0 if task else -3.0) * context
        given = entry.given(task, context, step + 1)
        decided = entry.decide(*given)
        entry.update(*entry.outcome(given, decided, expected[decided[0]]))
        wrong.append(expected.max() - expected[decided[0]] > 1e-9)
    assert np.mean(wrong[-300:]) < 0.3


def test_a_parsed_example_is_timed(easy):
    pytest.importorskip("vowpalwabbit")

    assert time_parsed(easy, n_examples=10).best > 0
