import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.plotting.style import report_look
from posse_lab.plotting.scales import limits_of, set_scale
from posse_lab.plotting.words import short_number, text_width, tick_number, wrapped


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "values", [[], [0.0], [-3.0], [7.0, 7.0], [1e-9, 1e9], [441.0, 492.0], [np.nan, np.inf], [0.95, 0.95 + 1e-12]]
)
def test_limits_hold_the_values_and_are_never_empty(values, log):
    low, high = limits_of(values, log=log, margin=0.05)

    assert low < high
    assert not log or low > 0
    inside = [v for v in values if np.isfinite(v) and (v > 0 or not log)]
    assert all(low < value < high for value in inside)


def test_an_axis_starts_at_zero_where_zero_is_near():
    assert limits_of([1.0, 10.0], log=False, margin=0.1, zero_within=0.4) == (0.0, 11.0)
    assert_allclose(limits_of([8.0, 10.0], log=False, margin=0.1, zero_within=0.4), (7.8, 10.2))
    assert limits_of([3.0, 10.0], log=False, margin=0.0) == (3.0, 10.0)


@pytest.mark.parametrize("limits", [(441.0, 492.0), (3.0, 40.0), (0.5, 800.0), (1e-4, 1e6), (1e-30, 1e30)])
def test_a_log_axis_has_some_ticks_but_not_too_many(limits):
    with report_look() as plt:
        figure, axes = plt.subplots()
        set_scale(axes, "y", limits, log=True, n_ticks=6)
        ticks = [tick for tick in axes.get_yticks() if limits[0] <= tick <= limits[1]]
        plt.close(figure)

    assert 2 <= len(ticks) <= 11


def test_numbers_round_without_gaining_digits():
    assert short_number(99.96) == "100"
    assert short_number(9.999) == "10.0"
    assert short_number(9999.6) == "10,000"
    assert short_number(-1e-5) == "−1.00e−05"
    assert short_number(float("nan")) == "–"
    assert tick_number(1e15) == "1e+15"


def test_wrapped_lines_fit_and_lose_no_word():
    text = "bands are two standard errors of the mean and averylongwordthatfitsnowhere stands alone\nnew line"
    lines = wrapped(text, 90.0, 8.5)

    assert " ".join(lines).split() == text.split()
    assert lines[-1] == "new line"
    assert all(text_width(line, 8.5) <= 90 or " " not in line for line in lines)
