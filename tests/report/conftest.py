"""Small fleets and logs of which the truth is known, and hostile names."""

import numpy as np
import polars as pl
import pytest

from posse import FeatureSpec, Posse
from posse.logs import Log

ARMS = ("coffee", "cake", "tea")
HOSTILE = (
    "<img src=x onerror=\"document.title='hurt'\">",
    "</script><script>document.title='hurt'</script>",
    "\"quotes' & <b>bold</b>",
    "متجر القهوة",
    '=HYPERLINK("http://x")',
    "{{ 7 * 7 }}",
    "--><h1>, \\u003c",
    "x" * 200,
)


def make_log(n_rows, *, n_tasks=12, arms=ARMS, seed=0, propensities=True, tasks=None):
    """Decisions at random; the arms of task j earn j / n_tasks times their position, 0, 1, 2, ..."""
    rng = np.random.default_rng(seed)
    task, arm, hour = rng.integers(n_tasks, size=n_rows), rng.integers(len(arms), size=n_rows), rng.normal(size=n_rows)
    reward = 1 + arm * task / n_tasks + 0.2 * hour + 0.5 * rng.normal(size=n_rows)
    names = tasks or [f"store-{j}" for j in range(n_tasks)]
    columns = {
        "decision_id": [f"d{row}" for row in range(n_rows)],
        "task": [names[j] for j in task],
        "arm": [arms[k] for k in arm],
        "context": pl.DataFrame({"hour": hour}).to_struct(),
        "reward": reward,
    }
    if propensities:
        columns |= {
            "propensity": np.full(n_rows, 1 / len(arms)),
            "eligible": [list(arms)] * n_rows,
            "probabilities": [[1 / len(arms)] * len(arms)] * n_rows,
        }
    return Log(pl.DataFrame(columns))


def make_fleet(log, **settings):
    fleet = Posse(log.arms, FeatureSpec(["hour"]), seed=1, **settings)
    fleet.learn_many(log.frame)
    return fleet


@pytest.fixture(scope="session")
def log_of():
    return make_log


@pytest.fixture(scope="session")
def fleet_of():
    return make_fleet


@pytest.fixture(scope="session")
def hostile():
    return HOSTILE


@pytest.fixture(scope="session")
def log():
    return make_log(1500)


@pytest.fixture(scope="session")
def fleet(log):
    return make_fleet(log)
