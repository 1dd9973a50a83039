"""The coordinator: it knows all shards and no task, and does what concerns all of them, one thing after the other.

It estimates the population when rewards have grown, adds arms and forgets tasks. A shard may die and be restored
between any two of its questions, and so may the coordinator itself:

- What is published says to every shard what the others said, so nobody has to remember what was asked before.
- Publications have numbers. A shard takes no notice of one that is older than what it has, and a coordinator that is
  started finds by the numbers whether all shards have the last one.
- Questions say how many arms they are about. A shard that has others refuses, and the estimate begins again with all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.core.estimate import FIT_SETTLED, FIT_STEPS
from posse.distributed.cluster import Actors, OtherArms
from posse.distributed.population import RemotePairs, published
from posse.distributed.shard import load_template
from posse.distributed.shard_fleet import NOWHERE
from posse.fleet.posse import Posse

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.fleet.names import Label
    from posse.model.prior import Prior

    Arrays = dict[str, npt.NDArray[Any]]
    States = list[dict[str, Any]]

logger = logging.getLogger("posse")

TRIES = 20  # of something that begins again when an arm comes meanwhile


class Coordinator:
    """Estimates the population of all shards and publishes it.

    It has nothing that shards do not have: one that died begins with what they say.

    Parameters
    ----------
    template : bytes or str
        The file of a fleet with all settings and arms, and no tasks, or its path.
    shards : Actors
        All shards.
    """

    def __init__(self, template: bytes | str, shards: Actors) -> None:
        self._shards = shards
        self.fleet: Posse = load_template(Posse, template)
        self._number = 0
        self._with_all_arms(self._begin)

    def _begin(self) -> None:
        """Begin with the last publication, and see to it that all shards have it."""
        states = self._agree_on_arms()
        numbers = [state["publication"] for state in states]
        # One more may be on its way from the coordinator before this one.
        self._number = max(self._number, max(numbers) + 1)
        newest = self._shards.ask("look", "population")[numbers.index(max(numbers))]
        if newest is not None:
            self.fleet.core.adopt(newest)
            # Shards that were filled from files have none; clicks say other things once their sites were made again.
            if min(numbers) < max(numbers) or not max(numbers) or self.fleet.rewards != "number":
                self._follow(states)
        elif max(numbers) > 0:  # tasks were forgotten, and not all has been done that follows
            self._start_again(self._next())

    def _with_all_arms(self, do: Callable[[], Any]) -> Any:
        """Return what somebody does who asks about all arms; again, if a shard has one that nobody else knew of."""
        for _ in range(TRIES):
            try:
                return do()
            except OtherArms:
                self._agree_on_arms()
        return do()

    def _agree_on_arms(self) -> States:
        """See to it that everybody has the arms that anybody has; return what shards say about themselves."""
        states: States = self._shards.ask("state")
        arms = max((state["arms"] for state in states), key=len)
        for arm, features in arms[self.fleet.core.n_arms :]:
            self.fleet.add_arm(arm, features)
        if any(len(state["arms"]) < len(arms) for state in states):
            self._shards.ask("add_arms", arms)
        return states

    def refresh(
        self,
        steps: int = FIT_STEPS,
        settled: float = FIT_SETTLED,
        sample: int | None = None,
        growth: float | None = None,
    ) -> dict[str, Any]:
        """Estimate the population, and publish it; with ``growth``, only if rewards have grown by that fraction."""
        found: dict[str, Any] = self._with_all_arms(lambda: self._refresh(steps, settled, sample, growth))
        return found

    def _refresh(self, steps: int, settled: float, sample: int | None, growth: float | None) -> dict[str, Any]:
        states, at = self._shards.ask("state"), self.estimated_at()
        found: dict[str, Any] = {"refreshed_at": at, "messages": len(states), "steps": 0.0}
        news = sum(state["rewards"] for state in states) - at
        if not self.fleet.settings.learns_population or (growth is not None and news < max(1.0, growth * at)):
            return found
        core = self.fleet.core
        pairs = self._pairs(states)
        try:
            core.estimate_from(pairs, steps=steps, settled=settled, sample=sample)
        except (ArithmeticError, np.linalg.LinAlgError):
            if growth is None:
                raise
            logger.exception("the population could not be estimated and stays as it is; all rewards are learned")
            return found
        found["messages"] += self._publish(pairs, states)
        return found | {"refreshed_at": self.estimated_at(), "steps": float(core.state.population.steps[0])}

    def _pairs(self, states: States) -> RemotePairs:
        """Return the pairs of all shards, as of the latest time that one of them knows."""
        now = max(state["now"] for state in states)
        return RemotePairs(self.fleet.core, self._shards.ask, now, self._shards.call)

    def _follow(self, states: States) -> None:
        """Publish the population in force, with what shards say under it."""
        pairs = self._pairs(states)
        self.fleet.core.estimate_from(pairs, steps=0, settled=0.0)
        self._publish(pairs, states)

    def _publish(self, pairs: RemotePairs, states: States) -> int:
        """Tell all shards what was found; return how many messages it took."""
        decided = [state["decisions"] for state in states]
        common, each = published(self.fleet.core, pairs, decided, self._next())
        return pairs.messages_sent + len(self._shards.tell("adopt", each, common))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def forget(self, request: str, tasks: list[list[Label]]) -> dict[str, Any]:
        """Forget tasks of every shard and the population that they helped to learn, and estimate it without them."""
        number = self._next()
        try:
            self._shards.tell("forget", tasks, request, number)
        finally:  # also if one of them has no such task any more: others have forgotten theirs
            found = self._start_again(number)
        return found

    def _start_again(self, number: int) -> dict[str, Any]:
        """Estimate the population from its start; what was published before this number is believed no more."""
        self._shards.ask("reset_population", number)
        self.fleet.core.forget(NOWHERE)
        return self.refresh(growth=0.0)

    def add_arm(self, arm: Label, features: Any = None) -> None:
        """Add an arm to all shards; nothing happens where it is there already."""
        self._shards.ask("add_arm", arm, features)
        if arm not in self.fleet.names.arms:
            self.fleet.add_arm(arm, features)

    def estimated_at(self) -> float:
        """Return how many rewards the population was estimated from."""
        return float(self.fleet.core.state.population.at_last[0])

    def prior(self) -> Prior:
        """Return the population in force."""
        return self.fleet.prior

    def population(self) -> Arrays:
        """Return the population in force as arrays."""
        return self.fleet.core.population()
