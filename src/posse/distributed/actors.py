"""The actors of a sharded fleet: starting them, filling them and ending them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import whole_number
from posse.distributed.cluster import Actors, gather, require_ray, start
from posse.distributed.coordinator import Coordinator
from posse.distributed.shard import Shard, file_of
from posse.errors import InvalidValue

if TYPE_CHECKING:
    from posse.distributed.manifest import Manifest
    from posse.fleet.posse import Posse

MANIFEST = "fleet.shards"  # of a folder
NAMESPACE = "posse"  # of the actors' names
RESOURCES = {"num_cpus": 0, "memory": 1 << 20, "scheduling_strategy": "SPREAD"}
"""Of a shard. No CPU is set aside: on a small cluster, nobody could then read what shards wait for. A little memory is,
since Ray spreads evenly only what asks for something, and puts nothing that does where there is nothing to have."""


class Place(NamedTuple):
    """Where and how shards live, and what outlives them.

    Parameters
    ----------
    folder : Path or None
        None is nowhere.
    generation : str
        A name of these actors and their files: others may be in the folder from before.
    fsync : bool
    snapshot_bytes : int
    resources : dict
        Options of the actors.
    """

    folder: Path | None
    generation: str
    fsync: bool
    snapshot_bytes: int
    resources: dict[str, Any]

    @property
    def settings(self) -> Path:
        """The file of a fleet with all settings and no tasks."""
        assert self.folder is not None
        return self.folder / f"settings-{self.generation}.posse"

    def shard(self, number: int) -> str | None:
        """Return the folder of a shard."""
        return None if self.folder is None else str(self.folder / f"shard-{number:04d}-{self.generation}")


def start_actors(
    template: Posse, buckets: list[list[int]], place: Place, address: str | None, manifest: Manifest | None
) -> tuple[list[Any], Any]:
    """Start the shards, which are filled from a ``manifest`` if there is one, and their coordinator; return both."""
    ray = start(address)
    lives = {"max_restarts": -1, "max_task_retries": -1} if place.folder is not None else {}
    shard_class = ray.remote(**(place.resources | lives))(Shard)
    names = [f"{place.generation}-{number:04d}" for number in range(len(buckets))]
    # Small arguments only: large ones would be in the memory of a machine, which may die before the actor.
    source: bytes | str = file_of(template) if place.folder is None else str(place.settings)
    try:
        shards = [
            shard_class.options(name=name, namespace=NAMESPACE).remote(
                source,
                _seed_of(template.stream.seed, number),
                place.shard(number),
                fsync=place.fsync,
                snapshot_bytes=place.snapshot_bytes,
            )
            for number, name in enumerate(names)
        ]
    except ValueError as error:  # the name is taken
        raise InvalidValue(
            f"expected a folder that no running fleet uses, got {place.folder}, whose shards are running; "
            "close that fleet first"
        ) from error
    if manifest is not None:
        _fill(shards, buckets, manifest)
    coordinator = ray.remote(num_cpus=0, **lives)(Coordinator).remote(source, Actors(names, NAMESPACE))
    return shards, coordinator


def new_place(
    folder: str | os.PathLike[str] | None,
    fsync: bool,
    snapshot_bytes: Any,
    resources: dict[str, Any] | None,
    generation: str | None = None,
) -> Place:
    """Return the place of new shards, or of the generation that a folder has; or raise."""
    size = whole_number(snapshot_bytes, "snapshot_bytes", at_least=1)
    path = None if folder is None else Path(folder).absolute()
    return Place(path, generation or secrets.token_hex(4), fsync, size, RESOURCES | (resources or {}))


def require_new(folder: str | os.PathLike[str]) -> None:
    """Raise if a folder has a fleet."""
    if (Path(folder) / MANIFEST).exists():
        raise InvalidValue(f"expected a new folder, got {folder}, which has a fleet; open it with ShardedPosse.open")


def _fill(actors: list[Any], buckets: list[list[int]], manifest: Manifest) -> None:
    """Let new shards take their tasks from the files of a manifest."""
    calls = []
    for actor, mine in zip(actors, buckets, strict=True):
        wanted = set(mine)
        files = [place for place, some in enumerate(manifest.buckets) if wanted & set(some)]
        # Decisions are counted once: by the shard that has the first bucket of a file.
        counted = [
            at for at, place in enumerate(files) if manifest.buckets[place] and manifest.buckets[place][0] in wanted
        ]
        calls.append(actor.take_over.remote([str(manifest.shards[place]) for place in files], mine, counted))
    gather(calls)


def end_actors(shards: list[Any], coordinator: Any) -> None:
    """End all actors of a fleet."""
    ray = require_ray()
    for actor in (*shards, coordinator):
        ray.kill(actor)


def _seed_of(seed: int, number: int) -> int:
    words = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))
