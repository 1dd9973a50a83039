"""``posse fit --engine ray``: a fleet in shards from Parquet files, on a cluster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.errors import InvalidValue, PosseError

if TYPE_CHECKING:
    from posse.distributed import ShardedPosse

FIT = "fit.json"  # in the folder of a fit: what it is a fit of
SNAPSHOT_BYTES = 512 << 20  # of a journal; all rows go through it


def fit_on_ray(
    log: Path,
    out: Path,
    settings: dict[str, Any],
    columns: dict[str, str],
    *,
    shards: int,
    address: str | None,
    checkpoint: Path,
    as_json: bool,
) -> None:
    """Learn files on a cluster, write one file per shard and a manifest, and say what was learned.

    Shards keep what they have learned in the folder ``checkpoint``: one that dies goes on from there, and so does the
    same command after an interruption. In the end it is removed.
    """
    from posse.cli.progress import rows_done
    from posse.distributed.cluster import start
    from posse.distributed.fit import learn_files
    from posse.fleet.tables import Columns

    start(address)
    fleet = _begin_or_continue(log, settings, columns, shards, checkpoint)
    try:
        with rows_done() as progress:
            learn_files(fleet.running, log, Columns(**columns), progress, once=True)
        learned = int(fleet.n_rewards)
        if learned:
            fleet.refresh()
        fleet.save(out)
        result: dict[str, Any] = {
            "rows": learned,
            "skipped": _rows_of(log) - learned,
            "n_tasks": len(fleet),
            "n_rewards": fleet.n_rewards,
            "shards": fleet.n_shards,
            "features": list(fleet.features.names),
            "file": str(out),
        }
        fleet.running.ask("let_go")  # nobody writes to the folder any more
    except BaseException as error:
        keep = isinstance(error, KeyboardInterrupt) or _has_learned(fleet)
        fleet.running.end()  # journals have all that was learned
        if keep:
            error.add_note(f"what was learned is in {checkpoint}: the same command goes on; remove it to begin anew")
        else:
            shutil.rmtree(checkpoint, ignore_errors=True)
        raise
    fleet.running.end()
    shutil.rmtree(checkpoint, ignore_errors=True)
    if as_json:
        print(json.dumps(result, indent=2))
        return
    without = f", {result['skipped']:,} without a reward left out" if result["skipped"] else ""
    print(f"{learned:,} rewards of {result['n_tasks']:,} tasks learned{without}")
    print(f"features: {', '.join(result['features']) or 'none'}")
    print(f"wrote {out} and {shards} shards beside it; look at it with: posse inspect {out}")


def _begin_or_continue(
    log: Path, settings: dict[str, Any], columns: dict[str, str], shards: int, folder: Path
) -> ShardedPosse:
    """Return a new fleet that keeps what it learns in a folder, or the one of an interrupted fit that is there."""
    from posse.batches import TableFiles
    from posse.checks import whole_number
    from posse.container.replace import replacing
    from posse.distributed.fit import ROWS
    from posse.distributed.rows import spread_buckets
    from posse.distributed.running import MANIFEST
    from posse.distributed.sharded import ShardedPosse, template_of

    wanted = {
        "files": TableFiles(log).signature,
        "columns": columns,
        "settings": settings | {"features": settings["features"].to_json()},
        "shards": shards,
        "rows": ROWS,
    }
    if folder.exists() and not (folder.is_dir() and (folder / FIT).exists()):
        raise InvalidValue(
            f"expected a new folder, or that of an interrupted fit on Ray, for --checkpoint, got {folder}, which is "
            "something else; remove it or name another"
        )
    if folder.exists() and not (folder / MANIFEST).exists():
        shutil.rmtree(folder)  # it had not begun
    if folder.exists():
        try:
            found = json.loads((folder / FIT).read_bytes())
        except (OSError, ValueError) as error:
            raise InvalidValue(f"expected the checkpoint {folder} of a fit, got: {error}; remove it") from None
        if found != json.loads(json.dumps(wanted)):
            raise InvalidValue(
                f"expected the checkpoint {folder} to be of these files, columns, settings and shards, got another "
                "fit's; remove it to begin anew, or name another with --checkpoint"
            )
        return ShardedPosse.open(folder, fsync=False)
    # Checked first, so that what is refused leaves nothing behind.
    template_of(**settings)
    spread_buckets(whole_number(shards, "--shards", at_least=1))
    folder.mkdir(parents=True)
    with replacing(folder / FIT) as file:
        file.write(json.dumps(wanted).encode())
    return ShardedPosse(**settings, shards=shards, folder=folder, fsync=False, snapshot_bytes=SNAPSHOT_BYTES)


def _has_learned(fleet: ShardedPosse) -> bool:
    try:
        return any(fleet.running.ask("pieces"))
    except PosseError:
        return True


def _rows_of(log: Path) -> int:
    from posse.batches import TableFiles

    return TableFiles(log).n_rows or 0
