"""What a fleet of a thousand to a million tasks learns per second, weighs, and answers in."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from posse.errors import InvalidValue
from posse.types import Settings
from posse_lab.benchmarks.bars import Bar
from posse_lab.benchmarks.sized import Job

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MILLION = 1_000_000  # the size that promises are made about
BASE = 1_000  # and the one that decisions are compared with
MOST_FILES = 100_000  # tasks of the largest fleet that is saved and loaded
FEW_ROWS = 500_000  # up to which a fleet learns more than once
GIGABYTE = 1e9


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """Everything that was measured.

    Parameters
    ----------
    results : dict from number of tasks to result
        As plain values, see :class:`posse_lab.benchmarks.sized.Sized`.
    notes : list of str
        What could not be measured.
    """

    results: dict[int, Settings]
    notes: list[str]

    def decide_ratio(self, which: str = "decide") -> float | None:
        """Return the median decision at a million tasks over that at a thousand."""
        if BASE not in self.results or MILLION not in self.results:
            return None
        return float(self.results[MILLION][which]["median"] / self.results[BASE][which]["median"])

    @property
    def bars(self) -> list[Bar]:
        """The promises about a million tasks."""
        million = self.results.get(MILLION)
        missing = "" if million is not None else f"needs {MILLION:,} tasks"

        def behind(which: str) -> tuple[float | None, str]:
            latencies = (million or {}).get(which)
            return (latencies["p99.9"] * 1e3, "") if latencies else (None, missing or "no refresh in the background")

        busy, busy_note = behind("decide_behind")
        paced, paced_note = behind("decide_paced")
        return [
            Bar(
                what="rewards learned",
                measured=None if million is None else million["rows_per_second"],
                unit="/s",
                at_least=1e6,
                note=missing,
            ),
            Bar(
                what="refresh of all arms",
                measured=None if million is None else million["refresh"],
                unit="s",
                at_most=45.0,
                note=missing,
            ),
            Bar(
                what="most resident memory",
                measured=None if million is None or million["peak"] is None else million["peak"] / GIGABYTE,
                unit="GB",
                at_most=8.0,
                note=missing,
            ),
            *(
                Bar(
                    what=words,
                    measured=self.decide_ratio(which),
                    unit="times",
                    at_most=2.0,
                    note=missing or ("" if BASE in self.results else f"needs {BASE:,} tasks"),
                )
                for which, words in (
                    ("decide", f"decide at {MILLION:,} tasks over {BASE:,}"),
                    ("decide_first", "the same, first since a refresh"),
                )
            ),
            Bar(what="99.9 % of decide during a refresh", measured=busy, unit="ms", at_most=2.0, note=busy_note),
            Bar(what="the same, after a pause", measured=paced, unit="ms", at_most=2.0, note=paced_note),
        ]

    def to_dict(self) -> Settings:
        """Return everything as plain values."""
        return {
            "results": list(self.results.values()),
            "decide_ratio": self.decide_ratio(),
            "decide_first_ratio": self.decide_ratio("decide_first"),
            "bars": [bar.to_dict() for bar in self.bars],
            "notes": self.notes,
        }


def jobs_up_to(largest: int, *, quick: bool = False) -> list[Job]:
    """Return what to measure, the smallest first.

    Parameters
    ----------
    largest : int
        Tasks of the largest fleet.
    quick : bool
        Small enough to see that everything runs.
    """
    if quick:
        return [Job(n_tasks=n, n_arms=3, n_features=4, decisions=200, background=0.0) for n in (100, 300)]
    if largest < SIZES[0]:
        raise InvalidValue(f"--largest must be at least {SIZES[0]}, but {largest} came; --quick runs something small")
    sizes = [*(n for n in SIZES if n < largest), largest]
    jobs = [Job(n_tasks=n, files=n <= MOST_FILES) for n in sizes]
    return [Job(**(asdict(job) | {"repeats": 5 if job.n_tasks * job.rewards <= FEW_ROWS else 1})) for job in jobs]


def measure_scale(jobs: Sequence[Job], begin: Callable[[str], None] = lambda _name: None) -> ScaleReport:
    """Measure every size in a process of its own; ``begin`` is told what each is doing."""
    results: dict[int, Settings] = {}
    notes: list[str] = []
    for job in jobs:
        result, problem = run_job(job, lambda stage, n=job.n_tasks: begin(f"{n:,} tasks: {stage}"))  # type: ignore[misc]
        if result is not None:
            results[job.n_tasks] = result
            notes += [note for note in result["notes"] if note not in notes]
        else:
            notes.append(f"{job.n_tasks:,} tasks: {problem}")
    return ScaleReport(results, notes)


def run_job(job: Job, say: Callable[[str], None]) -> tuple[Settings | None, str]:
    """Return what a process of its own measured, or None and why there is nothing."""
    command = [sys.executable, "-m", "posse_lab.benchmarks.sized", json.dumps(asdict(job))]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        result: Settings | None = None
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8") as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    said = json.loads(line)
                    if "stage" in said:
                        say(said["stage"])
                    result = said.get("result", result)
            except BaseException:
                process.kill()
                raise
        if process.returncode == 0 and result is not None:
            return result, ""
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["it said nothing"])[-1]
        # A process that the system ends has a negative status and no words; memory is the usual reason.
        ended = f"ended by signal {-process.returncode}, perhaps for want of memory" if process.returncode < 0 else last
        return None, ended
