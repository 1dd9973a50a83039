"""A log of a world in which tasks differ, and one small Ray cluster for all tests that need it."""

import warnings

import numpy as np
import polars as pl
import pytest

FEATURES = ["a", "b"]
ARMS = ["red", "green", "blue"]


def make_log(n_rows=3000, n_tasks=60, seed=0):
    rng, world = np.random.default_rng([seed, 1]), np.random.default_rng(0)
    coefficients = world.normal(size=(3, 1, 3)) + 0.5 * world.normal(size=(3, n_tasks, 3))
    tasks, arms = rng.integers(n_tasks, size=n_rows), rng.integers(3, size=n_rows)
    X = np.column_stack([np.ones(n_rows), rng.normal(size=(n_rows, 2))])
    rewards = np.einsum("ni,ni->n", X, coefficients[arms, tasks]) + 0.3 * rng.normal(size=n_rows)
    return pl.DataFrame(
        {
            "task": [f"t{task}" for task in tasks],
            "arm": [ARMS[arm] for arm in arms],
            "a": X[:, 1],
            "b": X[:, 2],
            "reward": rewards,
        }
    )


@pytest.fixture(scope="session")
def log():
    return make_log


@pytest.fixture(scope="session")
def pair_sums():
    """Return all sums of a fleet as bytes by task and arm, wherever they are."""

    def of(fleet):
        if hasattr(fleet, "running"):
            parts = fleet.running.ask("sums")
        else:
            sums = fleet.core.sums()
            parts = [([fleet.names.tasks.label(task) for task in sums.tasks.tolist()], sums._asdict())]
        return {
            (label, int(arrays["arms"][row])): tuple(
                arrays[name][row].tobytes() for name in ("gram", "moment", "squares", "counts")
            )
            for labels, arrays in parts
            for row, label in enumerate(labels)
        }

    return of


@pytest.fixture(scope="session")
def ray():
    """One cluster of this machine for the session: few processes, no dashboard."""
    pytest.importorskip("ray")
    from posse.distributed.cluster import start

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = start(num_cpus=2)
        yield module
        module.shutdown()
