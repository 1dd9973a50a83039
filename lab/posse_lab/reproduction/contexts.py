"""Figure 3 (a): regret by the law of the contexts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from posse.policies import EbmUCB
from posse_lab.plotting import Panel, Series
from posse_lab.reproduction.bootstrap import interval, ratio_of_ratios
from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, numbers
from posse_lab.reproduction.experiment import (
    BaseSettings,
    Experiment,
    Figure,
    Results,
    Run,
    Section,
    Simulated,
    base_world,
)
from posse_lab.reproduction.lineup import lineup
from posse_lab.reproduction.pieces import box_figure, grid_table, panel_figure
from posse_lab.reproduction.reading import Reading
from posse_lab.reproduction.verdicts import lowest
from posse_lab.theory.diversity import covariate_diversity

LAWS = ("mixed-gaussian", "uniform", "intercept", "one-hot")
SCALES = (0.0, 0.03, 0.1, 0.3, 1.0)  # exploration of ebmUCB; 0 is greedy, 0.1 the paper's

GREEDY_PLACE = 0.01  # where a logarithmic axis shows the scale 0


def scaled(value: float) -> str:
    """Return the name of ebmUCB with an exploration scale."""
    return "ebmUCB" if value == 0.1 else f"ebmUCB {value:g}"


def runs(settings: BaseSettings, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    """Return a run per law."""
    policies = {**lineup(), **{scaled(a): partial(EbmUCB, exploration=a) for a in SCALES if a != 0.1}}
    return [
        Simulated(law, base_world(settings, contexts=law), policies, settings.horizon, checkpoints=20) for law in LAWS
    ]


def section(results: Results) -> Section:
    """Return box plots by law, regret by exploration, and the claims about them."""
    readings = [Reading(results[law], law, law) for law in LAWS]
    mixed, uniform = readings[0], readings[1]
    greedy = readings[-1].compare(scaled(0.0), "ebmUCB")
    return Section(
        found=(
            "Both of the paper's laws are symmetric about zero, so half of the second moments remain whatever side of "
            "a plane is looked at: covariate diversity holds for both, with constants "
            f"{covariate_diversity('mixed-gaussian'):.2f} (mixed Gaussian) and "
            f"{covariate_diversity('uniform'):.2f} (uniform).",
            "A law that does violate it is one-hot contexts: there a greedy ebmUCB has "
            f"{greedy.ratio:.2f} times the regret of ebmUCB with the paper's exploration.",
        ),
        figures=(
            box_figure(
                "contexts-boxes",
                readings,
                x_label="law of the contexts",
                about=f"Cumulative regret at {mixed.horizon:,} steps by the law of the contexts.",
            ),
            exploration_figure(readings),
        ),
        tables=(grid_table(readings, f"Mean cumulative regret at {mixed.horizon:,} steps", "law"),),
        claims=(
            lowest("contexts-lowest", [(mixed, None), (uniform, None)]),
            exploration_price(mixed, uniform),
            no_diversity(),
        ),
    )


def relative(reading: Reading) -> dict[float, float]:
    """Return mean regret by exploration over the lowest."""
    means = {scale: float(reading.regret(scaled(scale)).mean()) for scale in SCALES}
    return {scale: mean / min(means.values()) for scale, mean in means.items()}


def exploration_figure(readings: Sequence[Reading]) -> Figure:
    """Return regret of ebmUCB by exploration, each law relative to its best."""
    places = np.maximum(SCALES, GREEDY_PLACE)
    series = [
        Series(name=reading.label, x=places, y=np.array(list(relative(reading).values()))) for reading in readings
    ]
    panel = Panel(
        title="ebmUCB by exploration",
        series=series,
        x_label=f"exploration scale (0, greedy, is drawn at {GREEDY_PLACE:g})",
        y_label="mean regret over the law's best",
        log_x=True,
    )

    return panel_figure(
        "contexts-exploration",
        [panel],
        "What exploration buys under each law: mean regret of ebmUCB with the paper's prior at five scales of "
        "exploration (0 is greedy), divided by the lowest of the five.",
        *(reading.source for reading in readings),
    )


def exploration_price(mixed: Reading, uniform: Reading) -> Claim:
    """Test that going without exploration costs less under uniform contexts than under mixed Gaussian ones."""

    def price(reading: Reading) -> tuple[np.ndarray, np.ndarray]:
        best = min(SCALES, key=lambda scale: float(reading.regret(scaled(scale)).mean()))
        return reading.regret(scaled(0.0)), reading.regret(scaled(best))

    seeds = min(mixed.n_seeds, uniform.n_seeds)
    columns = [values[:seeds] for reading in (uniform, mixed) for values in price(reading)]
    value, bounds = interval(ratio_of_ratios, *columns)
    return Claim(
        id="uniform-needs-less-exploration",
        verdict=HOLDS if bounds[1] < 1 else FAILS,
        **numbers(value, bounds, seeds),
        measure="what greedy ebmUCB loses against its best exploration under uniform contexts "
        f"({relative(uniform)[0.0]:.2f} times), over the same under mixed Gaussian ones "
        f"({relative(mixed)[0.0]:.2f} times)",
        sources=("uniform", "mixed-gaussian"),
    )


def no_diversity() -> Claim:
    """Test that the mixed Gaussian violates covariate diversity."""
    value = covariate_diversity("mixed-gaussian")
    return Claim(
        id="mixed-gaussian-violates-diversity",
        verdict=FAILS if value > 0 else HOLDS,
        **numbers(value, (value, value), 0),
        measure="smallest eigenvalue of E[x xᵀ 1(xᵀu ≥ 0)] over all directions u, exact; it would have to be 0, and is "
        f"{covariate_diversity('uniform'):.3f} for the uniform law that is said to satisfy it",
        sources=(),
    )


EXPERIMENT = Experiment.of_paper(
    "contexts",
    settings=BaseSettings(),
    quick=BaseSettings(horizon=200),
    runs=runs,
    section=section,
)
