"""How long a report takes and how large it is: 300 tasks, 8 arms, a log of 50,000 rows; at most 30 s and 2 MB.

python lab/scripts/report.py

Kernels are compiled beforehand (posse warmup). Written to a temporary folder, read back from it as a user would.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from posse import FeatureSpec, Posse
from posse.logs import Log, read_log, write_log

N_TASKS, N_ARMS, N_ROWS = 300, 8, 50_000


def make_log():
    """Decisions of a policy that prefers good arms: 0.6 for the best on average, the rest shared by all."""
    rng = np.random.default_rng(0)
    arms = [f"offer {k}" for k in range(N_ARMS)]
    level = rng.normal(1.0, 0.3, size=(N_TASKS, N_ARMS)) + np.linspace(0, 0.5, N_ARMS)
    task, x = rng.integers(N_TASKS, size=N_ROWS), rng.normal(size=(N_ROWS, 4))
    probabilities = np.full((N_ROWS, N_ARMS), 0.4 / N_ARMS)
    probabilities[:, -1] += 0.6
    arm = (probabilities.cumsum(axis=1) < rng.random((N_ROWS, 1))).sum(axis=1)
    return Log(
        pl.DataFrame(
            {
                "decision_id": [f"d{row}" for row in range(N_ROWS)],
                "task": [f"store {j}" for j in task],
                "arm": [arms[k] for k in arm],
                "eligible": [arms] * N_ROWS,
                "probabilities": probabilities.tolist(),
                "propensity": probabilities[np.arange(N_ROWS), arm],
                "context": pl.DataFrame(x, schema=["a", "b", "c", "d"]).to_struct(),
                "reward": level[task, arm] + 0.2 * x[:, 0] + rng.normal(size=N_ROWS),
            }
        )
    )


def main():
    folder = Path(tempfile.mkdtemp())
    log = make_log()
    write_log(log, folder / "log.jsonl")
    fleet = Posse(log.arms, FeatureSpec(["a", "b", "c", "d"]), seed=1)
    fleet.learn_many(log.frame)
    fleet.save(folder / "fleet.posse")

    started, stages = time.perf_counter(), []
    loaded = Posse.load(folder / "fleet.posse")
    stages.append(("load", started))

    def begin(name):
        stages.append((name, time.perf_counter()))

    begin("reading the log")
    rows = read_log(folder / "log.jsonl")
    report = loaded.report(rows, unit="€", progress=begin)
    begin("writing the page")
    report.save(folder / "report.html")
    ends = [at for _, at in stages[1:]] + [time.perf_counter()]
    for (name, at), end in zip(stages, ends, strict=True):
        print(f"{name:<40}{end - at:6.1f} s")
    size = (folder / "report.html").stat().st_size
    print(f"{'all':<40}{ends[-1] - started:6.1f} s (at most 30), {size / 1e6:.2f} MB (at most 2)")


if __name__ == "__main__":
    main()
