import math

import numpy as np
import pytest
from scipy.stats import bootstrap

from posse_lab.reproduction.bootstrap import interval


def mean(values):
    return float(values.mean())


def ratio(a, b):
    return float(a.mean() / b.mean())


def test_two_seeds_by_hand():
    """Values 1 and 5, drawn twice: means 1, 3, 5 with chances 1/4, 1/2, 1/4, so the tails of 2.5 % are 1 and 5."""
    assert interval(mean, np.array([1.0, 5.0])) == (3.0, (1.0, 5.0))


def test_the_largest_of_ten_seeds():
    """A resample lacks 9, 8 and 7 with chance 0.7**10 = 2.8 %, and 6 as well with 0.6 %: the 2.5 % point is 6.

    It is 7 where the 2,000 draws, with a standard error of 0.4 %, have fewer than 2.5 % of the former.
    """
    value, (low, high) = interval(lambda a: float(a.max()), np.arange(10.0))

    assert (value, high) == (9.0, 9.0)
    assert low in (6.0, 7.0)


def test_rows_of_all_columns_are_drawn_together():
    # a is half of b in every seed, so the ratio is known however much the seeds vary; drawn apart it would not be.
    b = np.random.default_rng(2).gamma(1.0, 50.0, 20)

    value, (low, high) = interval(ratio, b / 2, b)

    assert (value, low, high) == pytest.approx((0.5, 0.5, 0.5))
    assert np.ptp(interval(ratio, np.sort(b) / 2, np.sort(b)[::-1])[1]) > 0.3


def test_a_matrix_is_drawn_by_rows():
    # Two columns per seed that add up to 10: whatever the rows, the means of the columns do.
    first = np.random.default_rng(3).normal(4, 2, 15)
    table = np.column_stack([first, 10 - first])

    assert interval(lambda rows: float(rows.mean(axis=0).sum()), table)[1] == pytest.approx((10.0, 10.0))


def test_constant_values_leave_no_doubt():
    assert interval(mean, np.full(6, 2.5)) == (2.5, (2.5, 2.5))


def test_one_seed_has_an_interval_of_no_width():
    assert interval(mean, np.array([7.0])) == (7.0, (7.0, 7.0))


def test_draws_without_a_bound_count():
    """Pairs (1, 0) and (3, 2): ratios are infinite, 2 or 1.5, each of which counts."""
    value, (low, high) = interval(ratio, np.array([1.0, 3.0]), np.array([0.0, 2.0]))

    assert value == 2.0
    assert (low, high) == (1.5, np.inf)


def test_nothing_over_nothing_has_no_interval_but_does_not_fail():
    value, bounds = interval(ratio, np.zeros(4), np.zeros(4))

    assert math.isnan(value)
    assert all(map(math.isnan, bounds))


def test_it_is_scipys_percentile_bootstrap():
    rng = np.random.default_rng(4)
    a = rng.gamma(4.0, 10.0, 40)
    b = a + rng.normal(5, 8, 40)
    value, ours = interval(ratio, a, b)
    theirs = bootstrap(
        (a, b),
        lambda x, y, axis=-1: x.mean(axis=axis) / y.mean(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(1),
    ).confidence_interval

    assert value == pytest.approx(a.mean() / b.mean())
    # The 2.5 % point of a normal law from 2,000 draws has standard error sqrt(0.025 * 0.975 / 2000) / 0.0584 = 6 % of a
    # standard deviation, that is 1.5 % of the width of the interval; four of them are 6 %.
    assert ours == pytest.approx(tuple(theirs), abs=0.06 * (theirs.high - theirs.low))


def test_the_same_columns_give_the_same_interval():
    values = np.random.default_rng(5).normal(size=12)

    assert interval(mean, values) == interval(mean, values)
