import subprocess
import sys
import warnings
from textwrap import dedent

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import posse
from posse import HierarchicalRegressor
from posse.errors import InvalidValue, NotFinite, PosseError, PosseWarning, ShapeError
from posse.model import Statistics, estimate_prior, log_evidence, posterior
from posse.model.evidence import STUDENT_FREEDOM
from posse.regression import NotFitted
from posse.regression.fixed import LEVEL_SD, estimate_with_fixed, with_zeros, without_fixed

METHODS = ("evidence", "reml")
# Of fits that lack something, or of a robust population, whose steps go round in circles.
warns = pytest.mark.filterwarnings("ignore::posse.errors.PosseWarning")
FITTED = ("coef_", "intercept_", "group_coef_", "group_intercept_", "covariance_", "noise_variance_", "shrinkage_")

# Belenky et al. (2003): reaction times of 18 subjects after 0 to 9 days of sleep deprivation, the example of lme4.
SLEEPSTUDY = """
    308 249.5600 258.7047 250.8006 321.4398 356.8519 414.6901 382.2038 290.1486 430.5853 466.3535
    309 222.7339 205.2658 202.9778 204.7070 207.7161 215.9618 213.6303 217.7272 224.2957 237.3142
    310 199.0539 194.3322 234.3200 232.8416 229.3074 220.4579 235.4208 255.7511 261.0125 247.5153
    330 321.5426 300.4002 283.8565 285.1330 285.7973 297.5855 280.2396 318.2613 305.3495 354.0487
    331 287.6079 285.0000 301.8206 320.1153 316.2773 293.3187 290.0750 334.8177 293.7469 371.5811
    332 234.8606 242.8118 272.9613 309.7688 317.4629 309.9976 454.1619 346.8311 330.3003 253.8644
    333 283.8424 289.5550 276.7693 299.8097 297.1710 338.1665 332.0265 348.8399 333.3600 362.0428
    334 265.4731 276.2012 243.3647 254.6723 279.0244 284.1912 305.5248 331.5229 335.7469 377.2990
    335 241.6083 273.9472 254.4907 270.8021 251.4519 254.6362 245.4523 235.3110 235.7541 237.2466
    337 312.3666 313.8058 291.6112 346.1222 365.7324 391.8385 404.2601 416.6923 455.8643 458.9167
    349 236.1032 230.3167 238.9256 254.9220 250.7103 269.7744 281.5648 308.1020 336.2806 351.6451
    350 256.2968 243.4543 256.2046 255.5271 268.9165 329.7247 379.4445 362.9184 394.4872 389.0527
    351 250.5265 300.0576 269.8939 280.5891 271.8274 304.6336 287.7466 266.5955 321.5418 347.5655
    352 221.6771 298.1939 326.8785 346.8555 348.7402 352.8287 354.4266 360.4326 375.6406 388.5417
    369 271.9235 268.4369 257.2424 277.6566 314.8222 317.2135 298.1353 348.1229 340.2800 366.5131
    370 225.2640 234.5235 238.9008 240.4730 267.5373 344.1937 281.1481 347.5855 365.1630 372.2288
    371 269.8804 272.4428 277.8989 281.7895 279.1705 284.5120 259.2658 304.6306 350.7807 369.4692
    372 269.4117 273.4740 297.5968 310.6316 287.1726 329.6076 334.4818 343.2199 369.1417 364.1236
"""


