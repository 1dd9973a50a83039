"""Regret of the evidence prior beside the paper's, the known one and the rivals'."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posse._version import __version__
from posse.checks import whole_number
from posse.environments.base import World
from posse.environments.synthetic import SyntheticWorld
from posse.errors import InvalidValue, MissingData
from posse.simulation import SimulationResult, simulate
from posse.simulation.comparison import compare_paired
from posse.types import Array, Settings
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
    """What will be run.

    Parameters
    ----------
    worlds : dict from setting name to World
        In the order of the table.
    skipped : dict from setting name to the reason
    """

    worlds: dict[str, World]
    skipped: dict[str, str]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One mean regret over another, with its bootstrap interval over seeds and the bar it is held against.

    Parameters
    ----------
    setting, first, second : str
        Where, and what over what.
    first_regret, second_regret : float
    ratio : float
    interval : tuple of two floats
        95 %.
    seeds : int
    at_most, at_least : float, optional
        The promised range.
    """

    setting: str
    first: str
    second: str
    first_regret: float
    second_regret: float
    ratio: float
    interval: tuple[float, float]
    seeds: int
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the ratio is where it was promised to be; None if nothing was promised."""
        if self.at_most is None and self.at_least is None:
            return None
        above = self.at_least is None or self.ratio >= self.at_least
        return above and (self.at_most is None or self.ratio <= self.at_most)

    @property
    def bar(self) -> str:
        """The promise in words."""
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:.2f} to {self.at_most:.2f}"
        return "" if self.at_most is None else f"≤{self.at_most:.2f}"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.ratio:.3f} ({low:.3f} to {high:.3f})"


@dataclass(frozen=True, slots=True)
class Method:
    """Mean regret of one method, its standard error, and its settings in words."""

    regret: float
    standard_error: float
    words: str


@dataclass(frozen=True, slots=True)
class Row:
    """One setting, measured.

    Parameters
    ----------
    setting, title : str
    horizon, seeds : int
    methods : dict from name to Method
    known, tuned : str
        The better of the known priors and the best LinUCB, chosen on these very seeds: in favour of the rival.
    to_paper, to_known : Ratio
        Of evidence UCB.
    others : tuple of Ratio
        Reported, not promised.
    """

    setting: str
    title: str
    horizon: int
    seeds: int
    methods: dict[str, Method]
    known: str
    tuned: str
    to_paper: Ratio
    to_known: Ratio
    others: tuple[Ratio, ...]

    @property
    def met(self) -> bool | None:
        """Whether every promise is kept; None if nothing was promised."""
        promises = [ratio.met for ratio in (self.to_paper, self.to_known) if ratio.met is not None]
        return all(promises) if promises else None


@dataclass(frozen=True, slots=True)
class EverydayRow:
    """One setting of everyday rewards, measured.

    Parameters
    ----------
    setting, title : str
    horizon, seeds : int
    methods : dict from name to Method
    rival : str or None
        The best of the rivals, chosen on these very seeds: in favour of the rival. None if there are none.
    ratios : tuple of Ratio
        Of every method with the evidence prior to the rival, in the order of `EVIDENCE`.
    """

    setting: str
    title: str
    horizon: int
    seeds: int
    methods: dict[str, Method]
    rival: str | None
    ratios: tuple[Ratio, ...]

    @property
    def met(self) -> bool | None:
        """Whether every promise is kept; None if nothing was promised."""
        promises = [ratio.met for ratio in self.ratios if ratio.met is not None]
        return all(promises) if promises else None


@dataclass(frozen=True, slots=True)
class RegretReport:
    """All rows, the checks between settings, and what was left out.

    Parameters
    ----------
    rows : tuple of Row
    everyday : tuple of EverydayRow
    checks : tuple of Ratio
        Units, offsets and outlier tasks: the same method in two worlds, or two methods on the ordinary tasks.
    skipped : dict from setting name to the reason
    """

    rows: tuple[Row, ...]
    everyday: tuple[EverydayRow, ...]
    checks: tuple[Ratio, ...]
    skipped: dict[str, str]

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "version": __version__,
            "rows": [
                {
                    **_plain_row(row),
                    "known": row.known,
                    "tuned": row.tuned,
                    "ratios": [_plain(ratio) for ratio in (row.to_paper, row.to_known, *row.others)],
                }
                for row in self.rows
            ],
            "everyday": [
                {**_plain_row(row), "rival": row.rival, "ratios": [_plain(ratio) for ratio in row.ratios]}
                for row in self.everyday
            ],
            "checks": [_plain(ratio) for ratio in self.checks],
            "skipped": self.skipped,
        }


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
    seeds : int
        How many.
    first_seed : int
        The first of them; the others follow.
    workers : int
        Processes.
    out : Path, optional
        Folder for the result file, from which an interrupted run continues.
    progress : callable, optional
        Told how many seeds are newly done.
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


def summarise(results: Mapping[str, SimulationResult], skipped: Mapping[str, str] | None = None) -> RegretReport:
    """Return ratios and intervals of the results, which go by the names of their settings."""
    settings = {name: SETTINGS[name] for name in results}
    return RegretReport(
        rows=tuple(row_of(setting, results[name]) for name, setting in settings.items() if _is_full(setting)),
        everyday=tuple(everyday_row(setting, results[name]) for name, setting in settings.items() if setting.everyday),
        checks=tuple(unit_checks(results) + offset_checks(results) + odd_checks(results)),
        skipped=dict(skipped or {}),
    )


def row_of(setting: Setting, result: SimulationResult) -> Row:
    """Return the row of a setting in which all methods ran."""
    regret = {name: result.regret_of(name) for name in result.policies}
    known = _best(KNOWN, regret)
    tuned = _best(TUNED, regret)

    def ratio(first: str, second: str, at_most: float | None = None) -> Ratio:
        return ratio_of(setting.name, first, second, regret[first], regret[second], at_most=at_most)

    return Row(
        setting=setting.name,
        title=setting.title,
        horizon=int(result.settings["horizon"]),
        seeds=len(result.seeds),
        methods=_methods_of(result, regret),
        known=known,
        tuned=tuned,
        to_paper=ratio(EVIDENCE_UCB, PAPER_UCB, setting.bar_paper),
        to_known=ratio(EVIDENCE_UCB, known, setting.bar_known),
        others=(
            ratio(EVIDENCE_TS, PAPER_TS),
            ratio(EVIDENCE_UCB, FIXED),
            ratio(EVIDENCE_UCB, tuned),
            ratio(EVIDENCE_UCB, POOLED),
        ),
    )


def everyday_row(setting: Setting, result: SimulationResult) -> EverydayRow:
    """Return the row of a setting of everyday rewards."""
    regret = {name: result.regret_of(name) for name in result.policies}
    rival = _best(setting.rivals, regret) if setting.rivals else None
    bars = {EVIDENCE_UCB: setting.bar_rival}
    return EverydayRow(
        setting=setting.name,
        title=setting.title,
        horizon=int(result.settings["horizon"]),
        seeds=len(result.seeds),
        methods=_methods_of(result, regret),
        rival=rival,
        ratios=()
        if rival is None
        else tuple(
            ratio_of(setting.name, name, rival, regret[name], regret[rival], at_most=bars.get(name))
            for name in EVIDENCE
        ),
    )


def offset_checks(results: Mapping[str, SimulationResult]) -> list[Ratio]:
    """Return the ratio of regret with rewards far from zero to that around zero, of every method."""
    return [
        ratio_of(
            offset_name(offset),
            f"{name}, rewards around {offset:g}",
            "around 0",
            results[offset_name(offset)].regret_of(name),
            results["offset-0"].regret_of(name),
            at_least=0.97,
            at_most=1.03,
        )
        for offset in OFFSETS
        if {"offset-0", offset_name(offset)} <= set(results)
        for name in EVIDENCE
    ]


def unit_checks(results: Mapping[str, SimulationResult]) -> list[Ratio]:
    """Return the ratio of evidence UCB's regret in other units to that in the units as they were."""
    if not {"balanced", "scaled"} <= set(results):
        return []
    first, second = (results[name].regret_of(EVIDENCE_UCB) for name in ("scaled", "balanced"))
    labels = (f"{EVIDENCE_UCB}, features in other units", "as they were")
    return [ratio_of("scaled", *labels, first, second, at_least=0.9, at_most=1.1)]


