"""Regret in worlds that change: learned drift beside none, every fixed half-life, and a fresh start at the change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from posse.checks import whole_number
from posse.environments.base import POLICY, stream
from posse.environments.synthetic import SyntheticWorld
from posse.policies import EbmUCB
from posse.simulation.run import over_seeds
from posse.types import Array
from posse_lab.benchmarks.drifting_clicks import STEPS as CLICK_STEPS
from posse_lab.benchmarks.drifting_clicks import Clicks, play_clicks
from posse_lab.benchmarks.report import Bar, Begin, Report, Table

SHAPE: dict[str, Any] = {"n_tasks": 10, "n_arms": 5, "n_features": 3}
HORIZON = 6000
HALF_LIVES = (250, 500, 1000, 2000, 4000, 8000)  # steps; a task is visited every tenth
WORLDS: dict[str, dict[str, Any]] = {
    "nothing changes": {},
    "half-life 100 visits": {"half_life": 1000.0},
    "half-life 400 visits": {"half_life": 4000.0},
    "a task jumps every 200 visits": {"change_every": 200, "change_share": 0.1},
}
SWAP: dict[str, Any] = {"n_tasks": 20, "n_arms": 4, "n_features": 3}
SWAP_STEPS = 8000
SWAPPED = {"nowhere": 0, "everywhere": 20, "in a quarter of the tasks": 5}
RESTART = "a fresh start at the change"
Regrets: TypeAlias = dict[str, tuple[float, float]]  # by method, before and after half time


def report_of(
    seeds: int, worlds: dict[str, dict[str, float]], swaps: dict[str, Regrets], clicks: dict[str, Regrets],
    noticed: Sequence[int | None] = (), false_alarms: int = 0,
) -> Report:  # fmt: skip
    """Return mean regrets by world and method, and what was promised about learned drift.

    Parameters
    ----------
    seeds : int
    worlds : dict
        By world of :data:`WORLDS`: regret without drift ("none"), with every fixed half-life, and "learn".
    swaps, clicks : dict
        By where the arms swap places at half time: regret before and after it, of "none" and "learn", and of
        :data:`RESTART` where everything changes; of numbers, and of fleets of clicks.
    noticed : sequence
        Rewards of clicks until a swap everywhere was noticed, of every seed, or None.
    false_alarms : int
        Changes that were noticed where nothing had changed, all seeds together.
    """
    bars = []
    for name, regrets in worlds.items():
        fixed = min(regret for method, regret in regrets.items() if method != "learn")
        bars.append(
            Bar(what=f"{name}: learned over the best fixed setting", measured=regrets["learn"] / fixed, at_most=1.1)
        )
    tables = [
        Table(
            f"Regret, mean of {seeds} seeds",
            ["world", *next(iter(worlds.values()))],
            [[name, *(f"{regret:,.0f}" for regret in regrets.values())] for name, regrets in worlds.items()],
        )
    ]
    for kind, found in (("", swaps), ("clicks: ", clicks)):
        bars += _swap_bars(kind, *(found[where] for where in SWAPPED)) if found else []
        rows = [
            [f"{where}, {method}", f"{before:,.0f}", f"{after:,.0f}"]
            for where, halves in found.items()
            for method, (before, after) in halves.items()
        ]
        tables.append(Table(f"{kind}arms swap places at half time: regret", ["where, drift", "before", "after"], rows))
    seen = sorted(rewards for rewards in noticed if rewards is not None)
    median = f", after {seen[len(seen) // 2]} rewards (median; {seen[-1]} at most)" if seen else ""
    return Report(
        name="drift",
        tables=[table for table in tables if table.rows],
        bars=bars,
        data={"seeds": seeds, "worlds": worlds, "swaps": swaps, "clicks": clicks, "noticed": list(noticed)},
        notes=[
            f"Clicks: a swap everywhere was noticed in {len(seen)} of {seeds} runs{median}; {false_alarms} changes "
            "were noticed where nothing had changed"
        ],
    )


def _swap_bars(kind: str, still: Regrets, everywhere: Regrets, some: Regrets) -> list[Bar]:
    fresh, quarter = everywhere["learn"][1] / everywhere[RESTART][1], some["learn"][1] / some["none"][1]
    ratios = (
        ("no swap: learned over no drift", sum(still["learn"]) / sum(still["none"]), 1.03),
        ("swap everywhere: regret after it, learned over a fresh start", fresh, 1.5),
        ("swap in a quarter: regret after it, learned over no drift", quarter, 0.6 if kind else 0.5),
    )
    return [Bar(what=f"{kind}{what}", measured=ratio, at_most=at_most) for what, ratio, at_most in ratios]


def measure_drift(
    seeds: int = 12, first_seed: int = 0, workers: int = 1, *, begin: Begin = lambda _: None,
    advance: Callable[[int], object] = lambda _: None,
) -> Report:  # fmt: skip
    """Play all worlds.

    Parameters
    ----------
    seeds, first_seed : int
    workers : int
        Processes.
    begin, advance : callable, optional
        Called with what begins, and with 1 after every seed.
    """
    begin("worlds that change")
    chosen = range(first_seed, first_seed + whole_number(seeds, "seeds", at_least=1))
    found = []
    for one in over_seeds(_one_seed, list(chosen), workers):
        found.append(one)
        advance(1)
    worlds = {
        name: {method: float(np.mean([one[0][name][method] for one in found])) for method in found[0][0][name]}
        for name in WORLDS
    }
    swaps = _means([one[1] for one in found])
    runs = [one[2] for one in found]
    clicks = _means([{where: {m: run.regret for m, run in one[where].items()} for where in SWAPPED} for one in runs])
    false_alarms = sum(one["nowhere"]["learn"].tasks + (one["nowhere"]["learn"].noticed is not None) for one in runs)
    false_alarms += sum(one[where]["learn"].early for one in runs for where in SWAPPED)
    noticed = [one["everywhere"]["learn"].noticed for one in runs]
    return report_of(len(found), worlds, swaps, clicks, noticed, false_alarms)


def _means(found: list[dict[str, dict[str, Array]]]) -> dict[str, Regrets]:
    return {
        where: {
            method: tuple(np.mean([one[where][method] for one in found], axis=0).tolist()) for method in found[0][where]
        }
        for where in SWAPPED
    }


def _one_seed(seed: int) -> tuple[Any, dict[str, dict[str, Array]], dict[str, dict[str, Clicks]]]:
    drifts: dict[str, Any] = {"none": None, **{f"{steps:,} steps": float(steps) for steps in HALF_LIVES}}
    drifts["learn"] = "learn"
    worlds = {
        name: {method: play_world(settings, drift, seed) for method, drift in drifts.items()}
        for name, settings in WORLDS.items()
    }
    swaps = {
        where: {method: play_swap(moved, drift, seed) for method, drift in {"none": None, "learn": "learn"}.items()}
        for where, moved in SWAPPED.items()
    }
    swaps["everywhere"][RESTART] = play_swap(SWAP["n_tasks"], None, seed, restart=True)
    return worlds, swaps, clicks_of(seed)


def clicks_of(seed: int, steps: int = CLICK_STEPS) -> dict[str, dict[str, Clicks]]:
    """Return runs of fleets of clicks, by where the arms swap places and by drift."""
    found = {
        where: {
            "none": play_clicks(moved, None, seed, steps=steps),
            "learn": play_clicks(moved, "learn", seed, steps=steps),
        }
        for where, moved in SWAPPED.items()
    }
    found["everywhere"][RESTART] = play_clicks(SWAPPED["everywhere"], None, seed, restart=True, steps=steps)
    return found


def play_world(settings: dict[str, Any], drift: Any, seed: int, horizon: int = HORIZON) -> float:
    """Return the regret of one run."""
    draw = SyntheticWorld(**SHAPE, **settings).draw(seed, horizon)
    policy = EbmUCB(**SHAPE, prior="evidence", drift=drift)
    arms = policy.play(draw.tasks, draw.contexts, draw.rewards, stream(seed, POLICY)).arms
    return float((draw.expected.max(axis=1) - draw.expected[np.arange(horizon), arms]).sum())


def play_swap(moved: int, drift: Any, seed: int, *, restart: bool = False, steps: int = SWAP_STEPS) -> Array:
    """Return the regret before and after half time, when the arms of the first ``moved`` tasks swap places."""
    n_tasks, n_arms, d = SWAP["n_tasks"], SWAP["n_arms"], SWAP["n_features"]
    rng = np.random.default_rng(seed)
    before = rng.normal(0, 0.6, (n_arms, 1, d)) + 0.5 * rng.normal(size=(n_arms, n_tasks, d))
    after = before.copy()
    after[:, :moved] = np.roll(before, 1, axis=0)[:, :moved]
    tasks = rng.integers(n_tasks, size=steps)
    contexts = np.column_stack([np.ones(steps), rng.normal(size=(steps, d - 1))])
    half = steps // 2
    expected = np.concatenate(
        [np.einsum("knd,nd->nk", truth[:, tasks[rows]], contexts[rows]) for truth, rows in _halves(before, after, half)]
    )
    rewards = expected + rng.normal(size=(steps, 1))
    policy = EbmUCB(**SWAP, prior="evidence", drift=drift)
    draws, regret = np.random.default_rng([seed, 1]), []
    for _, rows in _halves(before, after, half):
        first = 1 + (0 if restart else rows.start)
        if restart and rows.start:
            policy = EbmUCB(**SWAP, prior="evidence", drift=drift)
        arms = policy.play(tasks[rows], contexts[rows], rewards[rows], draws, first_step=first).arms
        regret.append(float((expected[rows].max(axis=1) - expected[rows][np.arange(half), arms]).sum()))
    return np.array(regret)


def _halves(before: Array, after: Array, half: int) -> Sequence[tuple[Array, slice]]:
    return [(before, slice(0, half)), (after, slice(half, 2 * half))]
