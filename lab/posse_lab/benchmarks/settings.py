"""The settings of ``posse lab bench regret``: a world, its methods and the bars they are held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from posse.environments.base import World
from posse.environments.synthetic import SyntheticWorld
from posse.model.prior import Prior
from posse.policies import EbmRandUCB, EbmTS, EbmUCB, LinUCB
from posse.simulation.factories import Factory
from posse_lab.benchmarks.worlds import AlteredWorld, ClickWorld
from posse_lab.datasets import load_letter, load_sarcos
from posse_lab.worlds.from_dataset import RegressionWorld

PAPER_UCB, PAPER_TS = "paper ebmUCB", "paper ebmTS"
EVIDENCE_UCB, EVIDENCE_RAND, EVIDENCE_TS = "evidence UCB", "evidence RandUCB", "evidence TS"
ROBUST_UCB = "robust UCB"
FIXED = "fixed 2I"
LINUCB = "LinUCB"
POOLED = "pooled LinUCB"
KNOWN = {f"known {value:g}": value for value in (0.1, 0.3)}
TUNED = {f"LinUCB {value:g}": value for value in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)}

POOLED_TUNED = {f"{POOLED} {value:g}": value for value in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)}

EVIDENCE: dict[str, Factory] = {
    EVIDENCE_UCB: partial(EbmUCB, prior="evidence"),
    EVIDENCE_RAND: EbmRandUCB,
    EVIDENCE_TS: partial(EbmTS, prior="evidence"),
}
"""The methods that the tables are about, by name; one more line here is one more column of every table."""

FEATURE_SCALE_SEED = 1  # the units of "scaled" are drawn once: the same for every seed of the benchmark


def all_methods(world: World) -> dict[str, Factory]:
    """Return every method of the table, by name."""
    fixed = Prior.isotropic(n_arms=world.n_arms, n_features=world.n_features, variance=2.0)
    return {
        PAPER_UCB: EbmUCB,
        PAPER_TS: EbmTS,
        **EVIDENCE,
        # "known" stands for the population of the drawn world; simulate puts it in.
        **{name: partial(EbmUCB, prior="known", exploration=value) for name, value in KNOWN.items()},  # type: ignore[arg-type]
        FIXED: partial(EbmUCB, prior=fixed, exploration=0.3),
        **{name: partial(LinUCB, exploration=value) for name, value in TUNED.items()},
        POOLED: partial(LinUCB, pooled=True),
    }


def robust_methods(world: World) -> dict[str, Factory]:  # noqa: ARG001  # the signature of all_methods
    """Return what the rows about outlier tasks compare."""
    return {
        EVIDENCE_UCB: EVIDENCE[EVIDENCE_UCB],
        ROBUST_UCB: partial(EbmUCB, prior="evidence", robust=True),
    }


def evidence_methods(world: World) -> dict[str, Factory]:  # noqa: ARG001  # the signature of all_methods
    """Return the methods that the tables are about, and no rival."""
    return dict(EVIDENCE)


def rival_methods(world: World) -> dict[str, Factory]:  # noqa: ARG001  # the signature of all_methods
    """Return what the rows about an arm unlike the others compare: every method as it comes."""
    return {PAPER_UCB: EbmUCB, **EVIDENCE, LINUCB: LinUCB}


def click_methods(world: World) -> dict[str, Factory]:  # noqa: ARG001  # the signature of all_methods
    """Return what the rows about rare clicks compare: pooled LinUCB at its best, since tasks differ little there."""
    pooled = {name: partial(LinUCB, pooled=True, exploration=value) for name, value in POOLED_TUNED.items()}
    return {PAPER_UCB: EbmUCB, **EVIDENCE, **pooled}


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the benchmark.

    Parameters
    ----------
    name : str
        What ``--only`` and the result file call it.
    title : str
        What the table calls it.
    world : callable from the data folder (or None) to a World
    horizon : int
    bar_paper, bar_known : float, optional
        The largest ratio of evidence UCB to paper ebmUCB, and to the known prior, that was promised.
    rivals : tuple of str
        The methods whose best, on the seeds that are shown, evidence UCB is compared with in a row of everyday rewards.
    bar_rival : float, optional
        The largest ratio of evidence UCB to that one that was promised.
    everyday : bool
        Whether the row is one of everyday rewards.
    methods : callable from the world to named policies
    most_seeds : int, optional
        Seeds are cut to this number; worlds from data are slow and vary little.
    from_data : bool
        Whether the world needs a data folder.
    needs : tuple of str
        Settings that this one is compared with.
    """

    name: str
    title: str
    world: Callable[[Path | None], World]
    horizon: int = 2000
    bar_paper: float | None = None
    bar_known: float | None = None
    rivals: tuple[str, ...] = ()
    bar_rival: float | None = None
    everyday: bool = False
    methods: Callable[[World], dict[str, Factory]] = all_methods
    most_seeds: int | None = None
    from_data: bool = False
    needs: tuple[str, ...] = ()


