"""``posse fit --engine ray``: a fleet in shards from Parquet files, on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def fit_on_ray(
    log: Path,
    out: Path,
    settings: dict[str, Any],
    columns: dict[str, str],
    *,
    shards: int,
    address: str | None,
    as_json: bool,
) -> None:
    """Learn files on a cluster, write one file per shard and a manifest, and say what was learned."""
    from posse.cli.progress import rows_done
    from posse.distributed.cluster import start
    from posse.distributed.fit import learn_files
    from posse.distributed.sharded import ShardedPosse
    from posse.fleet.streaming import Columns

    start(address)
    fleet = ShardedPosse(**settings, shards=shards)
    try:
        with rows_done() as progress:
            learned = learn_files(fleet, log, Columns(**columns), progress)
        if learned:
            fleet.refresh()
        fleet.save(out)
        said: dict[str, Any] = {
            "rows": learned,
            "skipped": progress.rows - learned,
            "n_tasks": len(fleet),
            "n_rewards": fleet.n_rewards,
            "shards": fleet.n_shards,
            "features": list(fleet.features.names),
            "file": str(out),
        }
    finally:
        fleet.close()
    if as_json:
        print(json.dumps(said, indent=2))
        return
    without = f", {said['skipped']:,} without a reward left out" if said["skipped"] else ""
    print(f"{learned:,} rewards of {said['n_tasks']:,} tasks learned{without}")
    print(f"features: {', '.join(said['features']) or 'none'}")
    print(f"wrote {out} and {shards} shards beside it; look at it with: posse inspect {out}")
