"""The shards of a fleet while they run: actors, the settings that all of them have, and what the driver knows."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posse.checks import whole_number
from posse.container.replace import replacing
from posse.distributed.cluster import Actors, gather, require_ray, start
from posse.distributed.coordinator import Coordinator
from posse.distributed.rows import homes_of, split_rows
from posse.distributed.shard import Shard, file_of
from posse.errors import InvalidValue, PosseError
from posse.fleet.names import buckets_of

if TYPE_CHECKING:
    from posse.distributed.manifest import Manifest
    from posse.features import FeatureSpec
    from posse.fleet.names import Label
    from posse.fleet.posse import Posse
    from posse.types import IntArray

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


class RunningShards:
    """Actors, each with some of the tasks, and their coordinator.

    Parameters
    ----------
    template : Posse
        With all settings and arms, and no tasks.
    buckets : list of list of int
        Of every shard.
    place : Place
    address : str or None
        Of the cluster.
    manifest : Manifest, optional
        Whose tasks fill new actors.
    is_new : bool, default True
        False for those that the folder of ``place`` has.

    Attributes
    ----------
    home : ndarray
        The shard of every bucket.
    rewards_of : list of float
        Rewards of every shard, as far as the driver knows.
    estimated_at : float
        How many rewards the population in force was estimated from.
    scaling, arming : Lock
        So that features get one scaling, and arms have the same numbers everywhere.
    """

    def __init__(
        self,
        template: Posse,
        buckets: list[list[int]],
        place: Place,
        address: str | None,
        manifest: Manifest | None = None,
        *,
        is_new: bool = True,
    ) -> None:
        self.template, self.buckets, self.place = template, buckets, place
        self.home, self.rewards_of, self.estimated_at = homes_of(buckets), [0.0] * len(buckets), 0.0
        self.scaling, self.arming = threading.Lock(), threading.Lock()
        self._client, self._counter = secrets.token_hex(6), itertools.count()
        self._actors: list[Any] = []
        if place.folder is not None and is_new:
            place.folder.mkdir(parents=True, exist_ok=True)
            template.save(place.settings)
        self._actors, self.coordinator = start_actors(template, buckets, place, address, manifest)
        self._take_part()
        # From here on the folder is that of these shards.
        if is_new:
            self.describe()

    def _take_part(self) -> None:
        """Finish what a driver that died had begun: all have the arms that one has, and the template's are retired.

        The coordinator has given every shard all arms.
        """
        self.estimated_at = gather([self.coordinator.estimated_at.remote()])[0]
        states, template = self.states(), self.template
        self.rewards_of = [state["rewards"] for state in states]
        for state in states:
            template.names.tasks.kind = state["kind"] or template.names.tasks.kind
        for arm, features in max((state["arms"] for state in states), key=len)[template.core.n_arms :]:
            template.add_arm(arm, features)
        retired = set(template.retired_arms)
        for shard, state in zip(self.shards, states, strict=True):
            gather([shard.retire_arm.remote(arm) for arm in retired - set(state["retired"])])
            gather([shard.add_arm.remote(arm) for arm in set(state["retired"]) - retired])
        if template.features.ready and not all(state["ready"] for state in states):
            self.scale(template.features)

    @property
    def shards(self) -> list[Any]:
        """The actors, unless they were ended."""
        if not self._actors:
            raise PosseError(
                "expected a fleet that is open, got one that was closed; go on with ShardedPosse.open(folder)"
            )
        return self._actors

    @property
    def is_open(self) -> bool:
        """Whether there are actors."""
        return bool(self._actors)

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return len(self.shards)

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Return what a method of every shard answers."""
        return gather([getattr(shard, method).remote(*arguments) for shard in self.shards])

    def states(self) -> list[dict[str, Any]]:
        """Return what shards say about themselves."""
        return self.ask("state")

    def request(self) -> str:
        """Return the name of a call: one that Ray makes again has the same, and is done once."""
        return f"{self._client}-{next(self._counter)}"

    def do(self, shard: int, what: str, *arguments: Any, **settings: Any) -> Any:
        """Have a shard do something; :func:`gather` waits for its answer."""
        return self.shards[shard].do.remote(self.request(), what, *arguments, **settings)

    def look(self, shard: int, what: str, *arguments: Any, **settings: Any) -> Any:
        """Have a shard say something, which changes nothing; :func:`gather` waits for its answer."""
        return self.shards[shard].look.remote(what, *arguments, **settings)

    def bucket_of(self, task: Label) -> int:
        """Return the bucket of a task."""
        return int(buckets_of([task])[0])

    def by_shard(self, labels: list[Label], codes: IntArray | None = None) -> list[tuple[int, IntArray]]:
        """Return the places of some tasks by shard, or with ``codes`` of the rows that are theirs."""
        homes = self.home[buckets_of(labels)]
        return split_rows(homes if codes is None else homes[codes])

    def note_kind(self, labels: list[Label]) -> None:
        """Note that tasks are named by text, or by whole numbers."""
        if labels:
            self.template.names.tasks.kind = type(labels[0])

    def look_at(self, task: Any, what: str, *arguments: Any) -> Any:
        """Return what the shard of a task answers about it."""
        label = self.template.names.tasks.checked(task)
        return gather([self.look(self.home[self.bucket_of(label)], what, label, *arguments)])[0]

    # The population.

    def count_rewards(self) -> None:
        """Ask all shards how many rewards they have."""
        self.rewards_of = [state["rewards"] for state in self.states()]

    def refresh_if_due(self, steps: int, settled: float) -> None:
        """Have the population estimated, if rewards have grown enough."""
        settings, at = self.template.settings, self.estimated_at
        growth = settings.refresh_growth
        if settings.learns_population and sum(self.rewards_of) - at >= max(1.0, growth * at):
            self.refresh(steps, settled, None, growth)

    def refresh(self, *how: Any) -> dict[str, float]:
        """Have the population estimated; return what that took."""
        return self.note_refresh(gather([self.coordinator.refresh.remote(*how)])[0])

    def note_refresh(self, found: dict[str, float]) -> dict[str, float]:
        """Take notice of an estimate."""
        self.estimated_at = found["refreshed_at"]
        if self.template.fades:  # by now, old rewards count for less
            self.count_rewards()
        return found

    # What all have.

    def describe(self) -> None:
        """Write to the folder, if there is one, what is needed to open it again."""
        place = self.place
        if place.folder is None:
            return
        self.template.save(place.settings)
        content = {
            "settings": place.settings.name,
            "generation": place.generation,
            "buckets": self.buckets,
            "snapshot_bytes": place.snapshot_bytes,
        }
        with replacing(place.folder / MANIFEST) as file:
            file.write(json.dumps(content).encode())

    def scale(self, features: FeatureSpec) -> None:
        """Encode contexts with a scaling that was learned from now on: here, in every shard and in the folder."""
        before = self.template.features
        self.template.features = features
        try:
            if self.place.folder is not None:
                # Before any shard knows it: a fleet that is opened tells the shards that do not.
                self.template.save(self.place.settings)
        except BaseException:
            self.template.features = before
            raise
        gather([self.do(shard, "have_features", features.to_json()) for shard in range(self.n_shards)])

    def end(self) -> None:
        """End the actors as they are."""
        for actor in (*self._actors, self.coordinator) if self._actors else ():
            require_ray().kill(actor)
        self._actors = []


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


def _seed_of(seed: int, number: int) -> int:
    words = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def saved_in(folder: Path) -> dict[str, Any]:
    """Return what :meth:`RunningShards.describe` wrote to a folder."""
    content: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    return content