def draw(counts, seed=3, n_features=2, spread=0.8, noise=0.9):
    """Rows of groups with these many rows each, in no particular order; labels are names."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    X = rng.standard_normal((group.size, n_features)) * np.linspace(0.6, 2.0, n_features) + 0.7
    beta = rng.standard_normal(n_features + 1) + spread * rng.standard_normal((len(counts), n_features + 1))
    y = beta[group, 0] + np.einsum("nd,nd->n", X, beta[group, 1:]) + noise * rng.standard_normal(group.size)
    return X, y, np.array([f"g{label}" for label in group])


@pytest.fixture(scope="module")
def rows():
    return draw([1, 2, 3, 5, 6, 8, 8, 9, 12, 40])


def assert_same_fit(model, other, **tolerance):
    for name in FITTED:
        assert_allclose(getattr(model, name), getattr(other, name), **tolerance, err_msg=name)


# Against others


def sleepstudy():
    """Days, reaction times and subjects."""
    table = np.array([line.split() for line in SLEEPSTUDY.split("\n") if line.strip()], dtype=float)
    days = np.tile(np.arange(10.0), len(table))[:, None]
    return days, table[:, 1:].ravel(), np.repeat(table[:, 0].astype(int), 10)


def test_reml_gives_the_fit_that_lme4_published_for_sleepstudy():
    model = HierarchicalRegressor(method="reml").fit(*sleepstudy())

    assert_allclose([model.intercept_, *model.coef_], [251.405, 10.467], rtol=5e-5)
    assert_allclose([model.intercept_std_, *model.coef_std_], [6.825, 1.546], rtol=5e-4)
    assert_allclose(model.covariance_, [[612.10, 9.60], [9.60, 35.07]], rtol=5e-4)
    assert_allclose(model.noise_variance_, 654.94, rtol=5e-5)
    assert_allclose(-2 * model.report_.log_evidence, 1743.6, atol=0.05)
    # Its modes: coef(fm1)$Subject.
    assert_allclose(model.group_intercept_[:3], [253.6637, 211.0064, 212.4447], rtol=1e-5)
    assert_allclose(model.group_coef_[:3, 0], [19.66626, 1.847605, 5.018429], rtol=5e-5)
    assert model.report_.converged
    assert model.report_.notes == ()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_reml_agrees_with_statsmodels(fit_intercept):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
        X, y, groups = draw([4, 6, 7, 8, 8, 9, 10, 12, 12, 15, 20, 30], seed=6)
        design = np.column_stack([np.ones(len(X)), X]) if fit_intercept else X
        theirs = mixed.MixedLM(y, design, groups, exog_re=design).fit(reml=True, gtol=1e-8)
    ours = HierarchicalRegressor(method="reml", fit_intercept=fit_intercept).fit(X, y, groups)

    first = [ours.intercept_] if fit_intercept else []
    assert_allclose([*first, *ours.coef_], theirs.fe_params, rtol=1e-4)
    assert_allclose(ours.covariance_, theirs.cov_re, rtol=1e-3, atol=1e-3 * np.trace(theirs.cov_re))
    assert_allclose(ours.noise_variance_, theirs.scale, rtol=1e-3)
    assert ours.report_.log_evidence >= theirs.llf - 1e-6
    assert_allclose(ours.report_.log_evidence, theirs.llf, rtol=1e-6)
    deviations = np.array([theirs.random_effects[group] for group in ours.groups_])
    assert_allclose(ours.group_coef_ - ours.coef_, deviations[:, -2:], atol=2e-3)
    assert np.linalg.eigvalsh(ours.covariance_)[0] > 0.01, "the maximum is interior"


@warns
def test_no_group_effect_is_a_singular_covariance():
    # Residuals are orthogonal to the features within every group, so all groups have the same least-squares line.
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 1))
    groups = np.repeat(np.arange(6), 10)
    residual = rng.standard_normal(60)
    for group in range(6):
        own = np.column_stack([np.ones(10), X[groups == group]])
        residual[groups == group] -= own @ np.linalg.lstsq(own, residual[groups == group])[0]
    model = HierarchicalRegressor(method="reml").fit(X, 1.5 - 0.7 * X[:, 0] + residual, groups)

    assert model.report_.converged
    assert "boundary" in " ".join(model.report_.notes)
    assert np.linalg.eigvalsh(model.covariance_)[0] >= -1e-12
    assert_allclose(model.covariance_, 0, atol=1e-6)
    assert_allclose([model.intercept_, *model.coef_], [1.5, -0.7])
    assert_allclose(model.noise_variance_, (residual**2).sum() / (60 - 2), rtol=1e-6)
    assert_allclose(model.group_coef_, [[-0.7]] * 6, rtol=1e-6)


@warns
@pytest.mark.parametrize("fixed", [None, [1]])
@pytest.mark.parametrize(("method", "robust"), [("evidence", False), ("evidence", True), ("reml", False)])
def test_predictions_are_those_of_the_joint_gaussian(method, robust, fixed):
    X, y, groups = draw([2, 5, 9, 14, 30], seed=8)
    # Mean squares of 1 and no intercept: rows are standardised already, and prior_ is about them.
    X /= np.sqrt((X**2).mean(axis=0))
    model = HierarchicalRegressor(method=method, robust=robust, fit_intercept=False, fixed=fixed).fit(X, y, groups)
    prior, weight = model.prior_, model.group_weight_
    shared = np.linalg.inv(prior.shared_precisions[0])

    wider = dict(zip(model.groups_, 1 / weight, strict=True))
    same = groups[:, None] == groups
    total = X @ shared @ X.T + same * [wider[group] for group in groups] * (X @ prior.covariance[0] @ X.T)
    total += model.noise_variance_ * np.eye(len(y))
    # A group that was never seen has the variance of Student's law.
    wider["new"] = STUDENT_FREEDOM / (STUDENT_FREEDOM - 2) if robust else 1.0
    x = np.array([1.3, -0.4])
    for group in ("g0", "g4", "new"):
        widening = wider[group]
        cross = X @ shared @ x + (groups == group) * widening * (X @ prior.covariance[0] @ x)
        own = x @ (shared + widening * prior.covariance[0]) @ x + model.noise_variance_
        mean, std = model.predict([x], [group], return_std=True)
        # A flat prior of the mean (reml) costs the joint covariance ten digits.
        tolerance = 1e-4 if method == "reml" else 1e-8
        assert_allclose(mean[0], cross @ np.linalg.solve(total, y), rtol=tolerance)
        assert_allclose(std[0] ** 2, own - cross @ np.linalg.solve(total, cross), rtol=tolerance)


# Fixed features


def test_reml_with_a_fixed_slope_gives_the_fit_that_lme4_published_for_sleepstudy():
    # lmer(Reaction ~ Days + (1 | Subject), sleepstudy)
    model = HierarchicalRegressor(method="reml", fixed=[0]).fit(*sleepstudy())

    assert_allclose([model.intercept_, *model.coef_], [251.4051, 10.4673], rtol=5e-6)
    assert_allclose([model.intercept_std_, *model.coef_std_], [9.7467, 0.8042], rtol=5e-5)
    assert_allclose(np.sqrt(model.covariance_), [[37.124, 0.0], [0.0, 0.0]], rtol=5e-5)
    assert_allclose(np.sqrt(model.noise_variance_), 30.991, rtol=5e-5)
    assert_allclose(-2 * model.report_.log_evidence, 1786.5, atol=0.05)
    assert_allclose(model.group_intercept_[:3] - model.intercept_, [40.783710, -77.849554, -63.108567], rtol=1e-6)
    assert_array_equal(model.group_coef_, np.full((18, 1), model.coef_[0]))
    assert model.report_.converged
    assert model.report_.notes == ()


@pytest.mark.parametrize(
    ("fixed", "random", "fit_intercept"),
    [([1], [0, 1, 3], True), ([2, 0], [0, 2], True), ([0, 1, 2], [0], True), ([1], [0, 2], False)],
)
def test_reml_with_fixed_features_agrees_with_statsmodels(fixed, random, fit_intercept):
    X, y, groups = draw([4, 6, 7, 8, 8, 9, 10, 12, 12, 15, 20, 30] * 2, seed=11, n_features=3)
    design = np.column_stack([np.ones(len(X)), X]) if fit_intercept else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
        theirs = mixed.MixedLM(y, design, groups, exog_re=design[:, random]).fit(reml=True, gtol=1e-8)
    ours = HierarchicalRegressor(method="reml", fit_intercept=fit_intercept, fixed=fixed).fit(X, y, groups)

    coefficients = [ours.intercept_, *ours.coef_] if fit_intercept else ours.coef_
    assert_allclose(coefficients, theirs.fe_params, rtol=1e-4, atol=1e-5)
    assert_allclose(ours.covariance_[np.ix_(random, random)], theirs.cov_re, rtol=1e-4, atol=1e-4)
    assert_allclose(ours.noise_variance_, theirs.scale, rtol=1e-5)
    assert_allclose(ours.report_.log_evidence, theirs.llf, rtol=1e-8)
    assert ours.report_.log_evidence >= theirs.llf - 1e-6
    assert np.linalg.eigvalsh(ours.covariance_[np.ix_(random, random)])[0] > 0.01, "the maximum is interior"
    # Those of the shared mean given the covariance, which theirs takes into account as well.
    expected = np.linalg.inv(sum(_information(design, groups, group, ours) for group in ours.groups_))
    errors = [ours.intercept_std_, *ours.coef_std_] if fit_intercept else ours.coef_std_
    assert_allclose(errors, np.sqrt(np.diagonal(expected)), rtol=1e-6)


def _information(design, groups, group, model):
    own = design[groups == group]
    total = own @ model.covariance_ @ own.T + model.noise_variance_ * np.eye(len(own))
    return own.T @ np.linalg.solve(total, own)


@warns
@pytest.mark.parametrize(("method", "robust"), [("evidence", False), ("evidence", True), ("reml", False)])
def test_fixed_coefficients_are_the_same_in_all_groups(rows, method, robust):
    X, y, groups = rows
    model = HierarchicalRegressor(method=method, robust=robust, fixed=[0]).fit(X, y, groups)

    assert_array_equal(model.fixed_, [True, False])
    assert_allclose(model.group_coef_[:, 0], model.coef_[0], rtol=1e-9)
    assert np.ptp(model.group_coef_[:, 1]) > 0.1
    assert_array_equal(model.covariance_[1], 0)
    assert_array_equal(model.covariance_[:, 1], 0)
    assert_array_equal(model.prior_.covariance[0, 1], 0)
    assert (model.coef_std_ > 0).all()
    assert ((model.shrinkage_ > 0) & (model.shrinkage_ < 1)).all()
    assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    # A new group differs from the population by what the random coefficients do.
    x = X[:1]
    assert model.predict(x, ["new"], return_std=True)[1] > model.predict(x, ["g9"], return_std=True)[1]


def fixed_rows(seed=0, counts=(4, 6, 9, 3, 12, 7), n_features=4):
    """Statistics of standard normal rows, and the rows themselves."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((group.size, n_features))
    X /= np.sqrt((X**2).mean(axis=0))
    beta = rng.standard_normal(n_features) + np.array([0.9, 0.6, 0.0, 0.0]) * rng.standard_normal((len(counts), 4))
    y = np.einsum("ni,ni->n", X, beta[group]) + 0.7 * rng.standard_normal(group.size)
    stats = Statistics.from_data(
        task=group, arm=np.zeros(group.size, dtype=int), context=X, reward=y, n_tasks=len(counts), n_arms=1
    )
    return stats, X, y, group


