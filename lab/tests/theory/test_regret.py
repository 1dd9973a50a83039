from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from posse.model import Statistics, posterior
from posse_lab.theory.constants import Constants
from posse_lab.theory.radius import bayes_radius, radius
from posse_lab.theory.regret import bayes_regret_bound, printed_sampling_constant, regret_bound_ts, regret_bound_ucb
from posse_lab.theory.variance import variance_bound_joint, variance_bound_own, variance_bound_shared

ARRIVALS = [30, 20, 40, 10]
DELTA = 1e-3
RHO = 2.0 * np.sqrt(6.0) * 1.5  # what a step can cost in the hand-worked world


def printed_variance(constants):
    own = 3 * sum(variance_bound_own(constants, n) for n in ARRIVALS)
    return own, 3 * variance_bound_shared(constants)


def test_printed_theorem_2_by_hand(constants):
    bound = regret_bound_ucb(constants, 100, ARRIVALS, DELTA, "printed")
    own, shared = printed_variance(constants)

    assert_allclose((bound.variance_own, bound.variance_shared), (own, shared))
    # As printed: sqrt(n d K [c_1 sum log(1 + c_2 n_j) + c_3 log(1 + c_4 N)]).
    inside = constants.c_1 * np.log1p(24.0 * np.array(ARRIVALS)).sum() + constants.c_3 * np.log(81.0)
    exploration = 2.0 * radius(constants, 100, DELTA, "printed") * np.sqrt(100 * 2 * 3 * inside)
    assert_allclose(bound.exploration, exploration)
    assert_allclose(bound.failure, RHO * 12 * 100 * DELTA)
    assert_allclose(bound.total, exploration + RHO * 1.2)
    assert_allclose(bound.trivial, 100 * RHO)
    assert bound.vacuous
    assert_allclose(bound.inflation * bound.radius, 2 * bound.radius)


def test_repaired_theorem_2_adds_the_pulls_at_the_start(constants):
    bound = regret_bound_ucb(constants, 100, ARRIVALS, DELTA, "repaired")

    assert_allclose(bound.forced, 3 * RHO)
    assert_allclose(bound.radius, radius(constants, 100, DELTA, "repaired"))
    assert_allclose((bound.variance_own, bound.variance_shared), printed_variance(constants))
    assert_allclose(bound.failure, RHO * 12 * 100 * DELTA)


def test_corrected_theorem_2_by_hand(constants):
    bound = regret_bound_ucb(constants, 100, ARRIVALS, DELTA)
    reach = radius(constants, 100, DELTA)
    own, shared = variance_bound_joint(constants, ARRIVALS, clip=(RHO / (2 * reach)) ** 2)

    assert (bound.variance_own, bound.variance_shared) == (own, shared)
    assert_allclose(bound.total, 2 * reach * np.sqrt(100 * (own + shared)) + RHO * (3 + 3 * 100 * DELTA))
    # Clipping matters: an interval wider than RHO costs no more than RHO.
    assert own + shared < 0.1 * sum(variance_bound_joint(constants, ARRIVALS))


def test_printed_theorem_3_by_hand(constants):
    bound = regret_bound_ts(constants, 100, ARRIVALS, DELTA, "printed")
    reach = radius(constants, 100, DELTA, "printed")

    drawn = np.sqrt(2 * 2 * np.log(2 * 100**2)) + 1
    assert_allclose(
        bound.exploration, 2 * 203.5 * drawn * reach * np.sqrt(100 * sum(printed_variance(constants))), rtol=1e-3
    )
    assert_allclose(bound.failure, RHO * 12 * 100 * (DELTA + np.pi**2 / 6))


def test_repaired_theorem_3_counts_the_sum_of_squares_once(constants):
    printed = regret_bound_ts(constants, 100, ARRIVALS, DELTA, "printed")
    repaired = regret_bound_ts(constants, 100, ARRIVALS, DELTA, "repaired")

    assert_allclose(repaired.failure, RHO * 12 * (100 * DELTA + np.pi**2 / 6))
    assert_allclose(repaired.inflation, printed.inflation / 2)
    assert_allclose(repaired.forced, 3 * RHO)
    one_arm = replace(constants, n_arms=1)
    assert_allclose(regret_bound_ts(one_arm, 100, ARRIVALS, DELTA, "repaired").forced, 2 * RHO)


