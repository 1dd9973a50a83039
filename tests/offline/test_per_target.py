import numpy as np
import pytest

from posse.offline import Always, Learned, Limits, Logged, LoggedBandit, Replay, Uniform
from posse.offline.estimators import doubly_robust, ips
from posse.offline.per_target import Choices, evaluate_replay, evaluate_target


def choices(**changes):
    plain = {"estimators": ("ips", "snips", "dm", "dr", "switch-dr"), "confidence": 0.95, "folds": 5}
    return Choices(**{**plain, "clip": None, "seed": 0, **changes})


def test_contributions_are_those_of_the_estimators(make):
    made = make()
    data, model = made.data, np.zeros((made.tasks.size, 3))
    found = evaluate_target(Uniform(), data, choices(), Limits(), lambda: model)
    probabilities = Uniform().probabilities(data)

    assert list(found.estimates) == ["ips", "snips", "dm", "dr", "switch-dr"]
    assert found.estimates["ips"].value == ips(found.weights, data.rewards).value
    seen = (probabilities, model, found.weights, data.arms, data.rewards)
    assert found.estimates["dr"].value == doubly_robust(*seen).value
    threshold = found.report.switch_threshold
    assert found.estimates["switch-dr"].value == doubly_robust(*seen, threshold=threshold).value


def test_a_model_that_nobody_needs_is_not_learned(make):
    def model():
        raise AssertionError

    data = make().data
    evaluate_target(Uniform(), data, choices(estimators=("ips", "snips")), Limits(), model)
    refused = evaluate_target(Uniform(), data, choices(), Limits(min_effective_rows=1e9), model)

    assert refused.estimates == {}
    assert refused.report.refusals[0].code == "few-effective-rows"
    assert refused.report.diagnostics.rows == data.n_rows


def test_clipping_is_stated(make):
    data = make().data
    found = evaluate_target(Uniform(), data, choices(estimators=("ips",), clip=1.5), Limits(), lambda: None)

    assert found.weights.max() == 1.5
    assert "weights are clipped at 1.5, which removes" in found.report.notes[0]
    assert evaluate_target(Uniform(), data, choices(estimators=("ips",)), Limits(), lambda: None).report.notes == ()


def test_a_model_that_learned_from_the_policys_own_rows_is_called_too_high(make):
    data = make().data
    notes = [
        evaluate_target(
            target, data, choices(estimators=("dm",)), Limits(), lambda: np.zeros((data.n_rows, 3))
        ).report.notes
        for target in (Learned("ebm-ts"), Logged())
    ]

    assert "too high" in notes[0][0]
    assert "does not hold the error of the model" in notes[1][0]


def test_a_replay_says_how_many_steps_it_had(make):
    found = evaluate_replay(Replay("random"), make(n_tasks=10, rows=300, floor=0.9).data, choices(), Limits())

    assert found.report.steps == int(found.weights.sum()) > 100
    assert found.estimates["replay"].denominator.sum() == found.report.steps


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"floor": 0.02, "rows": 20}, "few-steps"),
        ({"floor": 0.9, "rows": 20, "zero": True}, "no-overlap"),
        ({"floor": 0.9, "rows": 20, "ineligible": True}, "replay-eligible"),
    ],
)
def test_a_replay_is_refused_where_it_could_not_be_fair(make, changes, code):
    zero, ineligible = changes.pop("zero", False), changes.pop("ineligible", False)
    made = make(**changes)
    if zero:
        made.arms[:] = 0
        made.logged[:] = [0.5, 0.5, 0.0]
    if ineligible:
        eligible = np.ones((made.tasks.size, 3), bool)
        eligible[0, (made.arms[0] + 1) % 3] = False
        made.changes = {"eligible": eligible, "probabilities": None}
    data = made.data
    assert isinstance(data, LoggedBandit)

    found = evaluate_replay(Replay("random"), data, choices(), Limits())

    assert [one.code for one in found.report.refusals] == [code]
    assert found.estimates == {}


def test_always_the_same_arm_needs_only_rows_with_it(make):
    data = make().data
    found = evaluate_target(Always("blue"), data, choices(estimators=("snips",)), Limits(), lambda: None)

    assert ((found.weights > 0) == (data.arms == 0)).all()
