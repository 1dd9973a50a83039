"""Figure 3 (c): regret by the number of arms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse_lab.reproduction.experiment import Experiment, Results, Run, Section
from posse_lab.reproduction.grid import grid_runs, grid_section


@dataclass(frozen=True)
class Settings:
    """The base world with another number of arms; grid and horizon are ours."""

    n_tasks: int = 10
    n_arms: tuple[int, ...] = (2, 5, 10, 20)
    n_features: int = 3
    horizon: int = 2_000


def runs(settings: Settings, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    """Return a run per number of arms."""
    base = {"n_tasks": settings.n_tasks, "n_features": settings.n_features}
    return grid_runs("n_arms", settings.n_arms, settings.horizon, base)


def section(results: Results) -> Section:
    """Return box plots over the grid, and the claims about them."""
    claim = "Both ebm methods have the lowest regret whatever the number of arms."
    return grid_section(results, "n_arms", "arms", claim)


EXPERIMENT = Experiment(
    name="arms",
    title="How many arms",
    figure="Figure 3 (c)",
    says="With more arms the problem gets harder; ebm keeps its strong performance. Mean regret of the two is about "
    "the same, and ebmUCB varies less between trials.",
    choices=(
        "Grid: not given. The number of arms is one of 2, 5, 10, 20; everything else is as in the base world.",
        "Horizon 2,000 at every value, so steps per task, arm or feature shrink as the grid grows.",
    ),
    settings=Settings(),
    quick=Settings(n_arms=(2, 4), horizon=200),
    runs=runs,
    section=section,
)