@pytest.mark.parametrize(("n_arms", "settling"), [(3, 10), (25, 25)])
def test_corrected_theorem_3_by_hand(constants, n_arms, settling):
    constants = replace(constants, n_arms=n_arms)
    bound = regret_bound_ts(constants, 100, ARRIVALS, DELTA)
    reach = radius(constants, 100, DELTA)

    drawn = np.sqrt(2 * np.log(n_arms * 100**2)) + 1
    constant = 1 + 2 / (norm.sf(1) - 1 / (settling + 1) ** 2)
    assert_allclose(bound.inflation * bound.radius, constant * drawn * reach)
    assert constant < 14.4
    clip = (RHO / (drawn * reach)) ** 2
    assert_allclose(bound.variance_own + bound.variance_shared, sum(variance_bound_joint(constants, ARRIVALS, clip)))
    assert_allclose(bound.forced, settling * RHO)
    assert_allclose(bound.failure, RHO * (n_arms * 100 * DELTA + 1 / settling))


def test_sampling_constant_is_reached_at_step_3_and_negative_before():
    bracket = 1 / (2 * np.sqrt(2 * np.pi * np.e)) - 1 / np.arange(1, 1_000) ** 2
    constants = 2 / np.abs(bracket) + 1

    assert (bracket[:2] < 0).all()
    assert (bracket[2:] > 0).all()
    assert constants.argmax() == 2
    assert_allclose(printed_sampling_constant(), constants.max())
    assert_allclose(printed_sampling_constant(), 203.5, atol=0.05)


def test_printed_theorem_3_is_vacuous_everywhere(constants):
    # K N pi² / 6 > 1: its failure term alone is more than any policy can lose.
    for n_arms, n_tasks, noise_sd in [(1, 1, 1e-6), (2, 1, 1.0), (5, 10, 1.0)]:
        world = replace(constants, n_arms=n_arms, n_tasks=n_tasks, noise_sd=noise_sd)
        for horizon in (10, 10**6, 10**12):
            bound = regret_bound_ts(world, horizon, np.full(n_tasks, horizon / n_tasks), 1e-20, "printed")
            assert bound.failure > 1.64 * n_arms * n_tasks * bound.trivial
            assert bound.vacuous


@pytest.mark.parametrize("bound", [regret_bound_ucb, regret_bound_ts])
def test_corrected_bounds_end_up_below_the_trivial_one(constants, bound):
    # Not at the start, where the pulls of every arm are charged in full, but in the end as sqrt(n).
    early = bound(constants, 4, [1, 1, 1, 1], 0.1)
    late = bound(constants, 10**8, [25 * 10**6] * 4, 1e-9)
    later = bound(constants, 10**10, [25 * 10**8] * 4, 1e-11)

    assert early.vacuous
    assert not late.vacuous
    assert 10 < later.total / late.total < 15  # sqrt(100) times logarithms


def test_growth_with_the_number_of_tasks(constants):
    # 100 arrivals per task. Over sqrt(n), the printed bound grows as N^1.5, the corrected one as N and the Bayesian one
    # as sqrt(N), like N separate bandits. From 10,000 tasks on, and with a sure shared mean, what does not grow with
    # N is below 1 % of both factors, and logarithms of n move the slope by a few hundredths.
    def growth(form):
        bounding = bayes_regret_bound if form == "bayes" else partial(regret_bound_ucb, form=form)
        totals = []
        for n_tasks in (10**4, 10**5):
            world = replace(constants, n_tasks=n_tasks, shared_precision=50.0)
            bound = bounding(world, 100 * n_tasks, np.full(n_tasks, 100.0), delta=1e-12)
            totals.append(bound.exploration / np.sqrt(100 * n_tasks))
        return np.log10(totals[1] / totals[0])

    assert_allclose(growth("printed"), 1.5, atol=0.03)
    assert_allclose(growth("corrected"), 1.0, atol=0.03)
    assert_allclose(growth("bayes"), 0.5, atol=0.03)


def test_a_step_costs_at_most_two_radii_under_optimism(draw_run):
    # What the corrected Theorem 2 sums up, on real runs of the policy it is about; delta = 0.3 keeps the radius small.
    for seed in range(6):
        run = draw_run(seed, noise_sd=0.2)
        rng = np.random.default_rng(100 + seed)
        beta, stats, total = run.coefficients, run.statistics(0), 0.0
        for step in range(1, 41):
            task, x = run.tasks[step - 1], run.contexts[step - 1]
            post = posterior(stats, run.prior)
            reach = radius(run.constants, step, 0.3)
            sd = np.sqrt(np.einsum("kab,a,b->k", post.covariance[:, task], x, x))
            arm = step - 1 if step <= 2 else int((post.mean[:, task] @ x + reach * sd).argmax())
            expected = beta[:, task] @ x
            lost = expected.max() - expected[arm]
            total += lost
            assert lost <= run.constants.step_regret_bound
            assert step <= 2 or lost <= 2 * reach * sd[arm]
            stats = stats + Statistics.from_data(
                task=[task],
                arm=[arm],
                context=[x],
                reward=[expected[arm] + 0.2 * rng.standard_normal()],
                n_tasks=3,
                n_arms=2,
            )
        arrivals = np.bincount(run.tasks, minlength=3)
        assert total <= regret_bound_ucb(run.constants, 40, arrivals, 0.3).total


