"""Kernels that are compiled as part of their callers alone."""

import numpy as np
import pytest
from numba import njit

from posse.kernels.compiler import COUNTED, UNCOUNTED
from posse.kernels.llvm.inner import inner


def scaled(values, factor):
    """Return the sum of all values, each times the factor."""
    total = 0.0
    for value in values:
        total += factor * value
    return total


def same(values):
    """Return an array that was passed: a reference that may or may not be counted."""
    return values


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes inner kernels with a cache that is empty at first."""
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return lambda function, **options: inner(error_model="numpy", **(options or UNCOUNTED))(function)


def test_another_process_takes_it_from_the_cache(made):
    values = np.arange(4.0)
    first = made(scaled)
    njit(lambda values: first(values, 3.0))(values)
    again = made(scaled)
    assert njit(lambda values: again(values, 3.0))(values) == 18.0
    assert sum(again.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("counted", [COUNTED, UNCOUNTED])
def test_what_python_calls_counts_references_as_the_kernel_does(made, counted):
    """A mismatch would free the numbers of an array that is still there."""
    piece = made(same, **counted)

    def total(values):
        return piece(values).sum()

    summed, values = made(total, **counted), np.arange(1000.0)
    for _ in range(100):
        assert summed(values) == np.arange(1000.0).sum()
    assert values[-1] == 999.0
