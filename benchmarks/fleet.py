"""What the practitioner's object costs: decide, decide_many, learn_many, save and load.

    python benchmarks/fleet.py [--small]

Prints one line per measurement: the median of several rounds, since machines are shared.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from posse import FeatureSpec, Posse

ARMS = ["red", "green", "blue", "black", "white"]
NAMES = [f"x{i}" for i in range(10)]


def spec():
    return FeatureSpec(NAMES, intercept=False)


def draw_table(n_rows, n_tasks, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 10))
    tasks, arms = rng.permutation(np.arange(n_rows) % n_tasks), rng.integers(len(ARMS), size=n_rows)
    coefficients = 0.3 * rng.standard_normal((len(ARMS), 1, 10)) + 0.3 * rng.standard_normal((len(ARMS), n_tasks, 10))
    rewards = rng.standard_normal(n_rows)
    for i in range(10):
        rewards += X[:, i] * coefficients[arms, tasks, i]
    names = {"task": pl.Series([f"store-{i}" for i in range(n_tasks)])[tasks], "arm": pl.Series(ARMS)[arms]}
    return pl.DataFrame(names | dict(zip(NAMES, X.T, strict=True)) | {"reward": rewards})


def trained(n_tasks, rows_per_task):
    fleet = Posse(arms=ARMS, features=spec(), seed=1)
    fleet.learn_many(draw_table(n_tasks * rows_per_task, n_tasks))
    return fleet


def median_seconds(work, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a tenth of the size, to see that it runs")
    small = parser.parse_args().small
    scale = 10 if small else 1
    print(f"{os.cpu_count()} cores; K=5, d=10; median of rounds")

    for n_tasks in (100, 100_000 // scale):
        fleet = trained(n_tasks, 10 if n_tasks > 1000 else 100)
        rng = np.random.default_rng(2)
        contexts = [dict(zip(NAMES, row, strict=True)) for row in rng.standard_normal((1000, 10)).tolist()]
        tasks = [f"store-{i}" for i in rng.integers(n_tasks, size=1000)]

        def thousand(fleet=fleet, tasks=tasks, contexts=contexts):
            for task, context in zip(tasks, contexts, strict=True):
                fleet.decide(task, context)

        seconds = median_seconds(thousand, 15)
        print(f"decide, context by name, {n_tasks:>7,} tasks: {seconds * 1000:6.1f} us")
        arrays = rng.standard_normal((1000, 10))

        def thousand_arrays(fleet=fleet, tasks=tasks, arrays=arrays):
            for task, context in zip(tasks, arrays, strict=True):
                fleet.decide(task, context)

        seconds = median_seconds(thousand_arrays, 15)
        print(f"decide, context as array, {n_tasks:>6,} tasks: {seconds * 1000:6.1f} us")

    n = 500_000 // scale
    rng = np.random.default_rng(3)
    tasks = pl.Series([f"store-{i}" for i in range(100_000 // scale)])[rng.integers(100_000 // scale, size=n)]
    X = rng.standard_normal((n, 10))
    seconds = median_seconds(lambda: fleet.decide_many(tasks, X), 3)
    print(f"decide_many, arrays: {n / seconds:,.0f} decisions/s")
    frame = pl.DataFrame(dict(zip(NAMES, X.T, strict=True)) | {"task": tasks})
    seconds = median_seconds(lambda: fleet.decide_many("task", frame), 3)
    print(f"decide_many, Polars: {n / seconds:,.0f} decisions/s")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.posse"
        fleet = Posse(arms=ARMS, features=spec(), seed=1)
        n_tasks = 100_000 // scale
        table = draw_table(n_tasks * 5, n_tasks)
        fleet.learn_many(
            table.with_columns(arm=pl.Series(ARMS)[np.arange(n_tasks * 5) // n_tasks]).with_columns(
                task=pl.Series([f"store-{i}" for i in range(n_tasks)])[np.arange(n_tasks * 5) % n_tasks]
            )
        )
        print(f"pairs seen: {int((fleet.statistics.count > 0).sum()):,}")
        seconds = median_seconds(lambda: fleet.save(path), 3)
        print(f"save {n_tasks:,} tasks x 5 arms: {seconds:.2f} s, {path.stat().st_size / 1e6:,.0f} MB")
        seconds = median_seconds(lambda: Posse.load(path), 3)
        print(f"load: {seconds:.2f} s")
        seconds = median_seconds(lambda: Posse.load(path, tasks=["store-7"]), 3)
        print(f"load of one task: {seconds:.2f} s")

    n_rows = 10_000_000 // scale
    table = draw_table(n_rows, 10_000)
    Posse(arms=ARMS, features=spec(), seed=1).learn_many(table[:1000])

    def learn():
        Posse(arms=ARMS, features=spec(), seed=1).learn_many(table)

    seconds = median_seconds(learn, 3)
    print(f"learn_many, {n_rows:,} rows, 10,000 tasks, population estimated: {n_rows / seconds:,.0f} rows/s")


if __name__ == "__main__":
    main()