FIXED = np.array([False, False, True, True])


def test_sums_without_fixed_features_are_those_of_what_is_left():
    stats, X, y, group = fixed_rows()
    gamma = np.array([0.8, -1.7])
    left = without_fixed(stats, FIXED, gamma)
    direct = Statistics.from_data(
        task=group, arm=np.zeros(y.size, dtype=int), context=X[:, :2], reward=y - X[:, 2:] @ gamma, n_tasks=6, n_arms=1
    )

    for one, other in zip(left.sums, direct.sums, strict=True):
        assert_allclose(one, other, atol=1e-10)


def test_evidence_with_fixed_features_rests_where_every_part_is_at_its_best():
    stats = fixed_rows()[0]
    found = estimate_with_fixed(stats, FIXED)
    prior = found.prior
    gamma = posterior(stats, prior).shared_mean[0, FIXED]
    left = without_fixed(stats, FIXED, gamma)
    alone = estimate_prior(left, method="evidence").prior

    assert found.report.converged
    assert_allclose(found.report.log_evidence, log_evidence(stats, prior)[0])
    # The random coefficients have the covariance of what is left, up to its level; so has the noise.
    levels = np.log(
        [prior.covariance[0, 0, 0] / alone.covariance[0, 0, 0], prior.noise_variance[0] / alone.noise_variance[0]]
    )
    assert_allclose(prior.covariance[0, :2, :2], np.exp(levels[0]) * alone.covariance[0], rtol=5e-3)
    assert_allclose(prior.shared_precisions[0, :2, :2], alone.shared_precisions[0], rtol=5e-3)
    # Both levels are higher than those of what is left, which was made small, and no others are better.
    assert levels[1] > 0.01
    shifted = with_zeros(alone, FIXED, float(prior.shared_precisions[0, 2, 2]))

    def at(u, v, stats, prior):
        moved = type(prior)(
            covariance=prior.covariance * np.exp(u),
            noise_variance=prior.noise_variance * np.exp(v),
            shared_precision=prior.shared_precision,
        )
        return log_evidence(stats, moved)[0]

    h = 1e-4
    pull = np.array(
        [at(h, 0, left, alone) - at(-h, 0, left, alone), at(0, h, left, alone) - at(0, -h, left, alone)]
    ) / (2 * h)

    def objective(u, v):
        return at(u, v, stats, shifted) - pull @ [u, v] - (u**2 + v**2) / (2 * LEVEL_SD**2)

    best = objective(*levels)
    for move in ((0.05, 0), (-0.05, 0), (0, 0.05), (0, -0.05)):
        assert objective(levels[0] + move[0], levels[1] + move[1]) < best


