"""What was measured, and how it stands beside the promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posse.types import Settings
from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.peers import ours
from posse_lab.benchmarks.peers.blocks import Blocks
from posse_lab.benchmarks.peers.entry import INSTALL, TUNED, words_of
from posse_lab.benchmarks.peers.latency import Latency
from posse_lab.benchmarks.report import Bar, Report, Table, quantity
from posse_lab.benchmarks.workload import Size

FASTER = 5.0
BLOCKS_FASTER = 500.0
BLOCKS_REGRET = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry, measured.

    Parameters
    ----------
    library, form, configuration : str
        Whose; how tasks are told apart, or which of posse's; recommended or tuned, empty for posse.
    settings : dict
    regret : list of float
        Of every seed.
    latency : Latency
    """

    library: str
    form: str
    configuration: str
    settings: Settings
    regret: list[float]
    latency: Latency

    @property
    def name(self) -> str:
        """What the entry is called."""
        return f"{self.library} {self.form}{', ' if self.configuration else ''}{self.configuration}"

    @property
    def mean(self) -> float:
        """Regret, averaged over seeds."""
        return float(np.mean(self.regret))

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None with one seed."""
        n = len(self.regret)
        return float(np.std(self.regret, ddof=1) / np.sqrt(n)) if n > 1 else None

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "library": self.library, "form": self.form, "configuration": self.configuration, "settings": self.settings,
            "regret": self.regret, "mean": self.mean, "standard_error": self.standard_error,
            "latency": self.latency.to_dict(),
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything that was measured in one run.

    Parameters
    ----------
    size : Size
    n_steps, seeds : int
    rows : list of Row
        posse's own first.
    random : list of float
        Regret of pulling blindly, one per seed.
    blocks : Blocks or None
        The comparison with task blocks, if it was made.
    parsed : Timing or None
        A prediction of Vowpal Wabbit from an example that was parsed before: no decision about a new context, so no
        bar is held against it.
    skipped : dict from name to reason
    versions : dict from library to version
    """

    size: Size
    n_steps: int
    seeds: int
    rows: list[Row]
    random: list[float]
    blocks: Blocks | None
    parsed: Timing | None
    skipped: dict[str, str]
    versions: dict[str, str]

    def report(self) -> Report:
        """Return tables, promises and everything as plain values."""
        return Report(
            name="peers",
            tables=[self._entries(), *([] if self.blocks is None else [_blocks(self.blocks)])],
            bars=[*self._bars(), *([] if self.blocks is None else _block_bars(self.blocks))],
            data={
                "size": self.size._asdict(),
                "n_steps": self.n_steps,
                "seeds": self.seeds,
                "rows": [row.to_dict() for row in self.rows],
                "random": self.random,
                "blocks": None if self.blocks is None else self.blocks.to_dict(),
                "parsed": None if self.parsed is None else self.parsed._asdict(),
                "skipped": self.skipped,
                "versions": self.versions,
            },
            notes=self._notes(),
        )

    def _bars(self) -> list[Bar]:
        """Return the promises: the fastest configuration of a peer counts, from an array, and by its call alone."""
        own = next(row for row in self.rows if (row.library, row.form) == ("posse", ours.TS)).latency
        peers = [row for row in self.rows if row.library != "posse"]
        kinds: dict[str, Callable[[Latency], float]] = {
            "decide from an array": lambda latency: latency.decide_built.best,
            "decide + update from arrays": lambda latency: latency.both_built,
            "decide, the call alone": lambda latency: latency.decide.best,
            "decide + update, the calls alone": lambda latency: latency.both,
            "decide + update, calls and refreshes": lambda latency: latency.both_average,
        }
        bars = []
        for what, seconds in kinds.items():
            row = min(peers, key=lambda row: seconds(row.latency), default=None)
            against = "the fastest peer" if row is None else row.library
            measured = None if row is None else seconds(row.latency) / seconds(own)
            words = f"{what}: time of {against} over ebmTS"
            bars.append(Bar(what=words, measured=measured, at_least=FASTER, note="no peer was run"))
        return bars

    def _entries(self) -> Table:
        title = f"{self.size.words}, {self.n_steps:,} steps, {self.seeds} seeds; µs per call"
        rows = []
        for row in self.rows:
            one = row.latency
            building = one.decide_built.best - one.decide.best + one.update_built.best - one.update.best
            times = (one.decide.best, one.update.best, one.update_average.best, max(building, 0.0))
            error = row.standard_error
            cells = [f"{row.mean:,.0f}", "" if error is None else f"{error:,.0f}"]
            rows.append([row.name, *(quantity(value * 1e6) for value in times), *cells])
        rows.append(["any arm at random", "", "", "", "", f"{sum(self.random) / len(self.random):,.0f}", ""])
        return Table(title, ["", "decide", "update", "average\nupdate", "input", "regret", "± s.e."], rows)

    def _notes(self) -> list[str]:
        lines = [
            "decide, update: the middle one of all calls of a stream, best of the rounds. average update: with "
            "everything that happens in a stream, for posse the refreshes of its prior. input: what it takes to make "
            "the text, dictionary or matrix that the library wants."
        ]
        tuned = [
            f"{row.library} {row.form}: {words_of(row.settings)}" for row in self.rows if row.configuration == TUNED
        ]
        if self.blocks is not None:
            tuned += [
                f"task blocks: {words_of(row.settings)}" for row in self.blocks.rows if row.configuration == TUNED
            ]
            lines.append(
                "Task blocks: decide and update with rewards of every arm in every task, first: in the first steps of "
                "a stream. Regret is over the steps that the blocks made in their time; ebmTS, ebmUCB: theirs over the "
                "same steps, in parts of it."
            )
        if tuned:
            lines.append(f"Tuned on another seed: {'; '.join(tuned)}.")
        if self.parsed is not None:
            lines.append(
                "A prediction of Vowpal Wabbit from an example parsed beforehand takes "
                f"{quantity(self.parsed.best * 1e6)} µs; a new context has to be parsed, so it is timed from text."
            )
        lines += [f"skipped {name}: {reason}" for name, reason in self.skipped.items()]
        if len(self.versions) == 1 and self.skipped:
            lines.append(f"No peer is installed, so only posse's own entries ran; to compare: {INSTALL}")
        return [*lines, ", ".join(f"{name} {version}" for name, version in self.versions.items())]


