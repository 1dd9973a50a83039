"""Microseconds per step, all-in, inside the simulator on one core: ``make bench``.

All-in: drawing the world, the policy and its regret. Processor time, so that a busy machine does not count; the best of
a few repetitions. "direct" is the plain O(N d^3) implementation in the same run.
"""

import platform
import time
from functools import partial

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

from direct import DirectEbmUCB
from posse import EbmUCB, SyntheticWorld
from posse.simulation.run import run_seed

STEPS = np.array([1])


def microseconds(world, factory, horizon, repeat):
    """Best time of one seed through the simulator, per step."""
    best = np.inf
    for _ in range(repeat):
        started = time.process_time()
        run_seed(world, {"policy": factory}, horizon, STEPS, 0, False, 0)
        best = min(best, time.process_time() - started)
    return best / horizon * 1e6


def main():
    small = SyntheticWorld(n_tasks=10, n_arms=5, n_features=3)
    large = SyntheticWorld(n_tasks=30, n_arms=7, n_features=21)
    lazy = partial(EbmUCB, refresh_growth=0.1)
    table = Table(
        title="ebmUCB inside simulate, one core; direct recomputation beside it",
        title_justify="left",
        title_style="bold",
    )
    for column in ("tasks", "arms", "features", "steps", "refresh", "µs a step", "bar", "direct"):
        table.add_column(column, justify="left" if column == "refresh" else "right")

    # Compile first.
    for factory in (lazy, EbmUCB):
        microseconds(small, factory, 200, 1)

    def row(world, factory, words, horizon, bar, direct_steps, repeat=5):
        ours = microseconds(world, factory, horizon, repeat)
        direct = microseconds(world, DirectEbmUCB, direct_steps, 1)
        table.add_row(
            str(world.n_tasks), str(world.n_arms), str(world.n_features), f"{horizon:,}", words,
            f"{ours:.2f}", f"{bar:g}", f"{direct:,.0f} ({direct / ours:,.0f}x)",
        )  # fmt: skip

    row(small, lazy, "+10 % rewards", 2_000, 5, 300)
    row(small, EbmUCB, "every reward", 2_000, 40, 300)
    row(large, lazy, "+10 % rewards", 20_000, 60, 300, repeat=3)

    console = Console()
    console.print(f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}, "
                  f"{platform.machine()}", highlight=False)  # fmt: skip
    console.print(table)
    for n_arms, n_features in ((5, 3), (7, 21)):
        few, many = (
            microseconds(SyntheticWorld(n_tasks=n, n_arms=n_arms, n_features=n_features), lazy, 100 * n, 3)
            for n in (30, 1_000)
        )
        console.print(
            f"{n_arms} arms, {n_features} features, 100 rewards per task: {few:.2f} us at 30 tasks, {many:.2f} us at "
            f"1,000 tasks: {many / few:.2f} times (at most 2)",
            highlight=False,
        )


if __name__ == "__main__":
    main()
