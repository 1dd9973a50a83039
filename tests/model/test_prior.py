import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from posse.errors import InvalidValue, NotFinite, NotPositiveDefinite, PosseError, ShapeError
from posse.model import Prior


def test_one_number_stands_for_every_arm():
    prior = Prior(covariance=np.tile([[2.0, 0.5], [0.5, 1.0]], (3, 1, 1)), noise_variance=0.4, shared_precision=7.0)

    assert (prior.n_arms, prior.n_features) == (3, 2)
    assert_array_equal(prior.noise_variance, [0.4, 0.4, 0.4])
    assert_array_equal(prior.shared_precision, [7.0, 7.0, 7.0])


def test_isotropic_prior_has_a_multiple_of_the_identity_for_every_arm():
    prior = Prior.isotropic(n_arms=2, n_features=3, variance=2.5, noise_variance=0.3, shared_precision=0.7)

    assert_array_equal(prior.covariance, np.tile(2.5 * np.eye(3), (2, 1, 1)))
    assert_array_equal(prior.noise_variance, [0.3, 0.3])
    assert_array_equal(prior.shared_precision, [0.7, 0.7])


def test_rounding_in_a_product_is_forgiven():
    # B B' of rank 1 in five dimensions: four eigenvalues are zero up to rounding, some of them below.
    root = np.random.default_rng(3).standard_normal((5, 1)) * 1e3
    covariance = root @ root.T
    covariance[0, 1] *= 1 + 1e-14

    prior = Prior(covariance=[covariance], noise_variance=1.0)

    assert_array_equal(prior.covariance[0], prior.covariance[0].T)
    assert_allclose(prior.covariance[0], covariance, rtol=1e-13)


@pytest.mark.parametrize("name", ["covariance", "noise_variance", "shared_precision"])
def test_prior_is_a_value_that_later_changes_of_its_arguments_do_not_reach(name):
    arguments = {
        "covariance": np.array([[[2.0]]]),
        "noise_variance": np.array([0.5]),
        "shared_precision": np.array([0.1]),
    }
    prior = Prior(**arguments)
    before = getattr(prior, name).copy()

    arguments[name][...] = -1.0

    assert_array_equal(getattr(prior, name), before)


GOOD = {"covariance": np.tile(1.5 * np.eye(2), (2, 1, 1)), "noise_variance": 0.5, "shared_precision": 0.1}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"covariance": np.eye(2)}, ShapeError, "prior covariance to have axes (arm, feature, feature)"),
        ({"covariance": np.ones((2, 2, 3))}, ShapeError, "to be square matrices, got shape (2, 2, 3)"),
        ({"covariance": 2.0}, ShapeError, "to be square matrices, got shape ()"),
        ({"covariance": np.empty((0, 2, 2))}, ShapeError, "got shape (0, 2, 2)"),
        ({"covariance": np.empty((2, 0, 0))}, ShapeError, "got shape (2, 0, 0)"),
        ({"covariance": np.full((2, 2, 2), np.nan)}, NotFinite, "prior covariance to be finite, got nan"),
        ({"covariance": [np.eye(2), [[1.0, np.inf], [np.inf, 1.0]]]}, NotFinite, "got inf at index (1, 0, 1)"),
        ({"covariance": [np.eye(2), [[1.0, 0.5], [0.4, 1.0]]]}, NotPositiveDefinite, "to be symmetric"),
        (
            {"covariance": [np.eye(2), [[1.0, 2.0], [2.0, 1.0]]]},
            NotPositiveDefinite,
            "prior covariance of arm 1 to be positive semidefinite, got a smallest eigenvalue of -1",
        ),
        ({"covariance": [-np.eye(2), np.eye(2)]}, NotPositiveDefinite, "of arm 0"),
        ({"noise_variance": 0.0}, InvalidValue, "noise_variance to be greater than 0, got 0 for arm 0"),
        ({"noise_variance": [1.0, -2.0]}, InvalidValue, "noise_variance to be greater than 0, got -2 for arm 1"),
        ({"noise_variance": [1.0, 1.0, 1.0]}, ShapeError, "noise_variance to be one number or have shape (2,)"),
        ({"noise_variance": np.nan}, NotFinite, "noise_variance to be finite, got nan"),
        ({"noise_variance": [1.0, np.inf]}, NotFinite, "noise_variance to be finite, got inf at index 1"),
        ({"noise_variance": "loud"}, InvalidValue, "noise_variance to be an array of numbers, got str"),
        ({"noise_variance": 10**400}, InvalidValue, "noise_variance"),
        ({"shared_precision": 0}, InvalidValue, "shared_precision to be greater than 0, got 0 for arm 0"),
        ({"shared_precision": [0.1, -0.1]}, InvalidValue, "shared_precision to be greater than 0, got -0.1"),
        ({"shared_precision": [[0.1], [0.1]]}, ShapeError, "shared_precision to be one number or have shape (2,)"),
        ({"shared_precision": -np.inf}, NotFinite, "shared_precision to be finite, got -inf"),
    ],
)
def test_bad_settings_get_one_clear_error(change, error, message):
    with pytest.raises(error) as caught:
        Prior(**{**GOOD, **change})

    assert message in str(caught.value)
    assert isinstance(caught.value, PosseError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "change",
    [
        {"variance": -1.0},
        {"variance": np.nan},
        {"noise_variance": 0.0},
        {"shared_precision": -1.0},
        {"n_arms": 0},
        {"n_features": 0},
        {"n_arms": -1},
        {"n_features": -1},
        {"n_arms": 1.5},
    ],
    ids=str,
)
def test_bad_isotropic_settings_get_our_error(change):
    with pytest.raises(PosseError):
        Prior.isotropic(**{"n_arms": 2, "n_features": 3, **change})
