import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue, NotFinite, PosseError, ShapeError
from posse.model import Prior, Statistics, estimate_prior, posterior
from posse.model.thresholding import shuffle

# Three features; tasks without rewards, with fewer rewards than features, as many, and more.
COUNTS = [[0, 1, 2, 3, 3, 4, 5, 9, 30, 12, 6, 7], [6, 1, 0, 12, 3, 2, 8, 40, 3, 4, 0, 5]]


def start_prior():
    """A start away from the identity and one, other for each arm."""
    return Prior(
        covariance=[[[1.4, 0.3, 0.0], [0.3, 0.8, -0.2], [0.0, -0.2, 2.1]], 0.6 * np.eye(3)],
        noise_variance=[0.7, 1.8],
        shared_precision=[0.05, 0.4],
    )


def rows_of_tasks(log, arm):
    return [log.of_task(arm, task) for task in range(log.n_tasks)]


def usable_estimates(tasks, d):
    """OLS of the tasks where it exists and is well conditioned."""
    return np.array(
        [
            np.linalg.lstsq(X, y)[0]
            for X, y in tasks
            if len(y) >= d and np.linalg.matrix_rank(X) == d and np.linalg.cond(X.T @ X) < 1e8
        ]
    )


def bickel_levina_threshold(vectors, n_splits=10, n_grid=20):
    """Their cross-validation, off the diagonal; 0 with fewer than six vectors."""
    n, d = vectors.shape
    if n < 6:
        return 0.0
    off_diagonal = ~np.eye(d, dtype=bool)
    grid = np.linspace(0, np.abs(np.cov(vectors.T)[off_diagonal]).max(), n_grid)
    n_fit = round(n * (1 - 1 / np.log(n)))
    losses = np.zeros(n_grid)
    order = np.empty(n, dtype=np.int64)
    for split in range(n_splits):
        shuffle(order, n, split)  # the splits are posse's own; all else is written anew
        fit, held = np.cov(vectors[order[:n_fit]].T)[off_diagonal], np.cov(vectors[order[n_fit:]].T)[off_diagonal]
        for g, threshold in enumerate(grid):
            losses[g] += ((np.where(np.abs(fit) >= threshold, fit, 0.0) - held) ** 2).sum()
    return grid[np.flatnonzero(losses <= losses.min() * (1 + 1e-12))[0]]


def reaches(covariance, threshold):
    """Where |s| >= threshold; the largest threshold of the grid is an entry itself, whatever rounding makes of it."""
    return np.abs(covariance) >= threshold * (1 - 1e-9)


def clip_eigenvalues(matrix, floor):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, floor)) @ vectors.T, int((values < floor).sum())


def noise_of_the_paper(tasks, means, d):
    residual = sum(((y - X @ mean) ** 2).sum() for (X, y), mean in zip(tasks, means, strict=True))
    n = sum(len(y) for _, y in tasks)
    return max(residual / max(n - d - 1, 1), 1e-6)


def assert_one_pass_gives(log, method, expect):
    """Compare one pass from the start with what ``expect(tasks, start means)`` gives for each arm."""
    stats, start = log.statistics(), start_prior()
    estimate = estimate_prior(stats, method, start=start)
    means = posterior(stats, start).mean
    assert estimate.report.iterations == 1
    for arm in range(log.n_arms):
        covariance, noise_variance, used, threshold, floored = expect(rows_of_tasks(log, arm), means[arm])
        # Two roads from rows and from sums: least squares of tasks with as many rewards as features loses a few
        # digits to the squared condition number.
        scale = np.abs(covariance).max()
        assert_allclose(estimate.prior.covariance[arm], covariance, rtol=1e-6, atol=1e-8 * scale)
        assert_allclose(estimate.prior.noise_variance[arm], noise_variance, rtol=1e-8)
        assert estimate.report.tasks_used[arm] == used
        assert_allclose(estimate.report.threshold[arm], threshold, rtol=1e-6)
        assert estimate.report.eigenvalues_floored[arm] == floored
    assert_array_equal(estimate.prior.shared_precision, start.shared_precision)
    assert not estimate.report.covariance_at_start.any()
    assert not estimate.report.noise_at_start.any()


