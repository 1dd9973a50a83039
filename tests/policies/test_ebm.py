"""ebmUCB and ebmTS: the compiled rank-one step against Algorithm 1 recomputed from the statistics at every reward."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, NotFinite, ShapeError, UnknownTask
from posse.model import Prior, Statistics, estimate_prior, posterior
from posse.model.thresholding import choose_threshold
from posse.policies import EbmTS, EbmUCB

STEPS = 2_000


def paper_estimate(rows, prior, arm):
    """Section 3 of the paper with the errata's repairs, from stored rows; no threshold, as fewer than six tasks ask."""
    d = prior.n_features
    stats = Statistics.from_data(**rows, n_tasks=4, n_arms=prior.n_arms)
    mean = posterior(stats, prior).mean[arm]
    own = rows["arm"] == arm
    X, y, tasks = rows["context"][own], rows["reward"][own], rows["task"][own]
    noise, covariance = prior.noise_variance[arm], prior.covariance[arm]
    if y.size > d + 1:
        noise = max(((y - np.einsum("nd,nd->n", X, mean[tasks])) ** 2).sum() / max(y.size - d - 1, 1), 1e-6)
    betas = []
    for task in np.unique(tasks):
        Xj, yj = X[tasks == task], y[tasks == task]
        if len(yj) >= d and np.linalg.cond(Xj.T @ Xj) < 1e8:
            betas.append(np.linalg.lstsq(Xj, yj, rcond=None)[0])
    if len(betas) >= 2:
        covariance = np.atleast_2d(np.cov(np.array(betas), rowvar=False, ddof=1))
        values, vectors = np.linalg.eigh(covariance)
        covariance = vectors * np.maximum(values, 1e-6 * np.trace(covariance) / d) @ vectors.T
    return covariance, noise


def library_estimate(method):
    def estimate(rows, prior, arm):
        stats = Statistics.from_data(**rows, n_tasks=4, n_arms=prior.n_arms)
        found = estimate_prior(stats, method, start=prior).prior
        return found.covariance[arm], found.noise_variance[arm]

    return estimate


def algorithm_1(draw, rng, *, prior, estimate, exploration, sampling, refresh_growth=0.0):
    """The paper's algorithm as plainly as it can be written: keep every row, recompute everything after each reward."""
    n_arms, n_tasks, _ = draw.coefficients.shape
    arms = np.empty(draw.tasks.size, dtype=np.int64)
    refreshed_at = np.zeros(n_arms)
    stats = Statistics.zeros(n_tasks=n_tasks, n_arms=n_arms, n_features=prior.n_features)
    post = posterior(stats, prior)
    for t in range(draw.tasks.size):
        task, x = draw.tasks[t], draw.contexts[t]
        draws = rng.standard_normal(n_arms)
        if t + 1 <= n_arms:
            arm = t
        else:
            alpha = exploration * math.sqrt(math.log(max(t + 1, 2)))
            sd = np.sqrt(np.einsum("i,kij,j->k", x, post.covariance[:, task], x))
            scores = post.mean[:, task] @ x + alpha * sd * (draws if sampling else 1.0)
            arm = max(range(n_arms), key=lambda k: (scores[k], draws[k]))
        arms[t] = arm
        rows = {
            "task": draw.tasks[: t + 1],
            "arm": arms[: t + 1],
            "context": draw.contexts[: t + 1],
            "reward": draw.rewards[np.arange(t + 1), arms[: t + 1]],
        }
        stats += Statistics.from_data(
            **{name: column[-1:] for name, column in rows.items()}, n_tasks=n_tasks, n_arms=n_arms
        )
        rewards = stats.count[arm].sum()
        if estimate is not None and rewards - refreshed_at[arm] >= max(1, refresh_growth * refreshed_at[arm]):
            covariance, noise = prior.covariance.copy(), prior.noise_variance.copy()
            covariance[arm], noise[arm] = estimate(rows, prior, arm)
            prior = Prior(covariance=covariance, noise_variance=noise, shared_precision=prior.shared_precision)
            refreshed_at[arm] = rewards
        post = posterior(stats, prior)
    return arms, prior, post


