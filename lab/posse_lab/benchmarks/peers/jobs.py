"""Regret runs, many at a time in worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posse.types import Array, Settings
from posse_lab.benchmarks.peers.catalogue import peer_of
from posse_lab.benchmarks.peers.play import play
from posse_lab.benchmarks.peers.stream import draw_stream
from posse_lab.benchmarks.workload import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One learner on one stream, in plain values: it is sent to another process.

    Parameters
    ----------
    package, form : str
        Who, and how tasks are told apart.
    settings : dict
    size : Size
    seed, n_steps : int
    seconds : float
        Steps stop after so long.
    """

    package: str
    form: str
    settings: Settings
    size: Size
    seed: int
    n_steps: int
    seconds: float = float("inf")


def run_job(job: Job) -> Array:
    """Return the cumulative regret of every step."""
    stream = draw_stream(job.size, job.seed, job.n_steps)
    entry = peer_of(job.package, job.form).build(job.size, job.form, job.seed, job.settings)
    return stream.regret(play(entry, stream, seconds=job.seconds).arms)


def _numbered(number: int, job: Job) -> tuple[int, Array]:
    return number, run_job(job)


def run_jobs(jobs: Sequence[Job], *, workers: int) -> list[Array]:
    """Return the result of every job, in their order."""
    results: list[Array | None] = [None] * len(jobs)
    for number, result in _results(jobs, min(workers, len(jobs))):
        results[number] = result
    return [result for result in results if result is not None]


def _results(jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, Array]]:
    if workers <= 1:
        for number, job in enumerate(jobs):
            yield _numbered(number, job)
        return
    import joblib

    # One thread per worker: the processes already fill the cores.
    with joblib.parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
        yield from joblib.Parallel(return_as="generator_unordered")(
            joblib.delayed(_numbered)(number, job) for number, job in enumerate(jobs)
        )


def best_of(trials: Sequence[Mapping[str, Any]], regrets: Sequence[Array]) -> Settings:
    """Return the settings with the least regret over the steps that all trials made; the first of equals."""
    common = min(len(regret) for regret in regrets)
    finals = [float(regret[common - 1]) for regret in regrets]
    return dict(trials[finals.index(min(finals))])
