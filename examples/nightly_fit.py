"""Every night: learn yesterday's table in one go, keep the fleet in one file, and see what it learned.

python examples/nightly_fit.py
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from stores import OFFERS, Stores

from posse import FeatureSpec, Posse
from posse.features import numeric, one_hot

SPEC = FeatureSpec(["morning", "weekend", numeric("age", scale="standard"), one_hot("weather", ["sun", "rain"])])


def yesterday(stores, rows):
    """Return a day's sales as a table; in real use: a query."""
    records = []
    for _ in range(rows):
        store, context = stores.customer()
        offer = OFFERS[stores.rng.integers(3)]
        reward = stores.sales(store, context, offer)
        records.append({"store": store, "offer": offer, "sales": reward, **context})
    frame = pl.DataFrame(records)
    weather = np.where(stores.rng.random(rows) < 0.7, "sun", "rain")
    return frame.with_columns(age=40 + 15 * pl.col("age"), weather=pl.Series(weather))


def main(days, rows):
    stores = Stores(n_stores=200, seed=2)
    folder = Path(tempfile.mkdtemp())
    path = folder / "fleet.posse"
    for day in range(days):
        table = folder / f"day-{day}.parquet"
        yesterday(stores, rows).write_parquet(table)

        fleet = Posse.load(path) if path.exists() else Posse(arms=OFFERS, features=SPEC, seed=3)
        learned = fleet.learn_many(table, task="store", arm="offer", reward="sales")
        fleet.save(path)
        print(f"day {day}: {learned} rows learned, {len(fleet.tasks)} stores, {path.stat().st_size / 1e6:.2f} MB")

    overview = fleet.overview(3)
    for arm in overview.arms:
        spread = np.sqrt(np.diagonal(arm.covariance))
        words = [
            f"{name} {mean:+.2f} (stores differ by {sd:.2f})"
            for name, mean, sd in zip(overview.columns, arm.mean, spread, strict=True)
        ]
        print(f"{arm.arm}: " + ", ".join(words))
    context = {"morning": 1.0, "weekend": 0.0, "age": 35, "weather": "sun"}
    print("a new store would expect", {k: round(v, 2) for k, v in fleet.expected("store-new", context).mean.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--rows", type=int, default=5000)
    main(**vars(parser.parse_args()))
