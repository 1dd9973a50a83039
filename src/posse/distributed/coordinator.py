"""The coordinator: it knows all shards and no task, and does what concerns all of them, one thing after the other.

It estimates the population when rewards have grown, adds arms and forgets tasks. A shard may die and be restored
between any two of its questions, and so may the coordinator itself:

- What is published says to every shard what the others said, so nobody has to remember what was asked before.
- Publications have numbers. A shard takes no notice of one that is older than what it has, and a coordinator that is
  started finds by the numbers whether all shards have the last one.
- Questions say how many arms they are about. A shard that has others refuses, and the estimate begins again with all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from posse.distributed.asking import Asking, OtherArms
from posse.distributed.population import RemoteRefresh, adopt_alone, estimate, follow, published
from posse.distributed.shard import load_template
from posse.engine.engine import FIT_SETTLED, FIT_STEPS
from posse.fleet.posse import Posse
from posse.kernels.estimators import EVIDENCE

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.fleet.labels import Label

    Arrays = dict[str, npt.NDArray[Any]]

TRIES = 20  # of something that begins again when an arm comes meanwhile


class Coordinator:
    """Estimates the population of all shards and publishes it.

    It keeps nothing that shards do not have: one that died begins with what they say.

    Parameters
    ----------
    template : bytes or str
        The file of a fleet with all settings and arms, and no tasks, or its path.
    shards : Asking
        All shards.
    """

    def __init__(self, template: bytes | str, shards: Asking) -> None:
        self._shards = shards
        self._fleet = load_template(Posse, template)
        self._number = 0
        self._with_all_arms(self._begin)

    def _begin(self) -> None:
        """Begin with the last publication, and see to it that all shards have it."""
        numbers = [state["publication"] for state in self._agree_on_arms()]
        # One more may be on its way from the coordinator before this one.
        self._number = max(self._number, max(numbers) + 1)
        newest = self._shards.ask("population")[numbers.index(max(numbers))]
        if newest is not None:
            adopt_alone(self._fleet, newest)
            if min(numbers) < max(numbers):
                self._publish(follow(self._fleet, self._shards.ask))
        elif max(numbers) > 0:  # tasks were forgotten, and not all has been done that follows
            self._shards.ask("reset_population", self._next())
            self.refresh(growth=0.0)

    def _with_all_arms(self, do: Callable[[], Any]) -> Any:
        """Return what somebody does who asks about all arms; again, if a shard has one that nobody else knew of."""
        for _ in range(TRIES):
            try:
                return do()
            except OtherArms:
                self._agree_on_arms()
        return do()

    def _agree_on_arms(self) -> list[dict[str, Any]]:
        """See to it that everybody has the arms that anybody has; return what shards say about themselves."""
        states = self._shards.ask("state")
        arms = max((state["arms"] for state in states), key=len)
        for arm in arms[len(self._fleet._arms) :]:
            self._fleet.add_arm(arm)
        if any(len(state["arms"]) < len(arms) for state in states):
            self._shards.ask("add_arms", arms)
        return states

    def refresh(
        self,
        steps: int = FIT_STEPS,
        settled: float = FIT_SETTLED,
        sample: int | None = None,
        growth: float | None = None,
    ) -> dict[str, float]:
        """Estimate the population, and publish it; with ``growth``, only if rewards have grown by that fraction."""
        found: dict[str, float] = self._with_all_arms(lambda: self._refresh(steps, settled, sample, growth))
        return found

    def _refresh(self, steps: int, settled: float, sample: int | None, growth: float | None) -> dict[str, float]:
        if self._fleet._behaviour.method != EVIDENCE:
            return {"refreshed_at": 0.0, "messages": 0, "steps": 0.0}  # there is no population to learn
        states = self._shards.ask("state")
        rewards, at = sum(state["rewards"] for state in states), self.refreshed_at()
        messages = len(states)
        if growth is not None and rewards - at < max(1.0, growth * at):
            return {"refreshed_at": at, "messages": messages}
        found = estimate(self._fleet, self._shards.ask, steps=steps, settled=settled, sample=sample)
        if found.is_sound():
            messages += self._publish(found, states)
        return {
            "refreshed_at": self.refreshed_at(),
            "messages": messages + found.messages,
            "steps": float(found.evidence.steps[0]),
        }

    def forget(self, request: str, tasks: list[list[Label]]) -> dict[str, float]:
        """Forget tasks of every shard and the population that they helped to learn, and estimate it without them."""
        number = self._next()
        try:
            self._shards.tell("forget", tasks, request, number)
        finally:
            # Also if one of them has no such task any more: others have forgotten theirs.
            self._shards.ask("reset_population", number)
            self._fleet._engine.store.reset_prior()
            found = self.refresh(growth=0.0)
        return found

    def take(self, population: Arrays | None) -> None:
        """Put a population of a file in force, and publish what follows from it."""
        if population is not None:
            adopt_alone(self._fleet, population)
            self._with_all_arms(lambda: self._publish(follow(self._fleet, self._shards.ask)))

    def add_arm(self, arm: Label) -> None:
        """Add an arm to all shards; nothing happens where it is there already."""
        self._shards.ask("add_arm", arm)
        if arm not in self._fleet._arms:
            self._fleet.add_arm(arm)

    def refreshed_at(self) -> float:
        """Return how many rewards the population was estimated from."""
        return float(self._fleet._engine.store.memory.evidence.refreshed_at[0])

    def prior(self) -> Any:
        """Return the population in force."""
        return self._fleet.prior

    def population(self) -> Arrays | None:
        """Return the population in force as arrays, None before the first estimate."""
        if not self.refreshed_at() > 0:
            return None
        found: RemoteRefresh = self._with_all_arms(lambda: follow(self._fleet, self._shards.ask))
        return published(found, [0] * len(found.said), self._number)[0]

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _publish(self, found: RemoteRefresh, states: list[dict[str, Any]] | None = None) -> int:
        """Tell all shards what was found; return how many there are."""
        decided = [state["decisions"] for state in states or self._shards.ask("state")]
        common, each = published(found, decided, self._next())
        return len(self._shards.tell("adopt", each, common))