def _block_bars(blocks: Blocks) -> list[Bar]:
    tasks = f"{blocks.size.n_tasks:,} tasks"
    ways: dict[str, Callable[[Latency], float]] = {
        "between refreshes": lambda latency: latency.both,
        "refreshes included": lambda latency: latency.both_average,
    }
    # In the first steps most tasks have not been seen: that is not what a thousand tasks cost.
    bars = [
        Bar(
            what=f"{tasks}: time of task blocks over ebmTS, {words}",
            measured=min(seconds(blocks.known[row.configuration]) for row in blocks.rows)
            / seconds(blocks.known[ours.TS]),
            at_least=BLOCKS_FASTER,
        )
        for words, seconds in ways.items()
    ]
    return bars + [
        Bar(
            what=f"{tasks}: regret of ebmTS over that of task blocks, {row.configuration}",
            measured=row.ratio(ours.TS),
            at_most=BLOCKS_REGRET,
        )
        for row in blocks.rows
    ]


def _blocks(blocks: Blocks) -> Table:
    title = f"{blocks.size.words}; bayesianbandits with task blocks, {blocks.solver}; average µs"
    columns = ["", "decide", "update", "first\ndecide", "first\nupdate", "steps", "regret", "ebmTS", "ebmUCB"]
    by_name = {row.configuration: row for row in blocks.rows}
    rows = []
    for name in blocks.known:
        both = [state[name] for state in (blocks.known, blocks.first)]
        times = [
            quantity(one.best * 1e6) for latency in both for one in (latency.decide_average, latency.update_average)
        ]
        row, rest = by_name.get(name), [""] * 4
        if row is not None:
            means = (sum(some) / len(some) for some in (row.n_steps, row.regret))
            rest = [f"{mean:,.0f}" for mean in means] + [f"{row.ratio(one):.2f}" for one in (ours.TS, ours.UCB)]
        rows.append([name if row else f"posse {name}", *times, *rest])
    return Table(title, columns, rows)