def test_many_fixed_features_of_groups_do_not_hide_how_groups_differ():
    # Four features of 15 groups explain four fifteenths of their differences by chance. Averages over 20 seeds have
    # standard errors of 8 % (variance between groups) and 3 % (noise).
    between, noise = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(15), 5)
        X = np.c_[rng.standard_normal((15, 4))[group], rng.standard_normal((75, 2))]
        y = X @ rng.standard_normal(6) + 0.8 * rng.standard_normal(15)[group] + rng.standard_normal(75)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = HierarchicalRegressor(fixed=range(6)).fit(X, y, group)
        between.append(model.covariance_[0, 0] / 0.64)
        noise.append(model.noise_variance_)

    assert 0.65 < np.mean(between) < 1.25
    assert 0.9 < np.mean(noise) < 1.1


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ("age", r"expected fixed to be a list of feature names or positions, got 'age'; pass \['age'\]"),
        (1, r"expected fixed to be a list of feature names or positions, got 1; pass \[1\]"),
        (["agee"], "fixed has no feature 'agee'; did you mean 'age'[?] The features are age, dose"),
        ([2], "expected positions from 0 to 1 in fixed, got 2"),
        ([-1], "expected positions from 0 to 1 in fixed, got -1"),
        ([True], "expected feature names or positions in fixed, got True"),
        ([0.0], "expected feature names or positions in fixed, got 0.0"),
        (["age", 0], "expected every feature once in fixed, got 0 again"),
    ],
)
def test_wrong_fixed_features_are_refused_and_change_nothing(rows, fixed, words):
    polars = pytest.importorskip("polars")
    X, y, groups = rows
    frame = polars.DataFrame({"age": X[:, 0], "dose": X[:, 1]})
    model = HierarchicalRegressor().fit(frame, y, groups)
    before = model.coef_.copy()
    with pytest.raises(InvalidValue, match=words):
        model.set_params(fixed=fixed).fit(frame, y, groups)

    assert_array_equal(model.coef_, before)
    with pytest.raises(InvalidValue, match="'age', but the columns of X have no names; pass positions from 0 to 1"):
        HierarchicalRegressor(fixed=["age"]).fit(X, y, groups)
    with pytest.raises(InvalidValue, match="fixed names every coefficient"):
        HierarchicalRegressor(fixed=[0, 1], fit_intercept=False).fit(X, y, groups)


def test_fixed_features_survive_a_clone():
    base = pytest.importorskip("sklearn.base")
    copy = base.clone(HierarchicalRegressor(fixed=["dose"]))

    assert copy.get_params()["fixed"] == ["dose"]


# What it warns of