def odd_checks(results: Mapping[str, SimulationResult]) -> list[Ratio]:
    """Return what outlier tasks cost the ordinary ones, and what guarding against them costs where there are none."""
    if not {"odd", "no-odd"} <= set(results):
        return []
    odd, none = results["odd"], results["no-odd"]
    guarded = ordinary_regret(odd, ROBUST_UCB)
    plain_none, guarded_none = ordinary_regret(none, EVIDENCE_UCB), ordinary_regret(none, ROBUST_UCB)
    there, gone = "outlier tasks there", "no outlier tasks"
    return [
        ratio_of("odd", f"{ROBUST_UCB}, {there}", f"{EVIDENCE_UCB}, {gone}", guarded, plain_none, at_most=1.05),
        ratio_of("odd", f"{ROBUST_UCB}, {there}", f"{ROBUST_UCB}, {gone}", guarded, guarded_none, at_most=1.05),
        ratio_of(
            "odd",
            f"{EVIDENCE_UCB}, {there}",
            f"{EVIDENCE_UCB}, {gone}",
            ordinary_regret(odd, EVIDENCE_UCB),
            plain_none,
        ),
        ratio_of(
            "no-odd",
            f"{ROBUST_UCB}, {gone}, all tasks",
            f"{EVIDENCE_UCB}, {gone}, all tasks",
            none.regret_of(ROBUST_UCB),
            none.regret_of(EVIDENCE_UCB),
            at_most=1.03,
        ),
    ]


