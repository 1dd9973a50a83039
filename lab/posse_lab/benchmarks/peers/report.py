"""What was measured, and how it stands beside the promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posse.simulation.comparison import compare_paired
from posse.types import Settings
from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.machine import Timing
from posse_lab.benchmarks.peers import ours
from posse_lab.benchmarks.peers.blocks import Blocks
from posse_lab.benchmarks.peers.entry import words_of
from posse_lab.benchmarks.peers.latency import Latency
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
        return " ".join(
            filter(None, [self.library, f"{self.form}{',' if self.configuration else ''}", self.configuration])
        )

    @property
    def mean(self) -> float:
        """Regret, averaged over seeds."""
        return float(np.mean(self.regret))

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None with one seed."""
        n = len(self.regret)
        return float(np.std(self.regret, ddof=1) / np.sqrt(n)) if n > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersReport:
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
    versions : dict from package to version
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

    def own(self, form: str) -> Row:
        """Return one of posse's rows."""
        return next(row for row in self.rows if row.library == "posse" and row.form == form)

    @property
    def peers(self) -> list[Row]:
        """The rows of the other libraries."""
        return [row for row in self.rows if row.library != "posse"]

    def fastest(self, seconds: Callable[[Latency], float]) -> Row | None:
        """Return the fastest of the peers; None if there are none."""
        return min(self.peers, key=lambda row: seconds(row.latency), default=None)

    @property
    def bars(self) -> list[Bar]:
        """The promises: the fastest configuration of a peer counts, from an array, and by its call alone."""
        own = self.own(ours.TS).latency
        none = "" if self.peers else "no peer was run"
        kinds: list[tuple[str, Callable[[Latency], float]]] = [
            ("decide from an array: {}", lambda latency: latency.decide_built.best),
            ("decide + update from arrays: {}", lambda latency: latency.both_built),
            ("decide, the call alone: {}", lambda latency: latency.decide.best),
            ("decide + update, the calls alone: {}", lambda latency: latency.both),
            ("decide + update, calls and refreshes: {}", lambda latency: latency.both_average),
        ]
        bars = []
        for what, seconds in kinds:
            row = self.fastest(seconds)
            against = "the fastest peer" if row is None else row.library
            bars.append(
                Bar(
                    what=what.format(f"time of {against} over ebmTS"),
                    measured=None if row is None else seconds(row.latency) / seconds(own),
                    unit="",
                    at_least=FASTER,
                    note=none,
                )
            )
        return bars + self._block_bars()

    def _block_bars(self) -> list[Bar]:
        blocks = self.blocks
        if blocks is None:
            return []
        tasks = f"{blocks.size.n_tasks:,} tasks"
        ways: list[tuple[str, Callable[[Latency], float]]] = [
            ("between refreshes", lambda latency: latency.both),
            ("refreshes included", lambda latency: latency.both_average),
        ]
        # In the first steps most tasks have not been seen: that is not what a thousand tasks cost.
        bars = [
            Bar(
                what=f"{tasks}: time of task blocks over ebmTS, {words}",
                measured=min(seconds(blocks.known[row.configuration]) for row in blocks.rows)
                / seconds(blocks.known[ours.TS]),
                unit="",
                at_least=BLOCKS_FASTER,
            )
            for words, seconds in ways
        ]
        bars += [
            Bar(
                what=f"{tasks}: regret of ebmTS over that of task blocks, {row.configuration}",
                measured=row.ratio(ours.TS),
                unit="",
                at_most=BLOCKS_REGRET,
            )
            for row in blocks.rows
        ]
        return bars

    def to_dict(self) -> Settings:
        """Return everything as plain values, as it stands in the report file."""
        reference = self.own(ours.TS)
        return {
            "size": self.size._asdict(),
            "n_steps": self.n_steps,
            "seeds": self.seeds,
            "rows": [self._plain(row, reference) for row in self.rows],
            "random": self.random,
            "blocks": None if self.blocks is None else self.blocks.to_dict(),
            "parsed": None if self.parsed is None else self.parsed.to_dict(),
            "skipped": self.skipped,
            "versions": self.versions,
            "bars": [bar.to_dict() for bar in self.bars],
        }

    def _plain(self, row: Row, reference: Row) -> Settings:
        to_own = compare_paired(
            reference.name, row.name, np.array(reference.regret), np.array(row.regret, dtype=np.float64)
        )
        return {
            "library": row.library,
            "form": row.form,
            "configuration": row.configuration,
            "settings": row.settings,
            "words": words_of(row.settings),
            "regret": row.regret,
            "mean": row.mean,
            "standard_error": row.standard_error,
            "own_ratio": to_own.ratio,
            "own_ratio_interval": list(to_own.ratio_interval),
            "latency": row.latency.to_dict(),
        }
