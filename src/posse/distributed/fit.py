"""Learning files of any size on a Ray cluster.

Workers of Ray Data read blocks of rows, check and encode them and sort them by shard; each shard adds its rows to the
sums of their pairs. Blocks are handed out in the order of the files, and an actor does what it is asked in that order,
so every pair gets its rows in the order of the log: the sums are those of one machine to the last bit, whatever the
number of workers, and wherever blocks are cut.

Rows and not partial sums are sent: with ten features a partial sum is 67 numbers and a row 13, and of a block of
100,000 rows among millions of pairs, few have the same pair.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.batches import Piece, TableFiles, read_piece
from posse.distributed.cluster import gather, require_ray
from posse.distributed.journal import Record, encode
from posse.distributed.shard import file_of, load_template
from posse.errors import InvalidValue
from posse.fleet.names import Label, buckets_of
from posse.fleet.posse import Posse
from posse.fleet.streaming import Progress, learn_scaling, wanted_columns
from posse.fleet.tables import Columns, contexts_of, label_codes, required, rewarded_rows, rewards_of, times_of

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from posse.distributed.running import RunningShards
    from posse.features import FeatureSpec
    from posse.types import Array, IntArray

ROWS = 1 << 18  # of a block
IN_FLIGHT = 4  # blocks that shards may be behind, for each of them


@lru_cache(maxsize=4)
def _fleet_of(template: bytes) -> Posse:
    """Return a fleet with the settings of a file; a worker makes it once."""
    fleet: Posse = load_template(Posse, template)
    return fleet


def encode_pieces(
    pieces: dict[str, Any], *, names: list[str], template: bytes, columns: Columns, home: IntArray, n_shards: int
) -> pa.Table:
    """Return pieces of a log as what shards learn: for each, one row for every shard, with its part as bytes.

    Parameters
    ----------
    pieces : dict of arrays
        One of JSON lists: paths of files, the first row, the number of rows, and the piece's own number, which shards
        learn once; None is none.
    names : list of str
        The columns to read.
    template : bytes
        The file of a fleet with all settings and no tasks.
    columns : Columns
    home : ndarray
        The shard of every bucket.
    n_shards : int
    """
    import pyarrow as pa

    heights, parts = [], []
    for paths, first, rows, number in map(json.loads, pieces["piece"]):
        frame = read_piece(Piece([Path(path) for path in paths], first, rows), names)
        heights += [frame.height] * n_shards
        parts += encode_frame(frame, _fleet_of(template), columns, home, n_shards, number)
    return pa.table({"rows": heights, "part": pa.array(parts, pa.large_binary())})


def encode_frame(
    frame: pl.DataFrame, fleet: Posse, columns: Columns, home: IntArray, n_shards: int, piece: int | None = None
) -> list[bytes]:
    """Return rows as every shard gets them."""
    labels, codes, arms, X, y, times = encode_rows(fleet, frame, columns)
    homes = home[buckets_of(labels)][codes] if labels else np.empty(0, dtype=np.int64)
    order = np.argsort(homes, kind="stable")
    cuts = np.searchsorted(homes[order], np.arange(n_shards + 1))
    parts = []
    for shard in range(n_shards):
        rows = order[cuts[shard] : cuts[shard + 1]]
        names, own = distinct(labels, codes[rows])
        arrays = {"codes": own, "arms": arms[rows], "contexts": X[rows], "rewards": y[rows]}
        arrays |= {} if times is None else {"times": times[rows]}
        parts.append(encode(Record("rows", {"tasks": names, "piece": piece}, arrays)))
    return parts


def encode_rows(
    template: Posse, table: Any, columns: Columns, features: FeatureSpec | None = None
) -> tuple[list[Label], IntArray, IntArray, Array, Array, Array | None]:
    """Return distinct tasks, every row's place among them, and arms, contexts, rewards and times of rows, all checked.

    ``features`` encode the contexts. Default: those of the template.
    """
    spec, names = template.features if features is None else features, template.names
    frame = rewarded_rows(table, columns, template.settings.absent_reward)
    y = template.settings.family.check_many(rewards_of(required(frame, columns.reward, "reward")))
    labels, codes = label_codes(required(frame, columns.task, "task"), names.tasks)
    arm_labels, arm_codes = label_codes(required(frame, columns.arm, "arm"), names.arms)
    numbers = np.array([names.arms.number(label) for label in arm_labels], dtype=np.int64)
    times = None if columns.time is None else times_of(required(frame, columns.time, "time"))
    return labels, codes, numbers[arm_codes], spec.encode_many(contexts_of(frame, spec.names)), y, times


def distinct(labels: list[Any], codes: Any) -> tuple[list[Any], Any]:
    """Return the labels that some codes name, in the order of their first row, and every row's place among them."""
    found, first, own = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return [labels[code] for code in found[order].tolist()], place[own]


