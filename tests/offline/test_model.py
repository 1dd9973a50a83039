import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue
from posse.model import Statistics, estimate_prior, posterior
from posse.offline.data import LoggedBandit
from posse.offline.model import PASSES, deal_folds, means, predicted_rewards, spreads


def test_a_fold_is_predicted_by_the_posterior_of_the_others(make):
    data = make().data
    folds = deal_folds(data.tasks)
    found = predicted_rewards(data, folds)

    for fold in range(5):
        others = folds != fold
        stats = Statistics.from_data(
            task=data.tasks[others],
            arm=data.arms[others],
            context=data.contexts[others],
            reward=data.rewards[others],
            n_tasks=data.n_tasks,
            n_arms=3,
        )
        belief = posterior(stats, estimate_prior(stats, method="evidence", passes=PASSES).prior)
        for row in np.flatnonzero(~others)[:5]:
            assert_allclose(found[row], belief.mean[:, data.tasks[row]] @ data.contexts[row], rtol=1e-10)


def test_very_many_tasks_are_predicted_as_well_from_some_of_them(make, monkeypatch):
    made = make(n_tasks=60)
    folds = deal_folds(made.tasks)
    whole = predicted_rewards(made.data, folds)
    monkeypatch.setattr("posse.offline.model.MOST_TASKS", 30)
    some = predicted_rewards(made.data, folds)

    assert (some != whole).all()
    # Far below the error of either, which noise and few rows make.
    assert np.mean((some - whole) ** 2) < 0.05 * np.mean((whole - made.expected) ** 2)


def test_a_row_is_never_predicted_from_its_own_reward(make):
    made = make()
    folds = deal_folds(made.data.tasks)
    before = predicted_rewards(made.data, folds)
    made.rewards = made.rewards + np.where(np.arange(made.rewards.size) == 17, 100.0, 0.0)
    after = predicted_rewards(made.data, folds)

    assert_array_equal(after[folds == folds[17]], before[folds == folds[17]])
    assert (after[folds != folds[17]] != before[folds != folds[17]]).any(axis=1).all()


def test_predictions_are_nearer_to_the_truth_than_one_mean_for_all(make):
    made = make(rows=80)
    found = predicted_rewards(made.data, deal_folds(made.tasks))

    assert np.mean((found - made.expected) ** 2) < 0.3 * made.expected.var()


def test_means_and_spreads_are_those_of_the_posterior(make):
    data = make().data
    stats = Statistics.from_data(
        task=data.tasks, arm=data.arms, context=data.contexts, reward=data.rewards, n_tasks=12, n_arms=3
    )
    belief = posterior(stats, estimate_prior(stats).prior)
    rows = np.array([3, 99])

    for found, row in zip(zip(means(belief, data, rows), spreads(belief, data, rows), strict=True), rows, strict=True):
        x, task = data.contexts[row], data.tasks[row]
        assert_allclose(found[0], [belief.mean[arm, task] @ x for arm in range(3)])
        assert_allclose(found[1], [np.sqrt(x @ belief.covariance[arm, task] @ x) for arm in range(3)])


def test_clicks_are_predicted_as_probabilities_and_better_than_as_numbers():
    rng = np.random.default_rng(4)
    tasks, arms = rng.integers(30, size=3000), rng.integers(2, size=3000)
    x = np.column_stack([np.ones(3000), rng.normal(size=3000)])
    coefficients = np.array([[-2.5, 1.5], [-3.0, 0.0]]) + 0.5 * rng.normal(size=(30, 2, 2))
    logits = np.einsum("nkd,nd->nk", coefficients[tasks], x)
    truth = 1 / (1 + np.exp(-logits))
    clicked = rng.random(3000) < truth[np.arange(3000), arms]
    rows = {"tasks": tasks, "arms": arms, "contexts": x, "propensities": np.full(3000, 0.5)}
    clicks, numbers = LoggedBandit(**rows, rewards=clicked), LoggedBandit(**rows, rewards=clicked.astype(float))
    assert (clicks.reward_family, numbers.reward_family) == ("binary", "number")

    folds = deal_folds(tasks)
    found = predicted_rewards(clicks, folds)
    assert ((found > 0) & (found < 1)).all()
    as_numbers = predicted_rewards(numbers, folds)
    assert as_numbers.min() < 0
    # The errors are averages over 6,000 predictions; the link leaves a straight line far behind.
    assert np.mean((found - truth) ** 2) < 0.6 * np.mean((as_numbers - truth) ** 2)


