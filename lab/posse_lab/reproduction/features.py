"""Figure 3 (d): regret by the number of features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse_lab.reproduction.experiment import Experiment, Results, Run, Section
from posse_lab.reproduction.grid import grid_runs, grid_section


@dataclass(frozen=True)
class Settings:
    """The base world with another number of features; grid and horizon are ours."""

    n_tasks: int = 10
    n_arms: int = 5
    n_features: tuple[int, ...] = (2, 3, 5, 10, 20)
    horizon: int = 2_000


def runs(settings: Settings, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    """Return a run per number of features."""
    base = {"n_tasks": settings.n_tasks, "n_arms": settings.n_arms}
    return grid_runs("n_features", settings.n_features, settings.horizon, base)


def section(results: Results) -> Section:
    """Return box plots over the grid, and the claims about them."""
    claim = "Both ebm methods have the lowest regret whatever the number of features."
    return grid_section(results, "n_features", "features", claim)


EXPERIMENT = Experiment(
    name="features",
    title="How many features",
    figure="Figure 3 (d)",
    says="With more features the problem gets harder; ebm keeps its strong performance. Mean regret of the two is "
    "about the same, and ebmUCB varies less between trials.",
    choices=(
        "Grid: not given. The number of features is one of 2, 3, 5, 10, 20; everything else is as in the base world.",
        "Horizon 2,000 at every value, so steps per task, arm or feature shrink as the grid grows.",
    ),
    settings=Settings(),
    quick=Settings(n_features=(2, 4), horizon=200),
    runs=runs,
    section=section,
)