def feature_scale(n_features: int) -> tuple[float, ...]:
    """Return factors 10^U(-2, 2), rounded so that a result file shows what was used."""
    powers = np.random.default_rng(FEATURE_SCALE_SEED).uniform(-2.0, 2.0, n_features)
    return tuple(float(f"{10.0**power:.3g}") for power in powers)


def _synthetic(**settings: Any) -> Callable[[Path | None], World]:
    return lambda _folder: SyntheticWorld(**settings)


def _altered(*, offset: float = 0.0, constant: float | None = None, **settings: Any) -> Callable[[Path | None], World]:
    return lambda _folder: AlteredWorld(
        world=SyntheticWorld(contexts="intercept", **settings), offset=offset, constant=constant
    )


def _clicks(**settings: Any) -> Callable[[Path | None], World]:
    return lambda _folder: ClickWorld(**settings)


def _diagonal(*values: float) -> list[list[float]]:
    return np.diag(values).tolist()


def _sarcos(folder: Path | None) -> World:
    return RegressionWorld.from_sarcos(load_sarcos(folder))


def _letter(folder: Path | None) -> World:
    return RegressionWorld.from_letter(load_letter(folder))


_DENSE: dict[str, Any] = {"bar_paper": 0.90, "bar_known": 1.08}
_ANISOTROPIC: dict[str, Any] = {"bar_paper": 0.80, "bar_known": 1.20}
_LIMIT: dict[str, Any] = {"bar_paper": 1.02, "bar_known": 1.10}
_DATA: dict[str, Any] = {"bar_known": 1.12, "most_seeds": 20, "from_data": True}

_EVERYDAY: dict[str, Any] = {"everyday": True}
_UNLIKE = _EVERYDAY | {"methods": rival_methods, "rivals": (PAPER_UCB, LINUCB), "bar_rival": 1.05}
_CLICKS = _EVERYDAY | {"methods": click_methods, "rivals": tuple(POOLED_TUNED), "bar_rival": 1.0, "horizon": 20_000}
_OFFSET = _EVERYDAY | {"methods": evidence_methods, "needs": ("offset-0",)}
_THREE_ARMS: dict[str, Any] = {"n_arms": 3, "shared_sd": 0.5, "heterogeneity": _diagonal(*[0.49] * 3)}
_SIX_ARMS: dict[str, Any] = {"n_tasks": 20, "n_arms": 6, "shared_sd": 0.5, "heterogeneity": _diagonal(*[0.16] * 3)}
OFFSETS = (-100.0, 10.0, 100.0, 10_000.0)  # in standard deviations of the noise


def offset_name(offset: float) -> str:
    """Return what the setting with this offset is called.

    Examples
    --------
    >>> offset_name(-100.0)
    'offset-minus-100'
    """
    return f"offset-{'minus-' if offset < 0 else ''}{abs(offset):.0f}"