def test_a_sound_fit_warns_of_nothing_and_nor_does_one_group_that_was_asked_for():
    X, y, groups = draw([30] * 20, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HierarchicalRegressor(method="reml").fit(X, y, groups)
        HierarchicalRegressor().fit(X, y)


def test_a_fit_that_lacks_something_warns_where_it_was_asked_for():
    X, y, groups = draw([6] * 5, seed=2)
    flat = np.c_[X, np.ones(30)]
    with pytest.warns(PosseWarning, match="feature 2 is constant") as caught:
        HierarchicalRegressor().fit(flat, y, groups)
    assert caught[0].filename == __file__
    with pytest.warns(PosseWarning, match="one group only"):
        HierarchicalRegressor().fit(X, y, ["a"] * 30)


def test_noise_confounded_with_coefficients_is_a_warning():
    # Three rows and three coefficients each, and a hundredth of the noise: it comes out 10 to 100 times too large.
    X, y, groups = draw([3] * 40, noise=0.01, seed=2)
    with pytest.warns(PosseWarning, match="noise can hardly be told from differences between groups") as caught:
        model = HierarchicalRegressor().fit(X, y, groups)
    assert len(caught) == 1
    assert model.noise_variance_ > 5 * 0.01**2


@pytest.mark.parametrize("method", METHODS)
def test_hardly_any_noise_is_a_warning(method):
    X, y, groups = draw([10] * 20, noise=0.0, seed=2)
    with pytest.warns(PosseWarning, match="there is hardly any noise") as caught:
        model = HierarchicalRegressor(method=method).fit(X, y, groups)
    assert len(caught) == 1
    assert any("fit the rows of all groups exactly" in note for note in model.report_.notes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("sizes", "noise"), [([30] * 20, 1.0), ([3] * 40, 1.0), (range(1, 21), 1.0), ([30] * 20, 0.001)]
)
def test_ordinary_data_are_no_reason_to_warn(sizes, noise, seed):
    X, y, groups = draw(sizes, noise=noise, seed=seed)
    HierarchicalRegressor().fit(X, y, groups)  # warnings are errors here


def test_a_fit_that_does_not_converge_says_so(monkeypatch):
    X, y, groups = draw([30] * 20, seed=1)
    monkeypatch.setattr("posse.model.reml.ROUNDS", 1)
    monkeypatch.setattr("posse.model.reml.RESTARTS", 1)
    with pytest.warns(PosseWarning, match="the estimate did not converge in 1 iterations"):
        HierarchicalRegressor(method="reml").fit(X, y, groups)


def test_a_warning_that_is_an_error_leaves_the_model_as_it_was(rows):
    X, y, groups = rows
    model = HierarchicalRegressor().fit(X, y, groups)
    before = model.coef_.copy()
    with pytest.raises(PosseWarning, match="always 0"):
        model.fit(X * [1.0, 0.0], y, groups)

    assert_array_equal(model.coef_, before)


# What it says about its data


def test_coefficients_are_those_of_the_predictions(rows):
    X, y, groups = rows
    model = HierarchicalRegressor().fit(X, y, groups)
    j = list(model.groups_).index("g4")

    assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert_allclose(model.predict(X, ["never seen"] * len(X)), model.predict(X))
    assert_allclose(model.predict(X, ["g4"] * len(X)), X @ model.group_coef_[j] + model.group_intercept_[j])


def test_a_group_with_more_rows_borrows_less(rows):
    X, y, groups = rows
    model = HierarchicalRegressor().fit(X, y, groups)
    sizes = np.array([(groups == group).sum() for group in model.groups_])
    shrinkage = model.shrinkage_[np.argsort(sizes)]

    assert ((shrinkage > 0) & (shrinkage < 1)).all()
    assert shrinkage[0] > 2 / 3  # one row determines at most one of three coefficients
    assert shrinkage[-1] < 0.15
    assert np.corrcoef(np.log(np.sort(sizes)), shrinkage)[0, 1] < -0.9


def test_std_falls_to_the_noise_and_is_widest_for_new_groups(rows):
    X, y, groups = rows
    model = HierarchicalRegressor().fit(X, y, groups)
    x = X.mean(axis=0, keepdims=True)
    (known,), (few,), (new,) = (model.predict(x, [group], return_std=True)[1] for group in ("g9", "g0", "new"))

    assert np.sqrt(model.noise_variance_) < known < few < new
    assert known < 1.1 * np.sqrt(model.noise_variance_)


def test_predictions_cover_new_rows_as_often_as_they_say():
    X, y, groups = draw([12] * 60, seed=1)
    later = np.random.default_rng(2).random(len(y)) < 0.4
    model = HierarchicalRegressor().fit(X[~later], y[~later], groups[~later])
    mean, std = model.predict(X[later], groups[later], return_std=True)

    assert 0.90 < (np.abs(y[later] - mean) < 1.96 * std).mean() < 0.99
    assert model.score(X[later], y[later], groups[later]) > model.score(X[later], y[later]) + 0.1


@warns
def test_robust_gives_an_odd_group_less_weight():
    X, y, groups = draw([15] * 12, spread=0.3)
    odd = groups == "g5"
    y[odd] += 12 * X[odd, 0]
    model = HierarchicalRegressor(robust=True).fit(X, y, groups)
    plain = HierarchicalRegressor().fit(X, y, groups)
    weight = dict(zip(model.groups_, model.group_weight_, strict=True))

    assert weight.pop("g5") < 0.2 < 0.5 < min(weight.values())
    assert np.trace(model.covariance_) < 0.5 * np.trace(plain.covariance_)
    assert_array_equal(plain.group_weight_, 1)
    assert_allclose(model.predict(X[odd], groups[odd]), y[odd], atol=4)


def test_without_groups_it_is_one_regression(rows):
    X, y, _ = rows
    model = HierarchicalRegressor().fit(X, y)
    design = np.column_stack([np.ones(len(X)), X])
    least_squares = np.linalg.lstsq(design, y)[0]

    assert_allclose([model.intercept_, *model.coef_], least_squares, rtol=0.1)
    assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert model.group_coef_.shape == (1, 2)
    assert "one group only" in model.report_.notes[0]


# Two roads to one answer


@warns
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("fit_intercept", "fixed"), [(True, None), (False, None), (True, [0])])
def test_learning_in_pieces_equals_learning_at_once(rows, method, fit_intercept, fixed):
    X, y, groups = rows
    once = HierarchicalRegressor(method=method, fit_intercept=fit_intercept, fixed=fixed).fit(X, y, groups)
    pieces = HierarchicalRegressor(method=method, fit_intercept=fit_intercept, fixed=fixed)
    for part in (slice(0, 3), slice(3, 50), slice(50, None)):
        assert pieces.partial_fit(X[part], y[part], groups[part]) is pieces

    assert_array_equal(pieces.groups_, once.groups_)
    assert_same_fit(pieces, once, rtol=1e-9, atol=1e-12)
    assert_allclose(
        pieces.predict(X, groups, return_std=True), once.predict(X, groups, return_std=True), rtol=1e-9, atol=1e-12
    )


