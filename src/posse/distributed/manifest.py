"""A fleet in several files: one per shard, and a manifest that names them.

A manifest is a line of JSON with the settings' file, which has the population, the shards' files, and which of the
buckets that tasks fall into (:mod:`posse.fleet.names`) each shard has. The files stand beside it. Each shard's file is
that of an ordinary fleet with some of the tasks.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from posse._version import __version__
from posse.container.layout import MAGIC
from posse.container.replace import replacing
from posse.errors import DamagedFile, MissingFile
from posse.fleet.merge import add
from posse.fleet.names import N_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable

KIND, VERSION = "posse shards", 2


class Manifest(NamedTuple):
    """What a manifest says.

    Parameters
    ----------
    settings : Path
        The file of a fleet with all settings, arms and the population, and no tasks.
    shards : list of Path
    buckets : list of list of int
        Of every shard.
    """

    settings: Path
    shards: list[Path]
    buckets: list[list[int]]


def write_manifest(path: str | os.PathLike[str], manifest: Manifest) -> None:
    """Write a manifest, at once or not at all; its files are there already."""
    content = {
        "kind": KIND,
        "version": VERSION,
        "posse": __version__,
        "settings": manifest.settings.name,
        "shards": [
            {"file": file.name, "buckets": buckets}
            for file, buckets in zip(manifest.shards, manifest.buckets, strict=True)
        ],
    }
    with replacing(path) as file:
        file.write(json.dumps(content).encode() + b"\n")


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Return what a manifest says.

    Raises
    ------
    MissingFile
        If it or one of its files is not there.
    DamagedFile
        If it is no manifest.
    """
    folder = Path(path).resolve().parent
    try:
        data = Path(path).read_bytes()
        if data.startswith(MAGIC):
            raise ValueError("it is the file of one fleet, which Posse.load reads")
        content = json.loads(data)
        if content["kind"] != KIND or content["version"] != VERSION:
            raise ValueError(f"it is {content['kind']!r} of version {content['version']!r}")
        # Files beside it only: a name cannot lead elsewhere.
        names = [content["settings"], *(shard["file"] for shard in content["shards"])]
        if any(Path(name).name != name for name in names):
            raise ValueError("it names files of other folders")
        buckets = [[int(bucket) for bucket in shard["buckets"]] for shard in content["shards"]]
        if sorted(bucket for some in buckets for bucket in some) != list(range(N_BUCKETS)):
            raise ValueError("its shards do not have every bucket once")
    except FileNotFoundError:
        raise MissingFile(f"no file {os.fspath(path)}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{os.fspath(path)} is no manifest of shards: {error}; give the path of one") from None
    files = [folder / name for name in names]
    for file in files:
        if not file.is_file():
            raise MissingFile(f"{os.fspath(path)} names {file.name}, which is not beside it; keep them together")
    return Manifest(files[0], files[1:], buckets)


def load_shards(cls: type[Any], path: str | os.PathLike[str], clock: Callable[[], float]) -> Any:
    """Return all shards of a manifest as one fleet, with the population that they had."""
    manifest = read_manifest(path)
    fleet = cls.load(manifest.settings, clock=clock)
    with fleet.lock:
        for file in manifest.shards:
            add(fleet, cls.load(file, clock=clock), estimate=False)
        if fleet.core.state.population.at_last[0] > 0:
            fleet.core.adopt(fleet.core.population())
        fleet.core.ensure_fresh()
    return fleet
