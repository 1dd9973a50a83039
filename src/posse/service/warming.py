"""Using every compiled part of a fleet once, so that no request waits for the compiler or its cache."""

from __future__ import annotations

import os
import tempfile

from posse.fleet.replica import Replica


def warm() -> None:
    """Decide, learn, estimate, save and load a tiny fleet."""
    fleet = Replica(arms=["a", "b"], features=["x"])
    for step in range(8):
        task, arm = f"task-{step % 2}", "ab"[step % 2]
        fleet.propose(task, [float(step)])
        fleet.learn([task], [arm], [[float(step)]], [float(step % 3)])
        fleet.learn([task], [arm], [[float(step)]], [1.0], replaces=[float(step % 3)])
    fleet.refresh()
    fleet.coefficients("task-0")
    fleet.borrowing("task-0")
    population = fleet.dump_population()
    if population is not None:
        fleet.adopt(population)
    fleet.learn(["task-0"], ["a"], [[1.0]], [1.0], catching_up=True)
    fleet.learn(["task-0"], ["a"], [[1.0]], [2.0], replaces=[1.0], catching_up=True)
    fleet.propose("task-0", [1.0])
    with tempfile.TemporaryDirectory(prefix="posse-") as folder:
        path = os.path.join(folder, "fleet")
        fleet.freeze()(path)
        Replica.load(path).propose("task-1", [2.0])
