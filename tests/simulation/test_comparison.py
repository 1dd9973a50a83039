import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import bootstrap

from posse.environments import SyntheticWorld
from posse.errors import InvalidValue, UnknownPolicy
from posse.simulation import simulate
from posse.simulation.results import compare_paired


def test_difference_ratio_and_wins_by_hand():
    found = compare_paired("a", "b", np.array([1.0, 2.0, 6.0, 3.0]), np.array([2.0, 2.0, 2.0, 4.0]))
    assert (found.first, found.second, found.seeds, found.level) == ("a", "b", 4, 0.95)
    assert found.difference == pytest.approx(12 / 4 - 10 / 4)
    assert found.ratio == pytest.approx(12 / 10)
    assert found.wins == 0.5  # in two seeds of four; a tie is no win


def test_the_interval_of_two_seeds_by_hand():
    """Pairs (1, 3) and (6, 2), drawn twice: both first, one of each (half the time), both second.

    Differences of means are -2, 1, 4 with chances 1/4, 1/2, 1/4; ratios 1/3, 7/5, 3.
    """
    a, b = np.array([1.0, 6.0]), np.array([3.0, 2.0])
    wide = compare_paired("a", "b", a, b, level=0.95)
    assert wide.difference_interval == (-2.0, 4.0)
    assert_allclose(wide.ratio_interval, (1 / 3, 3.0))
    narrow = compare_paired("a", "b", a, b, level=0.4)
    assert narrow.difference_interval == (1.0, 1.0)
    assert_allclose(narrow.ratio_interval, (7 / 5, 7 / 5))


def test_pairs_stay_together():
    # b is a + 1 in every seed: the paired difference is known exactly however much the seeds vary.
    a = np.random.default_rng(0).normal(50, 20, 30)
    assert_allclose(compare_paired("a", "b", a, a + 1).difference_interval, (-1.0, -1.0))


def test_the_interval_is_scipys_percentile_bootstrap():
    rng = np.random.default_rng(3)
    a = rng.gamma(4.0, 10.0, 40)
    b = a + rng.normal(5, 8, 40)
    ours = compare_paired("a", "b", a, b, level=0.9)
    theirs = bootstrap(
        (a, b),
        lambda x, y, axis=-1: x.mean(axis=axis) / y.mean(axis=axis),
        paired=True,
        method="percentile",
        confidence_level=0.9,
        n_resamples=10_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    # Ends of 10,000 resamples wobble by about sqrt(0.05 * 0.95 / 10,000) / density, here 2 % of the width.
    width = theirs.high - theirs.low
    assert_allclose(ours.ratio_interval, theirs, atol=0.06 * width)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(5)
    runs, covered = 150, 0
    for _ in range(runs):
        shared = rng.normal(100, 30, 40)
        low, high = compare_paired(
            "a", "b", shared + rng.normal(0, 4, 40), shared + 3 + rng.normal(0, 4, 40), level=0.8
        ).difference_interval
        covered += low <= -3.0 <= high
    # Percentile intervals of 40 seeds cover a little less than the nominal 80 % (about 79 %); the count of 150 has
    # standard error 3.3 %, and four of them is 13 %.
    assert 0.66 < covered / runs < 0.92


def test_the_same_data_give_the_same_interval():
    a, b = np.random.default_rng(0).normal(10, 1, (2, 20))
    assert compare_paired("a", "b", a, b) == compare_paired("a", "b", a, b)


def test_the_words():
    text = str(compare_paired("ebmUCB", "LinUCB", np.array([1.0, 1.0]), np.array([2.0, 2.0])))
    assert text == "ebmUCB - LinUCB: -1.0 (-1.0 to -1.0), ratio 0.500 (0.500 to 0.500), lower in 100% of 2 seeds"


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1, np.nan, "0.9"])
def test_bad_levels(level):
    with pytest.raises(InvalidValue, match="level"):
        compare_paired("a", "b", np.ones(3), np.ones(3), level=level)


def test_comparing_policies_of_a_result():
    world = SyntheticWorld(n_tasks=3, n_arms=3, n_features=2)
    result = simulate(world, {"LinUCB": "lin-ucb", "random": "random"}, horizon=100, seeds=6)
    found = result.compare("LinUCB", "random", level=0.9)
    a, b = result.regret_of("LinUCB"), result.regret_of("random")
    assert found.difference == pytest.approx((a - b).mean())
    assert found.ratio == pytest.approx(a.mean() / b.mean())
    assert found == compare_paired("LinUCB", "random", a, b, level=0.9)
    back = result.compare("random", "LinUCB", level=0.9)
    assert_allclose(back.difference_interval, (-found.difference_interval[1], -found.difference_interval[0]))
    with pytest.raises(UnknownPolicy, match=r"'LinTS'.*'LinUCB', 'random'"):
        result.compare("LinUCB", "LinTS")


def test_against_a_policy_without_regret():
    world = SyntheticWorld(n_tasks=2, n_arms=2, n_features=1)
    result = simulate(world, ["oracle", "random"], horizon=20, seeds=3)
    assert result.compare("random", "oracle").ratio == np.inf
    assert result.compare("oracle", "random").ratio == 0.0
