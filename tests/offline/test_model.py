import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from posse.model import Statistics, estimate_prior, posterior
from posse.offline.folds import deal_folds
from posse.offline.model import PASSES, means, predicted_rewards, spreads


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
