import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from posse.core.store import RESIDUAL, REWARDS, TASKS
from posse.environments import SyntheticWorld
from posse.model import Prior, Statistics, estimate_prior, log_evidence, posterior
from posse.model.evidence import climb_of


def draw_log(n_rows=600, *, n_tasks=12, n_arms=2, d=3, seed=0, covariance=None, noise=0.8, shared=1.5):
    rng = np.random.default_rng(seed)
    covariance = np.diag(np.linspace(0.2, 1.5, d)) if covariance is None else covariance
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(d))
    beta = shared * rng.standard_normal((n_arms, 1, d)) + rng.standard_normal((n_arms, n_tasks, d)) @ root.T
    rows = {
        "task": rng.integers(0, n_tasks, n_rows),
        "arm": rng.integers(0, n_arms, n_rows),
        "context": rng.standard_normal((n_rows, d)) + rng.choice([-1.0, 1.0], (n_rows, d)),
    }
    signal = np.einsum("na,na->n", rows["context"], beta[rows["arm"], rows["task"]])
    return rows | {"reward": signal + noise * rng.standard_normal(n_rows)}


def statistics(rows, n_tasks=12, n_arms=2):
    return Statistics.from_data(**rows, n_tasks=n_tasks, n_arms=n_arms)


@pytest.fixture
def stats():
    return statistics(draw_log())


def summarised(stats, prior):
    """Return second moments and summaries of the E-step under a prior as it is."""
    climb, one = climb_of(stats, prior), np.ones(1)
    climb.population = climb.population._replace(reward_square=one, reward_scatter=one)
    climb.look(climb.pairs, learned=False)
    population, weight = climb.population, climb.weight
    sums = climb.pairs.moments(population.noise, climb.prior, climb.shared, climb.known, weight, distances=False)
    climb.step(climb.pairs, climb.pairs.rewards())
    return sums.second_moment, climb.population.summaries


def test_slopes_of_noise_and_level_are_those_of_the_evidence(stats):
    # One step is Newton's in these logarithms; its slopes come from E-step sums. Against differences of the evidence.
    prior = Prior(
        covariance=[np.diag([0.3, 2.0, 0.7]) + 0.1, np.diag([1.1, 0.2, 0.5])],
        noise_variance=[0.6, 1.7],
        shared_precision=[[0.3, 0.2, 2.0], [0.1, 0.4, 0.9]],
        shared_location=[[0.5, -1.0, 2.0], [0.0, 0.3, 0.2]],
    )
    second_moment, summary = summarised(stats, prior)
    explained = np.einsum("kij,kij->k", np.linalg.inv(prior.covariance), second_moment)
    slopes = [
        0.5 * (summary[:, RESIDUAL] / prior.noise_variance - summary[:, REWARDS]),
        0.5 * (explained - 3 * summary[:, TASKS]),
    ]

    def at(noise=0.0, level=0.0):
        return log_evidence(
            stats,
            Prior(
                covariance=np.exp(level) * prior.covariance,
                noise_variance=np.exp(noise) * prior.noise_variance,
                shared_precision=prior.shared_precision,
                shared_location=prior.shared_location,
            ),
        )

    for slope, name in zip(slopes, ("noise", "level"), strict=True):
        h = 1e-5
        assert_allclose(slope, (at(**{name: h}) - at(**{name: -h})) / (2 * h), rtol=1e-6, err_msg=name)


def test_the_em_step_alone_never_lowers_the_evidence(stats):
    # Without the penalties the E-step's second moments over the number of tasks are the EM update of the covariance.
    prior = Prior.isotropic(n_arms=2, n_features=3, variance=3.0, noise_variance=2.0, shared_precision=0.4)
    before = log_evidence(stats, prior)
    second_moment, summary = summarised(stats, prior)
    better = Prior(
        covariance=second_moment / summary[:, TASKS, None, None],
        noise_variance=summary[:, RESIDUAL] / summary[:, REWARDS],
        shared_precision=0.4,
    )

    assert (log_evidence(stats, better) > before + 1).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_rows", [3, 20, 200, 2000])
def test_steps_come_to_rest(n_rows, seed):
    stats = statistics(draw_log(n_rows, seed=seed))
    estimate = estimate_prior(stats, "evidence")
    again = estimate_prior(stats, "evidence", start=estimate.prior)

    assert estimate.report.converged
    # To 1e-4 per step, and the last steps are a sum of a few.
    assert_allclose(again.prior.noise_variance, estimate.prior.noise_variance, rtol=0.01)
    assert again.report.log_evidence == pytest.approx(estimate.report.log_evidence, abs=0.05)