@warns
@pytest.mark.parametrize("fixed", [None, [1]])
@pytest.mark.parametrize(("method", "robust"), [("evidence", False), ("evidence", True), ("reml", False)])
def test_units_do_not_matter(rows, method, robust, fixed):
    X, y, groups = rows
    model = HierarchicalRegressor(method=method, robust=robust, fixed=fixed).fit(X, y, groups)
    factor, unit = np.array([3e-7, 4e5]), 25.0
    other = HierarchicalRegressor(method=method, robust=robust, fixed=fixed).fit(X * factor, y * unit, groups)
    both = np.array([1, *factor])

    tolerance = {"rtol": 1e-5} if method == "reml" else {"rtol": 1e-7}
    assert_allclose(other.coef_ * factor / unit, model.coef_, **tolerance)
    assert_allclose(other.intercept_ / unit, model.intercept_, **tolerance)
    assert_allclose(other.covariance_ * np.outer(both, both) / unit**2, model.covariance_, **tolerance)
    assert_allclose(other.shrinkage_, model.shrinkage_, **tolerance)
    assert_allclose(
        other.predict(X * factor, groups, return_std=True),
        unit * np.array(model.predict(X, groups, return_std=True)),
        **tolerance,
    )


@warns
@pytest.mark.parametrize("fixed", [None, [1]])
@pytest.mark.parametrize("method", METHODS)
def test_offsets_do_not_matter(rows, method, fixed):
    X, y, groups = rows
    model = HierarchicalRegressor(method=method, fixed=fixed).fit(X, y, groups)
    moved = X + np.array([300.0, -40.0])
    other = HierarchicalRegressor(method=method, fixed=fixed).fit(moved, y + 1e4, groups)

    # Offsets of 1e4 leave twelve digits in every row.
    assert_allclose(other.group_coef_, model.group_coef_, rtol=1e-6)
    assert_allclose(other.predict(moved, groups), model.predict(X, groups) + 1e4, rtol=1e-9)
    assert_allclose(other.covariance_[1:, 1:], model.covariance_[1:, 1:], rtol=1e-6, atol=1e-12)
    assert_allclose(other.report_.log_evidence, model.report_.log_evidence, rtol=1e-7)


# Forms of input


def test_data_frames_give_the_answers_of_arrays(rows):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y, groups = rows
    plain = HierarchicalRegressor().fit(X, y, groups)
    for library in (pandas, polars):
        frame = library.DataFrame({"age": X[:, 0], "dose": X[:, 1], "y": y, "clinic": groups})
        model = HierarchicalRegressor().fit(frame[["age", "dose"]], frame["y"], frame["clinic"])

        assert_same_fit(model, plain, rtol=0)
        assert list(model.feature_names_in_) == ["age", "dose"]
        assert_array_equal(model.groups_, plain.groups_)
        assert_allclose(model.predict(frame[["age", "dose"]], frame["clinic"]), plain.predict(X, groups))
        with pytest.raises(InvalidValue, match="column 0 of X is 'dose', but it was 'age' in fit"):
            model.predict(frame[["dose", "age"]])
    assert not hasattr(model.fit(X, y, groups), "feature_names_in_")
    assert model.n_features_in_ == 2


def test_groups_may_go_by_any_hashable_label(rows):
    X, y, groups = rows
    plain = HierarchicalRegressor().fit(X, y, groups)
    names = {"g0": 1, "g1": "1", "g2": (2, 3), "g3": 2.5}
    mixed = [names.get(group, group) for group in groups]
    model = HierarchicalRegressor().fit(X, y[:, None], mixed)

    assert_same_fit(model, plain, rtol=0)
    assert list(model.groups_) == list(dict.fromkeys(mixed))
    assert_allclose(model.predict(X[:2], [(2, 3), "1"]), plain.predict(X[:2], ["g2", "g1"]))
    numbers = HierarchicalRegressor().fit(X, y, [int(group[1:]) for group in groups])
    assert numbers.groups_.dtype.kind == "i"
    assert plain.groups_.dtype.kind == "U"


