"""The shards of a fleet while they run: actors, the settings that all of them have, and what the driver knows."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.checks import whole_number
from posse.container.replace import replacing
from posse.distributed.actors import MANIFEST, RESOURCES, Place, end_actors, file_of, start_actors
from posse.distributed.cluster import gather
from posse.distributed.spreading import homes_of
from posse.errors import PosseError

if TYPE_CHECKING:
    from posse.distributed.manifest import Manifest
    from posse.features import FeatureSpec
    from posse.fleet.labels import Label
    from posse.fleet.posse import Posse
    from posse.model.prior import Prior


class RunningShards:
    """Actors, each with some of the tasks, and their coordinator."""

    def _begin(
        self,
        template: Posse,
        buckets: list[list[int]],
        folder: str | os.PathLike[str] | None,
        address: str | None,
        *,
        fsync: bool,
        snapshot_bytes: int,
        resources: dict[str, Any] | None,
        manifest: Manifest | None = None,
        generation: str | None = None,
    ) -> None:
        """Start the actors; a ``manifest`` fills new ones, ``generation`` names those that a folder has."""
        self._template = template
        self._actors: list[Any] = []
        self._scaling = threading.Lock()  # so that features get one scaling
        self._arming = threading.Lock()  # so that arms have the same numbers everywhere
        self._folder = None if folder is None else Path(folder).absolute()
        self._resources = RESOURCES | (resources or {})
        self._client, self._counter = secrets.token_hex(6), itertools.count()
        whole_number(snapshot_bytes, "snapshot_bytes", at_least=1)
        self._place = Place(self._folder, generation or secrets.token_hex(4), fsync, snapshot_bytes)
        if self._folder is not None and generation is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            template.save(self._place.settings)
        self._use(buckets, *start_actors(template, buckets, self._place, address, self._resources, manifest))
        # From here on the folder is that of these shards.
        if self._folder is not None and generation is None:
            self._describe()

    def _use(self, buckets: list[list[int]], shards: list[Any], coordinator: Any) -> None:
        self._buckets, self._actors, self._coordinator = buckets, shards, coordinator
        self._home = homes_of(buckets)
        states = gather([shard.state.remote() for shard in shards])
        self._rewards = [float(state["rewards"]) for state in states]
        self._refreshed_at = float(gather([coordinator.refreshed_at.remote()])[0])
        for state in states:
            if state["kind"] is not None:
                self._template._tasks._kind = state["kind"]
        self._agree_on_arms(states)
        if self._template.features.ready and not all(state["ready"] for state in states):
            self._scale(self._template.features)

    def _agree_on_arms(self, states: list[dict[str, Any]]) -> None:
        """Finish what a driver that died had begun: all have the arms that one has, and the template's are retired.

        The coordinator has given every shard all arms.
        """
        template = self._template
        for arm in max((state["arms"] for state in states), key=len)[len(template._arms) :]:
            template.add_arm(arm)
        retired = set(template.retired_arms)
        for shard, state in zip(self._shards, states, strict=True):
            gather([shard.retire_arm.remote(arm) for arm in retired - set(state["retired"])])
            gather([shard.add_arm.remote(arm) for arm in set(state["retired"]) - retired])

    def _describe(self) -> None:
        """Write to the folder what is needed to open it again."""
        assert self._folder is not None
        self._template.save(self._place.settings)
        content = {
            "settings": self._place.settings.name,
            "generation": self._place.generation,
            "buckets": self._buckets,
            "snapshot_bytes": self._place.snapshot_bytes,
        }
        with replacing(self._folder / MANIFEST) as file:
            file.write(json.dumps(content).encode())

    def __repr__(self) -> str:
        return f"<ShardedPosse {self.policy}: {len(self.arms)} arms, {len(self._shards)} shards>"

    def __len__(self) -> int:
        return sum(state["tasks"] for state in self._states())

    def __bool__(self) -> bool:
        return True

    # What it is.

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms that may be chosen."""
        return self._template.arms

    @property
    def retired_arms(self) -> tuple[Label, ...]:
        """The arms that are no longer chosen; what they taught is kept."""
        return self._template.retired_arms

    @property
    def features(self) -> FeatureSpec:
        """What a context is made of."""
        return self._template.features

    @property
    def policy(self) -> str:
        """The key of the policy."""
        return self._template.policy

    @property
    def n_shards(self) -> int:
        """How many shards there are."""
        return len(self._shards)

    @property
    def n_rewards(self) -> float:
        """Rewards learned."""
        return float(sum(state["rewards"] for state in self._states()))

    @property
    def n_decisions(self) -> int:
        """Decisions so far."""
        return sum(state["decisions"] for state in self._states())

    @property
    def tasks(self) -> tuple[Label, ...]:
        """The tasks that there are, shard by shard."""
        return tuple(task for tasks in self._ask("tasks") for task in tasks)

    @property
    def prior(self) -> Prior:
        """The population in force."""
        prior: Prior = gather([self._coordinator.prior.remote()])[0]
        return prior

    # Inside.

    @property
    def _shards(self) -> list[Any]:
        """The actors, unless they were ended."""
        if not self._actors:
            raise PosseError(
                "expected a fleet that is open, got one that was closed; go on with ShardedPosse.open(folder)"
            )
        return self._actors

    def _ask(self, method: str, *arguments: Any) -> list[Any]:
        return gather([getattr(shard, method).remote(*arguments) for shard in self._shards])

    def _states(self) -> list[dict[str, Any]]:
        return self._ask("state")

    def _template_bytes(self) -> bytes:
        return file_of(self._template)

    def _count_rewards(self) -> None:
        """Ask all shards how many rewards they have."""
        self._rewards = [float(state["rewards"]) for state in self._states()]

    def _request(self) -> str:
        """Return the name of a call: one that Ray makes again has the same, and is done once."""
        return f"{self._client}-{next(self._counter)}"

    def _scale(self, features: FeatureSpec) -> None:
        """Encode contexts with a scaling that was learned from now on: here, in every shard and in the folder."""
        before, self._template._features = self._template._features, features
        try:
            if self._folder is not None:
                # Before any shard knows it: a fleet that is opened tells the shards that do not.
                self._template.save(self._place.settings)
        except BaseException:
            self._template._features = before
            raise
        request, said = self._request(), features.to_json()
        gather([shard.set_features.remote(request, said) for shard in self._shards])

    def _end(self) -> None:
        """End the actors as they are."""
        end_actors(self._actors, self._coordinator)
        self._actors = []
