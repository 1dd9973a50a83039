import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse import SyntheticWorld
from posse.errors import InvalidValue
from posse_lab.theory.diversity import LAWS, covariate_diversity


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
    assert_allclose(covariate_diversity(law), expected)


@pytest.mark.parametrize("law", ["intercept", "one-hot"])
def test_designs_with_a_constant_or_one_hot_have_none(law):
    X = contexts_of(law, 3, 500)

    assert one_side(X, np.array([-1.0, 0.0, 0.0])) == 0.0
    assert covariate_diversity(law) == 0.0


def test_every_law_of_the_synthetic_worlds_is_known():
    from posse.environments.synthetic import CONTEXT_LAWS

    assert sorted(LAWS) == sorted(CONTEXT_LAWS)


def test_bad_input_is_refused():
    with pytest.raises(InvalidValue, match="law to be one of 'mixed-gaussian'"):
        covariate_diversity("gaussian")
