"""From beliefs to probabilities: every rule against its plain formula, and the minimum that every arm keeps."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chisquare, norm

from posse.kernels.envelope import envelope_probabilities
from posse.kernels.passes import N_SUMMARIES, REWARDS, mark_silent
from posse.kernels.propensity import score_room, win_probabilities
from posse.kernels.rule import (
    KEPT,
    KEPT_TOGETHER,
    LENIENCE,
    Rule,
    action_probabilities,
    argmax_probabilities,
    choose_by_draws,
    keep_silent,
    kept_share,
    minimum_probabilities,
    raise_to_minimum,
    score_probabilities_rows,
    set_silent,
)
from posse.kernels.select import OPTIMISTIC, RANDOMISED, SAMPLING


def weighed(
    mean, sd, *, silent=(), step=5, scale=0.7, growing=True, explores=SAMPLING, floor=0.0, budget=0.0, explore=True
):
    mean, sd = np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    out = np.full(mean.size, np.nan)
    rule = Rule(explores.scaled(scale)._replace(growing=growing), floor, budget)
    marks, scratch = np.array(silent, dtype=np.float64), np.full((5, score_room(mean.size)), np.nan)
    action_probabilities(mean, sd, marks, step, rule, explore, scratch, out)
    return out


def minima(mean, floor=0.0, budget=0.0):
    mean = np.asarray(mean, dtype=np.float64)
    out = np.full(mean.size, np.nan)
    minimum_probabilities(mean, floor, budget, out)
    return out


# argmax_probabilities


def test_equal_scores_share_or_the_first_takes_all():
    scores, out = np.array([1.0, 3.0, 3.0, 2.0, 3.0]), np.full(5, np.nan)

    argmax_probabilities(scores, True, out)
    assert out.tolist() == [0.0, 1 / 3, 1 / 3, 0.0, 1 / 3]

    argmax_probabilities(scores, False, out)
    assert out.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_single_best_score_takes_all_either_way():
    scores, out = np.array([-5.0, -1.0, -2.0]), np.full(3, np.nan)
    for share in (True, False):
        argmax_probabilities(scores, share, out)
        assert out.tolist() == [0.0, 1.0, 0.0]


# action_probabilities


@pytest.mark.parametrize(("step", "growing"), [(1, True), (2, True), (40, True), (40, False)])
def test_sampling_weighs_by_the_chance_to_win(step, growing):
    mean, sd = np.array([0.2, 0.5, -0.1]), np.array([0.5, 0.1, 0.8])
    scale = 0.7 * (math.sqrt(math.log(max(step, 2))) if growing else 1.0)
    expected = np.empty(3)
    win_probabilities(mean, scale * sd, np.empty((4, score_room(3))), expected)

    assert_allclose(weighed(mean, sd, step=step, growing=growing), expected, rtol=1e-12)


def test_optimism_takes_the_highest_bound():
    mean, sd = [0.2, 0.5, -0.1], [0.5, 0.1, 0.8]
    scale = 0.7 * math.sqrt(math.log(9))
    best = int(np.argmax(np.array(mean) + scale * np.array(sd)))

    out = weighed(mean, sd, step=9, explores=OPTIMISTIC)

    assert best == 2
    assert out.tolist() == [0.0, 0.0, 1.0]
    assert weighed([0.1, 0.1], [0.3, 0.3], explores=OPTIMISTIC).tolist() == [0.5, 0.5]


def test_a_floor_lifts_every_arm_and_keeps_the_sum():
    out = weighed([0.0, 5.0, 0.0, 0.0], [0.1] * 4, explores=OPTIMISTIC, floor=0.05)

    assert_allclose(out, [0.05, 0.85, 0.05, 0.05], rtol=1e-15)


@pytest.mark.parametrize("explores", [SAMPLING, OPTIMISTIC, RANDOMISED])
def test_a_floor_that_fewer_arms_cannot_have_is_an_even_chance(explores):
    assert_allclose(weighed([0.0, 5.0], [0.1, 0.1], explores=explores, floor=0.6), [0.5, 0.5], rtol=1e-15)
    assert_allclose(weighed([3.0], [0.1], explores=explores, floor=0.6), [1.0], rtol=1e-15)


def test_without_exploring_the_best_mean_is_certain_whatever_the_floor():
    out = weighed([0.5, 0.7, 0.7], [9.0, 0.1, 0.2], floor=0.2, explore=False)

    assert out.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(("step", "growing"), [(1, True), (40, True), (40, False)])
def test_one_draw_for_all_arms_weighs_by_the_envelope(step, growing):
    mean, sd = np.array([0.2, 0.12, -0.08]), np.array([0.1, 0.3, 0.7])
    scale = 0.4 * (math.sqrt(math.log(max(step, 2))) if growing else 1.0)
    expected = np.empty(3)
    envelope_probabilities(mean, sd, scale, 0.25 * scale, expected)

    found = weighed(mean, sd, step=step, growing=growing, scale=0.4, explores=RANDOMISED)

    assert_allclose(found, expected, rtol=1e-14)
    assert (found > 0.02).all()


def test_a_centre_and_a_draw_of_its_own_for_every_arm_shift_the_means():
    mean, sd = np.array([0.2, 0.5, -0.1]), np.array([0.5, 0.1, 0.8])
    growth, expected = math.sqrt(math.log(9)), np.empty(3)
    win_probabilities(mean + 0.4 * growth * sd, 0.1 * growth * sd, np.empty((4, score_room(3))), expected)

    own = RANDOMISED._replace(coupled=False)
    assert_allclose(weighed(mean, sd, step=9, scale=0.4, explores=own), expected, rtol=1e-14)


@pytest.mark.parametrize("explores", [SAMPLING, OPTIMISTIC, RANDOMISED])
def test_no_exploration_takes_the_best_mean_and_shares_ties(explores):
    assert weighed([0.1, 0.7, 0.7], [0.5, 0.1, 0.9], scale=0.0, explores=explores).tolist() == [0.0, 0.5, 0.5]


@pytest.mark.parametrize("explores", [SAMPLING, OPTIMISTIC, RANDOMISED])
def test_rows_are_one_after_another(explores):
    rng = np.random.default_rng(2)
    mean, sd, mask = rng.normal(size=(40, 5)), np.exp(rng.normal(size=(40, 5))), rng.random((40, 5)) < 0.6
    mask[~mask.any(axis=1), 2] = True
    out = np.full((40, 5), np.nan)

    score_probabilities_rows(mean, sd, mask, 30, explores.scaled(0.7), out)

    for row in range(40):
        there = mask[row]
        assert (
            out[row, there].tolist() == weighed(mean[row, there], sd[row, there], step=30, explores=explores).tolist()
        )
        assert (out[row, ~there] == 0).all()


# minimum_probabilities


def test_a_budget_by_hand():
    # Gaps 0, 1 and 3, on average 4/3: 0.15 of that is 0.2, half of it for each arm that is not the best.
    assert_allclose(minima([2.0, 1.0, -1.0], budget=0.15), [1 / 3, 0.1, 0.1 / 3], rtol=1e-15)
    # An arm that is nearly as good is capped: 0.1 / 0.01 would be 10.
    assert_allclose(minima([2.0, 1.99, -1.0], budget=0.15)[1], 1 / 3, rtol=1e-15)
    # The larger of both.
    assert_allclose(minima([2.0, 1.0, -1.0], floor=0.05, budget=0.15), [1 / 3, 0.1, 0.05], rtol=1e-15)


def test_without_a_difference_an_even_chance_costs_nothing():
    assert minima([0.3, 0.3, 0.3, 0.3], budget=1e-6).tolist() == [0.25] * 4
    assert minima([5.0], budget=0.5).tolist() == [1.0]


def test_no_budget_is_no_minimum():
    assert minima([1.0, 2.0]).tolist() == [0.0, 0.0]


MEANS = st.lists(st.sampled_from([0.0, 1.0, 1.0 + 1e-15, -2.0]) | st.floats(-1, 1), min_size=1, max_size=12)


@given(MEANS, st.floats(1e-9, 1), st.sampled_from([1e-290, 1e-30, 1.0, 1e30, 1e300]), st.sampled_from([0.0, 3.0]))
def test_minima_lose_at_most_the_budget(values, budget, scale, offset):
    mean = scale * (np.array(values) + offset)
    least = minima(mean, budget=budget)
    gap = (mean.max() - mean) / max(np.ptp(mean), 1e-300)

    assert (least > 0).all()
    assert (least <= 1 / mean.size).all()
    assert least.sum() <= 1 + 1e-12
    assert least @ gap <= budget * gap.mean() * (1 + 1e-9)  # rounding of a dozen products


@given(MEANS, st.floats(1e-6, 1), st.data())
def test_raising_to_the_minimum_adds_at_most_the_budget_to_the_loss(values, budget, data):
    mean = np.array(values)
    own = np.array(data.draw(st.lists(st.floats(0, 1), min_size=mean.size, max_size=mean.size)))
    own = own / own.sum() if own.sum() > 1e-3 else np.full(mean.size, 1 / mean.size)
    least, out = minima(mean, budget=budget), own.copy()

    raise_to_minimum(least, out)

    gap = mean.max() - mean
    assert (out >= least).all()
    assert_allclose(out.sum(), 1.0, rtol=1e-12)
    assert out @ gap <= own @ gap + budget * gap.mean() + 1e-12


def test_arms_above_their_minimum_keep_their_proportions():
    out, least = np.array([0.6, 0.3, 0.1, 0.0]), np.array([0.0, 0.0, 0.15, 0.1])

    raise_to_minimum(least, out)

    # 0.25 is given away; 0.6 and 0.3 share the rest two to one.
    assert_allclose(out, [0.5, 0.25, 0.15, 0.1], rtol=1e-15)


@given(st.integers(0, 10_000))
def test_one_factor_for_all_that_are_above_their_minimum(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    own, least = rng.dirichlet(np.full(n, 0.3)), rng.dirichlet(np.ones(n)) * rng.random()
    out = own.copy()

    raise_to_minimum(least, out)

    factor = brentq(lambda value: np.maximum(least, value * own).sum() - 1, 0, 1 + 1e-9, xtol=1e-15)
    assert_allclose(out, np.maximum(least, factor * own), atol=1e-12)


@pytest.mark.parametrize("n_arms", [1, 2, 3, 7, 49, 100])
def test_an_even_chance_is_exactly_even(n_arms):
    # A log of the random policy is compared with the uniform one, digit by digit.
    rng = np.random.default_rng(n_arms)

    out = weighed(rng.normal(size=n_arms), np.ones(n_arms), scale=0.0, explores=OPTIMISTIC, floor=1.0)

    assert out.tolist() == [1 / n_arms] * n_arms


def test_probabilities_above_all_minima_stay_as_they_are():
    own = weighed([0.2, 0.5, 0.3], [0.5, 0.4, 0.8])

    assert (own > 0.05).all()
    assert_allclose(weighed([0.2, 0.5, 0.3], [0.5, 0.4, 0.8], floor=0.05), own, rtol=1e-15)


@pytest.mark.parametrize("explores", [SAMPLING, OPTIMISTIC, RANDOMISED])
def test_a_budget_gives_every_arm_a_positive_probability(explores):
    mean, sd = [0.0, 5.0, 4.9, -20.0], [0.1] * 4

    out = weighed(mean, sd, explores=explores, budget=0.01)

    assert (out >= minima(mean, budget=0.01)).all()
    assert (out > 0).all()
    assert_allclose(out.sum(), 1.0, rtol=1e-14)
    assert out[3] < out[0] < out[2]


# kept_share, keep_silent


def summary_of(rewards, *, silent):
    summary = np.ones(N_SUMMARIES)
    summary[REWARDS] = rewards
    if silent:
        mark_silent(summary)
    return summary


def test_an_arm_keeps_its_share_until_many_rewards_are_all_the_same():
    shares = [kept_share(summary_of(n, silent=True)) for n in (2, 100, 120, 240, 1200)]

    assert shares == pytest.approx([KEPT, KEPT, KEPT, KEPT / 4, KEPT / 100])
    assert KEPT > 0.01
    assert kept_share(summary_of(100, silent=False)) == 0.0


def test_many_silent_arms_share_one_minimum():
    for sign, most in ((1, KEPT_TOGETHER), (-1, KEPT)):
        least = np.zeros(50)
        keep_silent(np.zeros(50), np.ones(50), np.full(50, sign * KEPT), least)
        assert_allclose(least, most / 50, rtol=1e-15)


def test_where_nobody_has_shown_noise_beliefs_do_not_matter():
    silent = np.empty(3)
    summaries = np.stack([summary_of(n, silent=True) for n in (3000, 6, 240)])
    set_silent(summaries, silent)
    assert silent == pytest.approx([KEPT / 625, KEPT_TOGETHER, KEPT / 4])
    set_silent(np.stack([summary_of(n, silent=True) for n in (50, 100, 121)]), silent)
    assert silent == pytest.approx([2 / 50, 2 / 100, KEPT / (121 / 120) ** 2])
    # Another arm shows some; one that was never taken does not count.
    set_silent(np.stack([*summaries[:2], summary_of(5, silent=False)]), silent)
    assert silent == pytest.approx([-KEPT / 625, -KEPT, 0.0])
    set_silent(np.stack([*summaries[:2], summary_of(0, silent=False)]), silent)
    assert silent == pytest.approx([KEPT / 625, KEPT_TOGETHER, 0.0])


def kept(mean, sd, silent):
    """The minimum of every silent arm by its formula, arm by arm."""
    mean, sd = np.asarray(mean), np.asarray(sd)
    most = np.where(np.asarray(silent) < 0, KEPT, KEPT_TOGETHER) / max(np.abs(silent).sum(), 1e-9)
    result = np.minimum(np.abs(silent) * np.minimum(1.0, most), 1 / mean.size)
    for arm in np.flatnonzero(np.asarray(silent) < 0):
        others = [other for other in range(mean.size) if other != arm]
        rival = max(others, key=lambda other: (mean[other], sd[other]))
        chance = norm.sf(mean[rival], mean[arm], math.hypot(sd[arm], sd[rival]))
        result[arm] = min(result[arm], LENIENCE * chance)
    return result


@given(st.integers(0, 10_000))
def test_a_silent_arm_keeps_what_it_is_believed_to_deserve(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    mean, sd = np.round(rng.normal(size=n), 1), np.round(rng.uniform(0.1, 1.0, n), 1)  # ties, too
    silent, least = KEPT * rng.integers(-1, 2, n) * rng.uniform(0.5, 1.0, n), np.zeros(n)

    keep_silent(mean, sd, silent, least)

    assert_allclose(least, kept(mean, sd, silent), rtol=1e-12)


def test_beliefs_without_width_are_certain_unless_nobody_has_shown_noise():
    least = np.zeros(3)
    keep_silent(np.array([1.0, 1.0, 0.0]), np.zeros(3), np.array([-KEPT, 0.0, -KEPT]), least)
    assert least.tolist() == [KEPT / 2, 0.0, 0.0]
    keep_silent(np.array([1.0, 1.0, 0.0]), np.zeros(3), np.array([KEPT, 0.0, KEPT]), least)
    assert least.tolist() == [KEPT, 0.0, KEPT]


MEAN, SD, SILENT = [0.0, 0.5, 0.45, -3.0], [0.2, 0.1, 0.25, 0.2], [KEPT, 0.0, 0.0, 0.0]


def test_only_one_draw_for_all_arms_keeps_silent_arms():
    own = weighed(MEAN, SD, scale=0.4, explores=RANDOMISED)
    found = weighed(MEAN, SD, scale=0.4, explores=RANDOMISED, silent=SILENT)

    assert own[0] == 0.0  # the reason for all this
    assert found[0] == KEPT
    assert found[3] == own[3] == 0.0
    assert_allclose(found[1:3], (1 - KEPT) * own[1:3], rtol=1e-12)
    assert weighed(MEAN, SD, scale=0.4, explores=RANDOMISED, silent=[0] * 4).tolist() == own.tolist()
    for explores in (OPTIMISTIC, SAMPLING):
        plain = weighed(MEAN, SD, explores=explores)
        assert weighed(MEAN, SD, explores=explores, silent=SILENT).tolist() == plain.tolist()
    for settings in ({"scale": 0.0}, {"explore": False}):
        assert weighed(MEAN, SD, explores=RANDOMISED, silent=SILENT, **settings).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_the_larger_of_all_minima_counts():
    found = weighed(MEAN, SD, scale=0.4, explores=RANDOMISED, silent=SILENT, floor=0.001)
    assert found[[0, 3]].tolist() == [KEPT, 0.001]
    found = weighed(MEAN, SD, scale=0.4, explores=RANDOMISED, silent=SILENT, floor=0.25)
    assert found.tolist() == [0.25] * 4


def silent_of(summaries):
    silent = np.empty(len(summaries))
    set_silent(summaries, silent)
    return silent


@pytest.mark.parametrize("silent", [[1, 0, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0]])
def test_a_policy_draws_arms_as_often_as_a_fleet_reports(silent):
    exploration = RANDOMISED.scaled(0.4)
    summaries, draws = np.ones((4, N_SUMMARIES)), np.random.default_rng(3).normal(size=(40_000, 4))
    for arm in np.flatnonzero(silent):
        mark_silent(summaries[arm])

    arms = [
        choose_by_draws(np.array(MEAN), np.array(SD), summaries, 5, exploration, row, np.empty((3, 4))) for row in draws
    ]

    expected = weighed(MEAN, SD, scale=0.4, explores=RANDOMISED, silent=silent_of(summaries))
    counts, likely = np.bincount(arms, minlength=4), expected * len(draws) > 5
    assert counts[~likely].sum() == 0
    assert chisquare(counts[likely], len(draws) * expected[likely] / expected[likely].sum()).pvalue > 1e-4
    # Propensities are exact: the first draw, as a uniform number, is cut where the probabilities add up.
    uniform = ndtr(draws[:, 0])
    assert (np.searchsorted(np.cumsum(expected), uniform, side="right") == arms).mean() > 1 - 1e-9


def test_without_silent_arms_a_policy_takes_the_highest_score():
    exploration, rng = RANDOMISED.scaled(0.4), np.random.default_rng(4)
    summaries = np.ones((4, N_SUMMARIES))
    for _ in range(200):
        mean, sd, draws = rng.normal(size=4), rng.uniform(0.1, 2.0, 4), rng.normal(size=4)
        width = max(0.4 * (1 + 0.25 * draws[0]) * math.sqrt(math.log(5)), 0.0)
        found = choose_by_draws(mean.copy(), sd, summaries, 5, exploration, draws, np.empty((3, 4)))
        assert found == (mean + width * sd).argmax()