# fmt: off
_ROWS = (
    Setting("balanced", "balanced, N=10 K=5 d=3", _synthetic(), **_DENSE),
    Setting("data-poor", "data-poor first task", _synthetic(arrivals="data-poor"), **_DENSE),
    Setting("uniform", "uniform contexts", _synthetic(contexts="uniform"), **_DENSE),
    Setting("n30", "N=30", _synthetic(n_tasks=30), **_DENSE),
    Setting("d8", "N=20 d=8, 3000 steps", _synthetic(n_tasks=20, n_features=8), 3000, **_DENSE),
    Setting("sparse-3", "sparse jumps, 1 of 3", _synthetic(heterogeneity="sparse", jumps=1), bar_paper=0.92),
    Setting("sparse-20", "sparse jumps, 2 of 20", _synthetic(n_features=20, heterogeneity="sparse", jumps=2),
            bar_paper=0.92),
    Setting("anisotropic-5", "anisotropic, N=20 d=5",
            _synthetic(n_tasks=20, n_features=5, heterogeneity=_diagonal(1.0, 0.3, 0.05, 0.05, 0.05)), **_ANISOTROPIC),
    Setting("anisotropic-10", "anisotropic, N=50 d=10",
            _synthetic(n_tasks=50, n_features=10, heterogeneity=_diagonal(2.0, 0.5, *[0.01] * 8)), **_ANISOTROPIC),
    Setting("sarcos", "SARCOS contexts, N=30 K=7 d=21, 4000 steps", _sarcos, 4000, bar_paper=0.12, **_DATA),
    Setting("letter", "Letter contexts, N=30 K=26 d=16, 4000 steps", _letter, 4000, bar_paper=0.45, **_DATA),
    Setting("one-task", "one task only", _synthetic(n_tasks=1), **_LIMIT),
    Setting("identical", "all tasks identical (1e-8 I)", _synthetic(heterogeneity=_diagonal(*[1e-8] * 3)), **_LIMIT),
    Setting("unrelated", "all tasks unrelated (100 I)", _synthetic(heterogeneity=_diagonal(*[100.0] * 3)), **_LIMIT),
    Setting("scaled", "balanced, features in other units", _synthetic(feature_scale=feature_scale(3)),
            needs=("balanced",)),
    Setting("no-odd", "N=20, no outlier tasks", _synthetic(n_tasks=20), methods=robust_methods),
    Setting("odd", "N=20, 2 outlier tasks at 10 times the scale",
            _synthetic(n_tasks=20, odd_share=0.1, odd_scale=10.0), methods=robust_methods, needs=("no-odd",)),
    Setting("always-0", "one arm always 0, N=20 K=3 d=3, 4000 steps",
            _altered(constant=0.0, n_tasks=20, **_THREE_ARMS), 4000, **_UNLIKE),
    Setting("quiet-arm", "one arm with noise 0.01, N=20 K=3 d=3, 4000 steps",
            _altered(noise_sd=(0.01, 1.0, 1.0), n_tasks=20, **_THREE_ARMS), 4000, **_UNLIKE),
    Setting("always-0-n200", "one arm always 0, N=200, 40000 steps",
            _altered(constant=0.0, n_tasks=200, **_THREE_ARMS), 40_000, most_seeds=20, **_UNLIKE),
    Setting("quiet-arm-n200", "one arm with noise 0.01, N=200, 40000 steps",
            _altered(noise_sd=(0.01, 1.0, 1.0), n_tasks=200, **_THREE_ARMS), 40_000, most_seeds=20, **_UNLIKE),
    Setting("clicks-5", "clicks around 1 %, K=5, 20000 steps", _clicks(rate=0.01), **_CLICKS),
    Setting("clicks-20", "clicks around 2 %, K=20, 20000 steps", _clicks(rate=0.02, n_arms=20), **_CLICKS),
    Setting("offset-0", "rewards around 0, N=20 K=6 d=3", _altered(**_SIX_ARMS), **_OFFSET | {"needs": ()}),
    *(
        Setting(offset_name(offset), f"rewards around {offset:g}", _altered(offset=offset, **_SIX_ARMS), **_OFFSET)
        for offset in OFFSETS
    ),
    Setting("arms-100", "rewards around 10, N=20 K=100 d=4, 5000 steps",
            _altered(offset=10.0, n_tasks=20, n_arms=100, n_features=4, shared_sd=0.5,
                     heterogeneity=_diagonal(*[0.16] * 4)),
            5000, everyday=True, methods=evidence_methods),
)
# fmt: on
SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _ROWS}
"""Every setting by its name, in the order of the table."""
