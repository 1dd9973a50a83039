"""From beliefs to probabilities: sums of minima, policies, arms that never showed noise, and draws that agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from posse.core.decide import new_scratch
from posse.core.rule import (
    FEW,
    KEPT,
    KEPT_REWARDS,
    KEPT_TOGETHER,
    Rule,
    action_probabilities,
    pick,
    rule_of,
    set_silent,
)
from posse.core.select import OPTIMISTIC, RANDOMISED, SAMPLING
from posse.core.store import GAUSSIAN_SCATTER, N_SUMMARIES, REWARDS

RULES = {
    "ebm-rand-ucb": Rule(RANDOMISED.scaled(0.4), 0.0, 0.0),
    "ebm-ucb": Rule(OPTIMISTIC.scaled(0.4), 0.0, 0.0),
    "ebm-ts": Rule(SAMPLING.scaled(0.3), 0.0, 0.0),
    "random": Rule(OPTIMISTIC, 1.0, 0.0),
    "floor": Rule(RANDOMISED.scaled(0.4), 0.03, 0.0),
    "budget": Rule(RANDOMISED.scaled(0.4), 0.0, 0.02),
    "all": Rule(SAMPLING.scaled(0.3), 0.01, 0.01),
}


def probabilities(
    mean: np.ndarray, sd: np.ndarray, rule: Rule, step: int = 50, silent: np.ndarray | None = None
) -> np.ndarray:
    out = np.empty(mean.size)
    kept = np.zeros(mean.size) if silent is None else silent
    assert rule_of(rule.parameters()) == rule
    action_probabilities(mean, sd, kept, step, rule, True, new_scratch(mean.size), out)
    return out


def test_independent_scores_win_as_often_as_quadrature_says() -> None:
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(size=6), rng.gamma(2.0, 0.5, size=6)
    rule = Rule(SAMPLING, 0.0, 0.0)
    width = np.sqrt(np.log(50.0)) * sd
    at = np.linspace((mean - 9 * width).min(), (mean + 9 * width).max(), 200_001)
    below = norm.cdf((at[:, None] - mean) / width)
    density = norm.pdf((at[:, None] - mean) / width) / width
    wanted = [np.trapezoid(density[:, k] * np.delete(below, k, axis=1).prod(axis=1), at) for k in range(6)]
    np.testing.assert_allclose(probabilities(mean, sd, rule), wanted, atol=1e-8)


def test_one_draw_for_all_arms_wins_as_often_as_simulation_says() -> None:
    rng = np.random.default_rng(1)
    mean, sd = rng.normal(size=5), rng.gamma(2.0, 0.5, size=5)
    growth, draws = np.sqrt(np.log(50.0)), rng.normal(size=400_000)
    width = np.maximum(growth * 0.4 * (1.0 + 0.25 * draws), 0.0)
    wins = np.bincount((mean + width[:, None] * sd).argmax(axis=1), minlength=5) / draws.size
    np.testing.assert_allclose(probabilities(mean, sd, RULES["ebm-rand-ucb"]), wins, atol=4e-3)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_gives_a_distribution_whose_draws_have_probability(name: str) -> None:
    rng = np.random.default_rng(2)
    for n_arms in (1, 2, 3, 7, 60):
        found = probabilities(rng.normal(size=n_arms), rng.gamma(2.0, 0.5, size=n_arms), RULES[name])
        assert found.min() >= 0.0
        assert found.sum() == pytest.approx(1.0, abs=1e-9)
        for uniform in (0.0, 0.3, 0.999999999999):
            assert found[pick(found, uniform)] > 0.0
    if name in ("floor", "all", "random"):
        least = min(RULES[name].floor, 1.0 / n_arms)
        assert found.min() >= least - 1e-12


def test_arms_whose_rewards_were_all_the_same_keep_a_small_probability() -> None:
    summaries, silent = np.zeros((3, N_SUMMARIES)), np.empty(3)
    summaries[:, REWARDS] = 6.0, 400.0, 240.0
    summaries[0, GAUSSIAN_SCATTER] = summaries[2, GAUSSIAN_SCATTER] = -1.0
    set_silent(summaries, silent)
    np.testing.assert_allclose(silent, [-KEPT, 0.0, -KEPT / 4.0])  # below 0: as far as beliefs allow
    mean, sd = np.array([0.0, 1.0, 0.9]), np.array([0.4, 0.1, 0.4])
    found = probabilities(mean, sd, RULES["ebm-rand-ucb"], silent=silent)
    assert 0.0 < found[0] <= KEPT
    assert found[2] > 0.0
    summaries[1, GAUSSIAN_SCATTER] = -1.0  # no arm has shown any noise: few rewards say little
    set_silent(summaries, silent)
    np.testing.assert_allclose(silent, [min(FEW / 6.0, KEPT_TOGETHER), KEPT * (KEPT_REWARDS / 400.0) ** 2, KEPT / 4.0])
    assert probabilities(mean, sd, RULES["ebm-rand-ucb"], silent=silent)[0] > KEPT
