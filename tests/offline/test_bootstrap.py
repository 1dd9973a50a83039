import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.stats import t as student

from posse.offline.bootstrap import TaskSums, bootstrap, estimate
from posse.offline.estimators import Contributions


def sums_of(numerators, denominators=None):
    numerators = np.asarray(numerators, dtype=float)
    denominators = np.ones(numerators.size) if denominators is None else np.asarray(denominators, dtype=float)
    return TaskSums(numerators[:, None], denominators[:, None])


def difference(first, second):
    return TaskSums(
        np.hstack([first.numerators, second.numerators]), np.hstack([first.denominators, second.denominators])
    )


def test_rows_are_added_up_by_task():
    rows = Contributions(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]))
    found = TaskSums.of(np.array([1, 0, 1]), rows, less=Contributions(np.ones(3), np.ones(3)))

    assert_allclose(found.numerators, [[2, 1], [4, 2]])
    assert_allclose(found.denominators, [[1, 1], [3, 2]])
    assert found.value == pytest.approx(6 / 4 - 1)


def test_the_standard_error_of_a_mean_is_the_usual_one():
    values = np.array([1.0, 2.0, 4.0, 9.0])

    assert estimate(sums_of(values)).se == pytest.approx(values.std(ddof=1) / 2)


def test_the_standard_error_of_a_ratio_by_hand():
    # Ratio 10 / 5 = 2; residuals 1 - 2, 9 - 8 = -1 and 1; (1 + 1) / 25 * 2.
    assert estimate(sums_of([1.0, 9.0], [1.0, 4.0])).se == pytest.approx(np.sqrt(2 / 25 * 2))


def test_the_standard_error_of_a_difference_pairs_tasks():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal(30), rng.standard_normal(30)

    found = estimate(difference(sums_of(first), sums_of(second)))

    assert found.value == pytest.approx((first - second).mean())
    assert found.se == pytest.approx((first - second).std(ddof=1) / np.sqrt(30))


@pytest.mark.parametrize("method", ["studentised", "percentile"])
def test_resamples_agree_with_a_plain_loop(method):
    rng = np.random.default_rng(1)
    first = sums_of(rng.standard_normal(15) + 1, rng.uniform(1, 5, 15))
    second = sums_of(rng.standard_normal(15), rng.uniform(1, 5, 15))
    both = difference(first, second)
    found = bootstrap([first, both], resamples=500, seed=3, method=method, confidence=0.9)

    loop = np.random.default_rng(3).integers(0, 15, (500, 15))
    for sums, result in zip((first, both), found, strict=True):
        moved, errors = [], []
        for rows in loop:
            resample = TaskSums(sums.numerators[rows], sums.denominators[rows])
            one = estimate(resample)
            moved.append(one.value)
            errors.append(one.se)
        moved = np.array(moved)
        if method == "studentised":
            distance = np.abs(moved - sums.value) / errors
            reach = np.quantile(distance, 0.9, method="inverted_cdf") * estimate(sums).se
            expected = [sums.value - reach, sums.value + reach]
            positive = 0.5 + np.sign(sums.value) * (distance < abs(sums.value) / estimate(sums).se).mean() / 2
        else:
            expected = np.quantile(moved, [0.05, 0.95])
            positive = (moved > 0).mean()
        assert_allclose([result.low, result.high], expected, rtol=1e-9)
        assert result.positive == positive


@given(arrays(float, 14, elements=st.floats(-3, 4)))
def test_sure_to_be_above_zero_is_where_the_interval_is(values):
    found = bootstrap([sums_of(values)], resamples=400)[0]

    if found.low > 0:
        assert found.positive >= 0.97
    elif found.high < 0:
        assert found.positive <= 0.03
    elif np.isfinite(found.low):
        assert 0.02 <= found.positive <= 0.98


@pytest.mark.parametrize(("value", "positive"), [(2.0, 1.0), (-2.0, 0.0), (0.0, 0.5)])
def test_what_does_not_vary_is_sure(value, positive):
    assert bootstrap([sums_of(np.full(12, value))])[0].positive == positive


def test_intervals_of_many_normal_tasks_are_students():
    values = np.random.default_rng(2).standard_normal(400)
    found = bootstrap([sums_of(values)], resamples=20_000)[0]

    # 20,000 resamples leave an error of about 1 % in a 95 % quantile.
    assert found.high - found.value == pytest.approx(student.ppf(0.975, 399) * found.se, rel=0.03)


def test_blocks_change_nothing(monkeypatch):
    sums = [sums_of(np.random.default_rng(4).standard_normal(12))]
    whole = bootstrap(sums, resamples=300)
    monkeypatch.setattr("posse.offline.bootstrap.BLOCK", 50)

    assert bootstrap(sums, resamples=300) == whole


def test_very_many_tasks_are_bundled_and_the_interval_stays(monkeypatch):
    rng = np.random.default_rng(5)
    sums = [sums_of(rng.standard_normal(3000), rng.uniform(1, 3, 3000))]
    alone = bootstrap(sums)[0]
    monkeypatch.setattr("posse.offline.bootstrap.MOST_UNITS", 500)
    bundled = bootstrap(sums)[0]

    assert (bundled.value, bundled.se) == (alone.value, alone.se)
    assert bundled.high - bundled.low == pytest.approx(alone.high - alone.low, rel=0.06)


def test_equal_rewards_have_no_spread():
    found = bootstrap([sums_of(np.full(12, 0.1) * np.arange(1, 13), np.arange(1, 13))])[0]

    assert found.value == pytest.approx(0.1)
    assert found.high - found.low < 1e-15


def test_one_task_has_no_interval():
    found = bootstrap([sums_of([3.0])])[0]

    assert found.value == 3
    assert np.isnan([found.se, found.low, found.high, found.positive]).all()


def test_a_single_task_that_differs_has_no_interval():
    # A third of the resamples miss it and see no spread at all.
    found = bootstrap([sums_of(np.eye(12)[0])])[0]

    assert found.se > 0
    assert np.isnan(found.low)


def test_weight_in_too_few_tasks_has_no_interval():
    # One of 12 tasks has all weight; a resample misses it more often than not a tenth of the time.
    found = bootstrap([sums_of(np.eye(12)[0], np.eye(12)[0])])[0]

    assert found.value == 1
    assert np.isnan(found.low)


numbers = st.floats(-100, 100)


@given(arrays(float, 11, elements=numbers), arrays(float, 11, elements=st.floats(0.5, 10)), st.floats(0.01, 100))
def test_scaled_rewards_scale_the_interval(values, sizes, scale):
    once = bootstrap([sums_of(values, sizes)], resamples=200)[0]
    scaled = bootstrap([sums_of(scale * values, sizes)], resamples=200)[0]

    tolerance = 1e-9 * scale * (1 + np.abs(values).max())
    for name in ("value", "se", "low", "high"):
        assert_allclose(getattr(scaled, name), scale * getattr(once, name), rtol=1e-6, atol=tolerance)


def test_nothing_in_nothing_out():
    assert bootstrap([]) == []
