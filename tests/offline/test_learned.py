from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.core.rule import score_probabilities_rows
from posse.core.select import SAMPLING
from posse.errors import InvalidValue
from posse.model import Prior, estimate_family_prior, posterior
from posse.offline import Learned
from posse.offline.model import FAMILY_PASSES, deal_folds
from posse.policies import EbmUCB


def test_a_row_is_never_decided_from_its_own_reward(make):
    made = make()
    folds = deal_folds(made.tasks)
    before = Learned("ebm-ts").probabilities(made.data)
    made.rewards = made.rewards + np.where(np.arange(made.rewards.size) == 5, 50.0, 0.0)
    after = Learned("ebm-ts").probabilities(made.data)

    assert_array_equal(after[folds == folds[5]], before[folds == folds[5]])
    assert (after[folds != folds[5]] != before[folds != folds[5]]).any()


def test_it_decides_as_the_policy_that_learned_from_the_other_folds(make):
    data = make(n_tasks=3, rows=20).data
    prior = Prior(covariance=np.tile(0.25 * np.eye(3), (3, 1, 1)), noise_variance=1.0, shared_precision=0.5)
    found = Learned("ebm-ucb", prior=prior, exploration=0.5, folds=2, seed=4).probabilities(data)

    folds = deal_folds(data.tasks, folds=2, seed=4)
    for fold in (0, 1):
        policy = EbmUCB(n_tasks=3, n_arms=3, n_features=3, prior=prior, exploration=0.5)
        for row in np.flatnonzero(folds != fold):
            policy.update(int(data.tasks[row]), int(data.arms[row]), data.contexts[row], float(data.rewards[row]))
        for row in np.flatnonzero(folds == fold):
            rng = np.random.default_rng(0)
            arm = policy.choose(int(data.tasks[row]), data.contexts[row], step=31, rng=rng)
            assert found[row, arm] == 1


def test_exploration_decides_how_sure_it_is(make):
    data = make().data
    greedy, little, much = (Learned("ebm-ts", exploration=scale).probabilities(data) for scale in (0.0, 0.1, 2.0))

    assert set(np.unique(greedy)) == {0.0, 1.0}
    assert little.max(axis=1).mean() > much.max(axis=1).mean()
    assert_array_equal(little.argmax(axis=1)[little.max(axis=1) > 0.9], greedy.argmax(axis=1)[little.max(axis=1) > 0.9])


def test_only_eligible_arms_have_a_chance():
    mean, sd, out = np.array([[1.0, 5.0, 1.0]]), np.array([[1.0, 1.0, 1.0]]), np.empty((1, 3))

    score_probabilities_rows(mean, sd, np.array([[True, False, True]]), 9, SAMPLING, out)

    assert_allclose(out, [[0.5, 0.0, 0.5]], atol=1e-6)


@pytest.mark.parametrize("family", ["binary", "count"])
def test_clicks_and_counts_are_learned_by_their_own_model(make, family):
    data = make(n_tasks=4, rows=30).data
    rng = np.random.default_rng(1)
    rate = np.exp(-1.0 + data.contexts @ rng.normal(0.0, 0.5, data.contexts.shape[1]))
    rewards = rng.poisson(rate).astype(float)
    data = replace(data, rewards=np.minimum(rewards, 1.0) if family == "binary" else rewards, reward_family=family)
    found = Learned("ebm-ucb", folds=2, seed=4).probabilities(data)

    folds = deal_folds(data.tasks, folds=2, seed=4)
    for fold in (0, 1):
        seen, rows = folds != fold, np.flatnonzero(folds == fold)
        estimate = estimate_family_prior(
            task=data.tasks[seen],
            arm=data.arms[seen],
            context=data.contexts[seen],
            reward=data.rewards[seen],
            n_tasks=4,
            n_arms=3,
            rewards=family,
            passes=FAMILY_PASSES,
        )
        belief = posterior(estimate.statistics, estimate.prior)
        X, tasks = data.contexts[rows], data.tasks[rows]
        mean = np.einsum("nd,knd->nk", X, belief.mean[:, tasks])
        variance = np.einsum("na,knab,nb->nk", X, belief.covariance[:, tasks], X)
        score = mean + 0.4 * np.sqrt(np.log(seen.sum() + 1) * variance)
        assert_array_equal(found[rows].argmax(axis=1), score.argmax(axis=1))
    # Thompson sampling has probabilities between 0 and 1, so whatever is believed otherwise shows.
    by_family = Learned("ebm-ts", folds=2, seed=4).probabilities(data)
    as_numbers = Learned("ebm-ts", folds=2, seed=4, rewards="number").probabilities(data)
    assert (np.abs(as_numbers - by_family) > 0.01).any()


@pytest.mark.parametrize(
    ("key", "settings", "words"),
    [
        ("lin-ucb", {}, "must be one of 'ebm-rand-ucb', 'ebm-ts', 'ebm-ucb', but 'lin-ucb' came"),
        ("ebm-ts", {"colour": 1}, "no setting 'colour'"),
        ("ebm-ts", {"exploration": -1.0}, "exploration to be at least 0"),
        ("ebm-ts", {"prior": "odd"}, "prior to be one of"),
        ("ebm-ts", {"rewards": "clicks"}, "rewards to be one of"),
    ],
)
def test_wrong_settings_are_refused_at_once(key, settings, words):
    with pytest.raises(InvalidValue, match=words):
        Learned(key, **settings)
