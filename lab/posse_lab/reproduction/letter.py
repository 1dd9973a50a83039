"""Figure 4 (d): letters, one arm for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse_lab.datasets import load_letter
from posse_lab.reproduction.experiment import Experiment, Results, Run, Section
from posse_lab.reproduction.real_data import data_runs, data_section
from posse_lab.worlds import RegressionWorld, recorded_letter


@dataclass(frozen=True)
class Settings:
    """30 tasks and a 30 % split as in the paper; horizon and heterogeneity are ours."""

    n_tasks: int = 30
    training_share: float = 0.3
    heterogeneity: float = 100.0
    n_boxes: int = 16
    horizon: int = 2_000
    verify: bool = True  # refuse files whose checksum is not that of the published ones


def runs(settings: Settings, data: Path | None) -> list[Run]:
    """Return the three runs."""
    letters = load_letter(data, verify=settings.verify)

    def drawn(heterogeneity: float) -> RegressionWorld:
        return RegressionWorld.from_letter(
            letters,
            n_tasks=settings.n_tasks,
            heterogeneity=heterogeneity,
            training_share=settings.training_share,
        )

    real = recorded_letter(letters, n_tasks=settings.n_boxes, training_share=settings.training_share)
    return data_runs(drawn(1.0), drawn(settings.heterogeneity), real, settings.horizon)


def section(results: Results) -> Section:
    """Return curves and claims."""
    return data_section(
        results,
        "letter",
        "Letter Recognition",
        reward="1 for naming the right letter",
        regret="cumulative regret (mistakes)",
    )


EXPERIMENT = Experiment(
    name="letter",
    title="Letter recognition: twenty-six arms",
    figure="Figure 4 (d)",
    says="26 letters are arms, 16 features of the image the context. A linear regression per letter on 30 % of the "
    "rows gives coefficients and variances from which 30 tasks are drawn; the other rows are met. Both ebm methods "
    "beat all rivals.",
    choices=(
        "The response of a letter's regression: not said. 1 for this letter and 0 for any other, centred.",
        "Tasks are drawn with the sampling variances of the coefficients, and with 100 times these.",
        "The first 30 % of the rows are fitted to.",
        "Real rewards: 1 for the right letter; tasks are 16 cells of the letter's bounding box, since the file knows "
        "no writers or fonts; an intercept is added.",
        "Horizon 2,000.",
    ),
    settings=Settings(),
    quick=Settings(n_tasks=4, n_boxes=4, horizon=120),
    runs=runs,
    section=section,
)
