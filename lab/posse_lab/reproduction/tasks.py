"""Figure 3 (b): regret by the number of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse_lab.reproduction.experiment import Experiment, Results, Run, Section
from posse_lab.reproduction.grid import grid_runs, grid_section


@dataclass(frozen=True)
class Settings:
    """The base world with another number of tasks; grid and horizon are ours."""

    n_tasks: tuple[int, ...] = (5, 10, 20, 30, 50)
    n_arms: int = 5
    n_features: int = 3
    horizon: int = 2_000


def runs(settings: Settings, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    """Return a run per number of tasks."""
    base = {"n_arms": settings.n_arms, "n_features": settings.n_features}
    return grid_runs("n_tasks", settings.n_tasks, settings.horizon, base)


def section(results: Results) -> Section:
    """Return box plots over the grid, and the claims about them."""
    claim = "Both ebm methods have the lowest regret whatever the number of tasks."
    return grid_section(results, "n_tasks", "tasks", claim)


EXPERIMENT = Experiment(
    name="tasks",
    title="How many tasks",
    figure="Figure 3 (b)",
    says="As the number of tasks grows there are more of them to learn but also more to share; ebm stays ahead of all "
    "rivals. Mean regret of the two is about the same, and ebmUCB varies less between trials.",
    choices=(
        "Grid: not given. The number of tasks is one of 5, 10, 20, 30, 50; everything else is as in the base world.",
        "Horizon 2,000 at every value, so steps per task, arm or feature shrink as the grid grows.",
    ),
    settings=Settings(),
    quick=Settings(n_tasks=(2, 5), horizon=200),
    runs=runs,
    section=section,
)
