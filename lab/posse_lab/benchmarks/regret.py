"""Regret of the evidence prior beside the paper's, the known one and the rivals'."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posse.checks import whole_number
from posse.environments.base import World
from posse.environments.synthetic import SyntheticWorld
from posse.errors import InvalidValue, MissingData
from posse.simulation import SimulationResult, simulate
from posse.simulation.results import compare_paired
from posse.types import Array, Settings
from posse_lab.benchmarks.report import Bar, Report, Table
from posse_lab.benchmarks.settings import (
    EVIDENCE,
    EVIDENCE_TS,
    EVIDENCE_UCB,
    FIXED,
    KNOWN,
    OFFSETS,
    PAPER_TS,
    PAPER_UCB,
    POOLED,
    ROBUST_UCB,
    SETTINGS,
    TUNED,
    Setting,
    all_methods,
    offset_name,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be run: worlds by the name of their setting, and the reasons for what is left out."""

    worlds: dict[str, World]
    skipped: dict[str, str]


def plan(only: Sequence[str] | None = None, data: Path | None = None) -> Plan:
    """Return the worlds to run: all, or those asked for and what they are compared with.

    A setting whose data file is not there is left out with a reason, unless it was asked for by name.
    """
    for name in only or ():
        if name not in SETTINGS:
            close = difflib.get_close_matches(name, SETTINGS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidValue(f"no setting {name!r}{hint} The settings are {', '.join(SETTINGS)}")
    chosen = set(only) if only else set(SETTINGS)
    chosen |= {other for name in chosen for other in SETTINGS[name].needs}
    worlds: dict[str, World] = {}
    skipped: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        if name not in chosen:
            continue
        try:
            worlds[name] = setting.world(data)
        except MissingData as missing:
            if only:
                raise
            skipped[name] = str(missing)
    return Plan(worlds, skipped)


def seeds_of(setting: Setting, seeds: int) -> int:
    """Return how many seeds a setting is run with when ``seeds`` are asked for."""
    seeds = whole_number(seeds, "seeds", at_least=1)
    return seeds if setting.most_seeds is None else min(seeds, setting.most_seeds)


def measure(
    setting: Setting,
    world: World,
    *,
    seeds: int,
    first_seed: int = 0,
    workers: int = 1,
    out: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> SimulationResult:
    """Run every method of a setting on the same streams.

    Parameters
    ----------
    setting : Setting
    world : World
        Its world, from :func:`plan`.
    seeds, first_seed : int
    workers : int
        Processes.
    out : Path, optional
        Folder for the result file, from which an interrupted run continues.
    progress : callable, optional
        Called with the number of seeds that are newly done.
    """
    first = whole_number(first_seed, "first_seed", at_least=0)
    return simulate(
        world,
        setting.methods(world),
        horizon=setting.horizon,
        seeds=range(first, first + seeds_of(setting, seeds)),
        workers=workers,
        out=None if out is None else out / f"{setting.name}.parquet",
        progress=progress or False,
    )


def summarise(results: Mapping[str, SimulationResult], skipped: Mapping[str, str] | None = None) -> Report:
    """Return regrets, and ratios with their intervals and bars, of results by the names of their settings.

    The known prior, LinUCB and the rivals of everyday rewards are the best of theirs, chosen on these very seeds: in
    favour of the rival.
    """
    bars: list[Bar] = []
    full, everyday, data = [], [], []
    for name, result in results.items():
        setting = SETTINGS[name]
        regret = {policy: result.regret_of(policy) for policy in result.policies}
        mean = {policy: float(values.mean()) for policy, values in regret.items()}
        is_full = setting.methods is all_methods
        if is_full:
            known, tuned = _best(KNOWN, mean), _best(TUNED, mean)
            bars += [
                _ratio(name, EVIDENCE_UCB, PAPER_UCB, regret, setting.bar_paper),
                _ratio(name, EVIDENCE_UCB, known, regret, setting.bar_known),
                _ratio(name, EVIDENCE_TS, PAPER_TS, regret),
                *(_ratio(name, EVIDENCE_UCB, other, regret) for other in (FIXED, tuned, POOLED)),
            ]
            methods = [PAPER_UCB, PAPER_TS, *EVIDENCE, *KNOWN, FIXED, tuned, POOLED]
            full.append([name, str(len(result.seeds)), *(f"{mean[one]:.1f}" for one in methods)])
        elif setting.everyday:
            best = _best(setting.rivals, mean) if setting.rivals else None
            if best is not None:
                bars += [
                    _ratio(name, one, best, regret, setting.bar_rival if one == EVIDENCE_UCB else None)
                    for one in EVIDENCE
                ]
            cells = [f"{mean[one]:.1f}" for one in EVIDENCE]
            everyday.append([name, str(len(result.seeds)), *cells, "" if best is None else f"{mean[best]:.1f} {best}"])
        data.append(_plain(setting, result, regret))
    head = [PAPER_UCB, PAPER_TS, *EVIDENCE, *KNOWN, FIXED, "LinUCB tuned", POOLED]
    tables = [
        Table("Mean cumulative regret", ["setting", "seeds", *head], full),
        Table("Everyday rewards", ["setting", "seeds", *EVIDENCE, "best rival"], everyday),
    ]
    bars += [*_units(results), *_offsets(results), *_outliers(results)]
    reasons = dict(skipped or {})
    return Report(
        name="regret",
        tables=[table for table in tables if table.rows],
        bars=bars,
        data={"rows": data, "skipped": reasons},
        notes=[f"skipped {name}: {reason}" for name, reason in reasons.items()],
    )


def ratio_of(what: str, a: Array, b: Array, *, at_most: float | None = None, at_least: float | None = None) -> Bar:
    """Return the ratio of two paired regrets, with its bootstrap interval over seeds."""
    compared = compare_paired("first", "second", a, b)
    return Bar(what=what, measured=compared.ratio, interval=compared.ratio_interval, at_most=at_most, at_least=at_least)


def ordinary_regret(result: SimulationResult, policy: str) -> Array:
    """Return the regret of the tasks that are ordinary in the setting ``odd``, one number per seed."""
    world = SETTINGS["odd"].world(None)
    assert isinstance(world, SyntheticWorld)
    by_task = np.stack(list(result.regret_of(policy, "task_regret")))
    return np.asarray(by_task[:, world.n_odd_tasks :].sum(axis=1))


def _ratio(name: str, first: str, second: str, regret: Mapping[str, Array], at_most: float | None = None) -> Bar:
    return ratio_of(f"{name}: {first} over {second}", regret[first], regret[second], at_most=at_most)


def _offsets(results: Mapping[str, SimulationResult]) -> Iterable[Bar]:
    """Yield the ratio of regret with rewards far from zero to that around zero, of every method."""
    for offset in OFFSETS:
        name = offset_name(offset)
        if {"offset-0", name} <= set(results):
            for method in EVIDENCE:
                far, near = (results[one].regret_of(method) for one in (name, "offset-0"))
                what = f"{method}, rewards around {offset:g} over around 0"
                yield ratio_of(what, far, near, at_least=0.97, at_most=1.03)


def _units(results: Mapping[str, SimulationResult]) -> Iterable[Bar]:
    """Yield the ratio of evidence UCB's regret in other units to that in the units as they were."""
    if {"balanced", "scaled"} <= set(results):
        first, second = (results[name].regret_of(EVIDENCE_UCB) for name in ("scaled", "balanced"))
        yield ratio_of(f"{EVIDENCE_UCB}, features in other units over as they were", first, second,
                       at_least=0.9, at_most=1.1)  # fmt: skip


def _outliers(results: Mapping[str, SimulationResult]) -> Iterable[Bar]:
    """Yield what outlier tasks cost the ordinary ones, and what guarding against them costs where there are none."""
    if not {"odd", "no-odd"} <= set(results):
        return
    odd, none = results["odd"], results["no-odd"]
    guarded, plain_none, guarded_none = (
        ordinary_regret(*pair) for pair in ((odd, ROBUST_UCB), (none, EVIDENCE_UCB), (none, ROBUST_UCB))
    )
    there, gone = "outlier tasks there", "none there"
    yield ratio_of(f"{ROBUST_UCB}, {there} over {EVIDENCE_UCB}, {gone}", guarded, plain_none, at_most=1.05)
    yield ratio_of(f"{ROBUST_UCB}, {there} over {gone}", guarded, guarded_none, at_most=1.05)
    yield ratio_of(f"{EVIDENCE_UCB}, {there} over {gone}", ordinary_regret(odd, EVIDENCE_UCB), plain_none)
    all_tasks = (none.regret_of(one) for one in (ROBUST_UCB, EVIDENCE_UCB))
    yield ratio_of(f"{ROBUST_UCB} over {EVIDENCE_UCB}, {gone}, all tasks", *all_tasks, at_most=1.03)


def _best(names: Iterable[str], mean: Mapping[str, float]) -> str:
    return min(names, key=mean.__getitem__)


def _plain(setting: Setting, result: SimulationResult, regret: Mapping[str, Array]) -> Settings:
    return {
        "setting": setting.name,
        "title": setting.title,
        "horizon": int(result.settings["horizon"]),
        "seeds": len(result.seeds),
        "methods": {
            name: {
                "regret": float(values.mean()),
                "standard_error": float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0.0,
                "settings": result.descriptions.get(name, ""),
            }
            for name, values in regret.items()
        },
    }