def learn_files(
    fleet: RunningShards,
    table: Any,
    columns: Columns,
    progress: Callable[[Progress], None] | None = None,
    workers: int | None = None,
    *,
    once: bool = False,
) -> int:
    """Learn files on the cluster; return how many rows. The population is estimated by whoever calls.

    Parameters
    ----------
    fleet : ShardedPosse
    table : path
    columns : Columns
    progress : callable, optional
    workers : int, optional
        How many blocks are read and encoded side by side. Default: as many as Ray finds room for.
    once : bool, default False
        Whether shards remember which pieces of the files they have learned, and leave them out if the same files come
        again: a fit that goes on. A fleet can do that for one table.
    """
    if not isinstance(table, str) and not hasattr(table, "__fspath__"):
        raise InvalidValue("expected the path of files for a sharded fleet, got an iterator; pass tables one by one")
    ray = require_ray()
    files = TableFiles(table)
    if not files.is_parquet:
        raise InvalidValue(f"expected Parquet files for a sharded fleet, got {files.paths[0]}; convert them first")
    template = fleet.template
    with fleet.scaling:
        if not template.features.ready:
            fleet.scale(learn_scaling(template.features, files))
    known = set.intersection(*map(set, fleet.ask("pieces"))) if once else set()
    numbered = list(enumerate(files.pieces(rows=ROWS)))
    begun = sum(piece.rows for number, piece in numbered if number in known)
    pieces = [(number if once else None, piece) for number, piece in numbered if number not in known]
    encoded = _dataset_of(pieces).map_batches(
        encode_pieces,
        fn_kwargs={
            "names": wanted_columns(files, template, columns),
            "template": file_of(template),
            "columns": columns,
            "home": fleet.home,
            "n_shards": fleet.n_shards,
        },
        batch_format="numpy",
        batch_size=None,
        compute=ray.data.TaskPoolStrategy(size=workers),
    )
    split = ray.remote(num_cpus=0, num_returns=fleet.n_shards + 1)(_parts)
    total, start, done, learned = files.n_rows, time.monotonic(), begun, 0
    waiting: deque[tuple[Any, list[Any]]] = deque()

    def finish_one() -> None:
        nonlocal done, learned
        height, calls = waiting.popleft()
        learned += sum(gather(calls))
        done += gather([height])[0]
        if progress is not None:
            seconds = time.monotonic() - start
            left = None if total is None else (total - done) * seconds / max(done - begun, 1)
            progress(Progress(done, total, seconds, left))

    for bundle in encoded.iter_internal_ref_bundles() if pieces else ():
        for block in bundle.block_refs:
            height, *parts = split.remote(block, fleet.n_shards)
            calls = [
                shard.learn_part.remote(fleet.request(), part) for shard, part in zip(fleet.shards, parts, strict=True)
            ]
            waiting.append((height, calls))
            if len(waiting) > IN_FLIGHT:
                finish_one()
    while waiting:
        finish_one()
    fleet.count_rewards()
    return int(learned)


def _dataset_of(pieces: list[tuple[int | None, Piece]]) -> Any:
    """Return numbered pieces of files, in order, as a Ray dataset with one block for each."""
    ray = require_ray()
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    # Warnings stay, but for the one that says what the line above does; its own level was set when it was imported.
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    logging.getLogger("ray.data._internal.progress").setLevel(logging.ERROR)
    items = [
        {"piece": json.dumps([[str(path.absolute()) for path in piece.paths], piece.first, piece.rows, number])}
        for number, piece in pieces
    ]
    return ray.data.from_items(items, override_num_blocks=max(len(items), 1))


def _parts(block: pa.Table, n_shards: int) -> list[Any]:
    """Return the number of rows of an encoded block, and the part of every shard."""
    # A block may hold the answers of several batches: each has one row per shard.
    rows = block.column("rows").to_pylist()
    parts = block.column("part").to_pylist()
    return [
        sum(rows[::n_shards]),
        *([parts[at] for at in range(shard, len(parts), n_shards)] for shard in range(n_shards)),
    ]
