import numpy as np
from numpy.testing import assert_allclose

from posse_lab.benchmarks.peak import DEEP, multiply_and_add, peak_operations, read_all, read_bandwidth


def test_the_loop_does_the_operations_that_are_counted():
    # x -> 2 x + 1 takes x + 1 to twice that, DEEP times in each of three passes.
    numbers = np.array([[0.0, 1.0, 5.0], [2.0, 3.0, 4.0]])
    expected = (numbers + 1) * 2.0 ** (3 * DEEP) - 1
    multiply_and_add(numbers, 2.0, 1.0, 3)
    assert_allclose(numbers, expected)


def test_every_word_is_read_in_every_pass():
    words = np.arange(100, dtype=np.int64)
    once = (4950) ^ 1
    assert read_all(words, 1) == once
    assert read_all(words, 2) == (once + 4950) ^ 1


def test_rates_are_rates():
    for rate in (peak_operations(rounds=2, at_least=1e-4), read_bandwidth(10_000, rounds=2, at_least=1e-4)):
        assert rate.best >= rate.median > 1e6
        assert rate.to_dict() == {"best": rate.best, "median": rate.median}
