"""Figure 1: regret where tasks arrive equally often, and where the first arrives a tenth as often as the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from posse.types import Array
from posse_lab.reproduction.bootstrap import interval, ratio_of_means, ratio_of_ratios
from posse_lab.reproduction.claims import FAILS, HOLDS, Claim, decided_by, numbers, only_if
from posse_lab.reproduction.experiment import BaseSettings, Experiment, Results, Run, Section, Simulated, base_world
from posse_lab.reproduction.lineup import DEFAULT_RIVALS, EBM, PULLS, lineup
from posse_lab.reproduction.pieces import Curves, curve_figure, percent, regret_table
from posse_lab.reproduction.reading import Reading
from posse_lab.reproduction.verdicts import lowest

PAPER_PULLS = 50  # RMBandit's q: it explores for so many steps per arm


@dataclass(frozen=True)
class Settings(BaseSettings):
    """The paper's base world; the horizon is ours, since it gives none."""

    noise_sd: float = 1.0
    horizon: int = 10_000


def _runs(name: str, settings: Settings, data: Path | None) -> list[Run]:  # noqa: ARG001  # needs no data
    world = base_world(settings, noise_sd=settings.noise_sd, arrivals=name)
    policies = lineup(scheduled=name == "balanced")
    return [Simulated(name, world, policies, settings.horizon, checkpoints=200)]


def _curves(reading: Reading, until: int | None, first: str | None) -> list[Curves]:
    """Return what panels of all tasks, and of the first, show."""
    shown = [Curves(reading=reading, title="all tasks", until=until)]
    if first:
        label = "cumulative regret of task 1"
        shown.append(Curves(reading=reading, title=first, column="tracked_curve", y_label=label, until=until))
    return shown