@pytest.mark.parametrize("policy", [EbmUCB, EbmTS])
@pytest.mark.parametrize("exploration", [0.1, 1.0])
def test_the_compiled_step_decides_as_direct_recomputation_does_under_a_known_prior(policy, exploration):
    world = SyntheticWorld(n_tasks=10, n_arms=5, n_features=3, noise_sd=0.7)
    draw = world.draw(seed=1, horizon=STEPS)
    rng = np.random.default_rng(2)
    A = rng.standard_normal((5, 3, 3))
    prior = Prior(
        covariance=A @ np.swapaxes(A, 1, 2),
        noise_variance=[0.49, 0.3, 0.7, 0.5, 1.1],
        shared_precision=[0.3, 0.01, 0.5, 2.0, 0.1],
    )
    compiled = policy(n_tasks=10, n_arms=5, n_features=3, prior=prior, exploration=exploration)
    arms, _, post = algorithm_1(
        draw,
        np.random.default_rng(3),
        prior=prior,
        estimate=None,
        exploration=exploration,
        sampling=policy is EbmTS,
    )

    assert_array_equal(compiled.play(draw.tasks, draw.contexts, draw.rewards, np.random.default_rng(3)).arms, arms)
    belief = compiled.predict(task=4, context=draw.contexts[0])
    x = draw.contexts[0]
    # fast-step.md: rank-one steps drift by 1e-10 in 2,000 steps at d = 3.
    assert_allclose(belief.mean, post.mean[:, 4] @ x, rtol=1e-8)
    assert_allclose(belief.sd**2, np.einsum("i,kij,j->k", x, post.covariance[:, 4], x), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EbmUCB, EbmTS])
@pytest.mark.parametrize(
    ("method", "estimate", "refresh_growth"),
    [
        pytest.param("paper", paper_estimate, 0.0, marks=pytest.mark.slow),
        ("paper", paper_estimate, 0.1),
        pytest.param("paper-literal", library_estimate("paper-literal"), 0.0, marks=pytest.mark.slow),
        ("paper-literal", library_estimate("paper-literal"), 0.1),
        pytest.param("paper-unthresholded", library_estimate("paper-unthresholded"), 0.0, marks=pytest.mark.slow),
        ("paper-unthresholded", library_estimate("paper-unthresholded"), 0.3),
        pytest.param("moments", library_estimate("moments"), 0.0, marks=pytest.mark.slow),
        ("moments", library_estimate("moments"), 0.3),
    ],
)
def test_the_compiled_step_decides_as_direct_recomputation_does_with_a_learned_prior(
    policy, method, estimate, refresh_growth
):
    # Four tasks: below six the paper's method keeps every covariance, so there is no threshold to remember.
    world = SyntheticWorld(n_tasks=4, n_arms=3, n_features=2, noise_sd=[0.5, 1.0, 1.5])
    draw = world.draw(seed=5, horizon=STEPS)
    settings = {"exploration": 0.2, "shared_precision": 0.02}
    compiled = policy(n_tasks=4, n_arms=3, n_features=2, prior=method, refresh_growth=refresh_growth, **settings)
    arms, prior, _ = algorithm_1(
        draw,
        np.random.default_rng(3),
        prior=Prior.isotropic(n_arms=3, n_features=2, shared_precision=settings["shared_precision"]),
        estimate=estimate,
        exploration=settings["exploration"],
        sampling=policy is EbmTS,
        refresh_growth=refresh_growth,
    )

    assert_array_equal(compiled.play(draw.tasks, draw.contexts, draw.rewards, np.random.default_rng(3)).arms, arms)
    # Cholesky and QR differ by the condition number of a Gram matrix times 1e-16; 1e-7 leaves room for 1e8, the limit.
    assert_allclose(compiled.prior.covariance, prior.covariance, rtol=1e-7)
    assert_allclose(compiled.prior.noise_variance, prior.noise_variance, rtol=1e-7)
    assert_array_equal(compiled.prior.shared_precision, prior.shared_precision)


def test_one_reward_by_hand():
    """Shared mean varies by 4, tasks by 2 around it, noise by 0.5; reward 3 at x = 1 in task 0 has variance 6.5.

    Task 0 covaries with it by 6: mean 6/6.5 * 3, variance 6 - 36/6.5. Task 1 covaries by 4: 4/6.5 * 3, 6 - 16/6.5.
    """
    prior = Prior(covariance=[[[2.0]]], noise_variance=0.5, shared_precision=0.25)
    policy = EbmUCB(n_tasks=2, n_arms=1, n_features=1, prior=prior)
    policy.update(task=0, arm=0, context=[1.0], reward=3.0)

    own, other = policy.predict(task=0, context=[1.0]), policy.predict(task=1, context=[-2.0])
    assert_allclose([own.mean[0], own.sd[0] ** 2], [18 / 6.5, 6 - 36 / 6.5])
    assert_allclose([other.mean[0], other.sd[0] ** 2], [-2 * 12 / 6.5, 4 * (6 - 16 / 6.5)])


