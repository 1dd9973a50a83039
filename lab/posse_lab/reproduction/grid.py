"""Figure 3 (b) to (d): regret by the number of tasks, arms and features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from posse.types import Array
from posse_lab.reproduction.bootstrap import interval, ratio_of_ratios
from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, numbers, only_if
from posse_lab.reproduction.experiment import Experiment, Results, Run, Section, Simulated, base_world
from posse_lab.reproduction.lineup import lineup
from posse_lab.reproduction.pieces import advantage_figure, box_figure, grid_table
from posse_lab.reproduction.reading import Reading
from posse_lab.reproduction.verdicts import lowest

LETTERS = {"n_tasks": "N", "n_arms": "K", "n_features": "d"}
KEPT = 1.05  # an advantage is kept if the ratio of regrets rises by less than this
WORDS = {"n_tasks": "tasks", "n_arms": "arms", "n_features": "features"}


@dataclass(frozen=True)
class Tasks:
    """The base world with another number of tasks; grid and horizon are ours."""

    n_tasks: tuple[int, ...] = (5, 10, 20, 30, 50)
    n_arms: int = 5
    n_features: int = 3
    horizon: int = 2_000


@dataclass(frozen=True)
class Arms:
    """The base world with another number of arms."""

    n_tasks: int = 10
    n_arms: tuple[int, ...] = (2, 5, 10, 20)
    n_features: int = 3
    horizon: int = 2_000


@dataclass(frozen=True)
class Features:
    """The base world with another number of features."""

    n_tasks: int = 10
    n_arms: int = 5
    n_features: tuple[int, ...] = (2, 3, 5, 10, 20)
    horizon: int = 2_000


def grid_runs(size: str, settings: Any, data: Path | None = None) -> list[Run]:  # noqa: ARG001  # needs no data
    """Return a run for every value of one size of the world."""
    letter = LETTERS[size].lower()
    return [
        Simulated(f"{letter}-{n}", base_world(settings, **{size: n}), lineup(), settings.horizon, checkpoints=20)
        for n in getattr(settings, size)
    ]


def grid_readings(results: Results, letter: str) -> list[Reading]:
    """Return the results by growing size."""

    def value(key: str) -> int:
        return int(re.sub(r"\D", "", key))

    return [Reading(results[key], key, f"{letter} = {value(key)}") for key in sorted(results, key=value)]


def grid_section(size: str, experiment: str, results: Results) -> Section:
    """Return box plots, the advantage of ebm over the grid, and the claims about them."""
    readings = grid_readings(results, LETTERS[size])
    word = WORDS[size]
    advantage = advantage_figure(
        f"{experiment}-advantage",
        [
            (reading, method, rival, f"{method}, {reading.label}", f"over {rival}")
            for rival in ("LinUCB", "LinUCB tuned")
            for method in ("ebmUCB", "ebmTS", "evidence UCB")
            for reading in readings
        ],
        f"Regret of the hierarchical methods over that of LinUCB by the number of {word}; left of 1 they are ahead.",
    )
    first, last = readings[0], readings[-1]
    ratios = [reading.compare("ebmUCB", "LinUCB tuned") for reading in (first, last)]
    evidence = [reading.compare("evidence UCB", "LinUCB tuned").ratio for reading in (first, last)]
    return Section(
        found=(
            f"From {first.label} to {last.label} the regret of ebmUCB goes from {ratios[0].ratio:.2f} to "
            f"{ratios[1].ratio:.2f} times that of tuned LinUCB, and that of the evidence prior from {evidence[0]:.2f} "
            f"to {evidence[1]:.2f} times.",
        ),
        figures=(
            box_figure(
                f"{experiment}-boxes",
                readings,
                x_label=f"number of {word}",
                about=f"Cumulative regret at {first.horizon:,} steps by the number of {word}.",
            ),
            advantage,
        ),
        tables=(grid_table(readings, f"Mean cumulative regret at {first.horizon:,} steps", word),),
        claims=(
            lowest(f"{experiment}-lowest", [(reading, None) for reading in readings]),
            advantage_kept(readings, experiment),
            varies_less(readings, experiment),
        ),
    )


def advantage_kept(readings: Sequence[Reading], experiment: str) -> Claim:
    """Test that the ratio of ebmUCB's regret to LinUCB's does not rise from the first to the last value of the grid."""
    first, last = readings[0], readings[-1]
    seeds = min(first.n_seeds, last.n_seeds)

    def change(rival: str) -> tuple[float, tuple[float, float]]:
        # The worlds at both ends are different draws, but a seed's two worlds may be resampled together.
        columns = [reading.regret(role)[:seeds] for reading in (last, first) for role in ("ebmUCB", rival)]
        return interval(ratio_of_ratios, *columns)

    value, bounds = change("LinUCB")
    tuned, tuned_bounds = change("LinUCB tuned")
    if bounds[1] < KEPT and tuned_bounds[1] < KEPT:
        verdict = HOLDS
    elif bounds[1] < KEPT:
        verdict = only_if(f"LinUCB is not tuned: the ratio to it changes by a factor {tuned:.2f} otherwise")
    elif bounds[0] <= 1 and tuned_bounds[0] <= 1:
        verdict = only_if(f"a rise within the noise of {seeds} seeds is allowed for")
    else:
        verdict = FAILS
    return Claim(
        id=f"{experiment}-advantage-kept",
        verdict=verdict,
        **numbers(value, bounds, seeds),
        measure=f"ratio of the regret of ebmUCB to that of LinUCB at {last.label}, divided by the same at "
        f"{first.label}; against tuned LinUCB {tuned:.2f} ({tuned_bounds[0]:.2f} to {tuned_bounds[1]:.2f})",
        sources=(first.source, last.source),
    )


def spread(values: Array) -> Array:
    """Return the distance between the quartiles of every column."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return np.asarray(high - low)


def varies_less(readings: Sequence[Reading], experiment: str) -> Claim:
    """Test that ebmUCB's boxes are narrower than ebmTS's."""
    seeds = min(reading.n_seeds for reading in readings)
    ucb = np.stack([reading.regret("ebmUCB")[:seeds] for reading in readings], axis=1)
    ts = np.stack([reading.regret("ebmTS")[:seeds] for reading in readings], axis=1)

    def ratio(a: Array, b: Array) -> float:
        return float(np.exp(np.mean(np.log(spread(a)) - np.log(spread(b)))))

    value, bounds = interval(ratio, ucb, ts)
    narrower = spread(ucb) < spread(ts)
    if bounds[1] < 1:
        verdict = HOLDS
    elif value < 1 and 2 * narrower.sum() > narrower.size:
        verdict = only_if(f"a difference within the noise of {seeds} seeds counts")
    else:
        verdict = FAILS
    return Claim(
        id=f"{experiment}-ucb-varies-less",
        verdict=verdict,
        **numbers(value, bounds, seeds),
        measure=f"interquartile range of ebmUCB over that of ebmTS, geometric mean over the grid; narrower at "
        f"{narrower.sum()} of {narrower.size} values",
        sources=tuple(reading.source for reading in readings),
    )


EXPERIMENTS = tuple(
    Experiment.of_paper(
        name, settings=settings, quick=quick, runs=partial(grid_runs, f"n_{name}"),
        section=partial(grid_section, f"n_{name}", name),
    )
    for name, settings, quick in (
        ("tasks", Tasks(), Tasks(n_tasks=(2, 5), horizon=200)),
        ("arms", Arms(), Arms(n_arms=(2, 4), horizon=200)),
        ("features", Features(), Features(n_features=(2, 4), horizon=200)),
    )
)  # fmt: skip
