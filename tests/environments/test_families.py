"""Synthetic worlds that pay clicks or counts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue
from posse.simulation import simulate

CLICKS = {"n_tasks": 4, "n_arms": 3, "n_features": 3, "rewards": "binary", "contexts": "intercept"}
SMALL = {"shared_sd": 0.3, "heterogeneity": 0.1 * np.eye(3)}


@pytest.mark.parametrize(("kind", "rate"), [("binary", 0.1), ("count", 3.0)])
def test_rewards_have_the_expectations_that_are_declared(kind, rate):
    draw = SyntheticWorld(**{**CLICKS, "rewards": kind}, base_rate=rate, **SMALL).draw(seed=1, horizon=20_000)
    eta = np.einsum("td,ktd->tk", draw.contexts, draw.coefficients[:, draw.tasks])
    assert_allclose(draw.expected, 1 / (1 + np.exp(-eta)) if kind == "binary" else np.exp(eta), rtol=1e-9)
    assert_array_equal(draw.rewards, np.floor(draw.rewards))
    assert draw.rewards.max() == 1.0 if kind == "binary" else draw.rewards.max() > 1
    variance = draw.expected * (1 - draw.expected) if kind == "binary" else draw.expected
    standard = (draw.rewards - draw.expected).sum(axis=0) / np.sqrt(variance.sum(axis=0))
    assert (abs(standard) < 4).all()
    assert draw.rewards_are == kind
    assert draw.prior is None


def test_the_base_rate_is_where_intercepts_are_centred():
    world = SyntheticWorld(**{**CLICKS, "n_arms": 200}, base_rate=0.03, shared_sd=0.5)
    intercepts = world.draw(seed=2, horizon=1).coefficients[:, :, 0]
    # 200 arms with standard deviations of 0.5 and of 1.2 for 4 tasks.
    assert abs(intercepts.mean() - np.log(0.03 / 0.97)) < 0.3


def test_a_longer_horizon_only_adds_steps():
    for kind in ("binary", "count"):
        world = SyntheticWorld(**{**CLICKS, "rewards": kind})
        assert_array_equal(world.draw(3, 50).rewards, world.draw(3, 90).rewards[:50])


def test_numbers_are_as_they_were():
    plain, named = SyntheticWorld(), SyntheticWorld(rewards="number")
    assert_array_equal(plain.draw(5, 20).rewards, named.draw(5, 20).rewards)
    assert plain.settings() == named.settings()
    assert "rewards" not in plain.settings()
    assert SyntheticWorld(**CLICKS).settings()["rewards"] == "binary"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rewards": "clicks"},
        {"rewards": "number", "base_rate": 0.1},
        {"contexts": "uniform", "base_rate": 0.1},
        {"base_rate": 0.0},
        {"base_rate": 1.0},
    ],
)
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InvalidValue):
        SyntheticWorld(**{**CLICKS, **wrong})


@pytest.mark.parametrize("kind", ["binary", "count"])
def test_regret_is_in_expected_rewards_by_both_definitions(kind):
    world = SyntheticWorld(**{**CLICKS, "rewards": kind}, **SMALL)
    policies = {"oracle": "oracle", "random": "random"}
    for appendix in (False, True):
        found = simulate(world, policies, horizon=200, seeds=2, appendix=appendix).final_regret
        by_policy = dict(found.select("policy", "regret").group_by("policy").mean().iter_rows())
        assert by_policy["oracle"] == 0
        assert 0 < by_policy["random"] < (200 if kind == "binary" else 2000)