def test_the_rest_does_not_depend_on_the_start(stats):
    # A start that is far off in every direction.
    prior = Prior(covariance=np.tile(np.diag([1e4, 1e-4, 1.0]), (2, 1, 1)), noise_variance=1e-3, shared_precision=1e-3)
    estimate = estimate_prior(stats, "evidence", start=prior)

    assert estimate.report.converged
    assert_allclose(estimate.prior.covariance, estimate_prior(stats, "evidence").prior.covariance, rtol=0.02, atol=1e-3)


def test_the_report_tells_the_evidence(stats):
    estimate = estimate_prior(stats, "evidence")
    report = estimate.report

    # The prior of an arm knows the other arms' rewards, so the arms' evidences under it do not add up to that of all
    # (tests/kernels/test_arms.py); with two arms they count what the arms say about each other twice.
    assert np.isfinite(report.log_evidence)
    assert report.log_evidence < log_evidence(stats, estimate.prior).sum()
    assert report.evidence_gained > 0
    assert_allclose(report.eigenvalues, np.linalg.eigvalsh(estimate.prior.covariance))
    assert ((report.target_weight > 0) & (report.target_weight < 1)).all()
    assert "converged" in str(report)
    assert f"target weight {report.target_weight[0]:.2f}" in str(report)


def test_many_tasks_give_back_the_population():
    # 400 tasks of 20 rewards an arm: a variance is known to about sqrt(2 / 400) = 7 %, the noise to 1 %.
    covariance = np.array([[1.0, 0.5, 0.0], [0.5, 0.8, -0.1], [0.0, -0.1, 0.3]])
    rows = draw_log(16_000, n_tasks=400, covariance=covariance, noise=1.3, seed=3)
    prior = estimate_prior(statistics(rows, n_tasks=400), "evidence").prior

    assert_allclose(prior.covariance, np.broadcast_to(covariance, (2, 3, 3)), atol=0.2)
    assert_allclose(prior.noise_variance, 1.69, rtol=0.05)


def test_a_singular_start_is_lifted(stats):
    start = Prior(covariance=np.zeros((2, 3, 3)), noise_variance=1.0, shared_precision=1.0)
    estimate = estimate_prior(stats, "evidence", start=start)

    assert_allclose(estimate.prior.covariance, estimate_prior(stats, "evidence").prior.covariance, rtol=0.02, atol=1e-3)


def test_weights_enter_posterior_and_evidence_as_wider_populations():
    # Against each task's own covariance, at a noise where information is computed the careful way and where it is not.
    rows = draw_log(300)
    stats = statistics(rows)
    weight = np.linspace(0.05, 1.5, 12)
    for noise in (1e-6, 0.4):
        prior = Prior(
            covariance=np.tile(np.diag([0.3, 2.0, 0.7]), (2, 1, 1)), noise_variance=noise, shared_precision=0.3
        )
        post = posterior(stats, prior, weight)
        for arm in range(2):
            # One task at a time, its covariance written out: the precision of the shared mean adds up.
            precision = 0.3 * np.eye(3)
            for task in range(12):
                here = (rows["arm"] == arm) & (rows["task"] == task)
                X = rows["context"][here]
                marginal = X @ np.diag([0.3, 2.0, 0.7]) @ X.T / weight[task] + noise * np.eye(len(X))
                precision += X.T @ np.linalg.solve(marginal, X)
            assert_allclose(np.linalg.inv(post.shared_covariance[arm]), precision, rtol=1e-5)
            here = rows["arm"] == arm
            X, task = rows["context"][here], rows["task"][here]
            total = X @ X.T / 0.3 + noise * np.eye(len(X))
            total += (task[:, None] == task) / weight[task] * (X @ np.diag([0.3, 2.0, 0.7]) @ X.T)
            dense = multivariate_normal(np.zeros(len(X)), total).logpdf(rows["reward"][here])
            assert_allclose(log_evidence(stats, prior, weight)[arm], dense, rtol=1e-6)


@pytest.mark.parametrize("factor", [1e-9, 0.01, 100.0, 1e9])
@pytest.mark.parametrize("what", ["rewards", "features", "one feature"])
def test_units_do_not_matter(what, factor):
    rows = draw_log(300)
    scale = np.ones(3)
    if what == "rewards":
        changed = rows | {"reward": rows["reward"] * factor}
    else:
        scale = np.full(3, factor) if what == "features" else np.array([1.0, factor, 1.0])
        changed = rows | {"context": rows["context"] * scale}
    plain = estimate_prior(statistics(rows), "evidence").prior
    other = estimate_prior(statistics(changed), "evidence").prior

    size = factor if what == "rewards" else 1.0
    back = other.covariance * np.outer(scale, scale) / size**2
    assert_allclose(back, plain.covariance, rtol=1e-4, atol=1e-6)
    assert_allclose(other.noise_variance / size**2, plain.noise_variance, rtol=1e-4)
    assert_allclose(
        other.shared_precisions / np.outer(scale, scale) * size**2, plain.shared_precisions, rtol=1e-4, atol=1e-6
    )