@pytest.mark.parametrize("seed", range(6))
def test_paper_equals_plain_numpy(seed, draw_log):
    def expect(tasks, means):
        estimates = usable_estimates(tasks, 3)
        covariance = np.cov(estimates.T)  # divisor m - 1
        threshold = bickel_levina_threshold(estimates)
        kept = reaches(covariance, threshold) | np.eye(3, dtype=bool)
        covariance = np.where(kept, covariance, 0.0)
        covariance, floored = clip_eigenvalues(covariance, 1e-6 * np.trace(covariance) / 3)
        return covariance, noise_of_the_paper(tasks, means, 3), len(estimates), threshold, floored

    assert_one_pass_gives(draw_log(COUNTS, 3, seed), "paper", expect)


@pytest.mark.parametrize("seed", range(6))
def test_paper_unthresholded_keeps_every_entry(seed, draw_log):
    def expect(tasks, means):
        estimates = usable_estimates(tasks, 3)
        covariance, floored = clip_eigenvalues(np.cov(estimates.T), 1e-6 * np.trace(np.cov(estimates.T)) / 3)
        return covariance, noise_of_the_paper(tasks, means, 3), len(estimates), 0.0, floored

    assert_one_pass_gives(draw_log(COUNTS, 3, seed), "paper-unthresholded", expect)


@pytest.mark.parametrize("seed", range(6))
def test_paper_literal_equals_plain_numpy(seed, draw_log):
    def expect(tasks, means):
        noise_variance = noise_of_the_paper(tasks, means, 3)
        # Minimum-norm OLS of every task, zero without rewards; S as printed, a sum without divisor; the indicator on
        # every entry, with the threshold on the scale of S. Tasks without rewards come last, which the splits notice.
        tasks = sorted(tasks, key=lambda rows: len(rows[1]) == 0)
        estimates = np.array([np.linalg.pinv(X) @ y if len(y) else np.zeros(3) for X, y in tasks])
        n = len(estimates)
        total = estimates.sum(axis=0)
        covariance = estimates.T @ estimates - np.outer(total, total) / n
        threshold = bickel_levina_threshold(estimates)
        covariance = np.where(reaches(covariance, threshold * (n - 1)), covariance, 0.0)
        covariance, floored = clip_eigenvalues(covariance, 1e-6 * np.trace(covariance) / 3)
        return covariance, noise_variance, n, threshold, floored

    assert_one_pass_gives(draw_log(COUNTS, 3, seed), "paper-literal", expect)


@pytest.mark.parametrize("seed", range(6))
def test_moments_equals_plain_numpy(seed, draw_log):
    def expect(tasks, means):
        # Pooled residual variance within tasks, df = sum(n - rank); Swamy's D1 - D2 with this common variance.
        squares, freedom = 0.0, 0
        for X, y in tasks:
            if len(y):
                squares += ((y - X @ np.linalg.pinv(X) @ y) ** 2).sum()
                freedom += len(y) - np.linalg.matrix_rank(X)
        assert freedom >= 10
        noise_variance = squares / freedom
        estimates = usable_estimates(tasks, 3)
        grams = [X.T @ X for X, y in tasks if len(y) >= 3 and np.linalg.cond(X.T @ X) < 1e8]
        spread = np.cov(estimates.T)
        swamy = spread - noise_variance * np.mean([np.linalg.inv(gram) for gram in grams], axis=0)
        covariance, floored = clip_eigenvalues(swamy, 1e-6 * np.trace(spread) / 3)
        return covariance, noise_variance, len(estimates), 0.0, floored

    assert_one_pass_gives(draw_log(COUNTS, 3, seed), "moments", expect)


def test_moments_counts_the_freedom_of_tasks_that_never_saw_some_feature():
    # Task 0 saw feature 0 only, four times: rank 1, three degrees of freedom. Task 1 saw both, twelve times.
    rng = np.random.default_rng(17)
    task = np.array([0] * 4 + [1] * 12)
    X = rng.standard_normal((16, 2))
    X[:4] = [2.0, 0.0]
    y = rng.standard_normal(16)
    stats = Statistics.from_data(task=task, arm=np.zeros(16, dtype=int), context=X, reward=y, n_tasks=2, n_arms=1)

    within = ((y[:4] - y[:4].mean()) ** 2).sum() + np.linalg.lstsq(X[4:], y[4:])[1][0]

    assert_allclose(estimate_prior(stats, "moments").prior.noise_variance, [within / (3 + 10)], rtol=1e-10)


