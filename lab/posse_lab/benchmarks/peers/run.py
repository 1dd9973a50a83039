"""The benchmark: everyone on the same streams, for regret and for latency."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from posse._version import __version__
from posse.checks import number, whole_number
from posse.types import Settings
from posse_lab.benchmarks.peers.entries import INSTALL, PEERS, POSSE, TS, Entry, Peer, chosen
from posse_lab.benchmarks.peers.stream import TUNING_SEED, Latency, draw_stream, measure_latencies, play
from posse_lab.benchmarks.report import Bar, Begin, Report, Table, quantity
from posse_lab.benchmarks.workload import Size

RECOMMENDED, TUNED = "recommended", "tuned"
FASTER = 5.0
TABLE_SIZE = Size(100, 5, 10)
KINDS: dict[str, tuple[str, ...]] = {
    "decide from an array": ("decide_built",),
    "decide + update from arrays": ("decide_built", "update_built"),
    "decide, the call alone": ("decide",),
    "decide + update, the calls alone": ("decide", "update"),
    "decide + update, calls and refreshes": ("decide_average", "update_average"),
}
"""The promises: sums of latencies, in which the fastest configuration of any peer is compared with ebmTS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to measure.

    Parameters
    ----------
    size : Size
    seeds, n_steps : int
    turns : int
        In which latency is measured.
    turn_seconds : float
        Of each entry in a turn, about.
    """

    size: Size = TABLE_SIZE
    seeds: int = 5
    n_steps: int = 2_000
    turns: int = 5
    turn_seconds: float = 0.4

    def __post_init__(self) -> None:
        for name in ("seeds", "n_steps", "turns"):
            whole_number(getattr(self, name), name, at_least=1)
        number(self.turn_seconds, "turn_seconds", above=0)

    def n_stages(self, peers: Sequence[Peer]) -> int:
        """Return how many stages a run with these libraries has."""
        return 2 * len(peers) + self.turns


QUICK = Plan(size=Size(20, 5, 10), seeds=2, n_steps=200, turns=2, turn_seconds=0.1)
"""Enough to see that everything runs."""


@dataclass(frozen=True, slots=True)
class Row:
    """A library in one form with one choice of settings; regret and latency once they are measured."""

    library: str
    form: str
    configuration: str
    settings: Settings
    regret: tuple[float, ...] = ()
    latency: Latency | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for the same settings, whether recommended or tuned."""
        return self.library, self.form, words_of(self.settings)

    @property
    def cells(self) -> list[str]:
        """What the table shows."""
        one, n = self.latency, len(self.regret)
        assert one is not None
        building = max(one.decide_built - one.decide + one.update_built - one.update, 0.0)
        times = (one.decide, one.update, one.update_average, building)
        error = f"{np.std(self.regret, ddof=1) / np.sqrt(n):,.0f}" if n > 1 else ""
        name = f"{self.library} {self.form}{', ' if self.configuration else ''}{self.configuration}"
        return [name, *(quantity(value * 1e6) for value in times), f"{np.mean(self.regret):,.0f}", error]


def measure_peers(
    plan: Plan, only: Sequence[str] | None = None, workers: int = 1, begin: Begin = lambda _: None
) -> Report:
    """Run posse and the peers that are installed.

    Parameters
    ----------
    plan : Plan
    only : sequence of str, optional
        Names of libraries; posse always runs.
    workers : int
        Processes for the runs that are not timed.
    begin : callable
        Called with the name of what comes next.
    """
    peers, skipped = chosen(only)
    rows: list[Row] = []
    regrets: dict[tuple[str, str, str], tuple[float, ...]] = {}
    builds: dict[tuple[str, str, str], Callable[[], Entry]] = {}
    for peer in peers:
        begin(f"{peer.name}: {'compiling' if peer is POSSE else 'tuning'}")
        found = configured(peer, plan, workers)
        begin(f"{peer.name}: regret")
        different = {row.key: row for row in found}
        runs = [(row.form, row.settings, seed) for row in different.values() for seed in range(plan.seeds)]
        finals = np.reshape(run_all(peer, plan, runs, workers), (-1, plan.seeds)).tolist()
        regrets |= dict(zip(different, map(tuple, finals), strict=True))
        builds |= {key: partial(peer.build, plan.size, row.form, 0, row.settings) for key, row in different.items()}
        rows += found
    # Where tuning finds nothing better than what is recommended, that is measured once and shown twice.
    names = {repr(key): key for key in builds}
    latencies = measure_latencies(
        {name: builds[key] for name, key in names.items()}, draw_stream(plan.size, 0, plan.n_steps),
        turns=plan.turns, seconds=plan.turn_seconds, begin=begin,
    )  # fmt: skip
    rows = [replace(row, regret=regrets[row.key], latency=latencies[repr(row.key)]) for row in rows]
    return report_of(plan, rows, skipped)