def ordinary_regret(result: SimulationResult, policy: str) -> Array:
    """Return the regret of the tasks that are ordinary in the setting ``odd``, one number per seed."""
    world = SETTINGS["odd"].world(None)
    assert isinstance(world, SyntheticWorld)
    by_task = np.stack(list(result.regret_of(policy, "task_regret")))
    return np.asarray(by_task[:, world.n_odd_tasks :].sum(axis=1))


def ratio_of(
    setting: str,
    first: str,
    second: str,
    a: Array,
    b: Array,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Ratio:
    """Return the ratio of two paired regrets."""
    compared = compare_paired(first, second, a, b)
    return Ratio(
        setting=setting,
        first=first,
        second=second,
        first_regret=float(a.mean()),
        second_regret=float(b.mean()),
        ratio=compared.ratio,
        interval=compared.ratio_interval,
        seeds=compared.seeds,
        at_most=at_most,
        at_least=at_least,
    )


def _is_full(setting: Setting) -> bool:
    return setting.methods is all_methods


def _methods_of(result: SimulationResult, regret: Mapping[str, Array]) -> dict[str, Method]:
    return {
        name: Method(float(values.mean()), _standard_error(values), result.descriptions.get(name, ""))
        for name, values in regret.items()
    }


def _best(names: Iterable[str], regret: Mapping[str, Array]) -> str:
    return min(names, key=lambda name: float(regret[name].mean()))


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0.0


def _plain_row(row: Row | EverydayRow) -> Settings:
    return {
        "setting": row.setting,
        "title": row.title,
        "horizon": row.horizon,
        "seeds": row.seeds,
        "met": row.met,
        "methods": {
            name: {"regret": method.regret, "standard_error": method.standard_error, "settings": method.words}
            for name, method in row.methods.items()
        },
    }


def _plain(ratio: Ratio) -> Settings:
    return {
        "setting": ratio.setting,
        "first": ratio.first,
        "second": ratio.second,
        "first_regret": ratio.first_regret,
        "second_regret": ratio.second_regret,
        "ratio": ratio.ratio,
        "interval": list(ratio.interval),
        "seeds": ratio.seeds,
        "at_most": ratio.at_most,
        "at_least": ratio.at_least,
        "met": ratio.met,
    }
