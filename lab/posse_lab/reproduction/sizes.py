"""Figure 3 (b) to (d): regret by the number of tasks, arms and features."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from posse_lab.reproduction.experiment import Experiment, Results, Run, Section
from posse_lab.reproduction.grid import grid_runs, grid_section


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


def _runs(size: str, settings: Any, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    base = {name: value for name, value in asdict(settings).items() if name not in (size, "horizon")}
    return grid_runs(size, getattr(settings, size), settings.horizon, base)


def _section(size: str, name: str, results: Results) -> Section:
    claim = f"Both ebm methods have the lowest regret whatever the number of {name}."
    return grid_section(results, size, name, claim)


def _experiment(name: str, panel: str, says: str, settings: Any, quick: Any) -> Experiment:
    size = f"n_{name}"
    grid = ", ".join(map(str, getattr(settings, size)))
    return Experiment(
        name=name,
        title=f"How many {name}",
        figure=f"Figure 3 ({panel})",
        says=f"{says} Mean regret of the two is about the same, and ebmUCB varies less between trials.",
        choices=(
            f"Grid: not given. The number of {name} is one of {grid}; everything else is as in the base world.",
            "Horizon 2,000 at every value, so steps per task, arm or feature shrink as the grid grows.",
        ),
        settings=settings,
        quick=quick,
        runs=partial(_runs, size),
        section=partial(_section, size, name),
    )


HARDER = "With more {} the problem gets harder; ebm keeps its strong performance."
EXPERIMENTS = (
    _experiment(
        "tasks",
        "b",
        "As the number of tasks grows there are more of them to learn but also more to share; ebm stays ahead of all "
        "rivals.",
        Tasks(),
        Tasks(n_tasks=(2, 5), horizon=200),
    ),
    _experiment("arms", "c", HARDER.format("arms"), Arms(), Arms(n_arms=(2, 4), horizon=200)),
    _experiment("features", "d", HARDER.format("features"), Features(), Features(n_features=(2, 4), horizon=200)),
)