BAD = {
    "one task": (draw_log(50, n_tasks=1), {"n_tasks": 1}, "one task only"),
    "one reward": (draw_log(1), {}, "no rewards"),
    "constant rewards": (draw_log(80) | {"reward": np.full(80, 3.0)}, {}, None),
    "nothing varies": (
        draw_log(80, d=1) | {"context": np.full((80, 3), 1.0), "reward": np.full(80, 3.0)},
        {},
        "collinear",
    ),
    "zero rewards": (draw_log(80) | {"reward": np.zeros(80)}, {}, "no scale to learn"),
    "no noise": (draw_log(400, noise=0.0), {}, None),
    "huge": (draw_log(80) | {"reward": 1e9 * draw_log(80)["reward"]}, {}, None),
    "tiny": (draw_log(80) | {"reward": 1e-9 * draw_log(80)["reward"]}, {}, None),
    "no rows": (draw_log(1) | {k: v[:0] for k, v in draw_log(1).items()}, {}, "no rewards"),
}
BAD["zero feature"] = (
    BAD["huge"][0] | {"context": draw_log(80)["context"] * [1, 0, 1]},
    {},
    "feature 1 is always 0",
)
BAD["collinear"] = (
    BAD["huge"][0] | {"context": draw_log(80)["context"][:, [0, 0, 1]]},
    {},
    "collinear",
)


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_hard_data_get_a_usable_answer_and_a_word_about_it(name, robust):
    rows, sizes, word = BAD[name]
    stats = statistics(rows, **sizes)
    estimate = estimate_prior(stats, "evidence", robust=robust)
    prior = estimate.prior

    for array in (prior.covariance, prior.noise_variance, prior.shared_precision, estimate.task_weight):
        assert np.isfinite(array).all()
    assert_allclose(prior.covariance, np.swapaxes(prior.covariance, -1, -2))
    assert (np.linalg.eigvalsh(prior.covariance) > 0).all()
    assert (prior.noise_variance > 0).all()
    if word is not None:
        assert any(word in note for note in estimate.report.notes), estimate.report.notes


def test_an_odd_task_gets_a_wider_population_and_the_others_keep_theirs():
    rows = draw_log(1500, seed=5)
    rows["reward"] += np.where(rows["task"] == 7, 8.0 * rows["context"].sum(axis=1), 0.0)
    stats = statistics(rows)
    plain, robust = (estimate_prior(stats, "evidence", robust=robust) for robust in (False, True))

    assert robust.task_weight.argmin() == 7
    assert robust.task_weight[7] < 0.3 * np.delete(robust.task_weight, 7).min()
    assert np.trace(robust.prior.covariance[0]) < 0.5 * np.trace(plain.prior.covariance[0])
    assert (plain.task_weight == 1).all()


def test_a_few_warm_steps_follow_what_a_long_climb_finds():
    # A policy's refresh takes at most three steps; over a stream that is enough to stay near the maximum.
    world = SyntheticWorld(n_tasks=12, n_arms=2, n_features=3)
    draw = world.draw(3, 1500)
    from posse.policies import EbmUCB

    policy = EbmUCB(n_tasks=12, n_arms=2, n_features=3, prior="evidence")
    policy.play(draw.tasks, draw.contexts, draw.rewards, np.random.default_rng(0))
    found = estimate_prior(policy.statistics, "evidence").prior

    assert_allclose(policy.prior.noise_variance, found.noise_variance, rtol=0.1)
    spread = [np.einsum("kii->k", prior.covariance) for prior in (policy.prior, found)]
    assert_allclose(spread[0], spread[1], rtol=0.25)


def test_the_climb_stops_where_it_is_told(stats):
    report = estimate_prior(stats, "evidence", passes=2).report

    assert report.iterations == 2
    assert not report.converged


def test_the_report_notes_what_is_unusual():
    rows = draw_log(2000, n_arms=4, seed=1, shared=0.3)
    rows["reward"] = np.where(rows["arm"] == 1, 0.0, rows["reward"])
    silent = estimate_prior(statistics(rows, n_arms=4), "evidence").report.notes
    few = estimate_prior(statistics(draw_log(70, n_arms=4), n_arms=4), "evidence").report.notes
    plain = estimate_prior(statistics(draw_log(2000, n_arms=4, seed=1), n_arms=4), "evidence").report.notes

    assert any("1" in note and "hardly any noise" in note for note in silent)
    assert any("goes into coefficients of tasks" in note for note in few)
    assert plain == ()
