import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from posse.offline import LoggedBandit
from posse.offline.estimators import direct_method, doubly_robust, importance_weights, ips, snips, switch_threshold
from posse.offline.model import predicted_rewards

# Three rows, two arms; weights 1.8, 0.25 and 3.2.
PROBABILITIES = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8]])
ARMS = np.array([0, 1, 1])
PROPENSITIES = np.array([0.5, 0.8, 0.25])
REWARDS = np.array([2.0, 4.0, -1.0])
PREDICTED = np.array([[1.0, 0.0], [2.0, 3.0], [0.5, -0.5]])
WEIGHTS = np.array([1.8, 0.25, 3.2])


def test_weights_by_hand():
    assert_allclose(importance_weights(PROBABILITIES, ARMS, PROPENSITIES), WEIGHTS, rtol=1e-15)
    assert_allclose(importance_weights(PROBABILITIES, ARMS, PROPENSITIES, clip=2.0), [1.8, 0.25, 2.0], rtol=1e-15)


def test_values_by_hand():
    # w r is 3.6, 1.0 and -3.2; the model expects 0.9, 2.2 and -0.3 of the target; its errors are 1, 1 and -0.5.
    assert ips(WEIGHTS, REWARDS).value == pytest.approx(1.4 / 3, rel=1e-14)
    assert snips(WEIGHTS, REWARDS).value == pytest.approx(1.4 / 5.25, rel=1e-14)
    assert direct_method(PROBABILITIES, PREDICTED).value == pytest.approx(2.8 / 3, rel=1e-14)
    assert_allclose(
        doubly_robust(PROBABILITIES, PREDICTED, WEIGHTS, ARMS, REWARDS).numerator, [2.7, 2.45, -1.9], rtol=1e-14
    )
    switched = doubly_robust(PROBABILITIES, PREDICTED, WEIGHTS, ARMS, REWARDS, threshold=1.8)
    assert_allclose(switched.numerator, [2.7, 2.45, -0.3], rtol=1e-14)


def test_switching_every_row_is_the_model_and_none_is_doubly_robust():
    seen = (PROBABILITIES, PREDICTED, WEIGHTS, ARMS, REWARDS)

    assert doubly_robust(*seen, threshold=0.0).value == direct_method(PROBABILITIES, PREDICTED).value
    assert doubly_robust(*seen, threshold=3.2).value == doubly_robust(*seen).value


def test_no_weight_at_all_is_no_value():
    assert np.isnan(snips(np.zeros(3), REWARDS).value)


# Every log that could have been: three rows, two arms, rewards that arms decide.
LOGGED = np.array([[0.5, 0.5], [0.2, 0.8], [0.75, 0.25]])
PAID = np.array([[1.0, 3.0], [-2.0, 0.5], [4.0, 2.0]])


def every_log(logged=LOGGED, paid=PAID):
    rows = np.arange(logged.shape[0])
    for chosen in itertools.product(range(logged.shape[1]), repeat=rows.size):
        arms = np.array(chosen)
        yield float(np.prod(logged[rows, arms])), arms, logged[rows, arms], paid[rows, arms]


def test_the_expectation_over_all_logs_is_the_truth():
    truth = (PROBABILITIES * PAID).sum(axis=1).mean()
    mean = {"ips": 0.0, "dr": 0.0, "weight": 0.0}
    for chance, arms, propensities, rewards in every_log():
        weights = importance_weights(PROBABILITIES, arms, propensities)
        mean["ips"] += chance * ips(weights, rewards).value
        mean["dr"] += chance * doubly_robust(PROBABILITIES, PREDICTED, weights, arms, rewards).value
        mean["weight"] += chance * weights.mean()

    assert mean["ips"] == pytest.approx(truth, rel=1e-14)
    assert mean["dr"] == pytest.approx(truth, rel=1e-14)
    assert mean["weight"] == pytest.approx(1.0, rel=1e-14)