def test_the_first_pulls_go_round_the_arms_on_the_global_clock():
    policy = EbmUCB(n_tasks=5, n_arms=4, n_features=2)
    tasks = np.array([3, 3, 0, 3])
    played = policy.play(tasks, np.ones((4, 2)), np.zeros((4, 4)), np.random.default_rng(0), everywhere=True)
    assert_array_equal(played.arms, [0, 1, 2, 3])
    assert_array_equal(played.everywhere, np.repeat([[0], [1], [2], [3]], 5, axis=1))


def test_step_one_explores_as_step_two_does():
    """log 1 = 0 would make the very first free decision greedy; the guard is log max(t, 2).

    Arm 0 has been seen and pays 1/2 on average with little doubt; arm 1 is unseen with mean 0 and sd 1.
    """
    prior = Prior(covariance=np.zeros((2, 1, 1)), noise_variance=0.01, shared_precision=1.0)
    policy = EbmUCB(n_tasks=1, n_arms=2, n_features=1, prior=prior, exploration=1.0, first_pulls=False)
    policy.update(task=0, arm=0, context=[1.0], reward=0.5)
    # sqrt(log 2) = 0.83 > 0.5 + 0.83 * 0.1
    assert policy.choose(task=0, context=[1.0], step=1, rng=np.random.default_rng(0)) == 1
    greedy = EbmUCB(n_tasks=1, n_arms=2, n_features=1, prior=prior, exploration=0.0, first_pulls=False)
    greedy.update(task=0, arm=0, context=[1.0], reward=0.5)
    assert greedy.choose(task=0, context=[1.0], step=1, rng=np.random.default_rng(0)) == 0


@pytest.mark.parametrize(("step", "log"), [(1, math.log(2)), (2, math.log(2)), (3, math.log(3)), (50, math.log(50))])
def test_exploration_grows_as_the_root_of_the_log_of_the_step(step, log):
    """Arm 1 has less doubt and a higher mean: at some exploration the two are level; a hair to either side decides."""
    prior = Prior(covariance=np.ones((2, 1, 1)), noise_variance=0.3, shared_precision=0.5)

    def choice(exploration):
        policy = EbmUCB(n_tasks=1, n_arms=2, n_features=1, prior=prior, exploration=exploration, first_pulls=False)
        policy.update(task=0, arm=1, context=[1.0], reward=0.8)
        return policy, policy.choose(task=0, context=[1.5], step=step, rng=np.random.default_rng(0))

    belief = choice(0.0)[0].predict(task=0, context=[1.5])
    level = (belief.mean[1] - belief.mean[0]) / (belief.sd[0] - belief.sd[1]) / math.sqrt(log)
    assert choice(level * (1 + 1e-9))[1] == 0
    assert choice(level * (1 - 1e-9))[1] == 1


@pytest.mark.parametrize("policy", [EbmUCB, EbmTS])
def test_ties_fall_to_the_seeded_stream(policy):
    policy = policy(n_tasks=2, n_arms=3, n_features=2, exploration=0.0, first_pulls=False)
    arms = [policy.choose(0, [1.0, 2.0], 9, np.random.default_rng(seed)) for seed in range(60)]
    assert set(arms) == {0, 1, 2}
    draws = [np.random.default_rng(seed).standard_normal(3).argmax() for seed in range(60)]
    assert arms == draws


