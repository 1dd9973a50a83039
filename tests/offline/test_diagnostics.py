import numpy as np
import pytest

from posse.offline import Always, Limits, LoggedBandit, Uniform
from posse.offline.diagnostics import CURVE, diagnose, refusals, refusals_of_log
from posse.offline.intervals import effective_size
from posse.offline.targets import weights_of


def four_rows(**changes):
    plain = {
        "tasks": [0, 0, 1, 1],
        "arms": [0, 1, 0, 1],
        "contexts": np.ones((4, 1)),
        "rewards": [1.0, 2.0, 3.0, 4.0],
        "propensities": [0.8, 0.2, 0.5, 0.5],
        "probabilities": [[0.8, 0.2], [0.8, 0.2], [0.5, 0.5], [0.5, 0.5]],
    }
    return LoggedBandit(**{**plain, **changes})


def found(data, target=None, **settings):
    target = Uniform() if target is None else target
    probabilities = target.probabilities(data)
    weights = weights_of(target, probabilities, data, clip=settings.get("clip"))
    unclipped = weights_of(target, probabilities, data)
    return diagnose(data, probabilities, weights, floor=settings.get("floor", 0.01), unclipped=unclipped)


def codes(data, target, **limits):
    probabilities = target.probabilities(data)
    return [one.code for one in refusals(found(data, target), data, probabilities, Limits(**limits))]


def test_numbers_by_hand():
    # Weights 0.625, 2.5, 1 and 1: sum 5.125, squares 8.640625; tasks 3.125 and 2 of two rows each.
    one = found(four_rows(), floor=0.3)

    assert one.effective_rows == pytest.approx(5.125**2 / 8.640625)
    assert (one.rows, one.tasks, one.largest_weight) == (4, 2, 2.5)
    assert one.largest_share == pytest.approx(2.5 / 5.125)
    assert one.mean_weight == pytest.approx(5.125 / 4)
    assert one.mean_weight_se == pytest.approx(np.std([3.125 / 2, 1.0], ddof=1) / np.sqrt(2))
    assert one.supported == 1
    assert one.above_floor == pytest.approx(0.75)  # half of two rows is on an arm of probability 0.2
    assert one.clipped == 0


def test_clipping_is_counted():
    one = found(four_rows(), clip=1.0)

    assert one.clipped == pytest.approx(1 - 3.625 / 5.125)
    assert one.mean_weight == pytest.approx(5.125 / 4)  # propensities are judged by weights as they were
    assert one.largest_weight == 1


def test_the_curve_of_equal_weights_is_the_diagonal_and_of_one_weight_a_step():
    data = four_rows(propensities=[0.5] * 4, probabilities=[[0.5, 0.5]] * 4)

    assert found(data).concentration == pytest.approx([max(np.ceil(share * 4), 1) / 4 for share in CURVE])
    assert found(data).is_log_itself
    assert not found(four_rows()).is_log_itself


def test_effective_size_of_nothing_is_nothing():
    assert effective_size(np.zeros(3)) == 0


def test_sound_logs_are_not_refused(make):
    data = make().data

    assert codes(data, Uniform()) == []
    assert codes(data, Always("green")) == []


def test_decisions_that_could_never_have_been_logged_are_refused(make):
    made = make()
    logged = made.logged.copy()
    logged[:, 2] = 0
    logged /= logged.sum(axis=1, keepdims=True)
    made.arms = np.minimum(made.arms, 1)
    made.logged = logged
    probabilities = Uniform().probabilities(made.data)

    one = found(made.data)
    assert one.supported == pytest.approx(2 / 3)
    reasons = list(refusals(one, made.data, probabilities, Limits()))
    assert reasons[0].code == "no-overlap"
    assert "33.3 % of the target's decisions" in reasons[0].reason
    assert "'red'" in reasons[0].reason
    assert "log with an evaluation budget" in str(reasons[0])


def test_an_ineligible_arm_is_an_arm_that_could_never_have_been_logged(make):
    made = make()
    eligible = np.ones((made.tasks.size, 3), bool)
    eligible[7] = [False, True, True]
    made.arms[7] = 1
    made.changes = {"eligible": eligible, "probabilities": None}

    assert "no-overlap" in codes(made.data, Always("blue"))


def test_an_arm_that_was_never_taken_is_refused_where_probabilities_are_unknown(make):
    made = make()
    made.arms = np.minimum(made.arms, 1)
    made.changes = {"probabilities": None}

    assert "arm-never-taken" in codes(made.data, Always("red"))
    assert "arm-never-taken" not in codes(made.data, Always("blue"))


def test_too_few_effective_rows_are_refused(make):
    data = make(n_tasks=12, rows=6).data

    assert codes(data, Uniform()) == ["few-effective-rows"]
    assert codes(data, Uniform(), min_effective_rows=20) == []


def test_one_heavy_row_is_refused(make):
    made = make()
    made.logged[11] = [0.002, 0.499, 0.499]
    made.arms[11] = 0

    assert "one-heavy-row" in codes(made.data, Uniform())
    assert "one-heavy-row" not in codes(made.data, Uniform(), max_weight_share=0.9)


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_propensities_that_are_not_probabilities_are_refused(make, factor):
    made = make()
    rows = np.arange(made.tasks.size)
    wrong = np.minimum(factor * made.logged[rows, made.arms], 1.0)
    made.changes = {"propensities": wrong, "probabilities": None}

    assert codes(made.data, Uniform()) == ["mean-weight"]


def test_a_mean_weight_that_is_off_for_sure_is_refused_without_any_spread():
    data = four_rows(propensities=[0.25] * 4, probabilities=None)

    assert "mean-weight" in codes(data, Uniform(), min_effective_rows=0, max_weight_share=1)


def test_missing_rewards_and_propensities_are_refused_beyond_their_limit():
    lacking = {"rows_without_reward": 2, "rows_without_propensity": 1, "rows_left_out": 2}
    data = four_rows(**lacking)

    reasons = refusals_of_log(data, Limits(max_missing=0.2, min_effective_rewards=0))
    assert [one.code for one in reasons] == ["missing-reward"]
    assert "33.3 % of the rows have no reward, more than 20 %" in reasons[0].reason
    assert [one.code for one in refusals_of_log(data, Limits(max_missing=0.1, min_effective_rewards=0))] == [
        "missing-reward",
        "missing-propensity",
    ]
    assert refusals_of_log(four_rows(), Limits(min_effective_rewards=0)) == []
