import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue, NotFinite
from posse.families import FAMILIES, family_of

GRID = np.linspace(-9.0, 9.0, 20_001)
DENSITY = np.exp(-0.5 * GRID**2)
DENSITY /= DENSITY.sum()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_found_by_its_name(name):
    assert family_of(name).name == name


def test_an_unknown_family_is_refused():
    with pytest.raises(
        InvalidValue, match=r"rewards to be one of 'number', 'binary', 'count', 'revenue', got 'clicks'"
    ):
        family_of("clicks")


@pytest.mark.parametrize(
    ("name", "reward", "value"),
    [
        ("binary", True, 1.0),
        ("binary", np.False_, 0.0),
        ("binary", 1, 1.0),
        ("binary", np.float64(0.0), 0.0),
        ("count", 7, 7.0),
        ("count", 1e6, 1e6),
        ("number", -2.5, -2.5),
    ],
)
def test_rewards_of_the_family_pass(name, reward, value):
    checked = family_of(name).check(reward)
    assert checked == value
    assert type(checked) is float
    assert family_of(name).check_many([reward]).tolist() == [value]


@pytest.mark.parametrize(
    ("name", "reward"),
    [("binary", 0.5), ("binary", 2), ("binary", -1), ("count", -1), ("count", 2.5), ("count", 1e300)],
)
def test_rewards_of_another_family_are_refused(name, reward):
    with pytest.raises(InvalidValue, match=r"expected .*got .*pass rewards="):
        family_of(name).check(reward)
    with pytest.raises(InvalidValue, match=r"expected .*got .* at row 1; pass rewards="):
        family_of(name).check_many([1, reward, reward])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "1", None])
def test_what_is_no_number_is_refused(name, reward):
    with pytest.raises(InvalidValue):
        family_of(name).check(reward)


def test_nan_among_many_is_said_to_be_not_finite():
    with pytest.raises(NotFinite):
        family_of("binary").check_many([0.0, np.nan])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("mean", "sd"), [(0.3, 0.2), (-4.0, 1.5), (2.0, 0.0), (-2.0, 3.0)])
def test_expected_rewards_are_averages_over_the_predictor(name, mean, sd):
    family = family_of(name)
    assert_allclose(family.expected(mean, sd), family.mean_of(mean + sd * GRID) @ DENSITY, rtol=2e-5)


@pytest.mark.parametrize(("name", "least", "most"), [("binary", 0.0, 1.0), ("count", 0.0, np.inf)])
def test_intervals_stay_inside_the_range(name, least, most):
    mean, sd = np.array([0.0, -30.0, 30.0, 2.0]), np.array([50.0, 1.0, 1.0, 0.1])
    low, high = family_of(name).interval(mean, sd, level=0.99)
    assert (low >= least).all()
    assert (high <= most).all()
    assert (low < high)[[0, 3]].all()


def test_intervals_hold_their_share_of_the_belief():
    rng = np.random.default_rng(1)
    for family in FAMILIES.values():
        low, high = family.interval(-1.0, 0.7, level=0.8)
        drawn = family.mean_of(rng.normal(-1.0, 0.7, 20_000))
        # The standard error of a share of 20,000 draws is 0.003.
        assert abs(np.mean((drawn >= low) & (drawn <= high)) - 0.8) < 0.01


@pytest.mark.parametrize("level", [0.0, 1.0, 90])
def test_a_level_that_is_no_probability_is_refused(level):
    with pytest.raises(InvalidValue, match="level between 0 and 1"):
        family_of("binary").interval(0.0, 1.0, level)
