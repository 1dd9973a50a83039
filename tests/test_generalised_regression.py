"""Classifier and count regressor, against published fits and on rows that are hard."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse import HierarchicalClassifier, HierarchicalCountRegressor
from posse.errors import InvalidValue, ShapeError
from posse.families import family_of, linked_family_of
from posse.regression import NotFitted
from posse.regression.laplace import _Likelihood, fit_laplace

# Lesnoff et al. (2004), the example of lme4's glmer: herd, new cases, animals at risk, quarter.
CBPP = """
    1 2 14 1   1 3 12 2   1 4 9 3    1 0 5 4    2 3 22 1   2 1 18 2   2 1 21 3   3 8 22 1   3 2 16 2   3 0 16 3
    3 2 20 4   4 2 10 1   4 0 10 2   4 2 9 3    4 0 6 4    5 5 18 1   5 0 25 2   5 0 24 3   5 1 4 4    6 3 17 1
    6 0 17 2   6 0 18 3   6 1 20 4   7 8 16 1   7 1 10 2   7 3 9 3    7 0 5 4    8 12 34 1  9 2 9 1    9 0 6 2
    9 0 8 3    9 0 6 4    10 1 22 1  10 1 22 2  10 0 18 3  10 2 22 4  11 0 25 1  11 5 27 2  11 3 22 3  11 1 22 4
    12 2 10 1  12 1 8 2   12 0 6 3   12 0 5 4   13 1 21 1  13 2 24 2  13 0 19 3  13 0 23 4  14 11 19 1 14 0 2 2
    14 0 3 3   14 0 2 4   15 1 19 1  15 1 15 2  15 1 15 3  15 0 15 4
