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
from posse import EbmUCB, Prior, Statistics, SyntheticWorld
from posse.kernels import estimators
from posse.kernels.evidence import refresh_evidence
from posse.kernels.posterior import new_buffers
from posse.model import new_belief
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


def refresh_milliseconds():
    """Best time of one refresh (three steps) of a prior over 1,000 tasks that all have twenty new rewards."""
    rng = np.random.default_rng(0)
    n_rows, d = 20_000, 10
    context = rng.standard_normal((n_rows, d))
    stats = Statistics.from_data(
        task=np.arange(n_rows) % 1_000,
        arm=np.zeros(n_rows, dtype=np.int64),
        context=context,
        reward=context.sum(axis=1) + rng.standard_normal(n_rows),
        n_tasks=1_000,
        n_arms=1,
    )
    best = np.inf
    for _ in range(5):
        belief = new_belief(stats, Prior.isotropic(n_arms=1, n_features=d))
        memory, buffers = estimators.new_memory(1, 1_000, d), new_buffers(d)
        started = time.process_time()
        # Nothing counts as settled, so that all three steps are taken.
        refresh_evidence(belief, memory.evidence, 3, 0.0, buffers)
        best = min(best, time.process_time() - started)
    return best * 1e3


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

    def row(world, factory, words, horizon, bar, direct_steps, repeat=20):
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
    evidence = partial(EbmUCB, prior="evidence")
    microseconds(small, evidence, 200, 1)
    paper, learned = microseconds(small, lazy, 20_000, 10), microseconds(small, evidence, 20_000, 10)
    short_paper, short = microseconds(small, lazy, 2_000, 20), microseconds(small, evidence, 2_000, 20)
    console.print(
        f"evidence prior at 10 tasks, 5 arms, 3 features, refresh at +10 %: {short:.2f} µs a step over 2,000 steps, "
        f"{short / short_paper:.2f} times the paper's estimator; {learned:.2f} µs over 20,000, "
        f"{learned / paper:.2f} times (at most 2)",
        highlight=False,
    )
    console.print(
        f"evidence refresh of one arm with 1,000 tasks and 10 features: {refresh_milliseconds():.1f} ms (at most 20)",
        highlight=False,
    )
    for n_arms, n_features in ((5, 3), (7, 21)):
        few, many = (
            microseconds(SyntheticWorld(n_tasks=n, n_arms=n_arms, n_features=n_features), lazy, 100 * n, 5)
            for n in (30, 1_000)
        )
        console.print(
            f"{n_arms} arms, {n_features} features, 100 rewards per task: {few:.2f} us at 30 tasks, {many:.2f} us at "
            f"1,000 tasks: {many / few:.2f} times (at most 2)",
            highlight=False,
        )


if __name__ == "__main__":
    main()