@pytest.mark.slow
def test_the_expectation_is_the_truth_with_a_model_that_was_learned_from_the_log():
    # Five rows in two folds; the model of a fold sees what the arms of the other happened to be. All 32 logs.
    rng = np.random.default_rng(3)
    logged, target = rng.dirichlet([2, 2], 5), rng.dirichlet([1, 1], 5)
    paid, contexts = rng.standard_normal((5, 2)) * 3, np.column_stack([np.ones(5), rng.standard_normal(5)])
    folds = np.array([0, 1, 0, 1, 0])
    honest = own_rows = 0.0
    for chance, arms, propensities, rewards in every_log(logged, paid):
        data = LoggedBandit(
            tasks=np.array([0, 0, 0, 1, 1]),
            arms=arms,
            contexts=contexts,
            rewards=rewards,
            propensities=propensities,
            arm_labels=(0, 1),
        )
        weights = importance_weights(target, arms, propensities)
        honest += chance * doubly_robust(target, predicted_rewards(data, folds), weights, arms, rewards).value
        # The same without folds: every model has seen the row that it is asked about.
        seen = predicted_rewards(data.__class__(**fields(data, repeat=2)), np.repeat([0, 1], 5))[:5]
        own_rows += chance * doubly_robust(target, seen, weights, arms, rewards).value

    truth = (target * paid).sum(axis=1).mean()
    assert honest == pytest.approx(truth, rel=1e-12)
    assert abs(own_rows - truth) > 1e-3


def fields(data, repeat):
    names = ("tasks", "arms", "contexts", "rewards", "propensities")
    return {name: np.concatenate([getattr(data, name)] * repeat) for name in names} | {"arm_labels": data.arm_labels}


finite = st.floats(-50, 50, allow_nan=False)


@st.composite
def problems(draw, n_rows=8, n_arms=3):
    positive = st.floats(0.05, 1.0)
    logged = draw(arrays(float, (n_rows, n_arms), elements=positive))
    target = draw(arrays(float, (n_rows, n_arms), elements=positive))
    logged, target = (matrix / matrix.sum(axis=1, keepdims=True) for matrix in (logged, target))
    arms = draw(arrays(np.int64, n_rows, elements=st.integers(0, n_arms - 1)))
    predicted = draw(arrays(float, (n_rows, n_arms), elements=finite))
    rewards = draw(arrays(float, n_rows, elements=finite))
    return target, predicted, importance_weights(target, arms, logged[np.arange(n_rows), arms]), arms, rewards


@given(problems(), finite)
def test_a_constant_reward_is_the_value_of_every_policy(problem, c):
    target, predicted, weights, arms, rewards = problem
    same = np.full(rewards.size, c)

    assert snips(weights, same).value == pytest.approx(c, rel=1e-12, abs=1e-12)
    assert doubly_robust(target, np.full(predicted.shape, c), weights, arms, same).value == pytest.approx(
        c, rel=1e-12, abs=1e-12
    )


@given(problems(), st.floats(-20, 20))
def test_scaled_rewards_scale_the_value(problem, scale):
    target, predicted, weights, arms, rewards = problem

    for estimator in (ips, snips):
        once, scaled = estimator(weights, rewards).value, estimator(weights, scale * rewards).value
        assert scaled == pytest.approx(scale * once, rel=1e-9, abs=1e-9)
    once = doubly_robust(target, predicted, weights, arms, rewards).value
    scaled = doubly_robust(target, scale * predicted, weights, arms, scale * rewards).value
    assert scaled == pytest.approx(scale * once, rel=1e-9, abs=1e-9)


@given(problems(), st.floats(-20, 20))
def test_shifted_rewards_shift_what_does_not_depend_on_their_zero(problem, shift):
    target, predicted, weights, arms, rewards = problem

    assert snips(weights, rewards + shift).value == pytest.approx(snips(weights, rewards).value + shift, abs=1e-9)
    once = doubly_robust(target, predicted, weights, arms, rewards).value
    moved = doubly_robust(target, predicted + shift, weights, arms, rewards + shift).value
    assert moved == pytest.approx(once + shift, abs=1e-9)


@given(problems())
def test_the_value_of_what_was_logged_is_the_mean_reward(problem):
    _, _, _, _, rewards = problem

    assert ips(np.ones(rewards.size), rewards).value == pytest.approx(rewards.mean(), rel=1e-12, abs=1e-12)


# Open Bandit Pipeline 0.5.5, on the arrays of `open_bandit_case`, with numpy 2.4.6.
OPEN_BANDIT_PIPELINE = {
    "ips": 1.2623426948378589,
    "ips clipped at 2": 1.0147814325227253,
    "snips": 1.1801291625360182,
    "dm": 0.970743707482415,
    "dr": 1.409934894620517,
    "switch-dr at 1.5": 1.2227380820007585,
}


def open_bandit_case():
    rng = np.random.default_rng(11)
    n, K = 200, 3
    logged = 0.8 * rng.dirichlet([1.0, 2.0, 3.0], n) + 0.2 / K
    target = rng.dirichlet([2.0, 1.0, 0.5], n)
    predicted = rng.normal(1.0, 2.0, (n, K))
    arms = (np.cumsum(logged, axis=1) < rng.random(n)[:, None]).sum(axis=1)
    return logged, target, predicted, arms, rng.normal(0.5, 1.5, n) + arms


