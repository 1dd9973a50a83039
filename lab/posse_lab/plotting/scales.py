"""Limits and ticks of axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from posse.types import Array, ArrayLike
from posse_lab.plotting.words import tick_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def drawable(values: ArrayLike, *, log: bool) -> Array:
    """Return the values as floats, NaN where an axis has no place for them: infinity; on a log axis, zero and below."""
    numbers = np.array(values, dtype=np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    if log:
        numbers[~(numbers > 0)] = np.nan
    return numbers


def limits_of(values: ArrayLike, *, log: bool, margin: float, zero_within: float = 0.0) -> tuple[float, float]:
    """Return limits that hold every drawable value, with a margin in parts of their distance.

    Parameters
    ----------
    values : array
    log : bool
    margin : float
    zero_within : float, default 0.0
        Start a linear axis at zero when nothing is negative and the smallest value is below this part of the largest.

    Examples
    --------
    >>> limits_of([2.0, 10.0, np.nan], log=False, margin=0.05, zero_within=0.4)
    (0.0, 10.5)
    >>> limits_of([], log=True, margin=0.05)
    (0.1, 1.0)
    """
    numbers = drawable(values, log=log).ravel()
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = float(numbers.min()), float(numbers.max())
    if log:
        room = (math.log10(high) - math.log10(low)) * margin if high > low else 0.3
        # Not beyond what a float can hold.
        return 10 ** max(math.log10(low) - room, -307.0), 10 ** min(math.log10(high) + room, 308.0)
    if 0 <= low < zero_within * high:
        return 0.0, high * (1 + margin)
    size = max(abs(low), abs(high))
    # Equal values, or so nearly equal that ticks could not tell them apart.
    room = (high - low) * margin if high - low > 1e-9 * size else 0.1 * size or 0.5
    return low - room, high + room


def set_scale(axes: Axes, which: Literal["x", "y"], limits: tuple[float, float], *, log: bool, n_ticks: int) -> None:
    """Give one axis its limits, a linear or a log scale, and ticks with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log" if log else "linear")
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)
    if log:
        decades = math.log10(limits[1] / limits[0])
        if decades < 0.9:  # too few powers of ten and their halves: round numbers, unevenly spaced
            axis.set_major_locator(MaxNLocator(n_ticks - 1, steps=[1, 2, 2.5, 5, 10]))
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0,), numticks=n_ticks + 3))
            axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=30) if decades < 6 else NullLocator())
            axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(n_ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_number(value, thousands=not log)))
    axes.grid(False, which="minor")