def balanced_section(results: Results) -> Section:
    """Return curves of all tasks and of the first, and the claims about them."""
    reading = Reading(results["balanced"], "balanced")
    short = reading.kept(reading.horizon // 5)
    figure = curve_figure(
        "balanced",
        _curves(reading, short, "first task"),
        f"Cumulative regret over all tasks and in the first task, {short:,} steps.",
    )
    far = curve_figure(
        "balanced-long",
        _curves(reading, None, None),
        f"The same run up to {reading.horizon:,} steps: how much the horizon, which the paper does not give, matters.",
    )
    places = [(reading, short), (reading, reading.horizon)]
    best = min(DEFAULT_RIVALS, key=lambda role: float(reading.regret(role, short).mean()))
    tuned = reading.compare("ebmUCB", "LinUCB tuned", short)
    long = reading.compare("ebmUCB", "LinUCB tuned")
    evidence = reading.compare("evidence UCB", "ebmUCB", short)
    return Section(
        found=(
            f"At {short:,} steps ebmUCB has {reading.regret('ebmUCB', short).mean():,.0f} and ebmTS "
            f"{reading.regret('ebmTS', short).mean():,.0f}; the best of the paper's rivals in their default settings, "
            f"{best}, has {reading.regret(best, short).mean():,.0f}. Against {tuned.second} ebmUCB is "
            f"{percent(tuned.ratio)} at {short:,} steps; at {reading.horizon:,}, against {long.second}, "
            f"{percent(long.ratio)}.",
            f"With the evidence prior ebmUCB has {reading.regret('evidence UCB', short).mean():,.0f} at {short:,} "
            f"steps, {percent(evidence.ratio)} than with the paper's.",
        ),
        figures=(figure, far),
        tables=(regret_table(reading, "Cumulative regret", (short, reading.horizon)),),
        claims=(
            lowest("balanced-lowest", places),
            lowest("balanced-first-task", places, column="tracked_curve"),
            rm_exploration(reading, short),
            ucb_ts_comparable(reading, short),
            still_growing(reading),
        ),
    )


def rm_exploration(reading: Reading, step: int) -> Claim:
    """Test that what RMBandit loses, it loses in its exploration at the start."""
    exploration = PAPER_PULLS * int(reading.result.settings["world"]["n_arms"])
    explored = reading.kept(exploration)
    early, late = (reading.regret("RMBandit", at) - reading.regret("ebmUCB", at) for at in (explored, step))
    value, bounds = interval(ratio_of_means, early, late)
    less = min((f"RMBandit q={q}" for q in PULLS if q < 50), key=lambda name: float(reading.regret(name, step).mean()))
    shorter = reading.compare(less, "RMBandit", step)
    if step <= exploration:
        verdict = only_if(f"the run goes beyond its {exploration} steps of exploration, which this one does not")
    elif bounds[0] <= 0.5:
        verdict = FAILS
    elif shorter.ratio_interval[1] < 1:
        verdict = HOLDS
    else:
        verdict = only_if(
            f"one asks when regret arises: exploring less does not help ({less.split()[-1].replace('=', ' = ')} has "
            f"{shorter.ratio:.2f} times the regret of q = 50)"
        )
    tuned = reading.compare("RMBandit tuned", "RMBandit", step)
    return Claim(
        id="rmbandit-exploration",
        verdict=verdict,
        **numbers(value, bounds, reading.n_seeds),
        measure=f"share of RMBandit's excess regret over ebmUCB at step {step:,} that it had by step {explored}, the "
        f"end of its exploration; {tuned.first}, the best of its grid, has {tuned.ratio:.2f} of its regret",
        sources=(reading.source,),
    )


def ucb_ts_comparable(reading: Reading, step: int) -> Claim:
    """Test that the two methods have about the same mean regret."""
    pair = reading.compare("ebmTS", "ebmUCB", step)
    close = pair.ratio_interval[0] > 0.9 and pair.ratio_interval[1] < 1.1
    verdict = HOLDS if close else only_if("more seeds confirm it") if abs(pair.ratio - 1) < 0.1 else FAILS
    return Claim(
        id="ts-and-ucb-comparable",
        verdict=verdict,
        **decided_by(pair),
        measure=f"regret of ebmTS over ebmUCB at n = {step:,}; within 10 % counts as comparable",
        sources=(reading.source,),
    )


def still_growing(reading: Reading) -> Claim:
    """Test that methods that do not share go on losing more per step than ebm does."""
    middle = reading.kept(reading.horizon // 2)

    def late(role: str) -> Array:
        return reading.regret(role) - reading.regret(reading.name(role), middle)

    pairs = {
        (method, role): interval(ratio_of_means, late(method), late(role))
        for method in EBM
        for role in ("LinTS", "LinUCB", "OLSBandit", "LinTS tuned", "LinUCB tuned")
    }
    weakest = max(pairs, key=lambda pair: pairs[pair][1][1])
    value, bounds = pairs[weakest]
    if bounds[1] < 1:
        verdict = HOLDS
    elif all(pairs[pair][1][1] < 1 for pair in pairs if not pair[1].endswith("tuned")):
        verdict = only_if("the rivals are not tuned")
    else:
        verdict = FAILS
    return Claim(
        id="no-sharing-keeps-losing",
        verdict=verdict,
        **numbers(value, bounds, reading.n_seeds),
        measure=f"regret of {weakest[0]} over {reading.words(weakest[1])} in the second half of {reading.horizon:,} "
        "steps, the weakest pair",
        sources=(reading.source,),
    )


def data_poor_section(results: Results) -> Section:
    """Return curves of all tasks and of the poor one, and the claims about them."""
    reading = Reading(results["data-poor"], "data-poor")
    short = reading.kept(reading.horizon // 5)
    figure = curve_figure(
        "data-poor",
        _curves(reading, short, "first task, data-poor"),
        f"Cumulative regret over all tasks and in the data-poor first task, {short:,} steps.",
    )
    far = curve_figure(
        "data-poor-long",
        _curves(reading, None, "first task, data-poor"),
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
            lowest("data-poor-lowest", places),
            lowest("data-poor-first-task", places, column="tracked_curve"),
            gains,
        ),
    )


def gains_most(reading: Reading, step: int) -> Claim:
    """Test that the poor task gains more from sharing than the others do."""

    def gain(rival: str) -> tuple[float, tuple[float, float]]:
        names = ("ebmUCB", reading.name(rival, step))
        own = [reading.regret(name, step, "tracked_curve") for name in names]
        others = [reading.regret(name, step) - mine for name, mine in zip(names, own, strict=True)]
        return interval(ratio_of_ratios, *own, *others)

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
        verdict=verdict,
        **numbers(value, bounds, reading.n_seeds),
        measure=f"regret of ebmUCB over LinUCB in the first task, divided by the same ratio in the other tasks, at n = "
        f"{step:,}; against {reading.words('LinUCB tuned', step)} it is {tuned:.2f} ({tuned_bounds[0]:.2f} to "
        f"{tuned_bounds[1]:.2f})",
        sources=(reading.source,),
    )


EXPERIMENTS = tuple(
    Experiment.of_paper(
        name, settings=Settings(), quick=Settings(horizon=400), runs=partial(_runs, name), section=section
    )
    for name, section in (("balanced", balanced_section), ("data-poor", data_poor_section))
)
