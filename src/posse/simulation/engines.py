"""Where seeds run: in worker processes of this machine, or as tasks of a Ray cluster.

Every seed draws from streams of its own, so results are the same bytes wherever it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

from posse.checks import one_of

ENGINES = ("processes", "ray")

Calls: TypeAlias = Iterable[tuple[Callable[..., Any], tuple[Any, ...]]]
Pool: TypeAlias = Callable[[Calls], Iterator[Any]]

_ENGINE: ContextVar[str] = ContextVar("engine", default="processes")


@contextlib.contextmanager
def using_engine(engine: str | None, address: str | None = None) -> Iterator[None]:
    """Run seeds on this engine until the block ends.

    Parameters
    ----------
    engine : {"processes", "ray"} or None
        None leaves it as it is.
    address : str, optional
        Of the Ray cluster. Default: the one that is connected, else the one in RAY_ADDRESS, else one of this machine's
        own.
    """
    if engine is None:
        yield
        return
    one_of(engine, "engine", ENGINES)
    if engine == "ray":
        from posse.distributed.cluster import start

        start(address)
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


@contextlib.contextmanager
def worker_pool(workers: int) -> Iterator[Pool]:
    """Yield a function that makes calls on so many workers and gives their results as they come."""
    if _ENGINE.get() == "ray":
        yield lambda calls: _on_ray(calls, workers)
        return
    import joblib

    # One thread per worker: the processes already fill the cores.
    with joblib.parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
        yield lambda calls: joblib.Parallel(return_as="generator_unordered")(
            joblib.delayed(function)(*arguments) for function, arguments in calls
        )


def runs_here(workers: int, seeds: int) -> bool:
    """Whether so few seeds or workers are not worth another process."""
    return seeds == 0 or (_ENGINE.get() == "processes" and (workers == 1 or seeds == 1))


def usual_workers(cores: int) -> int:
    """Return how many workers to use by default: ``cores`` of this machine, or all of the cluster."""
    if _ENGINE.get() != "ray":
        return cores
    from posse.distributed.cluster import require_ray

    return max(1, int(require_ray().cluster_resources().get("CPU", 1)))


def _on_ray(calls: Calls, workers: int) -> Iterator[Any]:
    from posse.distributed.cluster import gather, require_ray

    ray = require_ray()
    run = ray.remote(num_cpus=1)(_run)
    running: list[Any] = []
    # What all calls have in common is sent once.
    shared: dict[int, Any] = {}
    for function, arguments in calls:
        if id(function) not in shared:
            shared[id(function)] = (function, ray.put(function))
        running.append(run.remote(shared[id(function)][1], arguments))
        if len(running) >= workers:
            done, running = ray.wait(running, num_returns=1)
            yield from gather(done)
    while running:
        done, running = ray.wait(running, num_returns=1)
        yield from gather(done)


def _run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)