def test_the_threshold_is_chosen_anew_only_when_tasks_become_usable_or_a_reward_per_task_has_come():
    n_tasks, d = 8, 3
    world = SyntheticWorld(n_tasks=n_tasks, n_arms=1, n_features=d, heterogeneity="sparse")
    draw = world.draw(seed=6, horizon=400)
    policy = EbmUCB(n_tasks=n_tasks, n_arms=1, n_features=d)
    chosen_at, chosen_for, threshold, choices = 0, -1, 0.0, 0
    order: list[int] = []  # tasks in the order of their first reward, which is the order of the seeded splits
    grams, moments = np.zeros((n_tasks, d, d)), np.zeros((n_tasks, d))
    counts = np.zeros(n_tasks)
    for t in range(400):
        task, x, y = int(draw.tasks[t]), draw.contexts[t], draw.rewards[t, 0]
        policy.update(task=task, arm=0, context=x, reward=y)
        order += [task] if task not in order else []
        grams[task] += np.outer(x, x)
        moments[task] += x * y
        counts[task] += 1
        usable = [j for j in order if counts[j] >= d and np.linalg.cond(grams[j]) < 1e8]
        report = policy.prior_report
        assert report.tasks_used[0] == len(usable)
        if len(usable) >= 2:
            betas = np.array([np.linalg.solve(grams[j], moments[j]) for j in usable])
            covariance = np.cov(betas, rowvar=False)
            if len(usable) != chosen_for or t + 1 - chosen_at >= n_tasks:
                threshold = choose_threshold(
                    betas,
                    len(usable),
                    covariance,
                    np.empty(n_tasks, dtype=np.int64),
                    np.empty(20),
                    np.empty(d),
                    np.empty((d, d)),
                    np.empty((d, d)),
                )
                chosen_at, chosen_for, choices = t + 1, len(usable), choices + 1
            assert_allclose(report.threshold[0], threshold, rtol=1e-8)
            kept = np.where((np.abs(covariance) >= threshold) | np.eye(d, dtype=bool), covariance, 0.0)
            if report.eigenvalues_floored[0] == 0:
                assert_allclose(policy.prior.covariance[0], kept, rtol=1e-8, atol=1e-9)
    assert choices > 30
    assert threshold > 0  # the sparse world does have something to threshold


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_the_prior_moves_only_at_a_refresh(growth):
    policy = EbmUCB(n_tasks=4, n_arms=1, n_features=2, refresh_growth=growth)
    draw = SyntheticWorld(n_tasks=4, n_arms=1, n_features=2).draw(seed=0, horizon=60)
    moved = []
    for t in range(60):
        before = policy.prior.noise_variance[0]
        policy.update(task=int(draw.tasks[t]), arm=0, context=draw.contexts[t], reward=draw.rewards[t, 0])
        if policy.prior.noise_variance[0] != before:
            moved.append(t + 1)
    # The noise is estimated from the fourth reward on (more than n_features + 1). With growth 0.5 the refreshes come at
    # 1, 2, 3, 5 (3 * 1.5 rounded up), 8, 12, 18, 27, 41.
    assert moved == (list(range(4, 61)) if growth == 0 else [5, 8, 12, 18, 27, 41])


def test_prior_and_statistics_are_copies():
    policy = EbmUCB(n_tasks=2, n_arms=2, n_features=2)
    policy.update(task=0, arm=0, context=[1.0, 2.0], reward=1.0)
    policy.prior.covariance[:] = 7.0
    policy.statistics.gram[:] = 7.0
    assert_array_equal(policy.prior.covariance[1], np.eye(2))
    assert_array_equal(policy.statistics.gram[0, 0], [[1, 2], [2, 4]])


def test_a_given_prior_is_not_changed():
    prior = Prior.isotropic(n_arms=2, n_features=2)
    policy = EbmUCB(n_tasks=2, n_arms=2, n_features=2, prior=prior)
    for _ in range(20):
        policy.update(task=0, arm=0, context=[1.0, 2.0], reward=1.0)
    assert_array_equal(prior.covariance, np.tile(np.eye(2), (2, 1, 1)))
    assert_array_equal(policy.prior.noise_variance, [1.0, 1.0])


def test_the_report_says_what_still_stands_at_its_start_value():
    policy = EbmUCB(n_tasks=3, n_arms=2, n_features=1)
    for task, reward in [(0, 1.0), (0, 1.5), (1, 3.0), (1, 2.0)]:
        policy.update(task=task, arm=0, context=[1.0], reward=reward)
    report = policy.prior_report
    assert report.method == "paper"
    assert_array_equal(report.tasks_used, [2, 0])
    assert_array_equal(report.covariance_at_start, [False, True])
    assert_array_equal(report.noise_at_start, [False, True])


