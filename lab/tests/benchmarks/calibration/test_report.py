from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from posse.errors import InvalidValue
from posse_lab.benchmarks.calibration.report import bar_of, measure_calibration, wilson
from posse_lab.benchmarks.calibration.situations import Quantity, Situation


def meet(seed):
    return {"even": float(seed % 2 == 0), "size": seed**2, "twice": 2 * seed**2, "nothing": 0.0}


SITUATION = Situation(
    name="toy",
    title="A toy",
    meet=meet,
    quantities=(
        Quantity("even seeds", "even", at_least=0.4),
        Quantity("size", "size"),
        Quantity("size / twice", "size", over="twice", at_most=0.4),
        Quantity("size / nothing", "size", over="nothing", at_most=1.0),
    ),
)


def test_lines_are_means_over_the_seeds_that_were_asked_for():
    even, size, ratio, nothing = measure_calibration([SITUATION], seeds=5, first_seed=10).bars

    assert (even.measured, even.met, even.interval) == (0.6, True, wilson(3, 5))
    # The mean of 100, 121, 144, 169 and 196.
    assert (size.measured, size.met) == (146.0, None)
    assert size.interval[0] < 146.0 < size.interval[1]
    assert (ratio.measured, ratio.interval, ratio.met) == (0.5, (0.5, 0.5), False)
    assert (nothing.measured, nothing.interval, nothing.met) == (None, None, None)
    assert "divide" in nothing.note


def test_workers_change_nothing():
    one, two = (measure_calibration([SITUATION], seeds=6, workers=workers) for workers in (1, 2))
    assert one.bars == two.bars


def test_the_order_in_which_seeds_finish_changes_nothing(monkeypatch):
    once = measure_calibration([SITUATION], seeds=9)
    backwards = lambda meet, seeds, _workers: map(meet, reversed(seeds))  # noqa: E731
    monkeypatch.setattr("posse_lab.benchmarks.calibration.report.over_seeds", backwards)

    # Means would forgive another order; bootstrap samples, which are drawn by place, do not.
    assert measure_calibration([SITUATION], seeds=9).bars == once.bars


def test_progress_is_told():
    begun, done = [], []
    both = [SITUATION, replace(SITUATION, name="other")]
    measure_calibration(both, seeds=3, begin=begun.append, advance=done.append)

    assert begun == ["toy", "other"]
    assert done == [1] * 6


def test_wilson_is_not_certain_after_ten_of_ten():
    # Newcombe (1998), table I: 81 of 263 gives 0.2553 to 0.3662, 0 of 20 gives 0 to 0.1611.
    assert_allclose(wilson(81, 263), (0.2553, 0.3662), atol=5e-5)
    assert_allclose(wilson(0, 20), (0.0, 0.1611), atol=5e-5)
    finding = bar_of("toy", SITUATION.quantities[0], {"even": np.ones(10)})
    assert finding.interval[0] < 0.8


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"first_seed": -1}, {"workers": 0}])
def test_bad_numbers_are_refused(wrong):
    with pytest.raises(InvalidValue, match=f"{next(iter(wrong))} to be at least"):
        measure_calibration([SITUATION], **wrong)
