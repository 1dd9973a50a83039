"""Using every compiled part of a fleet once, so that no request waits for the compiler or its cache, or fails in it."""

from __future__ import annotations

import os
import tempfile
import time
from functools import cache

from posse.fleet.loading import require_loaded
from posse.fleet.replica import Replica

MANY = 40  # rewards that are learned at once: more than there were, so that the population is estimated from sums


@cache
def warm(policy: str = "ebm-ts", prior: str | None = "evidence", robust: bool = False) -> None:
    """Do with a tiny fleet of this kind all that is done with fleets; nothing the second time.

    Kernels are compiled for the kinds of their arguments, not for their sizes, and wait in a cache on disk after that.

    Parameters
    ----------
    policy : str
    prior : str or None
    robust : bool
        As in the definition of a fleet.
    """
    require_loaded()
    fleet = Replica(arms=["a", "b"], features=["x"], policy=policy, prior=prior, robust=robust, background=True)
    for step in range(8):
        task, arm = f"task-{step % 2}", "ab"[step % 2]
        fleet.propose(task, [float(step)])
        fleet.learn([task], [arm], [[float(step)]], [float(step % 3)])
        fleet.learn([task], [arm], [[float(step)]], [1.0], replaces=[float(step % 3)])
    fleet.propose("task-0", {"x": 1.0}, eligible=["b"])
    fleet.propose("task-0", [1.0], explore=False)
    tasks, arms = [f"task-{row % 5}" for row in range(MANY)], ["ab"[row % 2] for row in range(MANY)]
    fleet.learn(tasks, arms, [[float(row % 7)] for row in range(MANY)], [float(row % 3) for row in range(MANY)])
    fleet.learn(tasks[:3], arms[:3], [[0.5]] * 3, [1.0] * 3)
    fleet.learn(tasks[:3], arms[:3], [[0.5]] * 3, [2.0] * 3, replaces=[1.0, None, 1.0])
    fleet.refresh()
    _refresh_beside(fleet)
    population = fleet.dump_population()
    if population is not None:
        fleet.adopt(population)
    fleet.learn(["task-0"], ["a"], [[1.0]], [1.0], catching_up=True)
    fleet.learn(["task-0"], ["a"], [[1.0]], [2.0], replaces=[1.0], catching_up=True)
    fleet.propose("task-0", [1.0])
    for look in (fleet.coefficients, fleet.borrowing, fleet.export):
        look("task-0")
    fleet.overview()
    if policy != "hier-ts":  # whose population is given, and knows no other arm
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