def test_cases_above_threshold_something_and_floor_something(draw_log):
    logs = [draw_log(COUNTS, 3, seed) for seed in range(6)]
    reports = {
        method: [estimate_prior(log.statistics(), method, start=start_prior()).report for log in logs]
        for method in ("paper", "paper-literal", "moments")
    }

    assert any((report.threshold > 0).any() for report in reports["paper"])
    assert any((report.threshold > 0).any() for report in reports["paper-literal"])
    assert any((report.eigenvalues_floored > 0).any() for report in reports["moments"])


def test_paper_worked_by_hand():
    # Three tasks at x = 2 with coefficients 1, 2 and 6: mean 3, covariance (4 + 1 + 9) / 2 = 7. Two rewards each,
    # one above and one below by 1.
    stats = Statistics.from_data(
        task=[0, 0, 1, 1, 2, 2],
        arm=[0] * 6,
        context=[[2.0]] * 6,
        reward=[3.0, 1.0, 5.0, 3.0, 13.0, 11.0],
        n_tasks=3,
        n_arms=1,
    )

    paper, literal, moments = (
        estimate_prior(stats, method, passes=1).prior for method in ("paper", "paper-literal", "moments")
    )

    assert_allclose(paper.covariance, [[[7.0]]])
    assert_allclose(literal.covariance, [[[14.0]]])  # without divisor
    # Residuals of 1, six of them, on 6 - 3 degrees of freedom; while these are few, one pseudo-residual of the size of
    # the rewards, 334 / 6, is added. Each Gram matrix is 8, so the noise explains its variance over 8.
    noise_variance = (6 + 334 / 6) / (3 + 1)
    assert_allclose(moments.noise_variance, [noise_variance])
    assert_allclose(moments.covariance, [[[7.0 - noise_variance / 8]]], atol=1e-12)


def crowd(n_tasks, n_each, covariance, noise_variance, seed):
    """Many tasks with Gaussian contexts from a known population."""
    rng = np.random.default_rng(seed)
    d = len(covariance)
    task = np.repeat(np.arange(n_tasks), n_each)
    X = rng.standard_normal((task.size, d))
    beta = np.array([1.0, -2.0]) + rng.standard_normal((n_tasks, d)) @ np.linalg.cholesky(covariance).T
    y = np.einsum("na,na->n", X, beta[task]) + np.sqrt(noise_variance) * rng.standard_normal(task.size)
    return Statistics.from_data(
        task=task, arm=np.zeros(task.size, dtype=int), context=X, reward=y, n_tasks=n_tasks, n_arms=1
    )


def test_moments_recovers_the_population_and_paper_adds_the_sampling_noise():
    # With n Gaussian contexts the mean of A^-1 is I / (n - d - 1): here 2 * I / 5 of noise, as large as Sigma itself.
    covariance, noise_variance = np.array([[0.5, 0.2], [0.2, 0.4]]), 2.0
    stats = crowd(4000, 8, covariance, noise_variance, seed=0)

    moments = estimate_prior(stats, "moments").prior
    paper = estimate_prior(stats, "paper").prior

    # An entry of the covariance of 4,000 vectors with variance about 0.9 has a standard error of 0.02 (times about 1.3
    # for the heavy tails of A^-1); four of them. The noise has 24,000 degrees of freedom: 2 sqrt(2 / 24000) is 0.018.
    assert_allclose(moments.covariance[0], covariance, atol=0.1)
    assert_allclose(moments.noise_variance[0], noise_variance, atol=0.075)
    assert_allclose(paper.covariance[0], covariance + 0.4 * np.eye(2), atol=0.1)


@pytest.mark.parametrize("method", ["paper", "moments"])
def test_noise_and_covariance_are_found_when_every_task_has_plenty(method):
    # 300 rewards a task: the sampling noise of OLS is 0.3 / 300, the paper's missing degrees of freedom are 1 in 150.
    covariance = np.array([[2.0, -0.8], [-0.8, 1.0]])
    stats = crowd(1000, 300, covariance, 0.3, seed=1)

    prior = estimate_prior(stats, method).prior

    # Standard errors: entries of the covariance up to 2 sqrt(2 / 1000) = 0.09, four of them; the noise 0.3
    # sqrt(2 / 3e5) = 0.0008, and up to 0.002 of bias.
    assert_allclose(prior.covariance[0], covariance, atol=0.36)
    assert_allclose(prior.noise_variance[0], 0.3, atol=0.006)