def test_counts_are_predicted_as_rates_and_other_rewards_are_refused():
    rng = np.random.default_rng(5)
    rows = {"tasks": np.arange(400) % 8, "arms": np.arange(400) // 8 % 2, "contexts": np.ones((400, 1))}
    rates = np.where(rows["arms"] == 1, 4.0, 0.5)
    made = {**rows, "rewards": rng.poisson(rates), "propensities": np.full(400, 0.5), "reward_family": "count"}
    found = predicted_rewards(LoggedBandit(**made), np.arange(400) % 5)
    # 160 counts each from which the others' fold is left out: standard errors of 0.06 and 0.16.
    assert_allclose(found.mean(axis=0), [0.5, 4.0], atol=0.4)
    assert (found > 0).all()
    with pytest.raises(InvalidValue, match="expected counts of 0, 1, 2"):
        LoggedBandit(**{**made, "rewards": np.full(400, 0.5)})


def test_revenue_is_predicted_as_money_and_doubly_robust_values_are_nearer_than_those_of_numbers():
    rng = np.random.default_rng(6)
    rows = {"tasks": np.arange(2000) % 8, "arms": np.arange(2000) // 8 % 2, "contexts": np.ones((2000, 1))}
    share = np.where(rows["arms"] == 1, 0.3, 0.1)
    paid = (rng.random(2000) < share) * rng.lognormal(3.0, 0.5, 2000)
    data = LoggedBandit(**rows, rewards=paid, propensities=np.full(2000, 0.5), reward_family="revenue")
    found = predicted_rewards(data, np.arange(2000) % 5)
    assert (found > 0).all()
    # 100 and 300 amounts with a mean of exp(3.125): standard errors of 12 and 7 %.
    assert_allclose(found.mean(axis=0), np.exp(3.125) * np.array([0.1, 0.3]), rtol=0.25)
    with pytest.raises(InvalidValue, match="expected revenue of 0 or an amount above 0, got -2 at row 0"):
        LoggedBandit(**rows, rewards=np.full(2000, -2.0), propensities=np.full(2000, 0.5), reward_family="revenue")


labels = st.lists(st.integers(0, 6), min_size=1, max_size=60).map(np.array)


@given(labels, st.integers(2, 5), st.integers(0, 3))
def test_every_task_is_dealt_out_evenly(tasks, folds, seed):
    dealt = deal_folds(tasks, folds=folds, seed=seed)

    for task in np.unique(tasks):
        counts = np.bincount(dealt[tasks == task], minlength=folds)
        assert counts.max() - counts.min() <= 1
    counts = np.bincount(dealt, minlength=folds)
    assert counts.max() - counts.min() <= 1


@given(labels, st.permutations(range(7)))
def test_names_of_tasks_do_not_matter(tasks, names):
    assert (deal_folds(np.array(names)[tasks]) == deal_folds(tasks)).all()


def test_another_seed_is_another_deal():
    tasks = np.repeat(np.arange(5), 20)

    assert (deal_folds(tasks, seed=0) != deal_folds(tasks, seed=1)).any()
    assert (deal_folds(tasks, seed=1) == deal_folds(tasks, seed=1)).all()


def test_one_fold_is_refused():
    with pytest.raises(InvalidValue, match="folds to be at least 2"):
        deal_folds(np.array([0, 1]), folds=1)
