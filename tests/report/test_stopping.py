"""Whether exploration pays, beside integrals done by drawing and decisions played out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from posse import FeatureSpec, Posse
from posse.fleet.expecting import beliefs_at
from posse.model import Prior
from posse.report.stopping import SHARES, improvement, stopping_of


def test_the_highest_of_two_has_a_formula():
    mean, sd = np.array([[0.3, 0.5], [2.0, -1.0], [0.0, 0.0]]), np.array([[0.2, 0.7], [0.01, 3.0], [0.0, 2.0]])
    spread = np.hypot(*sd.T)
    d = (mean[:, 0] - mean[:, 1]) / spread
    highest = mean[:, 0] * norm.cdf(d) + mean[:, 1] * norm.cdf(-d) + spread * norm.pdf(d)

    assert_allclose(improvement(mean, sd), highest - mean.max(axis=1), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("n_arms", [3, 30])
def test_the_highest_of_many_is_the_mean_of_draws(n_arms):
    rng = np.random.default_rng(2)
    mean, sd = rng.normal(size=(1, n_arms)), 10 ** rng.uniform(-2, 0.5, size=(1, n_arms))
    highest = rng.normal(mean, sd, size=(200_000, n_arms)).max(axis=1)

    found = improvement(mean, sd)[0] + mean.max()

    # Six standard errors of the draws, and what leaving out arms beyond the tenth may cost.
    assert abs(found - highest.mean()) < 6 * highest.std() / 447 + 0.01


def test_who_knows_every_arm_gains_nothing():
    assert improvement(np.array([[1.0, 2.0], [3.0, 3.0]]), np.zeros((2, 2))).tolist() == [0.0, 0.0]
    assert_allclose(improvement(np.array([[1.0]]), np.array([[5.0]])), [0.0], atol=1e-6)


def coins(rows, **settings):
    """Two arms without features in one task, the second better by 0.3; the population is known."""
    prior = Prior(covariance=[[[1.0]], [[1.0]]], noise_variance=0.8, shared_precision=4.0)
    fleet = Posse(["a", "b"], FeatureSpec([]), policy="ebm-ts", prior=prior, seed=1, **settings)
    rng = np.random.default_rng(5)
    arm = np.arange(rows) % 2
    fleet.learn_many(
        {"task": ["t"] * rows, "arm": [("a", "b")[k] for k in arm], "reward": 0.3 * arm + rng.normal(size=rows)}
    )
    return fleet


def weigh(fleet, coming):
    return stopping_of(
        fleet, ["t"], np.zeros(1, dtype=np.int64), np.ones((1, 1)), np.array([float(coming)]), contexts=False
    )


def test_the_gain_is_that_of_exploring_and_then_taking_the_best():
    fleet, coming = coins(60, floor=0.4), 1024  # so that exploring has its price
    found = weigh(fleet, coming)
    n = float(found.explore[0])
    assert n in [share * coming for share in SHARES]

    mean, sd, as_now = (part[0] for part in beliefs_at(fleet, ["t"], np.zeros(1, dtype=np.int64), np.ones((1, 1))))
    rng = np.random.default_rng(0)
    truth = rng.normal(mean, sd, size=(400_000, 2))
    likely_best = np.bincount(truth.argmax(axis=1), minlength=2) / len(truth)
    worths = []
    for chance in (as_now, likely_best):
        seen = rng.normal(truth, np.sqrt(0.8 / (n * chance)))
        weight = sd**2 / (sd**2 + 0.8 / (n * chance))
        chosen = ((1 - weight) * mean + weight * seen).argmax(axis=1)
        after = truth[np.arange(len(truth)), chosen] - truth[:, mean.argmax()]
        worths.append((coming - n) * after - n * (chance @ (mean.max() - mean)))
    worth = max(worths, key=np.mean)

    # Six standard errors of what was played out; the other way to explore is further off.
    error = 6 * worth.std() / np.sqrt(len(worth))
    assert found.gain[0] == pytest.approx(worth.mean(), abs=error)
    assert abs(found.gain[0] - min(map(np.mean, worths))) > error
    assert found.pays[0]


def test_gains_are_below_what_perfect_knowledge_gives_and_grow_with_the_decisions_to_come():
    fleet = coins(8)
    mean, sd, _ = beliefs_at(fleet, ["t"], np.zeros(1, dtype=np.int64), np.ones((1, 1)))
    ceiling, gains = improvement(mean, sd)[0], []
    for coming in (10, 100, 1000, 10_000):
        found = weigh(fleet, coming)
        assert 0 <= found.gain[0] <= coming * ceiling
        gains.append(found.gain[0] / coming)
    assert gains == sorted(gains)


def test_nobody_explores_what_is_known():
    found = weigh(coins(40_000), 100)

    assert not found.pays[0]


def test_exploring_pays_where_a_fleet_has_settled_too_early():
    # It believes in one arm for good, though the other may well be better.
    assert weigh(coins(8, exploration=0.0), 2000).pays[0]