def test_a_drawn_step_costs_what_corrected_theorem_3_charges():
    # Any arms with estimates inside their radius, here at its edge: the best arm looks worst, the others best.
    rng = np.random.default_rng(1)
    for _ in range(50):
        n_arms, step, reach = 4, int(rng.integers(11, 200)), rng.uniform(1, 6)
        truth, sd = rng.normal(0, 3, n_arms), rng.exponential(1.0, n_arms)
        gap = truth.max() - truth
        worst = 1.5 * gap.max()
        mean = truth + reach * sd * np.where(gap == 0, -1, 1)
        drawn = np.sqrt(2 * np.log(n_arms * step**2)) + 1
        constant = 1 + 2 / (norm.sf(1) - 1 / step**2)
        pulled = (mean + reach * sd * rng.standard_normal((4_000, n_arms))).argmax(axis=1)
        charged = constant * drawn * reach * np.minimum(sd[pulled], worst / (drawn * reach)).mean() + worst / step**2
        assert gap[pulled].mean() <= charged


def test_variances_above_the_clip_count_in_part():
    x = np.geomspace(1e-6, 1e6, 1_000)
    for w in (1e-3, 1.0, 50.0):
        assert (np.minimum(x, w) <= w / np.log1p(w) * np.log1p(x) * (1 + 1e-12)).all()


def test_bayes_bound_by_hand(constants):
    bound = bayes_regret_bound(constants, 100, ARRIVALS, 0.02)
    r, s = bayes_radius(1, 0.02), np.sqrt(6.0 * (2.0 + 10.0))

    assert_allclose(r, norm.ppf(0.99))
    excess = quad(lambda z: (z - r) * norm.pdf(z), r, np.inf)[0]
    assert_allclose(bound.failure, 3 * 100 * s * excess)
    assert_allclose(bound.forced, 3 * s * np.sqrt(2 * np.log(3)))
    assert_allclose(bound.trivial, 200 * s * np.sqrt(2 * np.log(6)))
    assert_allclose(bound.exploration, r * np.sqrt(100 * (bound.variance_own + bound.variance_shared)))
    joint = sum(variance_bound_joint(constants, ARRIVALS))
    lemmas = printed_variance(constants)[0] + 3 * variance_bound_shared(constants, "sharpened")
    assert_allclose(bound.variance_own + bound.variance_shared, min(joint, lemmas))


def test_bayes_bound_takes_the_lemmas_where_they_are_smaller(constants):
    # Many tasks and a vague shared mean: the joint bound pays the shared variance in every task.
    world = replace(constants, n_tasks=500, precision_min=1.5, shared_precision=0.01)
    arrivals = np.full(500, 100)
    bound = bayes_regret_bound(world, 50_000, arrivals, 0.02)

    assert bound.variance_own + bound.variance_shared < 0.9 * sum(variance_bound_joint(world, arrivals))
    assert_allclose(bound.variance_shared, 3 * variance_bound_shared(world, "sharpened"))


def test_average_regret_of_posterior_sampling_is_below_the_terms_of_the_bayes_bound(sample_posteriors):
    # E R <= E sum_t (r s_t + excess(r) sum_k s_kt), with the standard deviations that occurred, at a small r = 0.67:
    # 2.3 times the regret that is seen, whose own standard error is a few per cent.
    rng = np.random.default_rng(2)
    r = bayes_radius(1, 0.5)
    excess = norm.pdf(r) - r * norm.sf(r)
    regret, charged, unchosen = 0.0, 0.0, 0.0
    for _ in range(80):
        for expected, sd, arm in sample_posteriors(rng, 20)[2]:
            regret += expected.max() - expected[arm]
            charged += r * sd[arm] + excess * sd.sum()
            unchosen += expected.max() - expected[1 - arm]

    assert regret < charged < unchosen


def test_nothing_to_lose_gives_a_bound_of_zero(constants):
    nothing = replace(constants, coefficient_bound=0.0)

    for bound in (regret_bound_ucb, regret_bound_ts):
        assert bound(nothing, 100, ARRIVALS, DELTA).total == 0.0


def test_constants_of_a_world_serve_every_bound(draw_run):
    constants: Constants = draw_run(0).constants
    totals = [
        bound(constants, 30, [10, 10, 10], DELTA, form).total
        for bound in (regret_bound_ucb, regret_bound_ts)
        for form in ("printed", "repaired", "corrected")
    ]

    assert np.isfinite(totals).all()