def test_literal_covariance_is_the_papers_times_the_number_of_tasks_less_one():
    stats = crowd(5, 12, np.array([[2.0, -0.8], [-0.8, 1.0]]), 0.3, seed=2)  # too few tasks for a threshold

    paper, literal = (estimate_prior(stats, method).prior.covariance for method in ("paper", "paper-literal"))

    assert_allclose(literal, 4 * paper, rtol=1e-10)


@pytest.mark.parametrize("method", ["paper", "paper-literal", "moments"])
def test_arms_are_estimated_apart(method, draw_log):
    log = draw_log(COUNTS, 3, seed=3)
    mine = log.arm == 1
    alone = log._replace(
        task=log.task[mine], arm=log.arm[mine] - 1, context=log.context[mine], reward=log.reward[mine], n_arms=1
    )

    both, one = estimate_prior(log.statistics(), method, passes=3), estimate_prior(alone.statistics(), method, passes=3)

    assert_allclose(both.prior.covariance[1], one.prior.covariance[0], rtol=1e-12)
    assert_allclose(both.prior.noise_variance[1], one.prior.noise_variance[0], rtol=1e-12)


@pytest.mark.parametrize("method", ["paper", "paper-literal", "moments"])
def test_arm_without_rewards_keeps_the_start(method, draw_log):
    log = draw_log([[0] * 12, COUNTS[1]], 3, seed=4)
    start = start_prior()

    estimate = estimate_prior(log.statistics(), method, start=start)

    assert_array_equal(estimate.prior.covariance[0], start.covariance[0])
    assert estimate.prior.noise_variance[0] == start.noise_variance[0]
    assert_array_equal(estimate.report.covariance_at_start, [True, False])
    assert_array_equal(estimate.report.noise_at_start, [True, False])
    assert_array_equal(estimate.report.tasks_used > 0, [False, True])


@pytest.mark.parametrize("method", ["paper", "moments"])
def test_covariance_stays_at_its_start_with_fewer_than_two_usable_tasks(method, draw_log):
    log = draw_log([[20, 2, 2, 1], [2, 1, 2, 2]], 3, seed=5)
    start = start_prior()

    estimate = estimate_prior(log.statistics(), method, start=start)

    assert_array_equal(estimate.prior.covariance, start.covariance)
    assert_array_equal(estimate.report.covariance_at_start, [True, True])
    assert_array_equal(estimate.report.tasks_used, [1, 0])


def test_literal_uses_every_task_and_needs_two(draw_log):
    one, two = draw_log([[20]], 3, seed=5), draw_log([[1, 0]], 3, seed=5)

    assert estimate_prior(one.statistics(), "paper-literal").report.covariance_at_start.all()
    assert_array_equal(estimate_prior(two.statistics(), "paper-literal").report.tasks_used, [2])
    assert not estimate_prior(two.statistics(), "paper-literal").report.covariance_at_start.any()


@pytest.mark.parametrize(("n_rewards", "at_start"), [(4, True), (5, False)])
def test_papers_noise_stays_at_its_start_until_there_are_more_than_d_plus_one_rewards(n_rewards, at_start, draw_log):
    log = draw_log([[1, n_rewards - 1]], 3, seed=6)
    start = Prior.isotropic(n_arms=1, n_features=3, variance=0.9, noise_variance=0.77, shared_precision=0.2)

    estimate = estimate_prior(log.statistics(), "paper", start=start)

    assert estimate.report.noise_at_start[0] == at_start
    assert (estimate.prior.noise_variance[0] == 0.77) == at_start


