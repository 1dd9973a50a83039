"""Figure 2: tasks that differ in few coordinates, which is RMBandit's assumption and not ebm's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse.errors import InvalidValue
from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, decided_by, only_if
from posse_lab.reproduction.experiment import Experiment, Results, Run, Section, Simulated, base_world
from posse_lab.reproduction.lineup import EBM, lineup
from posse_lab.reproduction.pieces import Curves, curve_figure, grid_table
from posse_lab.reproduction.reading import Reading
from posse_lab.reproduction.verdicts import lowest, worst


@dataclass(frozen=True)
class Settings:
    """Pairs of n_features and jumps; at 3 features sparsity means little, hence 20 as well."""

    n_tasks: int = 10
    n_arms: int = 5
    n_features: tuple[int, ...] = (3, 3, 20)
    jumps: tuple[int, ...] = (1, 2, 2)
    horizon: int = 2_000


def runs(settings: Settings, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    """Return a run per pair of features and jumps."""
    if len(settings.n_features) != len(settings.jumps):
        raise InvalidValue(
            f"n_features and jumps must be equally long, but {len(settings.n_features)} and {len(settings.jumps)} "
            "values came"
        )
    worlds = {
        f"{jumps}-of-{d}": base_world(settings, n_features=d, heterogeneity="sparse", jumps=jumps)
        for d, jumps in zip(settings.n_features, settings.jumps, strict=True)
    }
    return [Simulated(key, world, lineup(scheduled=True), settings.horizon) for key, world in worlds.items()]


def section(results: Results) -> Section:
    """Return curves in every sparse world, and the claims about them."""
    readings = [
        Reading(result, key, f"{key.replace('-', ' ')} coefficients differ")
        for key, result in sorted(results.items(), key=lambda item: int(item[0].split("-")[-1]))
    ]
    places = [(reading, None) for reading in readings]
    rival = against_rm_bandit(readings)
    default = worst(places, ("RMBandit",), EBM)
    last = readings[-1]
    return Section(
        found=(
            "Against RMBandit with the paper's q = 50 the weaker of the two ebm methods has "
            f"{default.comparison.ratio:.2f} times its regret where it is closest; against the best of its grid "
            f"{rival.value:.2f} times ({rival.interval[0]:.2f} to {rival.interval[1]:.2f}).",
            f"Where {last.label} the evidence prior has {last.regret('evidence UCB').mean():,.0f}, "
            f"ebmUCB {last.regret('ebmUCB').mean():,.0f}, {last.words('LinUCB tuned')} "
            f"{last.regret('LinUCB tuned').mean():,.0f} and pooled LinUCB "
            f"{last.regret('pooled LinUCB').mean():,.0f}.",
        ),
        figures=(
            curve_figure(
                "sparse",
                [Curves(reading=reading, title=reading.label) for reading in readings],
                "Cumulative regret when each arm of each task differs from the shared mean in few random coordinates, "
                "by N(0, 1).",
            ),
        ),
        tables=(grid_table(readings, "Mean cumulative regret", "coefficients that differ"),),
        claims=(
            rival,
            lowest("sparse-lowest", places),
        ),
    )


def against_rm_bandit(readings: list[Reading]) -> Claim:
    """Test both ebm methods against RMBandit alone, with the paper's q and with the best."""
    places = [(reading, None) for reading in readings]
    default, tuned = worst(places, ("RMBandit",), EBM), worst(places, ("RMBandit tuned",), EBM)
    verdict = FAILS
    if default.lower:
        verdict = HOLDS if tuned.lower else only_if("RMBandit keeps q = 50")
    comparison = tuned.comparison
    return Claim(
        id="sparse-beats-rmbandit",
        verdict=verdict,
        **decided_by(comparison),
        measure=f"regret of {comparison.first} over {comparison.second}{tuned.where}, the weakest pair; over "
        f"RMBandit with q = 50 it is {default.comparison.ratio:.2f}",
        sources=tuple(reading.source for reading in readings),
    )


EXPERIMENT = Experiment.of_paper(
    "sparse",
    settings=Settings(),
    quick=Settings(horizon=200, n_features=(3, 3, 8)),
    runs=runs,
    section=section,
)