def configured(peer: Peer, plan: Plan, workers: int) -> list[Row]:
    """Return every form of a library, as recommended and tuned; posse is not tuned, but compiled."""
    if peer is POSSE:
        for form in peer.forms:  # here, so that other processes find it compiled
            play(peer.build(plan.size, form, 0, peer.recommended), draw_stream(plan.size, 0, 50))
        return [Row(peer.name, form, "", peer.recommended) for form in peer.forms]
    found = []
    for form in peer.forms:
        regrets = run_all(peer, plan, [(form, one, TUNING_SEED) for one in peer.trials], workers)
        tuned = peer.trials[regrets.index(min(regrets))]
        found += [Row(peer.name, form, RECOMMENDED, peer.recommended), Row(peer.name, form, TUNED, tuned)]
    return found


def run_all(peer: Peer, plan: Plan, runs: Sequence[tuple[str, Settings, int]], workers: int) -> list[float]:
    """Return the regret of a library at the end of every run: form, settings and seed."""
    import joblib

    # One thread per worker: the processes already fill the cores.
    with joblib.parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1 if workers > 1 else None):
        return list(joblib.Parallel()(joblib.delayed(_regret)(peer.package, plan, *run) for run in runs))


def _regret(package: str, plan: Plan, form: str, settings: Settings, seed: int) -> float:
    stream = draw_stream(plan.size, seed, plan.n_steps)
    peer = POSSE if package == "posse" else PEERS[package]
    return stream.regret(play(peer.build(plan.size, form, seed, settings), stream)[0])


def report_of(plan: Plan, rows: Sequence[Row], skipped: Mapping[str, str]) -> Report:
    """Return the table, the promises and everything as plain values; posse's rows come first."""
    blind = [draw_stream(plan.size, seed, plan.n_steps).random_regret for seed in range(plan.seeds)]
    table = [row.cells for row in rows] + [["any arm at random", *[""] * 4, f"{np.mean(blind):,.0f}", ""]]
    packages = dict.fromkeys(peer.package for peer in PEERS.values() if peer.name in {row.library for row in rows})
    versions = {"posse": __version__} | {package: importlib.metadata.version(package) for package in packages}
    notes = [
        "decide, update: the middle one of all calls of a stream, best of the rounds. average update: with everything "
        "that happens in a stream, for posse the refreshes of its prior. input: what it takes to make the text, "
        "dictionary or matrix that the library wants."
    ]
    if tuned := [f"{row.library} {row.form}: {words_of(row.settings)}" for row in rows if row.configuration == TUNED]:
        notes.append(f"Tuned on another seed: {'; '.join(tuned)}.")
    notes += [f"skipped {name}: {reason}" for name, reason in skipped.items()]
    if not packages:
        notes.append(f"No peer is installed, so only posse's own entries ran; to compare: {INSTALL}")
    title = f"{plan.size.words}, {plan.n_steps:,} steps, {plan.seeds} seeds; µs per call"
    return Report(
        name="peers",
        tables=[Table(title, ["", "decide", "update", "average\nupdate", "input", "regret", "± s.e."], table)],
        bars=_bars(rows),
        data=asdict(plan) | {"size": plan.size._asdict(),
            "rows": [asdict(row) for row in rows], "random": blind, "skipped": dict(skipped), "versions": versions,
        },
        notes=[*notes, ", ".join(f"{name} {version}" for name, version in versions.items())],
    )  # fmt: skip


def _bars(rows: Sequence[Row]) -> list[Bar]:
    """Return the promises: the fastest configuration of a peer counts, from an array, and by its call alone."""
    bars = []
    for what, parts in KINDS.items():
        seconds = [(sum(getattr(row.latency, part) for part in parts), row.library, row.form) for row in rows]
        own = next(value for value, _, form in seconds if form == TS)
        fastest, against, _ = min((one for one in seconds if one[1] != "posse"), default=(None, "the fastest peer", ""))
        measured = None if fastest is None else fastest / own
        words = f"{what}: time of {against} over ebmTS"
        bars.append(Bar(what=words, measured=measured, at_least=FASTER, note="no peer was run"))
    return bars


def words_of(settings: Mapping[str, Any]) -> str:
    """Return settings in a few words.

    Examples
    --------
    >>> words_of({"policy": "LinUCB", "alpha": 1.25})
    'policy LinUCB, alpha 1.25'
    """
    words = {name: f"{value:g}" if isinstance(value, float) else value for name, value in settings.items()}
    return ", ".join(f"{name} {value}" for name, value in words.items())