# Bad input


X_EDGE, Y_EDGE, GROUPS_EDGE = draw([6, 7, 8, 9, 10], seed=12)
EDGES = {
    "one row": (X_EDGE[:1], Y_EDGE[:1], GROUPS_EDGE[:1], ["one row only"]),
    "one group": (X_EDGE, Y_EDGE, np.full(40, "a"), ["one group"]),
    "one row per group": (X_EDGE, Y_EDGE, np.arange(40), ["every group has one row"]),
    "constant y": (X_EDGE, np.full(40, 5.0), GROUPS_EDGE, ["y is always 5:"]),
    "constant y, rounded": (X_EDGE, np.full(40, 0.1), GROUPS_EDGE, ["y is always 0.1:"]),
    "y of 0": (X_EDGE, np.zeros(40), GROUPS_EDGE, ["y is always 0"]),
    "collinear": (X_EDGE @ [[1, 0, 2], [0, 1, 3]], Y_EDGE, GROUPS_EDGE, ["features 0, 1 and 2 are collinear"]),
    "fewer rows than features": (X_EDGE[:2], Y_EDGE[:2], ["a", "b"], ["fewer rows (2) than coefficients (3)"]),
    "a feature of 0": (X_EDGE @ [[1, 0, 0], [0, 0, 1]], Y_EDGE, GROUPS_EDGE, ["feature 1 is always 0"]),
    "a constant feature": (np.c_[X_EDGE, np.full(40, 7.0)], Y_EDGE, GROUPS_EDGE, ["feature 2 is constant"]),
    "y of 1e9": (X_EDGE, 1e9 * Y_EDGE, GROUPS_EDGE, []),
    "y of 1e-9": (X_EDGE, 1e-9 * Y_EDGE, GROUPS_EDGE, []),
    "y near 1e9": (X_EDGE, 1e9 + Y_EDGE, GROUPS_EDGE, []),
    "no noise": (X_EDGE, X_EDGE @ [1.0, -2.0], GROUPS_EDGE, []),
}


@pytest.mark.parametrize(("fit_intercept", "fixed"), [(True, None), (False, None), (True, [0])])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("edge", EDGES)
def test_edges_give_a_finite_answer_and_say_what_is_missing(edge, method, fit_intercept, fixed):
    X, y, groups, missing = EDGES[edge]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = HierarchicalRegressor(method=method, fit_intercept=fit_intercept, fixed=fixed).fit(X, y, groups)

    said = " ".join(str(one.message) for one in caught)
    assert all(one.category is PosseWarning for one in caught)
    for name in (*FITTED, "coef_std_", "intercept_std_"):
        assert np.isfinite(getattr(model, name)).all(), name
    mean, std = model.predict(X, groups, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(model.predict(X, return_std=True)).all()
    assert_array_equal(model.covariance_, model.covariance_.T)
    eigenvalues = np.linalg.eigvalsh(model.covariance_)
    if method == "evidence" and fixed is None:
        assert eigenvalues[0] > 0
        assert model.report_.converged
    else:
        assert eigenvalues[0] >= -1e-12 * max(eigenvalues[-1], 1e-300)
    if fit_intercept:
        for words in missing:
            assert words in str(model.report_)
            assert words in said


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"X": np.ones(40)}, ShapeError, r"X to have shape \(rows, features\), got shape \(40,\)"),
        ({"X": np.empty((0, 2)), "y": [], "groups": []}, ShapeError, "at least one row"),
        ({"y": Y_EDGE[:7]}, ShapeError, "y to have one entry per row of X, 40, got 7"),
        ({"y": np.c_[Y_EDGE, Y_EDGE]}, ShapeError, r"y to have one axis, got shape \(40, 2\)"),
        ({"y": None}, InvalidValue, "requires y"),
        ({"y": np.where(np.arange(40) == 3, np.nan, Y_EDGE)}, NotFinite, "y to be finite, got nan at index 3"),
        ({"X": X_EDGE * np.inf}, NotFinite, "X to be finite"),
        ({"X": X_EDGE * 1e200}, NotFinite, "too large to be squared"),
        ({"X": X_EDGE.astype(str).astype(object) + "x"}, InvalidValue, "X to be an array of numbers"),
        ({"groups": GROUPS_EDGE[:9]}, ShapeError, "groups to have one label per row of X, 40, got 9"),
        ({"groups": np.c_[GROUPS_EDGE, GROUPS_EDGE]}, ShapeError, r"one label per row, got shape \(40, 2\)"),
        ({"groups": "store"}, ShapeError, "one label per row, got 'store'"),
        ({"groups": 3}, ShapeError, "one label per row, got 3"),
        ({"groups": [None] * 40}, InvalidValue, "groups has no label at row 0"),
        ({"groups": np.where(np.arange(40) == 2, np.nan, 1.0)}, InvalidValue, "groups has no label at row 2"),
        ({"groups": [[1]] * 40}, InvalidValue, "group labels to be hashable"),
    ],
)
def test_wrong_rows_are_refused_and_change_nothing(change, error, words):
    right = {"X": X_EDGE, "y": Y_EDGE, "groups": GROUPS_EDGE}
    with pytest.raises(error, match=words):
        HierarchicalRegressor().fit(**(right | change))
    model = HierarchicalRegressor().fit(**right)
    with pytest.raises(PosseError, match=words):
        model.partial_fit(**(right | change))

    assert_same_fit(model, HierarchicalRegressor().fit(**right), rtol=0)
    assert len(model.groups_) == 5


