"""Figure 4 (a): the SARCOS robot arm, torques as arms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse.errors import MissingData
from posse_lab.datasets import Sarcos, load_sarcos
from posse_lab.reproduction.experiment import Experiment, Results, Run, Section
from posse_lab.reproduction.real_data import data_runs, data_section
from posse_lab.worlds import RegressionWorld, recorded_sarcos


@dataclass(frozen=True)
class Settings:
    """30 tasks as in the paper; horizon and heterogeneity are ours."""

    n_tasks: int = 30
    heterogeneity: float = 100.0
    n_regions: int = 32
    horizon: int = 2_000
    verify: bool = True  # refuse files whose checksum is not that of the published ones


def runs(settings: Settings, data: Path | None) -> list[Run]:
    """Return the three runs; contexts come from the training file where it is present."""
    test = load_sarcos(data, verify=settings.verify)
    train = _training_file(data, settings.verify)

    def drawn(heterogeneity: float) -> RegressionWorld:
        return RegressionWorld.from_sarcos(test, n_tasks=settings.n_tasks, heterogeneity=heterogeneity, contexts=train)

    real = recorded_sarcos(test, n_tasks=settings.n_regions, contexts=train)
    return data_runs(drawn(1.0), drawn(settings.heterogeneity), real, settings.horizon)


def _training_file(data: Path | None, verify: bool) -> Sarcos | None:
    try:
        return load_sarcos(data, "train", verify=verify)
    except MissingData:
        return None


def section(results: Results) -> Section:
    """Return curves and claims."""
    return data_section(results, "sarcos", "SARCOS", reward="the standardised torque of the chosen joint")


EXPERIMENT = Experiment(
    name="sarcos",
    title="SARCOS: seven torques of a robot arm",
    figure="Figure 4 (a)",
    says="Seven torques are the arms, 21 positions, velocities and accelerations the context. Parameters and "
    "variances come from a linear regression on the test file, 30 tasks are generated from them and met on the "
    "training file. Both ebm methods beat all rivals.",
    choices=(
        "Which variances: not said. Tasks are drawn with the sampling variances of the regression coefficients, which "
        "makes them nearly identical, and with 100 times these.",
        "Inputs and torques are standardised, since torques differ by orders of magnitude between joints; the noise is "
        "the regression's residual.",
        "Contexts come from the training file where it is present, without the rows that the test file has too, and "
        "from the test file otherwise.",
        "Real rewards: the arm pays the torque that its joint really needed; tasks are 32 regions of posture (cells of "
        "joint positions), where the best linear model differs because the dynamics is not linear.",
        "Horizon 2,000.",
    ),
    settings=Settings(),
    quick=Settings(n_tasks=4, n_regions=4, horizon=120),
    runs=runs,
    section=section,
)