"""
# Crowder (1978), table 3: germinated seeds of 21 plates, and how many there were.
GERMINATED = [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3]
SEEDS = [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7]


def one_row_each(cases, sizes):
    """1 for every case, then 0 for the others; and which entry each row belongs to."""
    entry = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(entry.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return entry, within < np.asarray(cases)[entry]


def cbpp():
    herd, cases, sizes, quarter = np.array(CBPP.split(), dtype=int).reshape(-1, 4).T
    entry, sick = one_row_each(cases, sizes)
    return (quarter[:, None] == [2, 3, 4])[entry] * 1.0, sick, herd[entry]


def seeds():
    variety, extract = np.repeat([0, 1], [11, 10]), np.repeat([0, 1, 0, 1], [5, 6, 5, 5])
    plate, germinated = one_row_each(GERMINATED, SEEDS)
    return np.column_stack([variety, extract, variety * extract])[plate] * 1.0, germinated, plate


def counts(n=1500, n_groups=40, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    X = rng.normal(size=(n, 2)) + np.array([1.0, 0.0])
    beta = np.array([0.3, 0.4, -0.2]) + rng.normal(size=(n_groups, 3)) * [0.5, 0.3, 0.0]
    return X, rng.poisson(np.exp(beta[group, 0] + (X * beta[group, 1:]).sum(axis=1))), group


def test_laplace_gives_the_fit_that_lme4_published_for_cbpp():
    X, y, herd = cbpp()
    model = HierarchicalClassifier(method="laplace", fixed=[0, 1, 2]).fit(X, y, groups=herd)
    # glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), cbpp, binomial), Laplace approximation.
    assert_allclose([model.intercept_, *model.coef_], [-1.3983, -0.9919, -1.1282, -1.5797], rtol=2e-3)
    assert_allclose(np.sqrt(model.covariance_[0, 0]), 0.6421, rtol=2e-3)
    assert_allclose(model.coef_std_, [0.3032, 0.3228, 0.4220], rtol=0.03)
    assert (model.covariance_[1:] == 0).all()


def test_laplace_gives_the_fit_that_was_published_for_seeds():
    X, y, plate = seeds()
    model = HierarchicalClassifier(method="laplace", fixed=[0, 1, 2]).fit(X, y, groups=plate)
    # Maximum likelihood by Gaussian quadrature in Breslow and Clayton (1993).
    assert_allclose([model.intercept_, *model.coef_], [-0.548, 0.097, 1.337, -0.811], rtol=0.01)
    assert_allclose(np.sqrt(model.covariance_[0, 0]), 0.236, rtol=0.05)


@pytest.mark.parametrize("rows", [cbpp, seeds])
def test_evidence_is_near_to_maximum_likelihood(rows):
    X, y, group = rows()
    likelihood = HierarchicalClassifier(method="laplace", fixed=[0, 1, 2]).fit(X, y, groups=group)
    evidence = HierarchicalClassifier(fixed=[0, 1, 2]).fit(X, y, groups=group)
    # Few groups: fixed coefficients are integrated out, and the penalty counts as one group with a variance of 0.2.
    assert np.all(abs(evidence.coef_ - likelihood.coef_) < 0.3 * likelihood.coef_std_)
    assert_allclose(np.sqrt(evidence.covariance_[0, 0]), np.sqrt(likelihood.covariance_[0, 0]), atol=0.13)


@pytest.mark.parametrize("method", ["evidence", "laplace"])
def test_counts_find_the_population_they_came_from(method):
    X, y, group = counts()
    model = HierarchicalCountRegressor(method=method, fixed=[1]).fit(X, y, groups=group)
    # 40 groups: standard errors are 0.08, 0.05 and 0.02, and those of a standard deviation 11 %.
    assert_allclose([model.intercept_, *model.coef_], [0.3, 0.4, -0.2], atol=0.2)
    assert_allclose(np.sqrt(np.diagonal(model.covariance_)), [0.5, 0.3, 0.0], rtol=0.35)
    assert model.converged_


@pytest.mark.parametrize("name", ["binary", "count"])
def test_the_slope_of_the_likelihood_is_that_of_differences(name):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(120), rng.normal(size=(120, 2))])
    group = np.sort(rng.integers(0, 9, 120))
    y = rng.poisson(1.5, 120) * 1.0 if name == "count" else (rng.random(120) < 0.4) * 1.0
    first = np.flatnonzero(np.r_[True, np.diff(group) > 0])
    likelihood = _Likelihood(X, y, first, group, np.array([True, True, False]), linked_family_of(name))
    values = 0.3 + 0.3 * rng.normal(size=6)
    slopes = [
        (likelihood(values + side)[0] - likelihood(values - side)[0]) / 2e-5 for side in 1e-5 * np.eye(values.size)
    ]
    assert_allclose(likelihood(values)[1], slopes, rtol=1e-5, atol=1e-5)


def test_laplace_is_close_to_the_exact_integral_where_groups_are_large():
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(30), 40)
    y = (rng.random(1200) < 1 / (1 + np.exp(-(0.5 + rng.normal(size=30)[group])))) * 1.0
    found = fit_laplace(np.ones((1200, 1)), y, group, np.array([True]), family_of("binary"))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    eta = found.shared_mean[0] + np.sqrt(found.covariance[0, 0]) * nodes
    ones = np.bincount(group, y)
    inside = np.exp(ones[:, None] * eta - 40 * np.logaddexp(0, eta))
    assert_allclose(found.log_likelihood, np.log(inside @ weights / weights.sum()).sum(), rtol=1e-3)


def test_probabilities_are_as_scikit_learn_has_them():
    X, y, herd = cbpp()
    words = np.where(y, "sick", "healthy")
    model = HierarchicalClassifier(fixed=[0, 1, 2]).fit(X, words, groups=herd)
    assert model.classes_.tolist() == ["healthy", "sick"]
    probabilities = model.predict_proba(X, groups=herd)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_array_equal(model.predict(X, groups=herd), model.classes_[probabilities.argmax(axis=1)])
    assert model.score(X, words, groups=herd) == np.mean(model.predict(X, groups=herd) == words)
    low, high = model.predict_interval(X, groups=herd)
    assert (low < probabilities[:, 1]).all()
    assert (probabilities[:, 1] < high).all()
    assert (low > 0).all()
    assert (high < 1).all()


def test_scikit_learn_knows_them():
    base = pytest.importorskip("sklearn.base")
    assert base.is_classifier(HierarchicalClassifier())
    assert base.is_regressor(HierarchicalCountRegressor())
    assert base.clone(HierarchicalClassifier(method="laplace", fixed=[1])).fixed == [1]


def test_a_new_group_is_predicted_less_surely():
    X, y, herd = cbpp()
    model = HierarchicalClassifier(fixed=[0, 1, 2]).fit(X, y, groups=herd)
    low, high = model.predict_interval(np.zeros((2, 3)), groups=[1, 99])
    assert high[1] - low[1] > 1.3 * (high[0] - low[0])


@pytest.mark.parametrize(("scale", "shift"), [(1000.0, 0.0), (1.0, 50.0), (0.01, -3.0)])
def test_units_and_origins_of_features_do_not_matter(scale, shift):
    X, y, group = counts(n=400, n_groups=15)
    plain = HierarchicalCountRegressor().fit(X, y, groups=group)
    moved = HierarchicalCountRegressor().fit(X * scale + shift, y, groups=group)
    assert_allclose(moved.predict(X * scale + shift, groups=group), plain.predict(X, groups=group), rtol=1e-5)
    assert_allclose(moved.coef_ * scale, plain.coef_, rtol=1e-5)


@pytest.mark.parametrize("y", [np.zeros(40), np.ones(40), (np.arange(40) >= 20) * 1.0])
def test_equal_and_separable_rows_leave_finite_probabilities(y):
    X, group = np.arange(40.0)[:, None], np.arange(40) % 4
    model = HierarchicalClassifier().fit(X, y, groups=group)
    found = model.predict_proba(X, groups=group)[:, 1]
    assert model.converged_
    assert abs(found - y).max() < 0.5
    low, high = model.predict_interval(X, groups=group)
    assert np.isfinite([low, high]).all()
    # Nothing is certain after 40 rows.
    assert (np.where(y > 0, 1 - low, high) > 1e-6).all()


def test_a_count_of_a_million_leaves_finite_rates():
    model = HierarchicalCountRegressor().fit(np.zeros((10, 1)), [10**6] + [0] * 9, groups=[0] * 5 + [1] * 5)
    assert_allclose(model.predict([[0.0]], groups=[0]), 2e5, rtol=0.01)
    assert np.isfinite(model.predict_interval([[0.0]], groups=[7])).all()


@pytest.mark.parametrize("model", [HierarchicalClassifier(), HierarchicalCountRegressor()])
def test_a_refused_fit_leaves_the_model_as_it_was(model):
    with pytest.raises(NotFitted):
        model.predict([[0.0]])
    model.fit([[0.0], [1.0], [0.0], [1.0]], [0, 1, 1, 0], groups=["a", "a", "b", "b"])
    before = dict(vars(model))
    with pytest.raises((InvalidValue, ShapeError)):
        model.fit([[0.0], [1.0]], [0, 1, 1], groups=["a", "b"])
    with pytest.raises(InvalidValue):
        model.fit([[0.0], [1.0], [1.0]], [0.5, 1, 2.5], groups=["a", "b", "c"])
    assert vars(model) == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "reml"}, "method to be one of 'evidence', 'laplace'"),
        ({"fixed": [0], "fit_intercept": False}, "fixed names every coefficient"),
        ({"fixed": [3]}, "positions from 0 to 0"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(InvalidValue, match=words):
        HierarchicalClassifier(**settings).fit([[0.0], [1.0]], [0, 1])


def test_three_classes_are_too_many():
    with pytest.raises(InvalidValue, match="expected two classes in y, got 3"):
        HierarchicalClassifier().fit([[0.0], [1.0], [2.0]], ["a", "b", "c"])
