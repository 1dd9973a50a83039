"""The coordinator: it knows all shards and no task, and estimates the population when rewards have grown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posse.distributed.cluster import gather, require_ray
from posse.distributed.population import adopt_alone, estimate, follow, published
from posse.distributed.shard import load_template
from posse.engine.engine import FIT_SETTLED, FIT_STEPS
from posse.fleet.posse import Posse

if TYPE_CHECKING:
    import numpy.typing as npt

    from posse.fleet.labels import Label

    Arrays = dict[str, npt.NDArray[Any]]


class Coordinator:
    """Estimates the population of all shards and publishes it.

    It keeps nothing that shards do not have: one that died begins with what they say.

    Parameters
    ----------
    template : bytes or str
        The file of a fleet with all settings and arms, and no tasks, or its path.
    shards : list of str
        The names of their actors.
    """

    def __init__(self, template: bytes | str, shards: list[str]) -> None:
        ray = require_ray()
        self._shards = [ray.get_actor(name, namespace="posse") for name in shards]
        self._fleet = load_template(Posse, template)
        states = self.ask("state")
        arms = max((state["arms"] for state in states), key=len)
        for arm in arms[len(self._fleet._arms) :]:
            self._fleet.add_arm(arm)
        populations = [one for one in self.ask("population") if one is not None]
        if populations:
            newest = max(populations, key=lambda one: float(one["evidence_refreshed_at"][0]))
            if len(newest["noise_variance"]) == self._fleet._engine.store.n_arms:
                adopt_alone(self._fleet, {name: array.copy() for name, array in newest.items()})

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Return what every shard answers."""
        return gather([getattr(shard, method).remote(*arguments) for shard in self._shards])

    def refresh(
        self,
        steps: int = FIT_STEPS,
        settled: float = FIT_SETTLED,
        sample: int | None = None,
        growth: float | None = None,
    ) -> dict[str, float]:
        """Estimate the population, and publish it; with ``growth``, only if rewards have grown by that fraction."""
        states = self.ask("state")
        rewards, at = sum(state["rewards"] for state in states), self.refreshed_at()
        messages = len(states)
        if growth is not None and rewards - at < max(1.0, growth * at):
            return {"refreshed_at": at, "messages": messages}
        found = estimate(self._fleet, self.ask, steps=steps, settled=settled, sample=sample)
        self._publish(published(found, sum(state["decisions"] for state in states)))
        return {
            "refreshed_at": self.refreshed_at(),
            "messages": messages + found.messages + len(self._shards),
            "steps": float(found.evidence.steps[0]),
        }

    def reset(self) -> None:
        """Go back to before the first estimate."""
        self._fleet._engine.store.reset_prior()

    def take(self, population: Arrays | None) -> None:
        """Put a population of a file in force, and publish what follows from it."""
        if population is not None:
            adopt_alone(self._fleet, {name: array.copy() for name, array in population.items()})
            decided = sum(state["decisions"] for state in self.ask("state"))
            self._publish(published(follow(self._fleet, self.ask), decided))

    def add_arm(self, arm: Label) -> None:
        """Know an arm that all shards have been given."""
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
        return published(follow(self._fleet, self.ask))

    def _publish(self, population: Arrays) -> None:
        self.ask("adopt", require_ray().put(population))