def test_words():
    sizes = {"n_tasks": 2, "n_arms": 2, "n_features": 2}
    assert EbmUCB(**sizes).describe() == "exploration 0.1 √log t; paper prior"
    known = EbmTS(**sizes, prior=Prior.isotropic(n_arms=2, n_features=2), refresh_growth=0.1)
    assert known.describe() == "exploration 0.1 √log t; known prior"
    assert "refresh at +10%" in EbmTS(**sizes, prior="moments", refresh_growth=0.1).describe()


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"exploration": -0.1}, InvalidValue, "exploration"),
        ({"exploration": np.nan}, NotFinite, "exploration"),
        ({"exploration": "0.1"}, InvalidValue, "exploration"),
        ({"shared_precision": 0.0}, InvalidValue, "shared_precision"),
        ({"shared_precision": -1.0}, InvalidValue, "shared_precision"),
        ({"shared_precision": np.inf}, NotFinite, "shared_precision"),
        ({"refresh_growth": -0.1}, InvalidValue, "refresh_growth"),
        ({"prior": "papre"}, InvalidValue, "'paper'.*'moments'.*'papre'"),
        ({"prior": None}, InvalidValue, "prior"),
        ({"prior": np.eye(2)}, InvalidValue, "ndarray"),
        ({"prior": Prior.isotropic(n_arms=3, n_features=2)}, ShapeError, "3 arms.*2 arms"),
        ({"prior": Prior.isotropic(n_arms=2, n_features=1)}, ShapeError, "1 features.*2 features"),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", [EbmUCB, EbmTS])
def test_bad_settings(policy, settings, error, words):
    with pytest.raises(error, match=words):
        policy(n_tasks=2, n_arms=2, n_features=2, **settings)


def test_bad_predictions():
    policy = EbmUCB(n_tasks=2, n_arms=2, n_features=2)
    with pytest.raises(UnknownTask):
        policy.predict(task=2, context=[1.0, 1.0])
    with pytest.raises(ShapeError):
        policy.predict(task=0, context=[1.0])
    with pytest.raises(NotFinite):
        policy.predict(task=0, context=[1.0, np.inf])


def test_the_refresh_schedule_may_be_changed_on_the_way():
    policy = EbmUCB(n_tasks=2, n_arms=1, n_features=2, refresh_growth=0.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        policy.update(0, 0, rng.standard_normal(2), rng.standard_normal())
    at_twenty = policy.prior.noise_variance
    policy.refresh_growth = 1e9
    for _ in range(20):
        policy.update(0, 0, rng.standard_normal(2), rng.standard_normal())
    assert_array_equal(policy.prior.noise_variance, at_twenty)
    assert policy.refresh_growth == 1e9
    policy.refresh_growth = 0
    policy.update(0, 0, rng.standard_normal(2), rng.standard_normal())
    assert policy.prior.noise_variance != at_twenty

    with pytest.raises(InvalidValue, match="refresh_growth"):
        policy.refresh_growth = -0.5
    assert policy.refresh_growth == 0


def test_first_pulls_are_settled_from_the_start():
    policy = EbmUCB(n_tasks=2, n_arms=3, n_features=2, first_pulls=False)
    assert policy.first_pulls is False
    with pytest.raises(AttributeError):
        policy.first_pulls = True


@pytest.mark.slow
def test_a_million_rank_one_steps_stay_on_the_posterior():
    # A known prior is rebuilt only when an arm's rewards have doubled, so the last half million steps are rank-one.
    N, K, D, steps = 3, 2, 4, 1_000_000
    prior = Prior(
        covariance=[np.diag([0.5, 1.5, 0.1, 3.0]) + 0.05, np.diag([1.0, 0.2, 2.0, 0.4])],
        noise_variance=[0.7, 1.3],
        shared_precision=0.01,
    )
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((steps, D)) * [1.0, 10.0, 0.1, 1.0]
    policy = EbmUCB(n_tasks=N, n_arms=K, n_features=D, prior=prior)
    policy.play(rng.integers(0, N, steps), contexts, rng.standard_normal((steps, K)), rng)

    post = posterior(policy.statistics, prior)
    for x in rng.standard_normal((5, D)):
        for task in range(N):
            found = policy.predict(task, x)
            variance = np.einsum("a,kab,b->k", x, post.covariance[:, task], x)
            # Half a million updates of relative error 1e-16 each, added up in the worst way, would be 1e-10.
            assert_allclose(found.mean, post.mean[:, task] @ x, rtol=1e-6, atol=1e-9)
            assert_allclose(found.sd**2, variance, rtol=1e-6)
