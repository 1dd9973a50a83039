import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse import SyntheticWorld
from posse.errors import InvalidValue, ShapeError
from posse_lab.theory import covariate_diversity, empirical_covariate_diversity
from posse_lab.theory.diversity import LAWS


def contexts_of(law, n_features, n, seed=0):
    return SyntheticWorld(n_tasks=2, n_arms=2, n_features=n_features, contexts=law).draw(seed, n).contexts


def one_side(X, u):
    kept = X[X @ u >= 0]
    return np.linalg.eigvalsh(kept.T @ kept / len(X))[0]


@pytest.mark.parametrize(("law", "expected"), [("mixed-gaussian", 1.0), ("uniform", 1 / 6)])
def test_symmetric_laws_show_the_same_to_every_half(law, expected):
    # 200,000 contexts; the mean square of a half has a standard deviation below 0.01 for both laws.
    X = contexts_of(law, 3, 200_000)

    for u in np.random.default_rng(1).standard_normal((5, 3)):
        assert_allclose(one_side(X, u), expected, atol=0.02)
    assert_allclose(covariate_diversity(law, 3), expected)


def test_the_mixed_gaussian_is_more_diverse_than_the_uniform_law():
    mixed, uniform = (
        empirical_covariate_diversity(contexts_of(law, 3, 4_000), np.random.default_rng(2))[0]
        for law in ("mixed-gaussian", "uniform")
    )

    # The minimum over directions finds the half that chance left emptiest: 13 and 10 % below 1 and 1/6.
    assert 0.8 < mixed < 1.0
    assert 0.8 / 6 < uniform < 1.0 / 6


@pytest.mark.parametrize("law", ["intercept", "one-hot"])
def test_designs_with_a_constant_or_one_hot_have_none(law):
    X = contexts_of(law, 3, 500)

    assert one_side(X, np.array([-1.0, 0.0, 0.0])) == 0.0
    assert empirical_covariate_diversity(X, np.random.default_rng(3))[0] == 0.0
    assert covariate_diversity(law, 3) == 0.0


def test_every_law_of_the_synthetic_worlds_is_known():
    from posse.environments.synthetic import CONTEXT_LAWS

    assert sorted(LAWS) == sorted(CONTEXT_LAWS)


@pytest.mark.parametrize("seed", range(5))
def test_two_dimensions_against_all_angles(seed):
    # Between two neighbouring normals of contexts nothing changes, so their middles are all there is.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 2)) + [0.3, 0.1]
    normals = np.arctan2(X[:, 1], X[:, 0])
    edges = np.sort(np.concatenate([normals + np.pi / 2, normals - np.pi / 2]) % (2 * np.pi))
    middles = (edges + np.append(edges[1:], edges[0] + 2 * np.pi)) / 2
    exact = min(one_side(X, np.array([np.cos(a), np.sin(a)])) for a in middles)

    value, direction = empirical_covariate_diversity(X, np.random.default_rng(100))

    assert_allclose(value, exact, rtol=1e-9)
    assert_allclose(one_side(X, direction), value, atol=1e-12)
    assert_allclose(np.linalg.norm(direction), 1.0)
    assert value <= np.linalg.eigvalsh(X.T @ X / 60)[0] / 2


def test_one_feature_has_two_directions():
    X = np.array([[1.0], [2.0], [-1.0]])

    value, direction = empirical_covariate_diversity(X, np.random.default_rng(0))

    assert_allclose(value, 1 / 3)
    assert direction == [-1.0]


@pytest.mark.parametrize("seed", range(3))
def test_search_from_few_directions_beats_many_random_ones(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4)) + rng.normal(0, 0.5, 4)
    random = min(one_side(X, u) for u in rng.standard_normal((3_000, 4)))

    # Whatever the search starts from, it ends 5 % or more below.
    for start in range(4):
        value, _ = empirical_covariate_diversity(X, np.random.default_rng(start), n_directions=64)
        assert value < 0.97 * random


def test_a_constant_feature_is_found_without_luck():
    X = contexts_of("intercept", 12, 500)

    assert empirical_covariate_diversity(X, np.random.default_rng(0), n_directions=1)[0] == 0.0


def test_bad_input_is_refused():
    with pytest.raises(InvalidValue, match="law to be one of 'mixed-gaussian'"):
        covariate_diversity("gaussian", 2)
    with pytest.raises(InvalidValue, match="n_features"):
        covariate_diversity("uniform", 0)
    rng = np.random.default_rng(0)
    with pytest.raises(ShapeError, match="contexts"):
        empirical_covariate_diversity(np.ones(3), rng)
    with pytest.raises(ShapeError, match="contexts"):
        empirical_covariate_diversity(np.ones((0, 3)), rng)
    with pytest.raises(InvalidValue, match="n_directions"):
        empirical_covariate_diversity(np.ones((2, 3)), rng, 0)
