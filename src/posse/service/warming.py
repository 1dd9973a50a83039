"""Using every compiled part of a fleet once, so that no request waits for the compiler or its cache, or fails in it.

Functions are compiled for the kinds of their arguments, not for their sizes, and wait in a cache on disk after that.
What is not there takes about half a minute of a core.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from posse.fleet.replica import Replica
from posse.storage.rows import REWARDED, LoggedDecision

MANY = 40  # rewards that are learned at once: more than there were, so that the population is estimated from sums


class Warming:
    """Loads all that requests, learning, estimates, snapshots and looks use, and knows how far it is."""

    def __init__(self) -> None:
        self._parts = parts()
        self._n_done = 0
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
        return (
            f"loading compiled code, {self._n_done} of {len(self._parts)}; compiling it takes about half a minute, "
            "once, unless `posse warmup` ran"
        )

    def run(self, note: Callable[[], None], stopped: Callable[[], bool] = lambda: False) -> None:
        """Load all parts; ``note`` is called when there is news, ``stopped`` is asked between two parts."""
        self._n_done, self.problem = 0, ""
        try:
            for load in self._parts.values():
                note()
                if stopped():
                    return
                load()
                self._n_done += 1
        except Exception:
            self.problem = "compiled code could not be loaded (the log of this service says why)"
            raise
        note()


def parts() -> dict[str, Callable[[], None]]:
    """Return what to load, by name: fleets that together use all that there is.

    Policies, and all combinations of settings, share their compiled functions, so a few kinds of fleets stand for all.
    """
    return {
        "numbers": warm,
        "clicks": partial(warm, rewards="binary", absent_reward=0.0),
        "drift": partial(warm, drift="learn", task_features=["z"], arm_features=["f"]),
        "robust": partial(warm, robust=True),
        "paper": partial(warm, prior="paper"),
        "moments": partial(warm, prior="moments"),
        "tables": _tables,
    }


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


def warm(**settings: Any) -> None:
    """Do with a tiny fleet of these settings all that is done with fleets."""
    fleet = Replica(arms=["a", "b"], features=["x"], background=True, **settings)
    if "task_features" in settings:
        fleet.know_tasks({"task-0": {"z": 1.0}, "task-1": {"z": 2.0}}, applied=1)
    replaces = settings.get("absent_reward") is not None
    for step in range(8):
        task, arm = f"task-{step % 2}", "ab"[step % 2]
        fleet.propose(task, [float(step)])
        fleet.learn([task], [arm], [[float(step)]], [float(step % 2)])
        if replaces:
            fleet.learn([task], [arm], [[float(step)]], [1.0], replaces=[float(step % 2)])
    fleet.propose("task-0", {"x": 1.0}, eligible=["b"])
    fleet.propose("task-0", [1.0], explore=False)
    tasks, arms = [f"task-{row % 5}" for row in range(MANY)], ["ab"[row % 2] for row in range(MANY)]
    fleet.learn(tasks, arms, [[float(row % 7)] for row in range(MANY)], [float(row % 3 == 1) for row in range(MANY)])
    fleet.refresh()
    _refresh_beside(fleet)
    population = fleet.dump_population()
    if population is not None:
        fleet.adopt(population)
    fleet.learn(["task-0"], ["a"], [[1.0]], [1.0], catching_up=True)
    fleet.propose("task-0", [1.0])
    for look in (fleet.coefficients, fleet.borrowing, fleet.export):
        look("task-0")
    fleet.overview()
    fleet.expected_many(["task-0"], [[1.0]])
    fleet.probabilities(["task-0"], [[1.0]])
    fleet.learned(["task-0"])
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
