"""Using every compiled part of a fleet once, so that no request waits for the compiler or its cache, or fails in it.

Kernels are compiled for the kinds of their arguments, not for their sizes, and wait in a cache on disk after that. What
is not there takes about three minutes of a core.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from numba.core import event

from posse.engine import loading
from posse.engine.site_store import load_sites
from posse.families import Rewards
from posse.fleet.replica import Replica
from posse.kernels import estimators
from posse.kernels.fleet import decide
from posse.shared_cache import Turn, share_cache
from posse.storage.rows import REWARDED, LoggedDecision

MANY = 40  # rewards that are learned at once: more than there were, so that the population is estimated from sums


class Warming:
    """Loads all that requests, learning, estimates, snapshots and looks use, and knows how far it is."""

    def __init__(self) -> None:
        self._parts = parts()
        self._n_done, self._compiling, self._waiting = 0, False, False
        self.problem = ""
        """Why it could not be loaded at the last try."""

    @property
    def done(self) -> bool:
        """Whether all of it is loaded."""
        return self._n_done == len(self._parts)

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        if self.done:
            return "all compiled code is loaded"
        doing = "compiling" if self._compiling else "loading compiled code"
        if self._waiting:
            doing = "waiting for another process that is compiling"
        first = "; this takes about three minutes, once, unless `posse warmup` ran" if self._compiling else ""
        return f"{doing}, {self._n_done} of {len(self._parts)}{first}"

    def run(self, told: Callable[[], None], stopped: Callable[[], bool] = lambda: False) -> None:
        """Load all parts; ``told`` is called when there is news, ``stopped`` is asked between two parts."""
        self._n_done, self.problem = 0, ""
        share_cache()
        turn: Turn | None = None
        try:
            with _compiler_noted(partial(self._note_compiler, told)):
                for load in self._parts.values():
                    told()
                    if stopped():
                        return
                    load()
                    self._n_done += 1
                    if self._compiling and turn is None:
                        # Not before there is something to start from, and not where all is in the cache.
                        turn = Turn(decide.stats.cache_path)
                        self._wait_for(turn, told, stopped)
        except Exception:
            self.problem = "compiled code could not be loaded (the log of this service says why)"
            raise
        finally:
            if turn is not None:
                turn.end()
        told()

    def _wait_for(self, turn: Turn, told: Callable[[], None], stopped: Callable[[], bool]) -> None:
        """Wait until no other process compiles."""
        while not turn.taken() and not stopped():
            if not self._waiting:
                self._waiting = True
                told()
            time.sleep(0.1)
        self._waiting = False

    def _note_compiler(self, told: Callable[[], None]) -> None:
        if not self._compiling:
            self._compiling = True
            told()


def parts() -> dict[str, Callable[[], None]]:
    """Return what to load, by name: large kernels one by one, then whole fleets, which use all that there is.

    Policies share their kernels, as do the methods of the paper, so these three kinds of fleets stand for all.
    """
    return {
        **large_parts(),
        "evidence": warm,
        "robust": partial(warm, robust=True),
        "paper": partial(warm, prior="paper"),
        "clicks": partial(warm, rewards="binary"),
        "tables": _tables,
        "drift": loading.load_fading,
    }


def large_parts() -> dict[str, Callable[[], None]]:
    """Return what takes the compiler long, in parts that need little of each other; all need the first."""
    return {
        "beliefs": _store,
        "learning": loading.require_loaded,
        "deciding": _decide,
        "estimating": _estimate,
        "least squares": _least_squares,
        "sites": load_sites,
    }


@cache
def _store() -> None:
    loading.tiny_store(estimators.KNOWN)


@cache
def _decide() -> None:
    Replica(arms=["a", "b"], features=["x"]).propose("task", [1.0])
    Replica(arms=["a", "b"], features=["x"], task_features=["z"]).propose("task", [1.0])


_estimate, _least_squares = map(cache, (loading.load_evidence, loading.load_paper))


@cache
def warm(
    policy: str = "ebm-ts", prior: str | None = "evidence", robust: bool = False, rewards: Rewards = "number"
) -> None:
    """Do with a tiny fleet of this kind all that is done with fleets; nothing the second time.

    Parameters
    ----------
    policy : str
    prior : str or None
    robust : bool
    rewards : str
        As in the definition of a fleet.
    """
    loading.require_loaded()
    settings: dict[str, Any] = {"policy": policy, "prior": prior, "robust": robust, "rewards": rewards}
    if rewards != "number":
        settings["absent_reward"] = 0.0  # which has kernels of its own there
    fleet = Replica(arms=["a", "b"], features=["x"], background=True, **settings)
    for step in range(8):
        task, arm = f"task-{step % 2}", "ab"[step % 2]
        fleet.propose(task, [float(step)])
        fleet.learn([task], [arm], [[float(step)]], [float(step % 2)])
        fleet.learn([task], [arm], [[float(step)]], [1.0], replaces=[float(step % 2)])
    fleet.propose("task-0", {"x": 1.0}, eligible=["b"])
    fleet.propose("task-0", [1.0], explore=False)
    tasks, arms = [f"task-{row % 5}" for row in range(MANY)], ["ab"[row % 2] for row in range(MANY)]
    fleet.learn(tasks, arms, [[float(row % 7)] for row in range(MANY)], [float(row % 3 == 1) for row in range(MANY)])
    fleet.learn(tasks[:3], arms[:3], [[0.5]] * 3, [1.0] * 3)
    fleet.learn(tasks[:3], arms[:3], [[0.5]] * 3, [0.0] * 3, replaces=[1.0, None, 1.0])
    fleet.refresh()
    _refresh_beside(fleet)
    population = fleet.dump_population()
    if population is not None:
        fleet.adopt(population)
    fleet.learn(["task-0"], ["a"], [[1.0]], [1.0], catching_up=True)
    fleet.learn(["task-0"], ["a"], [[1.0]], [0.0], replaces=[1.0], catching_up=True)
    fleet.propose("task-0", [1.0])
    for look in (fleet.coefficients, fleet.borrowing, fleet.export):
        look("task-0")
    fleet.overview()
    fleet.expected_many(["task-0"], [[1.0]])
    fleet.probabilities(["task-0"], [[1.0]])
    fleet.add_arm("c")
    fleet.retire_arm("c")
    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        path = os.path.join(folder, "fleet")
        fleet.freeze()(path)
        again = Replica.load(path)
        again.propose("task-1", [2.0])
    again.forget("task-1")
    again.forget(*again.tasks)


def _refresh_beside(fleet: Replica) -> None:
    """Estimate the population in the background while rewards come."""
    fleet.refresh(wait=False)
    fleet.learn(["task-0"], ["b"], [[1.0]], [1.0])
    while fleet.refreshing:
        time.sleep(1e-3)


@cache
def _tables() -> None:
    """Evaluate and export a tiny log: the libraries for that are large, and loaded when they are first used."""
    # Only here: these know of the runtime, which knows of this.
    from posse.offline import Uniform
    from posse.service.export import write_parquet
    from posse.service.insights import evaluate_rows

    body = '{"context":{"x":1.0},"eligible":["a","b"],"probabilities":[0.5,0.5],"mean":[0.0,0.0],"sd":[1.0,1.0]}'
    rows = [
        LoggedDecision("f", n, f"d-{n}", 1e9 + n, "t", "ab"[n % 2], 0.5, body, "ebm-ts", "1", REWARDED, n % 3, 2e9, n)
        for n in range(1, 13)
    ]
    evaluate_rows(rows, Uniform(), "uniform")
    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        write_parquet([rows], Path(folder) / "log.parquet")


@contextmanager
def _compiler_noted(note: Callable[[], None]) -> Iterator[None]:
    """Call ``note`` whenever the compiler begins."""

    class Noted(event.Listener):
        def on_start(self, event: Any) -> None:  # noqa: ARG002
            note()

        def on_end(self, event: Any) -> None:
            """Learn nothing more."""

    with event.install_listener("numba:compile", Noted()):
        yield
