"""A sharded fleet in files and folders: saved, loaded, opened again, and moved to more actors."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

from posse.checks import whole_number
from posse.distributed.cluster import gather, has_several_machines
from posse.distributed.manifest import Manifest, read_manifest, write_manifest
from posse.distributed.rows import spread_buckets
from posse.distributed.running import MANIFEST, Place, RunningShards, new_place, require_new, saved_in
from posse.distributed.views import ShardViews
from posse.errors import InvalidValue
from posse.fleet.posse import Posse

SNAPSHOT_BYTES = 64 << 20  # of a journal


class KeptShards(ShardViews):
    """Shards whose tasks outlive their actors."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file per shard and a manifest, which :meth:`load` and ``Posse.load`` read; no pickle.

        The files stand beside the manifest, on storage that all machines see. A manifest that was there is replaced
        when all files of the new one are whole.

        Parameters
        ----------
        path : path
            Of the manifest.

        Raises
        ------
        SavedFileError
            If a file cannot be written.
        """
        target, running = Path(path).absolute(), self.running
        token = secrets.token_hex(4)
        files = [target.with_name(f"{target.name}.{token}.shard-{number:04d}") for number in range(running.n_shards)]
        settings = target.with_name(f"{target.name}.{token}.settings")
        try:
            before = read_manifest(target)
        except (OSError, ValueError):
            before = None
        with running.arming:
            running.template.core.adopt(gather([running.coordinator.population.remote()])[0])
            gather([shard.save.remote(str(file)) for shard, file in zip(running.shards, files, strict=True)])
            running.template.save(settings)
        write_manifest(target, Manifest(settings, files, running.buckets))
        for file in () if before is None else (before.settings, *before.shards):
            file.unlink(missing_ok=True)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        address: str | None = None,
        fsync: bool = True,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        resources: dict[str, Any] | None = None,
    ) -> Self:
        """Start a fleet from a manifest, on as many shards as it has or on others.

        Parameters
        ----------
        path : path
            Of a manifest, as :meth:`save` and ``posse fit --engine ray`` write it.
        shards : int, default None
            How many actors. None: as many as it was saved from. Tasks move with their decisions that may still get a
            reward.
        folder : path, default None
        address : str, default None
        fsync : bool, default True
        snapshot_bytes : int, default 67108864
        resources : dict, default None
            As in :class:`ShardedPosse`.

        Returns
        -------
        ShardedPosse

        Raises
        ------
        InvalidValue
            If the folder holds a fleet already, or ``shards`` is not a whole number of at least 1.
        SavedFileError
            If the manifest or one of its files cannot be read.
        """
        if folder is not None:
            require_new(folder)
        manifest = read_manifest(path)
        count = len(manifest.shards) if shards is None else whole_number(shards, "shards", at_least=1)
        return cls._on(_started(manifest, count, new_place(folder, fsync, snapshot_bytes, resources), address))

    @classmethod
    def _on(cls, running: RunningShards) -> Self:
        fleet = cls.__new__(cls)
        fleet.running = running
        return fleet

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        address: str | None = None,
        fsync: bool = True,
        snapshot_bytes: int | None = None,
        resources: dict[str, Any] | None = None,
    ) -> Self:
        """Go on with the fleet of a folder, whose actors have ended: shards are restored from what they wrote there.

        Parameters
        ----------
        folder : path
        address : str, default None
        fsync : bool, default True
        resources : dict, default None
            As in :class:`ShardedPosse`.
        snapshot_bytes : int, default None
            None: as before.

        Returns
        -------
        ShardedPosse

        Raises
        ------
        InvalidValue
            If the folder has no fleet.
        """
        path = Path(folder) / MANIFEST
        if not path.exists():
            raise InvalidValue(
                f"expected a folder with a fleet, got {folder}, which has none; make one with folder=..."
            )
        content = saved_in(Path(folder))
        if snapshot_bytes is None:
            snapshot_bytes = content["snapshot_bytes"]
        template = Posse.load(Path(folder) / content["settings"])
        place = new_place(folder, fsync, snapshot_bytes, resources, content["generation"])
        return cls._on(RunningShards(template, content["buckets"], place, address, is_new=False))

    def rebalance(self, shards: int) -> None:
        """Spread the tasks over so many actors, as when machines were added. Nobody may use the fleet meanwhile.

        All shards are saved, and new ones start from those files; if that fails, the old ones are still there.

        Parameters
        ----------
        shards : int
            How many actors, at least 1.

        Raises
        ------
        InvalidValue
            If it is not such a number, or if the fleet has no folder and the cluster several machines, which would not
            see those files.
        """
        count, running = whole_number(shards, "shards", at_least=1), self.running
        place = running.place
        if place.folder is None and has_several_machines():
            raise InvalidValue(
                "expected a fleet with folder=... to move tasks between machines, got one without: they would not see "
                "each other's files; use save(path) and ShardedPosse.load(path, shards=...), on storage that all see"
            )
        with tempfile.TemporaryDirectory(dir=place.folder) as temporary:
            path = Path(temporary) / "moving"
            self.save(path)
            new = place._replace(generation=secrets.token_hex(4))
            self.running = _started(read_manifest(path), count, new, None)
        running.end()
        for number in range(len(running.buckets)):
            if (folder := place.shard(number)) is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End the actors.

        With a ``folder`` every shard writes a snapshot first, and :meth:`open` goes on from there.
        """
        if self.running.place.folder is not None and self.running.is_open:
            self.running.ask("snapshot")
        self.running.end()


def _started(manifest: Manifest, count: int, place: Place, address: str | None) -> RunningShards:
    """Start so many shards with the tasks of a manifest."""
    buckets = manifest.buckets if count == len(manifest.shards) else spread_buckets(count)
    return RunningShards(Posse.load(manifest.settings), buckets, place, address, manifest)