def test_sparse_features_are_refused(rows):
    sparse = pytest.importorskip("scipy.sparse")
    X, y, groups = rows
    with pytest.raises(InvalidValue, match=r"got a sparse csr_array; pass X.toarray\(\)"):
        HierarchicalRegressor().fit(sparse.csr_array(X), y, groups)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "paper"}, "method to be one of 'evidence', 'reml', got 'paper'"),
        ({"fit_intercept": "no"}, "fit_intercept to be True or False, got 'no'"),
        ({"robust": True, "method": "reml"}, "robust=True needs method='evidence', but the method is 'reml'"),
    ],
)
def test_wrong_settings_are_refused_in_fit(rows, settings, words):
    with pytest.raises(InvalidValue, match=words):
        HierarchicalRegressor(**settings).fit(*rows)


def test_predict_asks_for_what_fit_saw(rows):
    X, y, groups = rows
    with pytest.raises(NotFitted, match="has seen no data; call fit"):
        HierarchicalRegressor().predict(X)
    model = HierarchicalRegressor().fit(X, y, groups)
    with pytest.raises(ShapeError, match="X has 3 features, but HierarchicalRegressor is expecting 2 features"):
        model.predict(np.ones((4, 3)))
    with pytest.raises(ShapeError, match="X has 1 features"):
        model.partial_fit(X[:, :1], y, groups)
    with pytest.raises(InvalidValue, match="after some that had groups"):
        model.partial_fit(X, y)
    with pytest.raises(InvalidValue, match="learned with fit_intercept=True, which cannot be changed"):
        model.set_params(fit_intercept=False).partial_fit(X, y, groups)


# scikit-learn


def test_it_is_a_scikit_learn_estimator(rows):
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_regressor
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, groups = rows
    model = HierarchicalRegressor(method="reml").fit(X, y, groups)
    copy = clone(model)
    assert copy.get_params() == {"method": "reml", "fit_intercept": True, "robust": False, "fixed": None}
    assert is_regressor(copy)
    with pytest.raises(NotFittedError):
        copy.predict(X)

    pipe = make_pipeline(StandardScaler(), copy)
    pipe.fit(X, y, hierarchicalregressor__groups=groups)
    assert_allclose(pipe.predict(X, groups=groups), model.predict(X, groups), rtol=1e-6)
    _, std = pipe.predict(X, groups=groups, return_std=True)
    assert_allclose(std, model.predict(X, groups, return_std=True)[1], rtol=1e-5)


def test_cross_validation_over_groups_and_within():
    pytest.importorskip("sklearn")
    import sklearn
    from sklearn.model_selection import GroupKFold, KFold, cross_val_score

    X, y, groups = draw([10] * 12, seed=2)
    new = cross_val_score(HierarchicalRegressor(), X, y, groups=groups, cv=GroupKFold(3), params={"groups": groups})
    with sklearn.config_context(enable_metadata_routing=True):
        model = HierarchicalRegressor().set_fit_request(groups=True).set_score_request(groups=True)
        known = cross_val_score(model, X, y, cv=KFold(3), params={"groups": groups})

    assert new.shape == (3,)
    assert new.mean() > 0
    assert known.mean() > new.mean() + 0.1


@pytest.mark.slow
def test_scikit_learn_is_not_needed():
    program = """
        import sys, warnings
        sys.modules["sklearn"] = None
        from posse import HierarchicalRegressor
        from posse.errors import InvalidValue
        model = HierarchicalRegressor(method="reml")
        print(model)
        try:
            model.predict([[1.0]])
        except AttributeError as error:
            print(isinstance(error, ValueError), error)
        try:
            model.set_params(alpha=1)
        except InvalidValue as error:
            print(error)
        warnings.simplefilter("ignore")
        model.set_params(method="evidence").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 4.0], ["a", "a", "b"])
        print(model.predict([[1.0]], ["a"]).shape)
    """
    run = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, check=True, text=True)

    assert run.stdout.split("\n") == [
        "HierarchicalRegressor(method='reml', fit_intercept=True, robust=False, fixed=None)",
        "True this HierarchicalRegressor has seen no data; call fit(X, y, groups) first",
        "no setting 'alpha'; the settings are 'method', 'fit_intercept', 'robust', 'fixed'",
        "(1,)",
        "",
    ]


def test_it_is_found_in_the_package_without_being_loaded_by_it():
    assert "HierarchicalRegressor" in dir(posse)
    with pytest.raises(AttributeError, match="module 'posse' has no attribute 'Regressor'"):
        _ = posse.Regressor