@pytest.mark.parametrize("method", ["paper", "paper-literal", "moments"])
@pytest.mark.parametrize("counts", [[1, 1, 1], [2, 1, 0], [3, 3, 3], [4, 4, 4], [20, 1, 0]], ids=str)
def test_report_says_at_start_exactly_where_the_start_value_stands(method, counts, draw_log):
    stats = draw_log([counts], 3, seed=7).statistics()
    start = Prior.isotropic(n_arms=1, n_features=3, variance=0.9, noise_variance=0.77, shared_precision=0.2)

    estimate = estimate_prior(stats, method, start=start)

    assert estimate.report.noise_at_start[0] == (estimate.prior.noise_variance[0] == 0.77)
    assert estimate.report.covariance_at_start[0] == np.array_equal(estimate.prior.covariance, start.covariance)


def test_noise_of_the_paper_has_a_floor():
    # One reward per task, fitted almost exactly under a vast start: the printed formula gives next to nothing.
    rng = np.random.default_rng(8)
    stats = Statistics.from_data(
        task=np.arange(10),
        arm=np.zeros(10, dtype=int),
        context=rng.standard_normal((10, 3)),
        reward=rng.standard_normal(10),
        n_tasks=10,
        n_arms=1,
    )
    start = Prior.isotropic(n_arms=1, n_features=3, variance=1e6, noise_variance=1e-3)

    assert_array_equal(estimate_prior(stats, "paper", start=start).prior.noise_variance, [1e-6])


def test_too_few_tasks_for_full_rank_are_floored_and_reported():
    # Three estimates in three dimensions lie in a plane, so one eigenvalue of their covariance is zero.
    rng = np.random.default_rng(9)
    task = np.repeat(np.arange(3), 20)
    stats = Statistics.from_data(
        task=task,
        arm=np.zeros(60, dtype=int),
        context=rng.standard_normal((60, 3)),
        reward=rng.standard_normal(60) + task,
        n_tasks=3,
        n_arms=1,
    )

    estimate = estimate_prior(stats, "paper")

    values = np.linalg.eigvalsh(estimate.prior.covariance[0])
    assert_array_equal(estimate.report.eigenvalues_floored, [1])
    # The floor is a millionth of the mean diagonal entry before it was raised.
    assert_allclose(values[0], 1e-6 * values[1:].sum() / 3, rtol=1e-6)
    assert_array_equal(estimate.report.threshold, [0.0])


def test_badly_conditioned_task_is_left_out(draw_log):
    log = draw_log([[10, 10, 10]], 3, seed=10)
    context = log.context.copy()
    # Task 2 saw features 1 and 2 move together to within 1e-6: its Gram matrix has a condition number of some 1e12.
    context[log.task == 2, 2] = context[log.task == 2, 1] * (1 + 1e-6 * np.arange(10))
    twisted = log._replace(context=context)

    assert_array_equal(estimate_prior(twisted.statistics(), "paper").report.tasks_used, [2])
    assert_array_equal(estimate_prior(twisted.statistics(), "moments").report.tasks_used, [2])


@pytest.mark.parametrize("method", ["paper", "paper-literal"])
def test_default_goes_round_until_the_noise_stands_still(method, draw_log):
    stats = draw_log(COUNTS, 3, seed=11).statistics()

    settled = estimate_prior(stats, method, shared_precision=0.02)
    again = estimate_prior(stats, method, start=settled.prior)

    assert settled.report.converged
    assert 1 < settled.report.iterations < 50
    assert_array_equal(settled.prior.shared_precision, [0.02, 0.02])
    # The last pass moved the noise by less than 1e-10 of it, and one more moves it less.
    assert_allclose(again.prior.noise_variance, settled.prior.noise_variance, rtol=1e-9)
    assert_allclose(again.prior.covariance, settled.prior.covariance, rtol=1e-12)


def test_passes_are_so_many_single_passes(draw_log):
    stats = draw_log(COUNTS, 3, seed=12).statistics()

    prior = start_prior()
    for _ in range(3):
        prior = estimate_prior(stats, "paper", start=prior).prior
    at_once = estimate_prior(stats, "paper", start=start_prior(), passes=3)

    assert at_once.report.iterations == 3
    assert_allclose(at_once.prior.noise_variance, prior.noise_variance, rtol=1e-12)


