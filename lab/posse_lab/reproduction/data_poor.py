"""Figure 1 (b): regret when the first task arrives a tenth as often as the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse.environments import SyntheticWorld
from posse_lab.reproduction.bootstrap import interval
from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, only_if
from posse_lab.reproduction.experiment import Experiment, Results, Run, Section, Simulated
from posse_lab.reproduction.lineup import lineup
from posse_lab.reproduction.pieces import Curves, curve_figure, regret_table
from posse_lab.reproduction.reading import Reading
from posse_lab.reproduction.verdicts import lowest


@dataclass(frozen=True)
class Settings:
    """The base world with a poor first task; the horizon is ours."""

    n_tasks: int = 10
    n_arms: int = 5
    n_features: int = 3
    noise_sd: float = 1.0
    horizon: int = 10_000


def runs(settings: Settings, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    """Return the one run."""
    world = SyntheticWorld(
        n_tasks=settings.n_tasks,
        n_arms=settings.n_arms,
        n_features=settings.n_features,
        noise_sd=settings.noise_sd,
        arrivals="data-poor",
    )
    return [Simulated(key="data-poor", world=world, policies=lineup(), horizon=settings.horizon, checkpoints=200)]


def section(results: Results) -> Section:
    """Return curves of all tasks and of the poor one, and the claims about them."""
    reading = Reading(results["data-poor"], "data-poor")
    short = reading.kept(reading.horizon // 5)
    figure = curve_figure(
        "data-poor",
        [
            Curves(reading=reading, title="all tasks", until=short),
            Curves(
                reading=reading,
                title="first task, data-poor",
                column="tracked_curve",
                y_label="cumulative regret of task 1",
                until=short,
            ),
        ],
        f"Cumulative regret over all tasks and in the data-poor first task, {short:,} steps.",
    )
    far = curve_figure(
        "data-poor-long",
        [
            Curves(reading=reading, title="all tasks"),
            Curves(
                reading=reading,
                title="first task, data-poor",
                column="tracked_curve",
                y_label="cumulative regret of task 1",
            ),
        ],
        f"The same run up to {reading.horizon:,} steps.",
    )
    places = [(reading, short), (reading, reading.horizon)]
    gains = gains_most(reading, short)
    poor = {role: reading.regret(role, short, "tracked_curve").mean() for role in ("ebmUCB", "LinUCB", "evidence UCB")}
    arrivals = short * 0.1 / (reading.result.settings["world"]["n_tasks"] - 0.9)
    return Section(
        found=(
            f"The first task arrives about {arrivals:.0f} times in {short:,} steps. Its regret is {poor['ebmUCB']:.1f} "
            f"under ebmUCB, {poor['evidence UCB']:.1f} under the evidence prior and {poor['LinUCB']:.1f} under LinUCB.",
            f"Relative to LinUCB the poor task keeps {gains.value:.2f} times the share of regret that the other tasks "
            f"keep ({gains.interval[0]:.2f} to {gains.interval[1]:.2f}); below 1 it gains more than they do.",
        ),
        figures=(figure, far),
        tables=(regret_table(reading, "Cumulative regret of all tasks", (short, reading.horizon)),),
        claims=(
            lowest(
                "data-poor-lowest",
                "Both ebm methods have the lowest regret in the data-poor setting.",
                "data-poor",
                places,
            ),
            lowest(
                "data-poor-first-task",
                "Both ebm methods have the lowest regret in the data-poor task itself.",
                "data-poor",
                places,
                column="tracked_curve",
            ),
            gains,
        ),
    )


def gains_most(reading: Reading, step: int) -> Claim:
    """Test that the poor task gains more from sharing than the others do."""

    def gain(rival: str) -> tuple[float, tuple[float, float]]:
        names = ("ebmUCB", reading.name(rival, step))
        own = [reading.regret(name, step, "tracked_curve") for name in names]
        others = [reading.regret(name, step) - mine for name, mine in zip(names, own, strict=True)]
        return interval(
            lambda a, b, c, d: float((a.mean() / b.mean()) / (c.mean() / d.mean())), own[0], own[1], *others
        )

    value, bounds = gain("LinUCB")
    tuned, tuned_bounds = gain("LinUCB tuned")
    if bounds[1] < 1 and tuned_bounds[1] < 1:
        verdict = HOLDS
    elif bounds[1] < 1:
        verdict = only_if(f"LinUCB is not tuned (tuned: {tuned:.2f})")
    else:
        verdict = FAILS
    return Claim(
        id="data-poor-gains-most",
        claim="The data-poor task gains most from sharing.",
        experiment="data-poor",
        verdict=verdict,
        value=value,
        interval=bounds,
        seeds=reading.n_seeds,
        measure=f"regret of ebmUCB over LinUCB in the first task, divided by the same ratio in the other tasks, at n = "
        f"{step:,}; against {reading.words('LinUCB tuned', step)} it is {tuned:.2f} ({tuned_bounds[0]:.2f} to "
        f"{tuned_bounds[1]:.2f})",
        sources=(reading.source,),
    )


EXPERIMENT = Experiment(
    name="data-poor",
    title="A first task with a tenth of the data",
    figure="Figure 1 (b)",
    says="Both ebm methods are ahead by a wide margin in total and in the first task, which has few arrivals of its "
    "own and leans on the others.",
    choices=(
        "Arrivals: the first task a tenth as likely as each other, so 0.1 / (N - 0.9) of the steps.",
        "Horizon, rivals and pairing as in the balanced setting.",
    ),
    settings=Settings(),
    quick=Settings(horizon=400),
    runs=runs,
    section=section,
)