def our_values():
    logged, target, predicted, arms, rewards = open_bandit_case()
    propensities = logged[np.arange(arms.size), arms]
    weights = importance_weights(target, arms, propensities)
    seen = (target, predicted, weights, arms, rewards)
    return {
        "ips": ips(weights, rewards).value,
        "ips clipped at 2": ips(importance_weights(target, arms, propensities, clip=2.0), rewards).value,
        "snips": snips(weights, rewards).value,
        "dm": direct_method(target, predicted).value,
        "dr": doubly_robust(*seen).value,
        "switch-dr at 1.5": doubly_robust(*seen, threshold=1.5).value,
    }


def test_values_agree_with_numbers_from_open_bandit_pipeline():
    assert our_values() == pytest.approx(OPEN_BANDIT_PIPELINE, rel=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_values_agree_with_open_bandit_pipeline_where_it_is_installed():
    ope = pytest.importorskip("obp.ope", exc_type=ImportError)
    logged, target, predicted, arms, rewards = open_bandit_case()
    position = np.zeros(arms.size, dtype=int)
    shared = {"action_dist": target[:, :, None], "position": position}
    model = {"estimated_rewards_by_reg_model": predicted[:, :, None]}
    seen = {"reward": rewards, "action": arms, "pscore": logged[np.arange(arms.size), arms], **shared}

    theirs = {
        "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**seen),
        "ips clipped at 2": ope.InverseProbabilityWeighting(lambda_=2.0).estimate_policy_value(**seen),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**seen),
        "dm": ope.DirectMethod().estimate_policy_value(**shared, **model),
        "dr": ope.DoublyRobust().estimate_policy_value(**seen, **model),
        "switch-dr at 1.5": ope.SwitchDoublyRobust(lambda_=1.5).estimate_policy_value(**seen, **model),
    }

    assert our_values() == pytest.approx(theirs, rel=1e-9)


def switching(seed, heavy, n=400):
    rng = np.random.default_rng(seed)
    logged = np.full((n, 2), 0.5)
    logged[:heavy] = [0.999, 0.001]
    target = np.full((n, 2), 0.5)
    expected = np.tile([1.0, 2.0], (n, 1))
    arms = (rng.random(n) < logged[:, 1]).astype(int)
    arms[0] = 1 if heavy else arms[0]
    rewards = expected[np.arange(n), arms] + rng.standard_normal(n)
    weights = importance_weights(target, arms, logged[np.arange(n), arms])
    return target, expected, weights, arms, rewards, np.arange(n) % 20, logged


def test_equal_weights_leave_nothing_to_the_model():
    assert switch_threshold(*switching(0, heavy=0)) == np.inf


def test_a_huge_weight_is_left_to_the_model():
    seen = switching(0, heavy=1)
    threshold = switch_threshold(*seen)

    assert seen[2].max() == 500
    assert 1 <= threshold < 500
    assert doubly_robust(*seen[:5], threshold=threshold).numerator[0] == pytest.approx(1.5)


def test_the_bound_by_hand():
    # Two tasks of one row, one arm, weights 1 and 9; the model expects 0 and rewards are 1, so its errors are 1. No
    # switching: rows 1 and 9, variance (16 + 16) / 4 = 8. Switching: rows 1 and 0, variance 0.125, and what is left to
    # the model is the second row, half of the target's decisions, or 9 / 2 if it must be guessed from the weights.
    weights, arms, rewards, tasks = np.array([1.0, 9.0]), np.zeros(2, int), np.ones(2), np.array([0, 1])
    seen = (np.ones((2, 1)), np.zeros((2, 1)), weights, arms, rewards, tasks)

    assert switch_threshold(*seen, np.array([[1.0], [1 / 9]])) < 9  # 0.125 + 0.25 is less than 8
    assert switch_threshold(*seen) == np.inf  # 0.125 + 20.25 is not


def test_no_weight_at_all_switches_nothing():
    target, expected, weights, arms, rewards, tasks, _ = switching(0, heavy=0)

    assert switch_threshold(target, expected, 0 * weights, arms, rewards, tasks) == np.inf


def test_units_of_the_rewards_do_not_matter():
    target, expected, weights, arms, rewards, tasks, logged = switching(1, heavy=3)
    once = switch_threshold(target, expected, weights, arms, rewards, tasks, logged)

    assert once < np.inf
    assert switch_threshold(target, 8 * expected, weights, arms, 8 * rewards, tasks, logged) == once


def test_without_logged_probabilities_less_is_left_to_the_model():
    seen = switching(0, heavy=1)

    assert switch_threshold(*seen[:6]) >= switch_threshold(*seen)