@pytest.mark.parametrize("method", ["paper", "paper-literal", "moments"])
def test_rewards_without_noise_leave_a_usable_prior(method):
    # Deterministic rewards: the shared mean of eight tasks with full data is near their average, whatever the method.
    rng = np.random.default_rng(13)
    n_tasks, n, d = 8, 8000, 3
    task = np.arange(n) % n_tasks
    beta = 2.0 + rng.standard_normal((n_tasks, d))
    X = rng.standard_normal((n, d))
    stats = Statistics.from_data(
        task=task,
        arm=np.zeros(n, dtype=int),
        context=X,
        reward=np.einsum("na,na->n", X, beta[task]),
        n_tasks=n_tasks + 1,
        n_arms=1,
    )

    prior = estimate_prior(stats, method).prior
    post = posterior(stats, prior)

    assert (np.linalg.eigvalsh(post.shared_covariance[0]) > 0).all()
    assert_allclose(post.mean[0, :n_tasks], beta, atol=1e-5)
    # A task without rewards expects the average; a shared precision of 0.001 hardly pulls it to zero.
    assert_allclose(post.mean[0, n_tasks], beta.mean(axis=0), atol=0.05)


def test_estimating_changes_neither_statistics_nor_start(draw_log):
    stats, start = draw_log(COUNTS, 3, seed=14).statistics(), start_prior()
    before = [field.copy() for field in (*stats.sums, start.covariance, start.noise_variance, start.shared_precision)]

    for method in ("paper", "paper-literal", "moments"):
        estimate_prior(stats, method, start=start, passes=2)

    after = (*stats.sums, start.covariance, start.noise_variance, start.shared_precision)
    for was, now in zip(before, after, strict=True):
        assert_array_equal(now, was)


def test_relabelling_tasks_changes_the_estimate_only_through_the_splits(draw_log):
    # Five usable tasks: no threshold, so no splits either.
    log = draw_log([[0, 5, 9, 30, 1, 6, 8]], 3, seed=15)
    label = np.array([3, 6, 0, 5, 1, 2, 4])

    for method in ("paper", "moments"):
        plain = estimate_prior(log.statistics(), method).prior
        renamed = estimate_prior(log._replace(task=label[log.task]).statistics(), method).prior
        assert_allclose(renamed.covariance, plain.covariance, rtol=1e-9, atol=1e-10)
        assert_allclose(renamed.noise_variance, plain.noise_variance, rtol=1e-9)


def test_report_reads_as_sentences(draw_log):
    stats = draw_log([[0, 0, 0], [9, 9, 9]], 3, seed=16).statistics()

    report = estimate_prior(stats, "paper", passes=1).report
    text = str(report)
    low, _, high = report.eigenvalues[1]

    assert text.splitlines() == [
        "prior by method 'paper': 1 iteration, not converged",
        "  arm 0: 0 tasks used, eigenvalues 1 to 1, covariance still at its start value, "
        "noise variance still at its start value",
        f"  arm 1: 3 tasks used, eigenvalues {low:.3g} to {high:.3g}, 1 eigenvalues floored",
        "  note: arm 0 has no rewards yet",
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "magic"}, InvalidValue, "method to be one of 'paper', 'paper-literal', 'paper-unthresholded'"),
        ({"method": "magic"}, InvalidValue, "got 'magic'"),
        ({"start": Prior.isotropic(n_arms=2, n_features=2)}, ShapeError, "but 2 arms and 3 features are needed"),
        ({"start": Prior.isotropic(n_arms=1, n_features=3)}, ShapeError, "the prior is for 1 arms and 3 features"),
        ({"shared_precision": 0.0}, InvalidValue, "shared_precision to be greater than 0, got 0"),
        ({"shared_precision": -1}, InvalidValue, "shared_precision to be greater than 0, got -1"),
        ({"shared_precision": np.nan}, NotFinite, "shared_precision to be finite, got nan"),
        ({"shared_precision": "firm"}, InvalidValue, "shared_precision to be a number, got 'firm'"),
        ({"passes": 0}, InvalidValue, "passes to be at least 1, got 0"),
        ({"passes": 2.5}, InvalidValue, "passes to be a whole number of at least 1, got 2.5"),
    ],
)
def test_bad_arguments_get_one_clear_error(arguments, error, message):
    stats = Statistics.zeros(n_tasks=4, n_arms=2, n_features=3)

    with pytest.raises(error) as caught:
        estimate_prior(stats, **arguments)

    assert message in str(caught.value)
    assert isinstance(caught.value, PosseError)
    assert isinstance(caught.value, ValueError)
